"""Source-only selection of a configuration, in the paper's three stages (section 3.6, appendix A).

Each source agent is held out in turn; its row is removed before the item fit, the residual factors
and the groups. Nothing of a target enters.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..acquisition.budget import budget_tasks
from ..inference.sobol import NODES
from ..models.config import CRITERIA, Config
from ..models.errors import DataError
from ..models.responses import ResponseMatrix
from .checkpoint import Checkpoint
from .files import made_folder
from .metrics import PERCENT
from .parallel import require_jobs, run_jobs
from .provenance import digest, file_stem, versions
from .selection_jobs import CALIBRATIONS, SEEDS, STAGES, Job, Setting, run_job

# The prior of the residual coordinates, or of the ability at rank 0, in grid order.
PRIORS = (*product((1, 2, 4), (1.0, 4.0, 8.0)), (0, 0.25), (0, 1.0))
KAPPAS = (0.25, 1.0, 4.0, 16.0)
# Without group uncertainty a rate is its mean, q = p: the limit of strong group rates. At this
# kappa the two differ by less than 1e-6 and every likelihood by less than 1e-11.
NO_GROUP_KAPPA = 1e12
# Errors in percentage points are compared to this many decimals: ties are ties despite rounding.
_DECIMALS = 9


@dataclass(frozen=True, eq=False)
class Selection:
    """A selected configuration and the whole grid that it was selected from.

    Attributes
    ----------
    config : Config
        The winner, with the median decision.
    mean_calibration : float
        Calibration that the hierarchical stage chose for the decision by the posterior mean.
    grid : pandas.DataFrame
        One row a setting, in grid order: stage, rank, precision, kappa (None without group
        uncertainty), criterion, calibration, mae, max_error (percentage points), selected.
    settings : dict
        What determined it: bank, agents, tasks, budget, nodes, seeds, digest of the source,
        versions.
    """

    config: Config
    mean_calibration: float
    grid: pd.DataFrame
    settings: dict[str, Any]

    def summary(self) -> dict[str, Any]:
        """Return configuration, grid and settings, ready for JSON.

        Returns
        -------
        dict
        """
        return {
            **self.settings,
            "config": self.config.to_dict(),
            "mean_calibration": self.mean_calibration,
            "grid": self.grid.astype(object).where(self.grid.notna(), None).to_dict("records"),
        }


def select_config(
    source: ResponseMatrix,
    *,
    budget: int | float = 0.1,
    nodes: int = NODES,
    cache_dir: str | os.PathLike[str] | None = None,
    n_jobs: int = 1,
    progress: bool = False,
) -> Config:
    """Select the configuration of a fold on its source agents alone.

    Parameters are those of `run_selection`, which also returns the grid.

    Returns
    -------
    Config
    """
    return run_selection(
        source, budget=budget, nodes=nodes, cache_dir=cache_dir, n_jobs=n_jobs, progress=progress
    ).config


def run_selection(
    source: ResponseMatrix,
    *,
    budget: int | float = 0.1,
    nodes: int = NODES,
    cache_dir: str | os.PathLike[str] | None = None,
    n_jobs: int = 1,
    progress: bool = False,
) -> Selection:
    """Select a configuration by leave-one-source-agent-out validation in three stages.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        The source agents: hold the targets out before. Missing cells need a policy; under "model" a
        held-out agent is evaluated on the tasks that it has an outcome for.
    budget : int or float, default 0.1
        Tasks or share of tasks that a run may query.
    nodes : int, default 8192
        Nodes of the importance sampler.
    cache_dir : str or path-like, default None
        Folder of the finished paths, made if it is missing. A selection that was interrupted goes
        on from there; None keeps them in memory only. Files are named by the source's digest and
        hold all settings that determine the paths.
    n_jobs : int, default 1
        Parallel workers, as joblib counts them; the result does not depend on them.
    progress : bool, default False
        Whether to show a progress bar a stage, on stderr and only if that is a terminal.

    Returns
    -------
    Selection

    Raises
    ------
    DataError
        If there are fewer than two source agents, the matrix is incomplete without a policy, an
        agent has no outcome, or a setting is out of its range.

    Notes
    -----
    Global stage: 44 settings (`PRIORS` x criterion x calibration) of the model without group
    uncertainty on deterministic paths, decided by the posterior mean; keeps rank and precision.
    Hierarchical stage: 16 settings (`KAPPAS` x criterion x calibration) on query seeds 0, 1, 2, by
    the posterior mean; keeps kappa and criterion. Median stage: calibration of the median on those
    paths. Each minimises the mean absolute error over held-out agents and seeds; ties go to the
    smaller maximum over agents of the seed-averaged error, then to the grid's order.
    """
    source.require_complete()
    require_jobs(n_jobs)
    if len(source.agents) < 2:
        raise DataError(
            f"selection holds one source agent out at a time, but bank {source.name!r} has only "
            f"{source.agents[0]!r}; add source agents or give a configuration"
        )
    empty = np.isnan(source.values).all(axis=1)
    if empty.any():
        agent = source.agents[int(np.flatnonzero(empty)[0])]
        raise DataError(f"source agent {agent!r} has no outcome; leave it out")
    settings: dict[str, Any] = {
        "bank": source.name,
        "source": digest(source),
        "agents": len(source.agents),
        "tasks": len(source.tasks),
        "missing": source.missing,
        "budget": budget_tasks(budget, len(source.tasks)),
        "share": None if isinstance(budget, int) else float(budget),
        "nodes": nodes,
        "seeds": list(SEEDS),
        "versions": versions(),
    }
    with Checkpoint(_cache_file(cache_dir, settings), settings) as checkpoint:
        stages = _Stages(source, budget, nodes, checkpoint, n_jobs, progress)
        first = stages.run(
            "global",
            [Setting(r, g, NO_GROUP_KAPPA, c) for (r, g) in PRIORS for c in CRITERIA],
        )
        rank, precision = first.winner.rank, first.winner.precision
        second = stages.run(
            "hierarchical", [Setting(rank, precision, k, c) for k in KAPPAS for c in CRITERIA]
        )
        third = stages.run("median", [second.winner])
    grid = pd.concat([stage.grid for stage in (first, second, third)], ignore_index=True)
    return Selection(
        Config(*third.winner, calibration=third.calibration, decision="median"),
        mean_calibration=second.calibration,
        grid=grid,
        settings=settings,
    )


@dataclass(frozen=True, eq=False)
class _Stage:
    grid: pd.DataFrame
    winner: Setting
    calibration: float


class _Stages:
    """Runs the jobs of one stage after another, and chooses."""

    def __init__(
        self,
        source: ResponseMatrix,
        budget: int | float,
        nodes: int,
        checkpoint: Checkpoint,
        n_jobs: int,
        progress: bool,
    ) -> None:
        self._source, self._budget, self._nodes = source, budget, nodes
        self._checkpoint, self._n_jobs, self._progress = checkpoint, n_jobs, progress

    def run(self, stage: str, settings: Sequence[Setting]) -> _Stage:
        """Run what the stage lacks, one job a held-out agent, and choose among its settings."""
        agents = self._source.agents
        first = STAGES.index(stage) * len(agents)
        rows = self._checkpoint.rows
        # The median stage goes on from the paths of the stage before.
        before = first - len(agents) if stage == "median" else None
        jobs = [
            Job(
                source=self._source,
                agent=agent,
                number=first + position,
                stage=stage,
                settings=tuple(settings),
                budget=self._budget,
                nodes=self._nodes,
                paths=None if before is None else rows[before + position]["paths"],
            )
            for position, agent in enumerate(agents)
            if first + position not in rows
        ]
        title = f"select {self._source.name}: {stage} stage"
        done = run_jobs(
            run_job, jobs, n_jobs=self._n_jobs, description=title, progress=self._progress
        )
        for number, row in done:
            self._checkpoint.add(number, row)
        return _choose(stage, settings, [rows[first + place] for place in range(len(agents))])


def _choose(stage: str, settings: Sequence[Setting], rows: Sequence[dict[str, Any]]) -> _Stage:
    """Average the errors of a stage and take the best setting."""
    grid = []
    for setting, (position, calibration) in product(settings, enumerate(CALIBRATIONS)):
        # Shape (m, seeds): absolute errors in percentage points.
        errors = PERCENT * np.array(
            [[path["errors"][position] for path in setting.of(row["paths"])] for row in rows]
        )
        grid.append(
            {
                "stage": stage,
                **setting._asdict(),
                "calibration": calibration,
                "mae": round(float(errors.mean()), _DECIMALS),
                "max_error": round(float(errors.mean(axis=1).max()), _DECIMALS),
            }
        )
    table = pd.DataFrame(grid)
    best = int(np.lexsort((table.index, table["max_error"], table["mae"]))[0])
    table["selected"] = table.index == best
    if stage == "global":
        table["kappa"] = None
    winner = settings[best // len(CALIBRATIONS)]
    return _Stage(table, winner, float(table["calibration"][best]))


def _cache_file(cache_dir: str | os.PathLike[str] | None, settings: dict[str, Any]) -> Path | None:
    if cache_dir is None:
        return None
    stem = file_stem("selection", settings["bank"], digest(settings)[:12])
    return made_folder(cache_dir) / f"{stem}.json"
