"""One held-out source agent in one stage of the selection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from ..acquisition.budget import own_budget
from ..inference.decision import calibrated, score_posterior
from ..inference.sobol import SobolSampler
from ..models.config import Config
from ..models.declaration import build_model
from ..models.groups import TaskGroups, group_tasks
from ..models.items import fit_items
from ..models.responses import ResponseMatrix
from .evaluation import sampler_after
from .paths import DETERMINISTIC, query_paths

STAGES = ("global", "hierarchical", "median")
CALIBRATIONS = (0.0, 0.5)
SEEDS = (0, 1, 2)


class Setting(NamedTuple):
    """What makes a path of the selection, in the order of `Config`."""

    rank: int
    precision: float
    kappa: float
    criterion: str

    def of(self, paths: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return those of recorded paths that this setting made."""
        fields = self._asdict().items()
        return [path for path in paths if all(path[name] == value for name, value in fields)]


@dataclass(frozen=True, eq=False)
class Job:
    """The work of one held-out agent in one stage.

    Attributes
    ----------
    source : ResponseMatrix, shape (m, N)
        All source agents; the held-out row is removed before anything is fitted.
    agent : str
        The held-out agent.
    number : int
        Number of the job among all of the selection.
    stage : {"global", "hierarchical", "median"}
        Stage.
    settings : tuple of Setting
        Settings of the stage, those of one model side by side.
    budget : int or float
        Tasks or share of tasks that a path may query.
    nodes : int
        Nodes of the importance sampler.
    paths : list of dict or None
        The agent's paths of the hierarchical stage, which the median stage goes on from.
    """

    source: ResponseMatrix
    agent: str
    number: int
    stage: str
    settings: tuple[Setting, ...]
    budget: int | float
    nodes: int
    paths: list[dict[str, Any]] | None


def run_job(job: Job) -> tuple[int, dict[str, Any]]:
    """Run the paths of a held-out agent and return their errors.

    Parameters
    ----------
    job : Job
        The job.

    Returns
    -------
    number : int
        Number of the job.
    row : dict
        ``agent`` and ``paths``: for each setting and seed the fields of the setting, ``seed``,
        ``errors`` (absolute, as shares, by calibration) and in the hierarchical stage ``tasks``,
        the queried positions in order.
    """
    groups, outcomes = without_agent(job.source, job.agent)
    walk = _medians if job.stage == "median" else _means
    return job.number, {"agent": job.agent, "paths": list(walk(job, groups, outcomes))}


def without_agent(source: ResponseMatrix, agent: str) -> tuple[TaskGroups, np.ndarray]:
    """Fit groups to all other agents on the tasks that one agent has an outcome for.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        All agents.
    agent : str
        The agent whose row is removed.

    Returns
    -------
    groups : TaskGroups
        N' of the tasks.
    outcomes : numpy.ndarray of int, shape (N',)
        The agent's outcomes on them.
    """
    rest, row = source.hold_out(agent)
    known = ~np.isnan(row.values)
    if not known.all():
        rest = ResponseMatrix(rest.outcomes[:, known], name=rest.name, missing=rest.missing)
    return group_tasks(rest, fit_items(rest)), row.values[known].astype(np.int64)


def _means(job: Job, groups: TaskGroups, outcomes: np.ndarray) -> Iterator[dict[str, Any]]:
    """Walk the paths of every setting and decide by the posterior mean."""
    budget = own_budget(job.budget, len(outcomes))
    seeds = (DETERMINISTIC,) if job.stage == "global" else SEEDS
    for prior, settings in groupby(job.settings, key=lambda setting: setting[:3]):
        # Criteria share the posterior before the first query.
        model = build_model(groups, Config(*prior))
        sampler = SobolSampler(model, nodes=job.nodes, compact=True)
        for setting in settings:
            for path in query_paths(
                groups, sampler, setting.criterion, outcomes, budget=budget, seeds=seeds
            ):
                errors = _errors(path.mean, path.mean_residual, budget, outcomes)
                tasks = {} if job.stage == "global" else {"tasks": list(path.tasks)}
                yield {**setting._asdict(), "seed": path.seed, "errors": errors, **tasks}


def _medians(job: Job, groups: TaskGroups, outcomes: np.ndarray) -> Iterator[dict[str, Any]]:
    """Decide by the median at the end of the paths that the stage before has walked."""
    (setting,) = job.settings
    config = Config(*setting)
    known: dict[tuple[tuple[int, int], ...], tuple[float, float]] = {}
    for path in setting.of(job.paths or []):
        told = tuple((int(groups.group_of_task[t]), int(outcomes[t])) for t in path["tasks"])
        if told not in known:
            state = sampler_after(groups, config, told, nodes=job.nodes).state()
            score = score_posterior(state)
            known[told] = (score.median, score.mean_residual)
        errors = _errors(*known[told], len(told), outcomes)
        yield {**setting._asdict(), "seed": path["seed"], "errors": errors}


def _errors(center: float, mean_residual: float, budget: int, outcomes: np.ndarray) -> list[float]:
    """Return the absolute error by calibration, as shares."""
    observed = budget / len(outcomes)
    truth = float(outcomes.mean())
    return [
        abs(calibrated(center, calibration, mean_residual, observed) - truth)
        for calibration in CALIBRATIONS
    ]
