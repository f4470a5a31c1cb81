"""The catalogue of banks, and how a bank is loaded and described.

Public banks are other people's data: they are not part of the package but read from the folder
that the environment variable ``HSPR_DATA`` names. The simulated bank needs no file.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..models.errors import DataError
from ..models.responses import ResponseMatrix
from .formats import read_bank_file
from .simulate import simulate_bank

DATA_VARIABLE = "HSPR_DATA"


@dataclass(frozen=True)
class Bank:
    """An entry of the catalogue.

    Parameters
    ----------
    name : str
        The name that :func:`load_bank` takes.
    title : str
        The name for a reader.
    agents, tasks : int
        Size of the matrix.
    source : str
        Where the data come from, as ``repository @ commit : path``.
    file : str or None
        File name in the data folder; None for the bank that is computed.
    sha256 : str or None
        SHA-256 of that file in hexadecimal digits.
    """

    name: str
    title: str
    agents: int
    tasks: int
    source: str
    file: str | None
    sha256: str | None


_PSYCHOMETRICS = (
    "dariakryvosheieva/agent-psychometrics @ 62851ff8e54d39e51ab968e370cedbf9016a21bd : data/"
)
_ALL_THE_NOISES = (
    "all-the-noises/all-the-noises.github.io @ 929a82c51850af814dabdc333a643c4bc1b4267c : "
    "main/assets/tables/"
)

# The file of swebench-pro writes the 491 results that its own source lacks as 0, not as missing.
BANKS: dict[str, Bank] = {
    bank.name: bank
    for bank in (
        Bank(
            name="simulated",
            title="Simulated bank",
            agents=40,
            tasks=300,
            source="hspr.experiments.simulate : simulate_bank()",
            file=None,
            sha256=None,
        ),
        Bank(
            name="swebench-verified",
            title="SWE-bench Verified",
            agents=134,
            tasks=500,
            source=_PSYCHOMETRICS + "swebench_verified/responses.jsonl",
            file="swebench-verified.responses.jsonl",
            sha256="b2bda9545ca0122a38ddefde41437141a1c409389dd1742545c99978d5ea8054",
        ),
        Bank(
            name="swebench-pro",
            title="SWE-bench Pro",
            agents=14,
            tasks=730,
            source=_PSYCHOMETRICS + "swebench_pro/responses.jsonl",
            file="swebench-pro.responses.jsonl",
            sha256="ce5e89d5dcd680eda7b4aaed92a8b57901d6886fca2a23fda052232ef0e72f77",
        ),
        Bank(
            name="swebench-lite",
            title="SWE-bench Lite",
            agents=84,
            tasks=300,
            source=_ALL_THE_NOISES + "example_table_swebench-lite.csv",
            file="swebench-lite.example-table.csv",
            sha256="bfd58db1a86f5fbf9361ca3b466c057b30e395deb3262bf0a65f0f2305218034",
        ),
        Bank(
            name="swebench-full",
            title="SWE-bench Full",
            agents=22,
            tasks=2294,
            source=_ALL_THE_NOISES + "example_table_swebench-test.csv",
            file="swebench-full.example-table.csv",
            sha256="8415e1689c582ea5e92f15bd0ac9421e36d1beac8bcbcadf98fc6f7b0e606744",
        ),
    )
}


def load_bank(bank: str | Path = "simulated", *, missing: str = "refuse") -> ResponseMatrix:
    """Load a bank of the catalogue, or a file.

    Parameters
    ----------
    bank : str or pathlib.Path, default "simulated"
        A name in :data:`BANKS`, or a path to a file that
        :func:`~hspr.experiments.formats.read_bank_file` reads. A public bank is looked for in the
        folder named by the environment variable ``HSPR_DATA``.
    missing : {"refuse", "fail", "drop-task", "model"}, default "refuse"
        What becomes of missing outcomes, see :meth:`ResponseMatrix.with_missing`. "refuse" loads
        them as they are: it is a fit that refuses them.

    Returns
    -------
    ResponseMatrix, shape (m, N)
        Its name is the catalogue's, or that of the file without its extension.

    Raises
    ------
    DataError
        If the name is unknown, the file is not there or breaks a rule, or a catalogue file has not
        the size that the catalogue states.
    """
    if not isinstance(bank, str | Path):
        raise DataError(
            f"bank must be a name or a path, got {type(bank).__name__}; known names are "
            f"{', '.join(BANKS)}"
        )
    if isinstance(bank, str) and bank in BANKS:
        matrix = _load_entry(BANKS[bank])
    else:
        path = Path(os.path.expanduser(bank))
        if isinstance(bank, str) and path.name == bank and not path.suffix and not path.is_file():
            raise DataError(_unknown_bank(bank))
        matrix = read_bank_file(path)
    return matrix if missing == "refuse" else matrix.with_missing(missing)


def describe_bank(bank: ResponseMatrix) -> dict[str, str | int | float | None]:
    """Count what a bank holds.

    Scores and solved tasks are taken over the known outcomes; an agent or a task without any does
    not enter them. Two tasks share a signature if their columns agree, missing cells included.

    Parameters
    ----------
    bank : ResponseMatrix, shape (m, N)
        The bank.

    Returns
    -------
    dict
        JSON-ready: ``name``, ``agents``, ``tasks``, ``missing_cells``, ``tasks_none_solved``,
        ``tasks_all_solved``, ``signatures``, and ``mean_score``, ``min_score``, ``max_score`` over
        agents (None if no outcome is known).
    """
    known = ~np.isnan(bank.values)
    solved = bank.values == 1.0
    by_task, known_by_task = solved.sum(axis=0), known.sum(axis=0)
    known_by_agent = known.sum(axis=1)
    scored = known_by_agent > 0
    scores = solved.sum(axis=1)[scored] / known_by_agent[scored]
    symbols = np.where(known, solved, 2).astype(np.int8)
    return {
        "name": bank.name,
        "agents": len(bank.agents),
        "tasks": len(bank.tasks),
        "missing_cells": bank.n_missing,
        "tasks_none_solved": int(((by_task == 0) & (known_by_task > 0)).sum()),
        "tasks_all_solved": int(((by_task == known_by_task) & (known_by_task > 0)).sum()),
        "signatures": np.unique(symbols, axis=1).shape[1],
        "mean_score": float(scores.mean()) if scores.size else None,
        "min_score": float(scores.min()) if scores.size else None,
        "max_score": float(scores.max()) if scores.size else None,
    }


def _load_entry(entry: Bank) -> ResponseMatrix:
    if entry.file is None:
        return simulate_bank(name=entry.name)
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise DataError(
            f"bank {entry.name!r} is read from the file {entry.file!r}, but {DATA_VARIABLE} is not "
            f"set; set it to the folder that holds the file (export {DATA_VARIABLE}=/path/to/data)"
        )
    path = Path(os.path.expanduser(folder)) / entry.file
    if not path.is_file():
        raise DataError(
            f"bank {entry.name!r} is read from {str(path)!r}, which is not there; fetch the file, "
            f"or set {DATA_VARIABLE} to the folder that holds it"
        )
    matrix = replace(read_bank_file(path), name=entry.name)
    if matrix.values.shape != (entry.agents, entry.tasks):
        raise DataError(
            f"file {str(path)!r} must hold {entry.agents} agents x {entry.tasks} tasks, got "
            f"{len(matrix.agents)} x {len(matrix.tasks)}; the download is truncated or another "
            "file, fetch it again"
        )
    return matrix


def _unknown_bank(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), BANKS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return (
        f"bank {name!r} is unknown; {hint}known names are {', '.join(BANKS)}; anything else must "
        "be a path to a .csv or .jsonl file"
    )
