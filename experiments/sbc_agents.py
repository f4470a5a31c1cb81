"""One simulation of the calibration: draw an agent from the model, evaluate it, find the truth.

A latent state, group rates and all outcomes are drawn from the declared model; some outcomes are
observed along the path that the evaluator chooses; then the truth's place in the posterior is its
PIT. Choosing tasks adaptively does not change its distribution, since a choice depends on the
outcomes observed before it and on nothing else.

Legend of shapes: M agents, N tasks, K latent coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

from ..acquisition.evaluator import Evaluator
from ..inference.decision import score_posterior
from ..models.config import Config
from ..models.declaration import build_model
from ..models.groups import TaskGroups
from .uniformity import randomised_pit

SCORE = "score"


@dataclass(frozen=True, eq=False)
class SimulatedAgent:
    """One simulated agent, to be evaluated.

    Attributes
    ----------
    number : int
        Number of the simulation.
    seeds : numpy.random.SeedSequence
        Of the query path and of the ties.
    z : numpy.ndarray, shape (K,)
        The true latent state.
    outcomes : numpy.ndarray of int, shape (N,)
        The outcomes of all tasks.
    groups, config, budget, nodes, draws, proposal
        As `run_sbc` takes them; the budget as a number of tasks.
    """

    number: int
    seeds: np.random.SeedSequence
    z: np.ndarray
    outcomes: np.ndarray
    groups: TaskGroups
    config: Config
    budget: int
    nodes: int
    draws: int
    proposal: str


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


def evaluate_simulated(job: SimulatedAgent) -> tuple[int, dict[str, Any]]:
    """Evaluate one simulated agent and find the truth's place in its posterior.

    Parameters
    ----------
    job : SimulatedAgent
        The agent.

    Returns
    -------
    number : int
        Number of the simulation.
    row : dict
        pit (of each latent coordinate and the score), truth, estimate, ess, pareto_k (None if it is
        not finite), trusted.
    """
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
    score = score_posterior(evaluator.sampler.state(), draws=job.draws)
    arrays, family = evaluator.sampler.arrays, evaluator.sampler.family
    solved = int(job.outcomes.sum())
    uniform = np.random.default_rng(ties).random(len(job.z) + 1)
    pit = {
        f"{family.latent}[{label}]": randomised_pit(
            arrays.z[:, k], job.z[k], uniform[k], weight=arrays.weight
        )
        for k, label in enumerate(family.coords["latent"])
    }
    totals = np.rint(score.draws * score.n_tasks)
    pit[SCORE] = randomised_pit(totals, solved, uniform[-1])
    return job.number, {
        "pit": pit,
        "truth": solved / score.n_tasks,
        "estimate": score.estimate,
        "ess": score.ess,
        "pareto_k": score.pareto_k if np.isfinite(score.pareto_k) else None,
        "trusted": score.trusted,
    }
