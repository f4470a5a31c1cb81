"""The commands that check the production sampler: its calibration and its numerical accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..models.config import Config
from .options import (
    BankName,
    Budget,
    Criterion,
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

if TYPE_CHECKING:
    from ..experiments.numerics import Numerics
    from ..experiments.sbc import Calibration

_DEFAULTS = Config()


def sbc(
    simulations: Annotated[int, typer.Option(help="Simulated agents.")] = 1000,
    nodes: Nodes = 8192,
    proposal: Proposal = "gaussian",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulations.")] = 20261005,
    jobs: Annotated[int, typer.Option(help="Parallel workers; -1 uses all cores.")] = -1,
    output_dir: Annotated[
        Path, typer.Option(help="Folder of the finished simulations and the picture.")
    ] = Path("hspr-sbc"),
    json: Json = False,
) -> None:
    """Simulate agents from the model and check where the truth lies in their posteriors.

    The finished simulations are kept, so that a command that was killed goes on where it stopped.
    Ends with exit code 1 if a distribution is further from uniform than one in twenty correct
    samplers would leave any of them, else 0.
    """
    from ..experiments.pictures import save_picture
    from ..experiments.pit_picture import plot_pit
    from ..experiments.sbc import (
        REFERENCE_BUDGET,
        REFERENCE_CONFIG,
        ROWS_FILE,
        reference_groups,
        run_sbc,
    )

    calibration = run_sbc(
        reference_groups(),
        REFERENCE_CONFIG,
        budget=REFERENCE_BUDGET,
        simulations=simulations,
        nodes=nodes,
        proposal=proposal,
        seed=seed,
        output_dir=output_dir,
        n_jobs=jobs,
        progress=True,
    )
    picture = save_picture(plot_pit(calibration), output_dir / "sbc.png")
    files = [output_dir / ROWS_FILE, picture]
    summary = calibration.summary()
    if json:
        print_json(summary | {"files": [str(file) for file in files]})
    else:
        _print_sbc(calibration, files)
    if not summary["passed"]:
        raise typer.Exit(1)


def _print_sbc(calibration: Calibration, files: list[Path]) -> None:
    """Print the setting, and by quantity whether its PIT is uniform."""
    told = calibration.summary()
    rows = {
        "simulations": f"{told['simulations']} of {told['budget']} tasks run of {told['tasks']}, "
        f"{told['nodes']} nodes",
        "weights": f"median ESS {told['median_ess']:.0f}, {told['untrusted_runs']} not trusted",
    }
    for name, result in told["quantities"].items():
        place = "inside" if result["inside"] else "outside"
        rows[name] = f"p {result['p_value']:.3f}, {place} the {told['prob']:.0%} band"
    rows["verdict"] = "uniform" if told["passed"] else "not uniform"
    rows["saved"] = ", ".join(str(file) for file in files)
    print_rows(rows)


def numerics(
    bank: BankName,
    targets: Annotated[int, typer.Option(help="Agents to hold out and evaluate.")] = 2,
    budget: Budget = "10%",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the queries.")] = 0,
    rank: Rank = _DEFAULTS.rank,
    precision: Precision = _DEFAULTS.precision,
    kappa: Kappa = _DEFAULTS.kappa,
    criterion: Criterion = _DEFAULTS.criterion,
    nodes: Nodes = 8192,
    scrambles: Annotated[int, typer.Option(help="Independent scrambles by proposal.")] = 8,
    missing: Missing = "refuse",
    jobs: Annotated[int, typer.Option(help="Parallel workers; -1 uses all cores.")] = 1,
    json: Json = False,
) -> None:
    """Check the sampler's accuracy on evaluations of held-out agents: nodes, draws, scrambles.

    Ends with exit code 1 if a check is failed, else 0.
    """
    config = Config(rank, precision, kappa, criterion)
    tasks = parse_budget(budget)
    from ..experiments.banks import load_bank
    from ..experiments.numerics import check_numerics

    result = check_numerics(
        load_bank(bank, missing=missing),
        config,
        targets=targets,
        budget=tasks,
        seed=seed,
        nodes=nodes,
        scrambles=scrambles,
        n_jobs=jobs,
        progress=True,
    )
    if json:
        print_json(result.summary())
    else:
        _print_numerics(result)
    if not result.passed:
        raise typer.Exit(1)


def _print_numerics(result: Numerics) -> None:
    """Print by target each check with its value and limit."""
    for facts in result.summary()["targets"]:
        print(
            f"{facts['agent']}: {facts['n_observed']} of {facts['n_tasks']} tasks run, "
            f"{facts['groups']} groups, mean {facts['mean']:.3%}, ESS {facts['ess']:.0f}"
        )
        rows = {}
        for check in result.summary()["checks"]:
            if check["agent"] == facts["agent"]:
                factor, unit = (100, "pp") if check["unit"] == "share" else (1, check["unit"])
                rows[f"  {check['check']}"] = (
                    f"{factor * check['value']:8.4f} {unit:4}  limit {factor * check['limit']:g}"
                    f"  {'pass' if check['passed'] else 'FAIL'}"
                )
        print_rows(rows)
    failed = int((~result.table["passed"]).sum())
    print(f"{len(result.table) - failed} of {len(result.table)} checks passed")
