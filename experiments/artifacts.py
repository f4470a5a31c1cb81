"""Tables and figures as files: CSV, Markdown and PNG, each with what it was made from."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd

from .cells import cell_text
from .files import made_folder, written_whole
from .pictures.study import PICTURES, plot_table
from .provenance import digest, versions
from .study import Study
from .tables import Table


def provenance(studies: Sequence[Study], command: str) -> dict[str, Any]:
    """Return what a result was made from.

    Parameters
    ----------
    studies : sequence of Study
        The banks.
    command : str
        What the user typed.

    Returns
    -------
    dict
        JSON values: command, date (UTC), versions, and by bank matrix digest, agents, tasks,
        budget, folds, nodes and seeds.
    """
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(),
        "banks": {
            study.bank.name: {
                "sha256": digest(study.bank),
                "agents": len(study.bank.agents),
                "tasks": len(study.bank.tasks),
                "budget": study.budget,
                "folds": len(study.plan),
                "nodes": study.nodes,
                "selection_nodes": study.selection_nodes,
                "selection_seeds": [0, 1, 2],
                "query_seeds": "0 to the number of seeds in the table, less one",
            }
            for study in studies
        },
    }


def write_table(
    table: Table, output_dir: str | os.PathLike[str], made_from: dict[str, Any]
) -> list[Path]:
    """Write a table as CSV, Markdown and PNG.

    Parameters
    ----------
    table : Table
        The table.
    output_dir : str or path-like
        Folder, made if it is missing; files are named by the table.
    made_from : dict
        As `provenance` returns it; written into each file: as comment lines that begin with #,
        below the Markdown table, and in the picture's metadata.

    Returns
    -------
    list of pathlib.Path
        The three files.
    """
    folder = made_folder(output_dir)
    files = [folder / f"{table.name}.{suffix}" for suffix in ("csv", "md", "png")]
    origin = json.dumps(made_from, ensure_ascii=False, sort_keys=True)
    head = [f"# {line}" for line in (table.title, *table.notes, origin)]
    with written_whole(files[0]) as part:
        cells = table.frame.to_csv(index=False)
        if "#" in cells:  # in quotation marks it begins no comment
            cells = table.frame.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC)
        part.write_text("\n".join([*head, cells]), encoding="utf-8")
    with written_whole(files[1]) as part:
        part.write_text(markdown(table, made_from), encoding="utf-8")
    draw = PICTURES.get(table.name, plot_table)
    # A dollar sign in a name begins no formula.
    with mpl.rc_context({"text.parse_math": False}):
        figure = draw(table.frame, table.title)
        try:
            about = {"Title": table.title, "Description": origin}
            with written_whole(files[2]) as part:
                figure.savefig(part, dpi=150, metadata=about)
        finally:
            plt.close(figure)
    return files


def markdown(table: Table, made_from: dict[str, Any]) -> str:
    """Return a table as Markdown, with its notes and what it was made from.

    Parameters
    ----------
    table : Table
        The table.
    made_from : dict
        As `provenance` returns it.

    Returns
    -------
    str
    """
    columns = list(table.frame.columns)
    numeric = [pd.api.types.is_numeric_dtype(table.frame[column]) for column in columns]
    lines = [
        f"# {table.title}",
        "",
        "| " + " | ".join(str(column).replace("_", " ") for column in columns) + " |",
        "|" + "|".join("---:" if right else "---" for right in numeric) + "|",
    ]
    lines += [
        "| " + " | ".join(cell_text(value).replace("|", "\\|") for value in row) + " |"
        for row in table.frame.itertuples(index=False)
    ]
    origin = json.dumps(made_from, ensure_ascii=False, indent=1, sort_keys=True)
    return "\n".join([*lines, "", *table.notes, "", "```json", origin, "```", ""])
