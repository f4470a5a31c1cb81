"""Archive replay: evaluate agents whose outcomes are known, as if they were not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..acquisition.budget import budget_tasks, own_budget
from ..acquisition.evaluator import Evaluator
from ..inference.sobol import NODES
from ..models.config import Config
from ..models.errors import DataError
from ..models.groups import TaskGroups, group_tasks
from ..models.items import fit_items
from ..models.responses import ResponseMatrix
from .files import written_whole
from .folds import FOLD_SEED, FOLDS, Fold, agent_folds
from .metrics import summarise_runs
from .parallel import require_jobs, run_jobs

INTERVAL = 0.9


@dataclass(frozen=True, eq=False)
class Replay:
    """The runs of a replay and what they were run with.

    Attributes
    ----------
    runs : pandas.DataFrame
        One row a target and seed, in bank order: agent, fold, seed, estimate, median, mean, sd,
        low, high (90 % interval), ess, pareto_k, trusted, seconds (wall), cpu_seconds, queried
        (tuple of task ids in order), truth.
    settings : dict
        Bank, budget, configuration, folds and seeds.
    """

    runs: pd.DataFrame
    settings: dict[str, Any]

    def summary(self) -> dict[str, Any]:
        """Return settings and pooled metrics, ready for JSON.

        Returns
        -------
        dict
            The settings, the metrics of `summarise_runs`, ``runs``, ``untrusted_runs``,
            ``seconds_per_run`` and ``cpu_seconds_per_run``.
        """
        return {
            **self.settings,
            **summarise_runs(self.runs),
            "runs": len(self.runs),
            "untrusted_runs": int((~self.runs["trusted"]).sum()),
            "seconds_per_run": float(self.runs["seconds"].mean()),
            "cpu_seconds_per_run": float(self.runs["cpu_seconds"].mean()),
        }

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the runs as a table.

        Parameters
        ----------
        path : str or path-like
            Target file; its column queried holds a JSON list of task ids.

        Returns
        -------
        pathlib.Path
            The target.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        queried = [json.dumps(tasks, ensure_ascii=False) for tasks in self.runs["queried"]]
        with written_whole(path) as part:
            self.runs.assign(queried=queried).to_csv(part, index=False)
        return Path(path)


@dataclass(frozen=True, eq=False)
class _Job:
    """One run: a target agent, its groups fitted without it, and a query seed."""

    groups: TaskGroups
    outcomes: dict[str, int]
    agent: str
    fold: int
    seed: int
    config: Config
    budget: int
    nodes: int


def replay(
    bank: ResponseMatrix,
    config: Config | None = None,
    *,
    budget: int | float = 0.1,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    targets: Sequence[str] | None = None,
    folds: int = FOLDS,
    fold_seed: int = FOLD_SEED,
    nodes: int = NODES,
    n_jobs: int = 1,
    progress: bool = False,
) -> Replay:
    """Evaluate every agent of a bank as a held-out target.

    Parameters
    ----------
    bank : ResponseMatrix, shape (m, N)
        The archive. Missing cells need a policy; under "model" a target is evaluated on the tasks
        that it has an outcome for.
    config : Config, default Config()
        One configuration for all folds.
    budget : int or float, default 0.1
        Tasks or share of tasks that a run may query; under "model", the share is one of the
        target's own tasks, and a number is lowered to how many it has.
    seeds : sequence of int, default (0, 1, 2, 3, 4)
        Query seeds; each target is run once a seed.
    targets : sequence of str, default None
        Agents to evaluate; None means all. The folds stay those of the whole bank.
    folds, fold_seed : int, default 4 and 42
        Number and shuffle of the folds over agents.
    nodes : int, default 8192
        Nodes of the importance sampler.
    n_jobs : int, default 1
        Parallel workers, as joblib counts them (-1 uses all cores); the results do not depend on
        them.
    progress : bool, default False
        Whether to show a progress bar, on stderr and only if that is a terminal.

    Returns
    -------
    Replay

    Raises
    ------
    DataError
        If the bank is incomplete without a policy, an agent is unknown, or a setting is out of
        its range.
    """
    config = Config() if config is None else config
    bank.require_complete()
    tasks = budget_tasks(budget, len(bank.tasks))
    seeds = _validated_seeds(seeds)
    require_jobs(n_jobs)
    if isinstance(targets, str):
        raise DataError(f"targets must be a list of agents, got {targets!r}; put it in brackets")
    wanted = set(bank.agents if targets is None else bank.select(targets).agents)
    plan = agent_folds(bank, folds=folds, seed=fold_seed)
    jobs = [
        _Job(
            groups,
            outcomes,
            agent,
            fold.index,
            seed,
            config,
            own_budget(budget, len(outcomes)),
            nodes,
        )
        for fold in plan
        for agent, groups, outcomes in _targets(bank, fold, wanted)
        for seed in seeds
    ]
    done = run_jobs(_run, jobs, n_jobs=n_jobs, description=f"replay {bank.name}", progress=progress)
    rows = pd.DataFrame(list(done))
    order = {agent: row for row, agent in enumerate(bank.agents)}
    rows = rows.sort_values(
        ["agent", "seed"], key=lambda c: c.map(order) if c.name == "agent" else c
    )
    settings = {
        "bank": bank.name,
        "agents": len(bank.agents),
        "tasks": len(bank.tasks),
        "budget": tasks,
        "config": config.to_dict(),
        "folds": len(plan),
        "fold_seed": fold_seed,
        "seeds": list(seeds),
        "nodes": nodes,
        "missing": bank.missing,
        "interval_prob": INTERVAL,
    }
    return Replay(rows.reset_index(drop=True), settings)


def _targets(
    bank: ResponseMatrix, fold: Fold, wanted: set[str]
) -> Iterator[tuple[str, TaskGroups, dict[str, int]]]:
    """Yield the wanted targets of a fold with their groups and known outcomes."""
    targets = [agent for agent in fold.target if agent in wanted]
    if not targets:
        return
    source = bank.select(fold.source)
    shared = group_tasks(source, fit_items(source))
    for agent in targets:
        truth = bank.outcomes.sel(agent=agent).values
        known = ~np.isnan(truth)
        if known.all():
            groups = shared
        elif known.any():
            part = ResponseMatrix(source.outcomes[:, known], name=bank.name, missing=bank.missing)
            groups = group_tasks(part, fit_items(part))
        else:
            raise DataError(f"agent {agent!r} of bank {bank.name!r} has no outcome; leave it out")
        yield agent, groups, dict(zip(groups.tasks, truth[known].astype(int).tolist(), strict=True))


def _run(job: _Job) -> dict[str, Any]:
    """Replay one target: reveal queried outcomes only, decide, then read the truth."""
    started, started_cpu = time.perf_counter(), time.process_time()
    evaluator = Evaluator(job.groups, job.config, budget=job.budget, seed=job.seed, nodes=job.nodes)
    while (task := evaluator.ask()) is not None:
        evaluator.tell(task, job.outcomes[task])
    score = evaluator.score(warn=False)
    seconds = time.perf_counter() - started
    cpu_seconds = time.process_time() - started_cpu
    low, high = score.interval(INTERVAL)
    record = {
        "agent": job.agent,
        "fold": job.fold,
        "seed": job.seed,
        "estimate": score.estimate,
        "median": score.median,
        "mean": score.mean,
        "sd": score.sd,
        "low": low,
        "high": high,
        "ess": score.ess,
        "pareto_k": score.pareto_k,
        "trusted": score.trusted,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "queried": tuple(evaluator.outcomes),
    }
    return record | {"truth": float(np.mean(list(job.outcomes.values())))}


def _validated_seeds(seeds: Sequence[int]) -> list[int]:
    values = list(seeds) if isinstance(seeds, Iterable) else [seeds]
    whole = all(isinstance(v, Integral) and not isinstance(v, bool) and v >= 0 for v in values)
    if not values or not whole or len(set(values)) != len(values):
        raise DataError(f"seeds must be distinct whole numbers from 0, got {seeds!r}; try range(5)")
    return [int(value) for value in values]
