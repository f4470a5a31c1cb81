"""HSPR's reconstruction on queries that were not chosen by it (table 2B of the paper)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.stats import binom

from ...inference.decision import DRAWS, ScorePosterior, score_posterior
from ...inference.sobol import NODES
from ...models.config import Config
from ...models.groups import TaskGroups, group_tasks
from ...models.items import fit_items
from ...models.responses import ResponseMatrix
from ..evaluation import sampler_after
from .base import Method, complete_outcomes, uniform_tasks
from .sampling import BatchRun, middle_tasks

# Seeds of the uniform query sets, as the paper lists them.
UNIFORM_SEEDS = (11, 23, 37, 53, 71)
MAX_DRAWS = 2_097_152
_STANDARD_ERRORS = 6.0
_PROB = 0.95


def precise_score(tree: xr.DataTree, config: Config) -> ScorePosterior:
    """Decide with as many predictive draws as the decision's precision needs.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior, as `score_posterior` takes it.
    config : Config
        Calibration and decision.

    Returns
    -------
    ScorePosterior
        From 131,072 draws, doubled until the sample mean lies within six Monte Carlo standard
        errors of the analytic mean and the 95 % order-statistic interval of the median spans at
        most one task, or until 2,097,152 (appendix E of the paper).
    """
    draws = DRAWS
    while True:
        score = score_posterior(
            tree, calibration=config.calibration, decision=config.decision, draws=draws
        )
        if draws >= MAX_DRAWS or is_precise(score):
            return score
        draws *= 2


def is_precise(score: ScorePosterior) -> bool:
    """Return whether the draws of a score are enough, by the rule of `precise_score`.

    Parameters
    ----------
    score : ScorePosterior
        The score.

    Returns
    -------
    bool
    """
    draws = score.draws
    error = draws.std() / np.sqrt(len(draws))
    tail = (1 - _PROB) / 2
    low, high = (int(binom.ppf(q, len(draws), 0.5)) for q in (tail, 1 - tail))
    span = (draws[min(high, len(draws) - 1)] - draws[low]) * score.n_tasks
    # Scores are whole numbers of tasks over N, but for rounding.
    return bool(abs(draws.mean() - score.mean) <= _STANDARD_ERRORS * error and span < 1.5)


@dataclass(frozen=True, eq=False)
class _Fitted:
    groups: TaskGroups
    config: Config
    nodes: int
    queries: Callable[[int], list[int]]

    def start(self, seed: int) -> BatchRun:
        """Start a run on a target."""
        tasks = self.queries(seed)

        def estimate(outcomes: np.ndarray) -> float:
            groups = self.groups.group_of_task[tasks]
            told = list(zip(groups.tolist(), outcomes.astype(int).tolist(), strict=True))
            sampler = sampler_after(self.groups, self.config, told, nodes=self.nodes)
            return precise_score(sampler.state(), self.config).estimate

        return BatchRun(tasks, estimate)


@dataclass(frozen=True)
class _Fit:
    config: Config
    nodes: int
    uniform: bool

    def __call__(self, source: ResponseMatrix, budget: int) -> _Fitted:
        groups = group_tasks(source, fit_items(source))
        n_tasks = len(source.tasks)
        middle = middle_tasks(complete_outcomes(source), budget)

        def queries(seed: int) -> list[int]:
            if self.uniform:
                return uniform_tasks(n_tasks, budget, UNIFORM_SEEDS[seed])
            return middle

        return _Fitted(groups, self.config, self.nodes, queries)


def static_method(config: Config, *, uniform: bool, nodes: int = NODES) -> Method:
    """Return HSPR's model, decision and calibration on Uniform or Mid-Range queries.

    Parameters
    ----------
    config : Config
        The configuration of the fold; its criterion plays no part.
    uniform : bool
        Whether the queries are uniform, with the seeds 11, 23, 37, 53 and 71, or the B tasks whose
        source rate is nearest one half.
    nodes : int, default 8192
        Nodes of the importance sampler.

    Returns
    -------
    Method
    """
    name, seeds = ("hspr-uniform", len(UNIFORM_SEEDS)) if uniform else ("hspr-mid-range", 1)
    title = f"HSPR on {'Uniform' if uniform else 'Mid-Range'} queries"
    return Method(name, title, _Fit(config, nodes, uniform), seeds)
