"""The command that writes a report of one replayed evaluation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..models.config import Config
from ..models.errors import DataError
from .options import (
    BankName,
    Budget,
    Calibration,
    Criterion,
    Decision,
    Json,
    Kappa,
    Missing,
    Nodes,
    Precision,
    Proposal,
    Rank,
    parse_budget,
)
from .output import print_json, print_rows

_DEFAULTS = Config()


def report(
    bank: BankName = "simulated",
    agent: Annotated[
        str | None, typer.Option(help="Agent to evaluate; the bank's first if not given.")
    ] = None,
    budget: Budget = "10%",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the queries.")] = 0,
    rank: Rank = _DEFAULTS.rank,
    precision: Precision = _DEFAULTS.precision,
    kappa: Kappa = _DEFAULTS.kappa,
    criterion: Criterion = _DEFAULTS.criterion,
    calibration: Calibration = _DEFAULTS.calibration,
    decision: Decision = _DEFAULTS.decision,
    nodes: Nodes = 8192,
    proposal: Proposal = "gaussian",
    prob: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.9,
    missing: Missing = "refuse",
    nuts: Annotated[bool, typer.Option("--nuts", help="Draw a posterior of NUTS too.")] = False,
    output: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path(
        "hspr-report.html"
    ),
    json: Json = False,
) -> None:
    """Evaluate one agent of a bank as a held-out target and write a page that shows everything."""
    config = Config(rank, precision, kappa, criterion, calibration, decision)
    if not 0 < prob < 1:
        raise DataError(f"prob must be between 0 and 1, got {prob!r}; try 0.9")
    tasks = parse_budget(budget)
    from ..experiments.banks import load_bank
    from ..experiments.evaluation import evaluate_agent
    from ..experiments.files import require_writable
    from ..experiments.report import nuts_posterior, report_numbers, write_report

    require_writable(output)
    matrix = load_bank(bank, missing=missing)
    evaluation = evaluate_agent(
        matrix,
        matrix.agents[0] if agent is None else agent,
        config,
        budget=tasks,
        seed=seed,
        nodes=nodes,
        proposal=proposal,
        progress=True,
    )
    evaluation = replace(evaluation, missing=missing)
    others = {"NUTS": nuts_posterior(evaluation)} if nuts else {}
    write_report(evaluation, output, prob=prob, others=others, progress=True)
    numbers = report_numbers(evaluation, prob=prob)
    if json:
        print_json(numbers | {"file": str(output)})
        return
    low, high = numbers["interval"]
    print_rows(
        {
            "bank": f"{numbers['bank']}: {numbers['tasks']} tasks, "
            f"{numbers['source_agents']} source agents",
            "target": f"{numbers['agent']}, {numbers['queried']} tasks run",
            "estimate": f"{numbers['estimate']:.1%}",
            "interval": f"{low:.1%} to {high:.1%} ({prob:.0%}, {numbers['interval_kind']})",
            "truth": f"{numbers['truth']:.1%}",
            "trusted": "yes" if numbers["trusted"] else "no, see the page",
            "saved": str(output),
        }
    )
