"""The commands of the paper's experiments: selection, tables and figures."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..models.errors import DataError
from .options import BankName, Budget, Json, Missing, Nodes, parse_budget
from .output import print_json, print_rows

RESULTS = (*(f"table{number}" for number in range(1, 9)), "figure3", "figure4")
Jobs = Annotated[int, typer.Option(help="Parallel workers; -1 uses all cores.")]


def select(
    bank: BankName,
    budget: Budget = "10%",
    without: Annotated[
        list[str] | None, typer.Option(help="Leave this agent out of the source; may be repeated.")
    ] = None,
    nodes: Nodes = 8192,
    missing: Missing = "refuse",
    jobs: Jobs = -1,
    output_dir: Annotated[
        Path, typer.Option(help="Folder of the finished paths, from which a killed run goes on.")
    ] = Path("hspr-selection"),
    json: Json = False,
) -> None:
    """Select a configuration on source agents alone, in three stages, and print the whole grid."""
    tasks = parse_budget(budget)
    from ..experiments.banks import load_bank
    from ..experiments.selection import run_selection

    source = load_bank(bank, missing=missing)
    if without:
        left_out = set(source.select(without).agents)
        rest = [agent for agent in source.agents if agent not in left_out]
        if not rest:
            raise DataError("--without leaves no source agent; leave fewer out")
        source = source.select(rest)
    selection = run_selection(
        source, budget=tasks, nodes=nodes, cache_dir=output_dir, n_jobs=jobs, progress=True
    )
    if json:
        print_json(selection.summary())
        return
    config = selection.config
    print_rows(
        {
            "source": f"{source.name}: {len(source.agents)} agents x {len(source.tasks)} tasks",
            "rank": str(config.rank),
            "precision": f"{config.precision:g}",
            "kappa": f"{config.kappa:g}",
            "criterion": config.criterion,
            "calibration": f"{config.calibration:g} (of the mean: {selection.mean_calibration:g})",
        }
    )
    grid = selection.grid.assign(
        kappa=[f"{k:g}" if k == k and k is not None else "none" for k in selection.grid["kappa"]],
        selected=["*" if chosen else "" for chosen in selection.grid["selected"]],
    )
    print(grid.to_string(index=False, float_format="{:.3f}".format))


def reproduce(
    result: Annotated[
        str, typer.Argument(metavar="RESULT", help=f"One of {', '.join(RESULTS)}, or all.")
    ],
    bank: Annotated[
        list[str] | None,
        typer.Option(help="A bank's name or a file; may be repeated. All four banks if left out."),
    ] = None,
    pta_irt: Annotated[
        Path | None,
        typer.Option(help="Folder of PTA-IRT's data: take its banks, with its folds, instead."),
    ] = None,
    frozen: Annotated[
        list[Path] | None,
        typer.Option(help="Published predictions (CSV, or PTA-IRT's JSON); may be repeated."),
    ] = None,
    budget: Budget = "10%",
    nodes: Nodes = 8192,
    selection_nodes: Annotated[
        int, typer.Option(min=2, help="Nodes in the source-only selection, a power of two.")
    ] = 2048,
    missing: Missing = "refuse",
    jobs: Jobs = -1,
    output_dir: Annotated[
        Path, typer.Option(help="Folder of runs, tables and pictures; finished work is kept there.")
    ] = Path("hspr-results"),
    json: Json = False,
) -> None:
    """Recompute tables and figures of the paper, as CSV, Markdown and PNG.

    Selections and predictions are kept in the output folder, so that a command that was killed goes
    on where it stopped, and further results are made of the same runs.
    """
    share = parse_budget(budget)
    if not isinstance(share, float):
        raise DataError(f"budget must be a share of the tasks here, got {budget!r}; try 10%")
    if result not in (*RESULTS, "all"):
        raise DataError(f"result must be one of {', '.join(RESULTS)} or all, got {result!r}")
    from ..experiments.artifacts import provenance, write_table
    from ..experiments.results import RESULTS as BUILDERS
    from ..experiments.sources import load_studies

    studies = load_studies(
        bank,
        output_dir,
        pta_irt=pta_irt,
        frozen=frozen or [],
        missing=missing,
        budget=share,
        nodes=nodes,
        selection_nodes=selection_nodes,
        n_jobs=jobs,
        progress=True,
    )
    made_from = provenance(studies, shlex.join(["hspr", *sys.argv[1:]]))
    files = []
    for name in RESULTS if result == "all" else (result,):
        table = BUILDERS[name](studies)
        files += write_table(table, output_dir, made_from)
        if not json:
            print(table.title)
            print(table.frame.to_string(index=False, float_format="{:.3f}".format), end="\n\n")
    if json:
        print_json({"files": [str(file) for file in files], **made_from})
    else:
        print_rows({"saved": ", ".join(str(file) for file in files)})
