"""The application and its commands. PyMC is imported only by the commands that compute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..models.config import Config
from ..models.errors import DataError
from .checks import numerics, sbc
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
    Rank,
)
from .options import parse_budget as parse_budget
from .output import print_json, print_rows
from .report import report
from .reproduce import reproduce, select
from .validate import validate

app = typer.Typer(
    name="hspr",
    help="Recover an agent's full-benchmark score from a tenth of its tasks, with a posterior.",
    pretty_exceptions_enable=False,
    add_completion=False,
)
bank_app = typer.Typer(help="Look at response matrices.")
app.add_typer(bank_app, name="bank")
app.command()(select)
app.command()(reproduce)
app.command()(report)
app.command()(sbc)
app.command()(numerics)
app.command()(validate)

_DEFAULTS = Config()


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def _hspr(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Files to write, without suffix.")] = Path(
        "hspr-demo"
    ),
    budget: Budget = "10%",
    seed: Annotated[int, typer.Option(min=0, help="Seed of target and queries.")] = 0,
    json: Json = False,
) -> None:
    """Evaluate one agent of the simulated bank at a tenth of its tasks."""
    from ..experiments.banks import load_bank
    from ..experiments.evaluation import evaluate_agent
    from ..experiments.files import require_writable, save_tree
    from ..experiments.pictures import plot_score, save_picture

    if output.name in ("", ".."):
        raise DataError(f"output must name files, got {str(output)!r}; try hspr-demo")
    files = [Path(f"{output}{suffix}") for suffix in (".nc", ".png")]
    for file in files:
        require_writable(file)
    bank = load_bank("simulated")
    target = bank.agents[seed % len(bank.agents)]
    result = evaluate_agent(bank, target, Config(), budget=parse_budget(budget), seed=seed)
    score, tree = result.score, result.evaluator.posterior
    save_tree(tree, files[0])
    save_picture(plot_score(tree, score, truth=result.truth), files[1])
    low, high = score.interval(0.9)
    if json:
        print_json(
            {
                "bank": bank.name,
                "target": target,
                "budget": result.evaluator.budget,
                "tasks": score.n_tasks,
                "estimate": score.estimate,
                "interval": [low, high],
                "interval_prob": 0.9,
                "truth": result.truth,
                "observed_share": score.observed_share if score.n_observed else None,
                "sd": score.sd,
                "ess": score.ess,
                "files": [str(file) for file in files],
            }
        )
        return
    solved = f", {score.observed_share:.1%} of them solved" if score.n_observed else ""
    print_rows(
        {
            "bank": f"{bank.name}: {len(bank.agents)} agents x {score.n_tasks} tasks",
            "target": f"{target}, {score.n_observed} tasks run{solved}",
            "estimate": f"{score.estimate:.1%}",
            "interval": f"{low:.1%} to {high:.1%} (90 %, equal-tailed, model posterior)",
            "truth": f"{result.truth:.1%}",
            "saved": ", ".join(str(file) for file in files),
        }
    )


@bank_app.command("list")
def bank_list(json: Json = False) -> None:
    """List the banks that are known by name."""
    from ..experiments.banks import BANKS

    if json:
        print_json(
            [
                {"name": b.name, "title": b.title, "agents": b.agents, "tasks": b.tasks}
                for b in BANKS.values()
            ]
        )
    else:
        print_rows({b.name: f"{b.title}, {b.agents} x {b.tasks}" for b in BANKS.values()})


@bank_app.command("info")
def bank_info(
    bank: BankName = "simulated", missing: Missing = "refuse", json: Json = False
) -> None:
    """Count agents, tasks, missing outcomes, signatures and scores of a bank."""
    from ..experiments.banks import describe_bank, load_bank

    description = describe_bank(load_bank(bank, missing=missing))
    if json:
        print_json(description)
        return
    print_rows(
        {
            name.replace("_", " "): f"{value:.1%}" if name.endswith("score") else str(value)
            for name, value in description.items()
            if value is not None
        }
    )


@app.command()
def replay(
    bank: BankName,
    budget: Budget = "10%",
    seeds: Annotated[int, typer.Option(min=1, help="Query seeds 0 to SEEDS - 1.")] = 5,
    rank: Rank = _DEFAULTS.rank,
    precision: Precision = _DEFAULTS.precision,
    kappa: Kappa = _DEFAULTS.kappa,
    criterion: Criterion = _DEFAULTS.criterion,
    calibration: Calibration = _DEFAULTS.calibration,
    decision: Decision = _DEFAULTS.decision,
    target: Annotated[
        list[str] | None, typer.Option(help="Evaluate this agent only; may be repeated.")
    ] = None,
    folds: Annotated[int, typer.Option(help="Folds over agents.")] = 4,
    nodes: Nodes = 8192,
    missing: Missing = "refuse",
    jobs: Annotated[int, typer.Option(help="Parallel workers; -1 uses all cores.")] = -1,
    output: Annotated[Path | None, typer.Option(help="Write a CSV of all runs here.")] = None,
    json: Json = False,
) -> None:
    """Evaluate every agent of a bank as a held-out target and compare with its true score."""
    config = Config(rank, precision, kappa, criterion, calibration, decision)
    from ..experiments.banks import load_bank
    from ..experiments.files import require_writable
    from ..experiments.replay import replay as run_replay

    if output is not None:
        require_writable(output)
    result = run_replay(
        load_bank(bank, missing=missing),
        config,
        budget=parse_budget(budget),
        seeds=range(seeds),
        targets=target,
        folds=folds,
        nodes=nodes,
        n_jobs=jobs,
        progress=True,
    )
    if output is not None:
        result.to_csv(output)
    summary = result.summary()
    if json:
        print_json(summary)
        return
    tau = summary["tau"]
    print_rows(
        {
            "bank": f"{summary['bank']}: {summary['agents']} agents x {summary['tasks']} tasks",
            "budget": f"{summary['budget']} tasks, {summary['runs']} runs",
            "MAE": f"{summary['mae']:.3f} pp",
            "MaxErr": f"{summary['max_error']:.3f} pp",
            "tau-b": "undefined (fewer than two distinct scores)" if tau is None else f"{tau:.3f}",
            "90 % interval": f"covers {summary['coverage']:.1%}, width {summary['width']:.2f} pp",
            "time": f"{summary['cpu_seconds_per_run']:.2f} CPU s a run",
        }
    )
