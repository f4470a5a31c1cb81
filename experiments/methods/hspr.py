"""HSPR itself as one of the compared methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...acquisition.evaluator import Evaluator
from ...inference.sobol import NODES
from ...models.config import Config
from ...models.groups import TaskGroups, group_tasks
from ...models.items import fit_items
from ...models.responses import ResponseMatrix
from .base import Method

INTERVAL = 0.9
SEEDS = 5


class HsprRun:
    """One target agent, evaluated task by task.

    Parameters
    ----------
    groups : TaskGroups
        Groups fitted to the source agents.
    config : Config
        Configuration.
    budget : int
        Tasks B that may be revealed.
    seed : int
        Query seed.
    nodes : int
        Nodes of the importance sampler.
    """

    def __init__(
        self, groups: TaskGroups, config: Config, budget: int, seed: int, nodes: int
    ) -> None:
        self._evaluator = Evaluator(groups, config, budget=budget, seed=seed, nodes=nodes)
        self._position = {task: position for position, task in enumerate(groups.tasks)}
        self._tasks = groups.tasks

    def ask(self) -> list[int]:
        """Return the next task, in a list; empty when the budget is spent."""
        task = self._evaluator.ask()
        return [] if task is None else [self._position[task]]

    def tell(self, task: int, outcome: int) -> None:
        """Take the outcome of an asked task."""
        self._evaluator.tell(self._tasks[task], outcome)

    def estimate(self) -> float:
        """Return the calibrated decision, a share."""
        return self._evaluator.score(warn=False).estimate

    def details(self) -> dict[str, Any]:
        """Return the posterior in figures.

        Returns
        -------
        dict
            ``estimate``, ``median``, ``mean``, ``sd``, ``low`` and ``high`` (90 % interval),
            ``mean_residual``, ``ess``, ``pareto_k`` (None if all weights are equal) and
            ``trusted``.
        """
        score = self._evaluator.score(warn=False)
        low, high = score.interval(INTERVAL)
        return {
            "estimate": score.estimate,
            "median": score.median,
            "mean": score.mean,
            "sd": score.sd,
            "low": low,
            "high": high,
            "mean_residual": score.mean_residual,
            "ess": score.ess,
            "pareto_k": score.pareto_k if np.isfinite(score.pareto_k) else None,
            "trusted": score.trusted,
        }


@dataclass(frozen=True, eq=False)
class FittedHspr:
    """Groups and configuration of one fold."""

    groups: TaskGroups
    config: Config
    budget: int
    nodes: int

    def start(self, seed: int) -> HsprRun:
        """Start a run on a target."""
        return HsprRun(self.groups, self.config, self.budget, seed, self.nodes)


@dataclass(frozen=True)
class _Fit:
    config: Config
    nodes: int

    def __call__(self, source: ResponseMatrix, budget: int) -> FittedHspr:
        return FittedHspr(group_tasks(source, fit_items(source)), self.config, budget, self.nodes)


def hspr_method(config: Config, *, nodes: int = NODES) -> Method:
    """Return HSPR with a configuration that was selected before, on source agents.

    Parameters
    ----------
    config : Config
        The configuration of the fold.
    nodes : int, default 8192
        Nodes of the importance sampler.

    Returns
    -------
    Method
    """
    return Method("hspr", "HSPR", _Fit(config, nodes), SEEDS)
