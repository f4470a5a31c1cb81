"""Simulation-based calibration (SBC) of the production sampler.

Agents drawn from the declared model are evaluated (`experiments.sbc_agents`), and the place of the
truth in each posterior, the PIT, is compared with the uniform distribution that it has over the
prior if model and sampler agree.

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
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..acquisition.budget import budget_tasks
from ..inference.decision import DRAWS
from ..inference.proposal import PROPOSALS, require_nodes
from ..inference.sobol import NODES
from ..models.config import Config
from ..models.errors import DataError
from ..models.groups import TaskGroups, group_tasks
from ..models.items import fit_items
from .checkpoint import Checkpoint
from .files import made_folder
from .parallel import require_jobs, run_jobs
from .provenance import versions
from .sbc_agents import SimulatedAgent, draw_agents, evaluate_simulated
from .simulate import simulate_bank
from .uniformity import PROB, inside_band, uniformity_p_value

SIMULATIONS = 1000
SEED = 20261005
ROWS_FILE = "simulations.json"
# The setting of docs/calibration.md: small enough for a thousand evaluations, with groups of
# several tasks, one refresh of the nodes on the way and outcomes told after it.
REFERENCE_CONFIG = Config(rank=2, precision=4.0, kappa=1.0)
REFERENCE_BUDGET = 12


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


def reference_groups() -> TaskGroups:
    """Return the groups of the reference setting: 72 tasks, fitted to 12 simulated agents.

    Returns
    -------
    TaskGroups
    """
    bank = simulate_bank(agents=12, tasks=72, seed=0, name="simulated-72")
    return group_tasks(bank, fit_items(bank))


def run_sbc(
    groups: TaskGroups,
    config: Config | None = None,
    *,
    budget: int | float,
    simulations: int = SIMULATIONS,
    nodes: int = NODES,
    draws: int = DRAWS,
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
        Nodes of the importance sampler, a power of two.
    draws : int, default 131072
        Predictive draws of the score.
    proposal : {"gaussian", "student"}, default "gaussian"
        Proposal of the importance sampler.
    seed : int, default 20261005
        Seed of the simulations; the first ones of a longer run are those of a shorter one.
    output_dir : path-like, default None
        Folder whose file ``simulations.json`` keeps the finished simulations; it is made if it does
        not exist, and a run that was killed continues from there. None keeps nothing.
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
    for name, value, least, example in (
        ("simulations", simulations, 2, SIMULATIONS),
        ("draws", draws, 1, DRAWS),
        ("seed", seed, 0, SEED),
    ):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise DataError(
                f"{name} must be a whole number from {least}, got {value!r}; try {example}"
            )
    if proposal not in PROPOSALS:
        raise DataError(f"proposal must be one of {', '.join(PROPOSALS)}, got {proposal!r}")
    require_nodes(nodes)
    tasks = budget_tasks(budget, len(groups.tasks))
    settings = {
        "bank": groups.bank,
        "tasks": len(groups.tasks),
        "groups": len(groups.size),
        "groups_digest": _digest(groups),
        "config": config.to_dict(),
        "budget": tasks,
        "nodes": nodes,
        "draws": draws,
        "proposal": proposal,
        "seed": seed,
        "versions": versions(),
    }
    require_jobs(n_jobs)
    file = None if output_dir is None else made_folder(output_dir) / ROWS_FILE
    with Checkpoint(file, settings) as checkpoint:
        z, outcomes = draw_agents(groups, config, simulations, seed=seed)
        jobs = [
            SimulatedAgent(
                number=number,
                seeds=seeds,
                z=z[number],
                outcomes=outcomes[number],
                groups=groups,
                config=config,
                budget=tasks,
                nodes=nodes,
                draws=draws,
                proposal=proposal,
            )
            for number, seeds in enumerate(np.random.SeedSequence(seed).spawn(simulations))
            if number not in checkpoint.rows
        ]
        for number, row in run_jobs(
            evaluate_simulated, jobs, n_jobs=n_jobs, description="calibration", progress=progress
        ):
            checkpoint.add(number, row)
        rows = [checkpoint.rows[number] for number in range(simulations)]
    return Calibration(
        pit=pd.DataFrame([row["pit"] for row in rows]),
        runs=pd.DataFrame([{k: v for k, v in row.items() if k != "pit"} for row in rows]),
        settings=settings,
    )


def _digest(groups: TaskGroups) -> str:
    """Return a fingerprint of all that a simulation reads of the groups."""
    digest = hashlib.sha256("\n".join(groups.tasks).encode())
    for name in ("group_of_task", "size", "intercept", "slope", "loading"):
        digest.update(np.ascontiguousarray(getattr(groups, name)).tobytes())
    return digest.hexdigest()[:16]
