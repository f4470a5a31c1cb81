"""Methods that ask for all their tasks at once and average: uniform, stratified, Mid-Range.

Legend of shapes: m source agents, N tasks, B tasks to reveal, K strata.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...acquisition.budget import budget_tasks
from ...models.errors import DataError
from ...models.responses import ResponseMatrix
from .base import Method, complete_outcomes, uniform_tasks

STRATA = 10


class BatchRun:
    """One run of a method that asks for all its tasks at once.

    Parameters
    ----------
    tasks : sequence of int, length B
        Distinct tasks, by position in the bank.
    estimator : callable
        Maps the outcomes of `tasks`, shape (B,) and in their order, to the estimated score.
    """

    def __init__(self, tasks: Sequence[int], estimator: Callable[[np.ndarray], float]) -> None:
        self._tasks = list(tasks)
        self._estimator = estimator
        self._outcome: dict[int, int] = {}

    def ask(self) -> list[int]:
        """Return the tasks whose outcomes have not been told, in query order."""
        return [task for task in self._tasks if task not in self._outcome]

    def tell(self, task: int, outcome: int) -> None:
        """Take the outcome of an asked task.

        Parameters
        ----------
        task : int
            One of the tasks that `ask` returns.
        outcome : {0, 1}
            Whether the target solves it.

        Raises
        ------
        DataError
            If the task was not asked or is told already, or the outcome is neither 0 nor 1.
        """
        check_told(task, outcome, self.ask())
        self._outcome[task] = int(outcome)

    def estimate(self) -> float:
        """Return the estimated score.

        Returns
        -------
        float
            From 0 to 1.

        Raises
        ------
        DataError
            If an asked task has not been told: these methods are defined on all B outcomes.
        """
        missing = self.ask()
        if missing:
            raise DataError(
                f"the estimate needs the outcomes of all {len(self._tasks)} asked tasks, and "
                f"{len(missing)} are missing (first: task {missing[0]}); tell them first"
            )
        outcomes = np.array([self._outcome[task] for task in self._tasks], dtype=float)
        return float(self._estimator(outcomes))


def check_told(task: int, outcome: int, pending: Sequence[int]) -> None:
    """Check a told outcome.

    Parameters
    ----------
    task, outcome : int
        What was told.
    pending : sequence of int
        Asked tasks that have no outcome yet.

    Raises
    ------
    DataError
        If `task` is not pending, or `outcome` is neither 0 nor 1.
    """
    if task not in pending:
        raise DataError(
            f"task {task!r} is not one of the {len(pending)} tasks that wait for an outcome; "
            "tell each task that ask() returns once"
        )
    if outcome not in (0, 1):
        raise DataError(f"the outcome of task {task} must be 0 or 1, got {outcome!r}; recode it")


def middle_tasks(outcomes: np.ndarray, budget: int) -> list[int]:
    """Return the tasks whose source success rate is nearest to one half.

    Parameters
    ----------
    outcomes : numpy.ndarray, shape (m, N)
        Complete source outcomes.
    budget : int
        Number of tasks B.

    Returns
    -------
    list of int, length B
        Nearest first; tasks of equal distance in bank order.
    """
    # Whole numbers, so that rates of equal distance on either side do tie.
    distance = np.abs(2 * outcomes.sum(axis=0).astype(int) - len(outcomes))
    return [int(task) for task in np.argsort(distance, kind="stable")[:budget]]


def difficulty_strata(outcomes: np.ndarray, strata: int) -> np.ndarray:
    """Cut the tasks into strata at the quantiles of their source success rate.

    Parameters
    ----------
    outcomes : numpy.ndarray, shape (m, N)
        Complete source outcomes.
    strata : int
        Number of strata asked for.

    Returns
    -------
    numpy.ndarray of int, shape (N,)
        Stratum of each task, from 0 (hardest) and without gaps. Tasks of equal rate share a
        stratum, so there may be fewer strata than asked for.
    """
    solved = outcomes.sum(axis=0).astype(int)
    # Edges that are rates themselves (no interpolation) keep tied tasks on one side.
    shares = np.arange(1, strata) / strata
    edges = np.unique(np.quantile(solved, shares, method="inverted_cdf"))
    _, stratum = np.unique(np.searchsorted(edges, solved, side="left"), return_inverse=True)
    return stratum


def allocate(sizes: np.ndarray, budget: int) -> np.ndarray:
    """Share a budget among strata in proportion to their sizes, by largest remainder.

    Parameters
    ----------
    sizes : numpy.ndarray of int, shape (K,)
        Tasks of each stratum, at least one.
    budget : int
        B, from K to the number of tasks.

    Returns
    -------
    numpy.ndarray of int, shape (K,)
        Sums to B; at least 1 and at most the size of each stratum. A stratum whose share is below
        one gets one, at the cost of those that are most above their share. Ties go to the
        first stratum.
    """
    n_tasks = int(sizes.sum())
    share = budget * sizes  # in units of 1/N: whole numbers, no rounding
    count = np.maximum(1, share // n_tasks)
    while count.sum() < budget:
        count[np.argmax(share - n_tasks * count)] += 1
    while count.sum() > budget:
        excess = np.where(count > 1, n_tasks * count - share, -(n_tasks**2))
        count[np.argmax(excess)] -= 1
    return count


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A fitted method that asks for all its tasks at once."""

    begin: Callable[[int], BatchRun]

    def start(self, seed: int) -> BatchRun:
        """Start a run; `seed` decides the query set."""
        return self.begin(seed)


def _mean_or(prior: float) -> Callable[[np.ndarray], float]:
    """Return the mean of the outcomes, or the mean source score where there are none."""
    return lambda outcomes: outcomes.mean() if outcomes.size else prior


def fit_uniform(source: ResponseMatrix, budget: int) -> _Fitted:
    """Prepare uniform sampling: B tasks without replacement, and the mean of their outcomes.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        Complete source outcomes; they matter for B = 0 only.
    budget : int
        Tasks B to reveal, from 0 (the estimate is the mean source score) to N (it is exact).

    Returns
    -------
    FittedMethod

    Raises
    ------
    DataError
        If an outcome is missing or the budget is out of range.
    """
    outcomes = complete_outcomes(source)
    n_tasks = outcomes.shape[1]
    budget = budget_tasks(budget, n_tasks)
    estimator = _mean_or(float(outcomes.mean()))
    return _Fitted(lambda seed: BatchRun(uniform_tasks(n_tasks, budget, seed), estimator))


def fit_stratified(source: ResponseMatrix, budget: int) -> _Fitted:
    """Prepare stratified sampling by source difficulty.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        Complete source outcomes.
    budget : int
        Tasks B to reveal, from 0 (the estimate is the mean source score) to N (it is exact).

    Returns
    -------
    FittedMethod

    Raises
    ------
    DataError
        If an outcome is missing or the budget is out of range.

    Notes
    -----
    At most ten strata, and no more than B, so that each has a query and sum_k (N_k / N) mean_k
    is unbiased over seeds for every target.
    """
    outcomes = complete_outcomes(source)
    n_tasks = outcomes.shape[1]
    budget = budget_tasks(budget, n_tasks)
    prior = float(outcomes.mean())
    if budget == 0:
        return _Fitted(lambda seed: BatchRun([], _mean_or(prior)))
    stratum = difficulty_strata(outcomes, min(STRATA, budget))
    members = [np.flatnonzero(stratum == k) for k in range(int(stratum.max()) + 1)]
    sizes = np.array([len(tasks) for tasks in members])
    count = allocate(sizes, budget)
    # The estimate as one weighted sum over the queries, which are listed stratum by stratum.
    weight = np.repeat(sizes / (n_tasks * count), count)

    def begin(seed: int) -> BatchRun:
        rng = np.random.default_rng(seed)
        chosen = [
            rng.choice(tasks, size=n, replace=False)
            for tasks, n in zip(members, count, strict=True)
        ]
        queries = [int(task) for task in np.concatenate(chosen)]
        # Weights sum to one up to rounding; an all-pass target must not exceed 1.
        return BatchRun(queries, lambda outcome: min(1.0, float(weight @ outcome)))

    return _Fitted(begin)


def fit_mid_range(source: ResponseMatrix, budget: int) -> _Fitted:
    """Prepare Mid-Range: the B tasks with source rate nearest 0.5, and their mean outcome.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        Complete source outcomes.
    budget : int
        Tasks B to reveal, from 0 (the estimate is the mean source score) to N (it is exact).

    Returns
    -------
    FittedMethod
        Its runs do not depend on the seed.

    Raises
    ------
    DataError
        If an outcome is missing or the budget is out of range.
    """
    outcomes = complete_outcomes(source)
    tasks = middle_tasks(outcomes, budget_tasks(budget, outcomes.shape[1]))
    estimator = _mean_or(float(outcomes.mean()))
    return _Fitted(lambda seed: BatchRun(tasks, estimator))


UNIFORM = Method("uniform", "Uniform", fit_uniform, seeds=10)
STRATIFIED = Method("stratified", "Difficulty-stratified", fit_stratified, seeds=10)
MID_RANGE = Method("mid-range", "Mid-Range", fit_mid_range, seeds=1)
