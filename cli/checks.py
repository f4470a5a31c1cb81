"""The commands that check the production sampler: its calibration and its numerical accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Json, Nodes
from .output import print_json, print_rows

if TYPE_CHECKING:
    from ..experiments.sbc import Calibration


def sbc(
    simulations: Annotated[int, typer.Option(help="Simulated agents.")] = 1000,
    nodes: Nodes = 8192,
    proposal: Annotated[str, typer.Option(help="gaussian or student.")] = "gaussian",
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
