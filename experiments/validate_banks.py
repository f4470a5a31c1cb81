"""The importance sampler against NUTS on the public banks: the table of docs/validation.md.

Two targets a bank at a tenth of the tasks, with different strengths of the group rates: the agent
of median score with kappa 4, the best one with kappa 1. Run it as a module:

    HSPR_DATA=data python -m hspr.experiments.validate_banks

A finished run is kept in the file of ``--output``, so that an interrupted command goes on where it
stopped; it prints the table in Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..inference.sobol import NODES
from ..models.config import Config
from ..models.errors import HSPRError
from ..models.responses import ResponseMatrix
from .banks import load_bank
from .checkpoint import Checkpoint
from .validation import SCRAMBLES, validate_agent

BANKS = ("swebench-lite", "swebench-verified", "swebench-full", "swebench-pro")
KAPPAS = (4.0, 1.0)
RANK, PRECISION = 2, 4.0
BUDGET = 0.1


class Case(NamedTuple):
    """One run of the table."""

    bank: ResponseMatrix
    agent: str
    config: Config


def cases(banks: Iterable[str]) -> Iterator[Case]:
    """Yield the runs: the agent of median score with kappa 4, the best one with kappa 1.

    Parameters
    ----------
    banks : iterable of str
        Names of banks, or files.

    Yields
    ------
    Case
    """
    for name in banks:
        bank = load_bank(name, missing="fail")
        order = np.argsort(bank.values.mean(axis=1), kind="stable")
        for row, kappa in zip((order[len(order) // 2], order[-1]), KAPPAS, strict=True):
            yield Case(bank, bank.agents[row], Config(RANK, PRECISION, kappa))


def run_case(
    case: Case,
    *,
    draws: int,
    tune: int,
    chains: int,
    nodes: int = NODES,
    scrambles: int = SCRAMBLES,
) -> dict[str, Any]:
    """Evaluate, sample and compare.

    Parameters
    ----------
    case : Case
        Bank, agent and configuration.
    draws, tune, chains : int
        As `sample_nuts` takes them.
    nodes, scrambles : int
        As `validate_agent` takes them.

    Returns
    -------
    dict
        The summary of `Validation`, and the seconds that it took.
    """
    started = time.perf_counter()
    validation = validate_agent(
        case.bank,
        case.agent,
        case.config,
        budget=BUDGET,
        nodes=nodes,
        scrambles=scrambles,
        draws=draws,
        tune=tune,
        chains=chains,
        progress=True,
    )
    return validation.summary() | {"seconds": time.perf_counter() - started}


def markdown(rows: Iterable[dict[str, Any]]) -> str:
    """Write the table.

    Parameters
    ----------
    rows : iterable of dict
        Results of `run_case`.

    Returns
    -------
    str
        One line a run; scores and their errors in percentage points.
    """
    columns = {
        "bank": lambda r: r["bank"],
        "agent": lambda r: r["agent"].replace("|", "\\|"),
        "κ": lambda r: f"{r['config']['kappa']:g}",
        "tasks run": lambda r: f"{r['n_observed']} of {r['n_tasks']}",
        "groups": lambda r: str(r["groups"]),
        "mean, Sobol": lambda r: f"{100 * r['score']['mean_sobol']:.3f}",
        "mean, NUTS": lambda r: f"{100 * r['score']['mean_nuts']:.3f}",
        "difference": lambda r: f"{100 * r['score']['difference']:+.3f}",
        "MCSE": lambda r: f"{100 * r['score']['mcse']:.3f}",
        "in MCSE": lambda r: f"{r['score']['difference_in_mcse']:+.1f}",
        "sd, Sobol": lambda r: f"{100 * r['score']['sd_sobol']:.3f}",
        "sd, NUTS": lambda r: f"{100 * r['score']['sd_nuts']:.3f}",
        "sd ratio": lambda r: f"{r['score']['sd_ratio']:.3f}",
        "R-hat": lambda r: f"{r['facts']['nuts']['r_hat']:.4f}",
        "divergences": lambda r: str(r["facts"]["nuts"]["divergences"]),
        "k-hat": lambda r: _number(r["facts"]["sobol"]["pareto_k"]),
        "verdict": lambda r: r["verdict"],
    }
    lines = ["| " + " | ".join(columns) + " |"]
    lines.append("|" + "|".join(" --- " if n < 2 else " ---: " for n in range(len(columns))) + "|")
    lines += ["| " + " | ".join(write(row) for write in columns.values()) + " |" for row in rows]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, and print the table.

    Parameters
    ----------
    arguments : sequence of str, default None
        Command line; None takes the program's own.
    """
    parser = argparse.ArgumentParser(description="Compare the importance sampler with NUTS.")
    parser.add_argument("banks", nargs="*", default=list(BANKS), help="banks (default: all four)")
    parser.add_argument(
        "--output", type=Path, default=Path("validation.json"), help="finished runs"
    )
    parser.add_argument("--draws", type=int, default=5000, help="draws of each chain")
    parser.add_argument("--tune", type=int, default=1000, help="tuning draws of each chain")
    parser.add_argument("--chains", type=int, default=4, help="chains")
    options = parser.parse_args(arguments)
    chains = {"draws": options.draws, "tune": options.tune, "chains": options.chains}
    try:
        plan = list(cases(options.banks))
        settings = chains | {
            "budget": BUDGET,
            "cases": [[c.bank.name, c.agent, c.config.to_dict()] for c in plan],
        }
        with Checkpoint(options.output, settings) as finished:
            for number, case in enumerate(plan):
                if number not in finished.rows:
                    finished.add(number, run_case(case, **chains))
    except HSPRError as error:
        raise SystemExit(f"validate_banks: error: {error}") from None
    print(markdown(finished.rows[number] for number in range(len(plan))))


if __name__ == "__main__":
    main()
