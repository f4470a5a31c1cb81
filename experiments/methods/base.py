"""What every compared method is: fitted to source agents, it asks for outcomes and estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...models.errors import DataError
from ...models.responses import ResponseMatrix


class MethodRun(Protocol):
    """One target agent under one seed; tasks are positions in bank order."""

    def ask(self) -> list[int]:
        """Return the tasks to reveal next: one, or all at once; empty when the budget is spent."""
        ...

    def tell(self, task: int, outcome: int) -> None:
        """Take the outcome (0 or 1) of an asked task."""
        ...

    def estimate(self) -> float:
        """Return the estimated full-benchmark score, a share from 0 to 1."""
        ...


class FittedMethod(Protocol):
    """A method fitted to the source agents of one fold."""

    def start(self, seed: int) -> MethodRun:
        """Start a run on a target; `seed` decides every random choice of it."""
        ...


@dataclass(frozen=True)
class Method:
    """A compared method.

    Attributes
    ----------
    name : str
        Key in tables and files, such as "mid-range-ridge".
    title : str
        Name for people, such as "Mid-Range + Ridge".
    fit : callable
        ``fit(source, budget)`` with a complete `ResponseMatrix` of shape (m, N) and the number of
        tasks B that a run may reveal; returns a `FittedMethod`.
    seeds : int
        Query seeds 0 to seeds - 1 that the comparison runs; 1 for a deterministic method.
    """

    name: str
    title: str
    fit: Callable[[ResponseMatrix, int], FittedMethod]
    seeds: int


def complete_outcomes(source: ResponseMatrix) -> np.ndarray:
    """Return the outcomes of a source matrix that has no missing cell.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        The source agents.

    Returns
    -------
    numpy.ndarray, shape (m, N)

    Raises
    ------
    DataError
        If an outcome is missing: the compared methods are defined on complete matrices.
    """
    source.require_complete()
    missing = int(np.isnan(source.values).sum())
    if missing:
        raise DataError(
            f"bank {source.name!r} has {missing} missing outcomes, and the compared methods need "
            "complete matrices; choose missing='fail' or missing='drop-task'"
        )
    return source.values


def uniform_tasks(n_tasks: int, budget: int, seed: int) -> list[int]:
    """Return the uniform query set: B of N tasks without replacement.

    Parameters
    ----------
    n_tasks, budget : int
        Tasks N of the bank, and tasks B to reveal.
    seed : int
        Query seed.

    Returns
    -------
    list of int, length B
    """
    rng = np.random.default_rng(seed)
    return [int(task) for task in rng.choice(n_tasks, size=budget, replace=False)]
