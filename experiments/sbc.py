"""Simulation-based calibration (SBC) of the production sampler.

Draw a latent state, group rates and all outcomes from the declared model; observe some outcomes
along the path that the evaluator chooses; ask where the truth lies in the posterior. If model and
sampler agree, that place (the PIT) is uniform: over the prior, for the score and for every latent
coordinate. Choosing tasks adaptively does not change that, since a choice depends on the outcomes
observed before it and on nothing else.

Legend of shapes: Q quantities, G groups, N tasks.

References
----------
.. [1] Talts et al. (2018), Validating Bayesian inference algorithms with simulation-based
   calibration, https://arxiv.org/abs/1804.06788
.. [2] Modrák et al. (2023), Simulation-based calibration checking for Bayesian computation: the
   choice of test quantities shapes sensitivity, Bayesian Analysis, https://doi.org/10.1214/23-BA1404
"""

from __future__ import annotations

import hashlib
import os
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from ..acquisition.budget import budget_tasks
from ..acquisition.evaluator import Evaluator
from ..inference.sobol import NODES
from ..models.config import Config
from ..models.declaration import build_model
from ..models.errors import DataError, SamplingWarning
from ..models.groups import TaskGroups
from .checkpoint import Checkpoint
from .parallel import run_jobs
from .uniformity import PROB, inside_band, randomised_pit, uniformity_p_value

SIMULATIONS = 1000
SEED = 20261005
ROWS_FILE = "simulations.json"
SCORE = "score"
_LIBRARIES = ("numpy", "scipy", "pymc", "pytensor")


@dataclass(frozen=True, eq=False)
class Calibration:
    """The simulations and what they were made with.

    Attributes
    ----------
    pit : pandas.DataFrame, shape (simulations, Q)
        PIT of each latent coordinate and of the score, one row a simulation.
    runs : pandas.DataFrame
        One row a simulation: truth (score), estimate, ess, trusted.
    settings : dict
        All that determines the simulations.
    """

    pit: pd.DataFrame
    runs: pd.DataFrame
    settings: dict[str, Any]

    def summary(self, *, prob: float = PROB) -> dict[str, Any]:
        """Return settings and verdict, ready for JSON.

        Parameters
        ----------
        prob : float, default 0.95
            Probability of the simultaneous band.

        Returns
        -------
        dict
            The settings; by quantity, whether its PIT lies inside the band and the p-value of
            uniformity; ``inside``, whether all do; and ``passed``: whether all lie inside bands
            that a correct sampler leaves with probability 1 - `prob` over all quantities together
            (Bonferroni).
        """
        quantities = {
            name: {
                "p_value": uniformity_p_value(values.to_numpy()),
                "inside": inside_band(values.to_numpy(), prob=prob),
            }
            for name, values in self.pit.items()
        }
        joint = (1 - prob) / len(quantities)
        return {
            **self.settings,
            "simulations": len(self.pit),
            "untrusted_runs": int((~self.runs["trusted"]).sum()),
            "median_ess": float(self.runs["ess"].median()),
            "prob": prob,
            "quantities": quantities,
            "inside": all(result["inside"] for result in quantities.values()),
            "passed": all(result["p_value"] > joint for result in quantities.values()),
        }

    def to_tree(self) -> xr.DataTree:
        """Return the PITs as ArviZ's plots of calibration take them.

        Returns
        -------
        xarray.DataTree
            Group ``prior_sbc``: one variable a quantity, dimensions chain (1) and draw
            (simulations).
        """
        values = {name: (("chain", "draw"), column[None]) for name, column in self._columns()}
        return xr.DataTree.from_dict({"prior_sbc": xr.Dataset(values)})

    def _columns(self) -> list[tuple[str, np.ndarray]]:
        return [(str(name), values.to_numpy()) for name, values in self.pit.items()]


@dataclass(frozen=True, eq=False)
class _Job:
    """One simulated agent, to be evaluated."""

    number: int
    seeds: np.random.SeedSequence
    z: np.ndarray
    outcomes: np.ndarray
    groups: TaskGroups
    config: Config
    budget: int
    nodes: int
    proposal: str


def run_sbc(
    groups: TaskGroups,
    config: Config | None = None,
    *,
    budget: int | float,
    simulations: int = SIMULATIONS,
    nodes: int = NODES,
    proposal: str = "gaussian",
    seed: int = SEED,
    output_dir: str | os.PathLike[str] | None = None,
    n_jobs: int = 1,
    progress: bool = False,
) -> Calibration:
    """Simulate agents from the declared model and find their place in the sampler's posterior.

    Parameters
    ----------
    groups : TaskGroups
        Groups with averaged item parameters.
    config : Config, default Config()
        Model and criterion; the decision plays no part.
    budget : int or float
        Tasks to observe: a whole number, or a share of the tasks as a float.
    simulations : int, default 1000
        Number of simulated agents.
    nodes : int, default 8192
        Nodes of the importance sampler.
    proposal : {"gaussian", "student"}, default "gaussian"
        Proposal of the importance sampler.
    seed : int, default 20261005
        Seed of the simulations; the first ones of a longer run are those of a shorter one.
    output_dir : path-like, default None
        Existing folder whose file ``simulations.json`` keeps the finished simulations; a run that
        was killed continues from there. None keeps nothing.
    n_jobs : int, default 1
        Parallel workers, as joblib counts them; the results do not depend on them.
    progress : bool, default False
        Whether to show a progress bar on stderr, if that is a terminal.

    Returns
    -------
    Calibration

    Raises
    ------
    DataError
        If a setting is out of its range, or the folder cannot be written or holds simulations of
        other settings.
    """
    config = Config() if config is None else config
    for name, value, least in (("simulations", simulations, 2), ("seed", seed, 0)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise DataError(
                f"{name} must be a whole number from {least}, got {value!r}; try "
                f"{SIMULATIONS if name == 'simulations' else SEED}"
            )
    tasks = budget_tasks(budget, len(groups.tasks))
    settings = {
        "bank": groups.bank,
        "tasks": len(groups.tasks),
        "groups": len(groups.size),
        "groups_digest": _digest(groups),
        "config": config.to_dict(),
        "budget": tasks,
        "nodes": nodes,
        "proposal": proposal,
        "seed": seed,
        "versions": {"hspr": _own_version()} | {name: version(name) for name in _LIBRARIES},
    }
    file = None if output_dir is None else Path(output_dir) / ROWS_FILE
    with Checkpoint(file, settings) as checkpoint:
        z, outcomes = draw_agents(groups, config, simulations, seed=seed)
        jobs = [
            _Job(number, seeds, z[number], outcomes[number], groups, config, tasks, nodes, proposal)
            for number, seeds in enumerate(np.random.SeedSequence(seed).spawn(simulations))
            if number not in checkpoint.rows
        ]
        for number, row in run_jobs(
            _simulate, jobs, n_jobs=n_jobs, description="calibration", progress=progress
        ):
            checkpoint.add(number, row)
        rows = [checkpoint.rows[number] for number in range(simulations)]
    return Calibration(
        pit=pd.DataFrame([row["pit"] for row in rows]),
        runs=pd.DataFrame([{k: v for k, v in row.items() if k != "pit"} for row in rows]),
        settings=settings,
    )


def draw_agents(
    groups: TaskGroups, config: Config, count: int, *, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw latent states and the outcomes of all tasks from the declared model.

    Parameters
    ----------
    groups : TaskGroups
        Groups with averaged item parameters.
    config : Config
        Rank, precision and kappa.
    count : int
        Number of agents M.
    seed : int
        Seed of the draws; the first agents of more are those of fewer.

    Returns
    -------
    z : numpy.ndarray, shape (M, K)
        Latent states.
    outcomes : numpy.ndarray of int, shape (M, N)
        Outcomes in the order of ``groups.tasks``.
    """
    # As many observations as tasks; their values play no part in a draw from the prior.
    model = build_model(
        groups, config, successes=np.zeros_like(groups.size), trials=np.asarray(groups.size)
    )
    z, by_group = pm.draw(
        [model["z"], model["outcome"]], draws=count, random_seed=seed, mode="FAST_COMPILE"
    )
    outcomes = np.empty_like(by_group)
    # The model has its observations group by group.
    outcomes[:, np.argsort(groups.group_of_task, kind="stable")] = by_group
    return z, outcomes


def _simulate(job: _Job) -> tuple[int, dict[str, Any]]:
    """Evaluate one simulated agent and find the truth's place in its posterior."""
    query, ties = job.seeds.spawn(2)
    truth = dict(zip(job.groups.tasks, job.outcomes.tolist(), strict=True))
    evaluator = Evaluator(
        job.groups,
        job.config,
        budget=job.budget,
        seed=int(query.generate_state(1)[0]),
        nodes=job.nodes,
        proposal=job.proposal,
    )
    while (task := evaluator.ask()) is not None:
        evaluator.tell(task, truth[task])
    with warnings.catch_warnings():
        # The rows say for themselves whether they are trusted.
        warnings.simplefilter("ignore", SamplingWarning)
        score = evaluator.score()
    arrays, family = evaluator.sampler.arrays, evaluator.sampler.family
    solved = int(job.outcomes.sum())
    uniform = np.random.default_rng(ties).random(len(job.z) + 1)
    pit = {
        f"{family.latent}[{label}]": randomised_pit(
            arrays.z[:, k], job.z[k], uniform[k], weight=arrays.weight
        )
        for k, label in enumerate(family.coords["latent"])
    }
    draws = np.rint(score.draws * score.n_tasks)
    pit[SCORE] = randomised_pit(draws, solved, uniform[-1])
    return job.number, {
        "pit": pit,
        "truth": solved / score.n_tasks,
        "estimate": score.estimate,
        "ess": score.ess,
        "trusted": score.trusted,
    }


def _digest(groups: TaskGroups) -> str:
    """Return a fingerprint of all that a simulation reads of the groups."""
    digest = hashlib.sha256("\n".join(groups.tasks).encode())
    for name in ("group_of_task", "size", "intercept", "slope", "loading"):
        digest.update(np.ascontiguousarray(getattr(groups, name)).tobytes())
    return digest.hexdigest()[:16]


def _own_version() -> str:
    from .. import __version__

    return __version__
