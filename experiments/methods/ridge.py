"""Methods that regress the score on the revealed outcomes: RSL and Mid-Range + Ridge.

Legend of shapes: m source agents, N tasks, B tasks to reveal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from sklearn.linear_model import RidgeCV

from ...acquisition.budget import budget_tasks
from ...models.responses import ResponseMatrix
from .base import Method, complete_outcomes, uniform_tasks
from .sampling import BatchRun, middle_tasks

PENALTIES = (0.1, 1.0, 10.0)


def score_regression(outcomes: np.ndarray, tasks: list[int]) -> Callable[[np.ndarray], float]:
    """Fit a ridge regression from the outcomes of some tasks to the full score.

    Parameters
    ----------
    outcomes : numpy.ndarray, shape (m, N)
        Complete source outcomes.
    tasks : list of int, length B
        The queried tasks.

    Returns
    -------
    callable
        Maps a target's outcomes on `tasks`, shape (B,), to its predicted score, clipped to
        [0, 1].

    Notes
    -----
    scikit-learn's ``RidgeCV``, penalties 0.1, 1 and 10, chosen by leave-one-out error over the
    source agents. Without queries the prediction is the mean source score. One source agent
    gives no slope, so the prediction is then the mean of the outcomes.
    """
    score = outcomes.mean(axis=1)
    if not tasks:
        prior = float(score.mean())
        return lambda revealed: prior
    if len(outcomes) < 2:
        return lambda revealed: float(revealed.mean())
    fitted = RidgeCV(alphas=PENALTIES).fit(outcomes[:, tasks], score)
    slope, intercept = np.asarray(fitted.coef_, dtype=float), float(fitted.intercept_)
    return lambda revealed: float(np.clip(intercept + slope @ revealed, 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class _FittedRidge:
    """A query set for each seed and the regression that belongs to it, fitted once."""

    outcomes: np.ndarray
    queries: Callable[[int], list[int]]
    _predictors: dict[tuple[int, ...], Callable[[np.ndarray], float]] = field(default_factory=dict)

    def start(self, seed: int) -> BatchRun:
        """Start a run; `seed` decides the query set."""
        tasks = self.queries(seed)
        key = tuple(tasks)
        if key not in self._predictors:
            self._predictors[key] = score_regression(self.outcomes, tasks)
        return BatchRun(tasks, self._predictors[key])


def fit_rsl(source: ResponseMatrix, budget: int) -> _FittedRidge:
    """Prepare random-sampling-learn: a ridge regression on the uniform query set.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        Complete source outcomes.
    budget : int
        Tasks B to reveal, from 0 to N. The estimate is a prediction, not exact at B = N.

    Returns
    -------
    FittedMethod
        A run asks for exactly the tasks of the uniform method under the same seed.

    Raises
    ------
    DataError
        If an outcome is missing or the budget is out of range.

    Notes
    -----
    RSL of Zhang et al. (2025), as the paper compares it (section 4.1); see `score_regression`.
    """
    outcomes = complete_outcomes(source)
    n_tasks = outcomes.shape[1]
    budget = budget_tasks(budget, n_tasks)
    return _FittedRidge(outcomes, lambda seed: uniform_tasks(n_tasks, budget, seed))


def fit_mid_range_ridge(source: ResponseMatrix, budget: int) -> _FittedRidge:
    """Prepare Mid-Range + Ridge: a ridge regression on the Mid-Range query set.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        Complete source outcomes.
    budget : int
        Tasks B to reveal, from 0 to N. The estimate is a prediction, not exact at B = N.

    Returns
    -------
    FittedMethod
        Its runs do not depend on the seed.

    Raises
    ------
    DataError
        If an outcome is missing or the budget is out of range.

    Notes
    -----
    Section 4.1 of the paper; see `score_regression`.
    """
    outcomes = complete_outcomes(source)
    tasks = middle_tasks(outcomes, budget_tasks(budget, outcomes.shape[1]))
    return _FittedRidge(outcomes, lambda seed: tasks)


RSL = Method("rsl", "RSL", fit_rsl, seeds=10)
MID_RANGE_RIDGE = Method("mid-range-ridge", "Mid-Range + Ridge", fit_mid_range_ridge, seeds=1)
