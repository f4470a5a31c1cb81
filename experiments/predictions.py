"""Predictions of the compared methods for every target agent, recorded before the truth is read.

A run sees the outcomes that it asked for and nothing else of its target. What it predicted and what
it queried are written to a file; the full outcomes are read later, by `with_truth`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..models.errors import DataError
from ..models.responses import ResponseMatrix
from .checkpoint import Checkpoint
from .files import made_folder
from .folds import Fold, fold_of_target
from .methods.base import Method, MethodRun
from .methods.hspr import HsprRun
from .parallel import run_jobs
from .provenance import digest, file_stem, versions


@dataclass(frozen=True, eq=False)
class _Job:
    """Runs of one method on targets of one fold; the source is fitted once."""

    method: Method
    source: ResponseMatrix
    outcomes: dict[str, np.ndarray]
    runs: tuple[tuple[int, str, int], ...]
    budget: int


def record_predictions(
    bank: ResponseMatrix,
    methods: Mapping[int, Method],
    *,
    budget: int,
    plan: Sequence[Fold],
    settings: dict[str, Any],
    output_dir: str | os.PathLike[str],
    fit_each: bool = False,
    n_jobs: int = 1,
    progress: bool = False,
) -> pd.DataFrame:
    """Run one method on every target of a bank and record what it predicts.

    Parameters
    ----------
    bank : ResponseMatrix, shape (m, N)
        The archive, complete.
    methods : mapping of int to Method
        The method of each fold, by the fold's index: the same, or one configured for each.
    budget : int
        Tasks B that a run may reveal.
    plan : sequence of Fold
        Folds over the agents.
    settings : dict
        What else determines the predictions, such as the configurations, as JSON values.
    output_dir : str or path-like
        Folder of the file of predictions, made if it is missing. Finished runs in it are not
        repeated; it is named by the method and a digest of all settings.
    fit_each : bool, default False
        Whether the source is fitted for each target anew, for methods that fit fast and run long:
        their runs are then spread over the workers.
    n_jobs : int, default 1
        Parallel workers; the predictions do not depend on them.
    progress : bool, default False
        Whether to show a progress bar, on stderr and only if that is a terminal.

    Returns
    -------
    pandas.DataFrame
        One row a target and seed, in bank order: agent, fold, seed, estimate, queried (tuple of
        task positions in order), seconds and cpu_seconds of the run without the fit; for HSPR also
        what `HsprRun.details` gives. The truth is not among them.
    """
    first = next(iter(methods.values()))
    rows = {agent: row for row, agent in enumerate(bank.agents)}
    settings = {
        "method": first.name,
        "bank": bank.name,
        "matrix": digest(bank),
        "budget": budget,
        "folds": [[fold.index, list(fold.target)] for fold in plan],
        "seeds": first.seeds,
        "versions": versions(),
        **settings,
    }
    stem = file_stem(first.name, bank.name, digest(settings)[:12])
    file = made_folder(output_dir) / f"{stem}.json"
    with Checkpoint(file, settings) as checkpoint:
        jobs = []
        for fold in plan:
            targets = [
                tuple(
                    (number, agent, seed)
                    for seed in range(first.seeds)
                    if (number := rows[agent] * first.seeds + seed) not in checkpoint.rows
                )
                for agent in fold.target
            ]
            parts = targets if fit_each else [sum(targets, ())]
            source = bank.select(fold.source)
            jobs += [
                _Job(
                    methods[fold.index],
                    source,
                    {agent: bank.outcomes.sel(agent=agent).values for _, agent, _ in runs},
                    runs,
                    budget,
                )
                for runs in parts
                if runs
            ]
        title = f"{first.title} on {bank.name}"
        for done in run_jobs(_run, jobs, n_jobs=n_jobs, description=title, progress=progress):
            for number, row in done:
                checkpoint.add(number, row)
        recorded = [checkpoint.rows[number] for number in sorted(checkpoint.rows)]
    frame = pd.DataFrame(recorded)
    frame.insert(1, "fold", frame["agent"].map(fold_of_target(plan)))
    frame["queried"] = frame["queried"].map(tuple)
    return frame


def _run(job: _Job) -> list[tuple[int, dict[str, Any]]]:
    """Fit the source once and run the targets."""
    fitted = job.method.fit(job.source, job.budget)
    done = []
    for number, agent, seed in job.runs:
        started, started_cpu = time.perf_counter(), time.process_time()
        run = fitted.start(seed)
        queried = reveal(run, job.outcomes[agent].__getitem__)
        found = run.details() if isinstance(run, HsprRun) else {"estimate": run.estimate()}
        row = {
            "agent": agent,
            "seed": seed,
            **found,
            "queried": queried,
            "seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - started_cpu,
        }
        done.append((number, row))
    return done


def reveal(run: MethodRun, outcome: Callable[[int], float]) -> list[int]:
    """Reveal to a run what it asks for.

    Parameters
    ----------
    run : MethodRun
        The run.
    outcome : callable
        Outcome of a task by its position; called for asked tasks only.

    Returns
    -------
    list of int
        The queried positions, in order.
    """
    queried: list[int] = []
    while tasks := run.ask():
        for task in tasks:
            run.tell(task, int(outcome(task)))
        queried += tasks
    return queried


def with_truth(predictions: pd.DataFrame, bank: ResponseMatrix) -> pd.DataFrame:
    """Add the true scores to recorded predictions.

    Parameters
    ----------
    predictions : pandas.DataFrame
        As `record_predictions` returns them.
    bank : ResponseMatrix, shape (m, N)
        The archive.

    Returns
    -------
    pandas.DataFrame
        With columns truth (a share) and error (estimate minus truth).
    """
    truth = dict(zip(bank.agents, bank.values.mean(axis=1), strict=True))
    frame = predictions.assign(truth=predictions["agent"].map(truth))
    if frame["truth"].isna().any():
        agent = frame.loc[frame["truth"].isna(), "agent"].iloc[0]
        raise DataError(
            f"the predictions hold agent {agent!r}, which bank {bank.name!r} lacks or has no "
            "complete outcomes for; predict with the same bank"
        )
    return frame.assign(error=frame["estimate"] - frame["truth"])
