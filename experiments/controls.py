"""Controls on HSPR's own paths: reconstruction without groups, and the budget along the path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..inference.decision import calibrated, mean_and_residual
from ..models.config import Config
from ..models.groups import TaskGroups, group_tasks
from ..models.items import fit_items
from ..models.responses import ResponseMatrix
from .checkpoint import Checkpoint
from .evaluation import sampler_after
from .files import made_folder
from .folds import Fold, fold_of_target
from .methods.hspr import HsprRun
from .parallel import run_jobs
from .predictions import reveal
from .provenance import digest, file_stem, versions
from .selection import NO_GROUP_KAPPA


@dataclass(frozen=True, eq=False)
class _Job:
    source: ResponseMatrix
    agent: str
    outcomes: np.ndarray
    config: Config
    # (number, seed, queried tasks or none) of each run
    runs: tuple[tuple[int, int, tuple[int, ...]], ...]
    calibration: float
    budgets: tuple[int, ...]
    nodes: int


def matched_paths(
    bank: ResponseMatrix,
    runs: pd.DataFrame,
    *,
    plan: Sequence[Fold],
    configs: dict[int, Config],
    calibrations: dict[int, float],
    nodes: int,
    output_dir: Any,
    n_jobs: int = 1,
    progress: bool = False,
) -> pd.DataFrame:
    """Estimate by the posterior mean without group uncertainty on HSPR's own queries (table 6).

    Parameters
    ----------
    bank : ResponseMatrix, shape (m, N)
        The archive.
    runs : pandas.DataFrame
        HSPR's runs, as `record_predictions` returns them.
    plan : sequence of Fold
        Folds over the agents.
    configs, calibrations : dict of int to Config and float
        By fold: the configuration, and the calibration of the posterior mean.
    nodes : int
        Nodes of the importance sampler.
    output_dir : path-like
        Folder of the finished runs.
    n_jobs, progress
        As `record_predictions` takes them.

    Returns
    -------
    pandas.DataFrame
        agent, fold, seed, estimate.
    """
    queried = {(agent, seed): tasks for agent, seed, tasks in _columns(runs)}
    settings = {"control": "matched", "runs": digest({"q": sorted(map(str, queried.items()))})}
    return _recorded(
        _matched,
        bank,
        settings,
        plan,
        {i: replace(c, kappa=NO_GROUP_KAPPA) for i, c in configs.items()},
        calibrations,
        queried,
        (),
        nodes,
        output_dir,
        n_jobs,
        progress,
    )


def budget_sweep(
    bank: ResponseMatrix,
    *,
    plan: Sequence[Fold],
    configs: dict[int, Config],
    budgets: Sequence[int],
    seeds: Sequence[int],
    nodes: int,
    output_dir: Any,
    n_jobs: int = 1,
    progress: bool = False,
) -> pd.DataFrame:
    """Estimate at several budgets along one nested path a target and seed (figure 3).

    Parameters
    ----------
    bank : ResponseMatrix, shape (m, N)
        The archive.
    plan : sequence of Fold
        Folds over the agents.
    configs : dict of int to Config
        The configuration by fold, the same at every budget.
    budgets : sequence of int
        Numbers of tasks, ascending; equal ones count once.
    seeds : sequence of int
        Query seeds.
    nodes : int
        Nodes of the importance sampler.
    output_dir : path-like
        Folder of the finished runs.
    n_jobs, progress
        As `record_predictions` takes them.

    Returns
    -------
    pandas.DataFrame
        One row a target, seed and budget: agent, fold, seed, budget, estimate.
    """
    queried: dict[tuple[str, int], tuple[int, ...]] = {
        (agent, seed): () for agent in bank.agents for seed in seeds
    }
    # On few tasks several shares are one number.
    budgets = list(dict.fromkeys(budgets))
    settings = {"control": "sweep", "budgets": budgets, "seeds": list(seeds)}
    zero = dict.fromkeys(configs, 0.0)
    frame = _recorded(
        _sweep, bank, settings, plan, configs, zero, queried, tuple(budgets), nodes, output_dir,
        n_jobs, progress,
    )  # fmt: skip
    long = frame.explode("estimate", ignore_index=True)
    long["budget"] = np.tile(budgets, len(frame))
    return long.astype({"estimate": float})


def _columns(runs: pd.DataFrame) -> list[tuple[str, int, tuple[int, ...]]]:
    return list(zip(runs["agent"], runs["seed"], runs["queried"], strict=True))


def _recorded(
    function: Any,
    bank: ResponseMatrix,
    settings: dict[str, Any],
    plan: Sequence[Fold],
    configs: dict[int, Config],
    calibrations: dict[int, float],
    queried: dict[tuple[str, int], tuple[int, ...]],
    budgets: tuple[int, ...],
    nodes: int,
    output_dir: Any,
    n_jobs: int,
    progress: bool,
) -> pd.DataFrame:
    """Run a control for every target, one job each, and keep what is finished."""
    settings = {
        **settings,
        "bank": bank.name,
        "matrix": digest(bank),
        "folds": [[fold.index, list(fold.target)] for fold in plan],
        "configs": {str(i): c.to_dict() for i, c in configs.items()},
        "calibrations": {str(i): c for i, c in calibrations.items()},
        "nodes": nodes,
        "versions": versions(),
    }
    stem = file_stem(settings["control"], bank.name, digest(settings)[:12])
    numbers = {key: number for number, key in enumerate(queried)}
    with Checkpoint(made_folder(output_dir) / f"{stem}.json", settings) as checkpoint:
        jobs = []
        for fold in plan:
            source = bank.select(fold.source)
            for agent in fold.target:
                runs = tuple(
                    (numbers[key], key[1], tasks)
                    for key, tasks in queried.items()
                    if key[0] == agent and numbers[key] not in checkpoint.rows
                )
                if runs:
                    outcomes = bank.outcomes.sel(agent=agent).values
                    config, calibration = configs[fold.index], calibrations[fold.index]
                    jobs.append(
                        _Job(source, agent, outcomes, config, runs, calibration, budgets, nodes)
                    )
        title = f"{settings['control']} on {bank.name}"
        for done in run_jobs(function, jobs, n_jobs=n_jobs, description=title, progress=progress):
            for number, row in done:
                checkpoint.add(number, row)
        frame = pd.DataFrame([checkpoint.rows[number] for number in sorted(checkpoint.rows)])
    frame.insert(1, "fold", frame["agent"].map(fold_of_target(plan)))
    return frame


def _groups(job: _Job) -> TaskGroups:
    return group_tasks(job.source, fit_items(job.source))


def _matched(job: _Job) -> list[tuple[int, dict[str, Any]]]:
    groups = _groups(job)
    known: dict[tuple[tuple[int, int], ...], float] = {}
    done = []
    for number, seed, tasks in job.runs:
        told = tuple((int(groups.group_of_task[t]), int(job.outcomes[t])) for t in tasks)
        if told not in known:
            state = sampler_after(groups, job.config, told, nodes=job.nodes).state()
            mean, residual = mean_and_residual(state)
            observed = len(told) / len(groups.tasks)
            known[told] = calibrated(mean, job.calibration, residual, observed)
        done.append((number, {"agent": job.agent, "seed": seed, "estimate": known[told]}))
    return done


class _SweepRun(HsprRun):
    """A run that decides whenever it reaches one of the budgets."""

    def __init__(self, budgets: tuple[int, ...], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._budgets = budgets
        self._told = 0
        self.estimates = [self.estimate()] if 0 in budgets else []

    def tell(self, task: int, outcome: int) -> None:
        super().tell(task, outcome)
        self._told += 1
        if self._told in self._budgets:
            self.estimates.append(self.estimate())


def _sweep(job: _Job) -> list[tuple[int, dict[str, Any]]]:
    groups = _groups(job)
    done = []
    for number, seed, _ in job.runs:
        run = _SweepRun(job.budgets, groups, job.config, max(job.budgets), seed, job.nodes)
        reveal(run, job.outcomes.__getitem__)
        done.append((number, {"agent": job.agent, "seed": seed, "estimate": run.estimates}))
    return done
