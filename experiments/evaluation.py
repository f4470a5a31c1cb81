"""One evaluation of an agent whose outcomes are known, as if they were not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..acquisition.evaluator import Evaluator
from ..inference.decision import ScorePosterior
from ..inference.sobol import NODES, REFRESH_EVERY, SEED, SobolSampler
from ..models.config import Config
from ..models.declaration import build_model
from ..models.errors import DataError
from ..models.groups import TaskGroups
from ..models.responses import ResponseMatrix
from .progress import with_progress


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An evaluation and what is known about it.

    Attributes
    ----------
    evaluator : Evaluator
        With the outcomes that it was told.
    score : ScorePosterior
        The decision.
    agent : str
        The target.
    source_agents : int
        Agents that the items were fitted to.
    bank_tasks : int
        Tasks of the bank; under missing="model" the target may have outcomes for fewer.
    missing : str
        Policy for missing outcomes.
    truth : float or None
        True score as a share; None if it is unknown.
    """

    evaluator: Evaluator
    score: ScorePosterior
    agent: str
    source_agents: int
    bank_tasks: int
    missing: str
    truth: float | None


def evaluate_agent(
    bank: ResponseMatrix,
    agent: str,
    config: Config | None = None,
    *,
    budget: int | float = 0.1,
    seed: int = 0,
    nodes: int = NODES,
    sobol_seed: int = SEED,
    proposal: str = "gaussian",
    progress: bool = False,
) -> Evaluation:
    """Hold one agent out, reveal the outcomes it is asked for, decide, then read the truth.

    Parameters
    ----------
    bank : ResponseMatrix, shape (m, N)
        The archive; the m - 1 other agents are the source. Missing cells need a policy; under
        "model" the target is evaluated on the tasks that it has an outcome for.
    agent : str
        The target.
    config : Config, default Config()
        Model, criterion and decision.
    budget : int or float, default 0.1
        Tasks to run: a whole number, or a share as a float.
    seed : int, default 0
        Query seed.
    nodes, sobol_seed, proposal
        As `Evaluator` takes them.
    progress : bool, default False
        Whether to show a progress bar, on stderr and only if that is a terminal.

    Returns
    -------
    Evaluation
        Whether the posterior is trusted says its score; no warning is raised.

    Raises
    ------
    DataError
        If the agent is unknown or has no outcome, the bank is incomplete without a policy, or a
        setting is outside its range.
    """
    source, truth = bank.hold_out(agent)
    bank.require_complete()
    known = ~np.isnan(truth.values)
    if not known.any():
        raise DataError(f"agent {agent!r} of bank {bank.name!r} has no outcome; choose another")
    if not known.all():
        source = ResponseMatrix(source.outcomes[:, known], name=bank.name, missing=bank.missing)
    outcomes = dict(zip(source.tasks, truth.values[known].astype(int).tolist(), strict=True))
    evaluator = Evaluator(
        source,
        config,
        budget=budget,
        seed=seed,
        nodes=nodes,
        sobol_seed=sobol_seed,
        proposal=proposal,
        agent=agent,
    )
    for _ in with_progress(
        range(evaluator.budget), description=f"evaluate {agent}", progress=progress
    ):
        task = evaluator.ask()
        if task is not None:
            evaluator.tell(task, outcomes[task])
    return Evaluation(
        evaluator=evaluator,
        score=evaluator.score(warn=False),
        agent=agent,
        source_agents=len(source.agents),
        bank_tasks=len(bank.tasks),
        missing=bank.missing,
        truth=float(np.mean(list(outcomes.values()))),
    )


def retell(
    evaluator: Evaluator,
    *,
    nodes: int = NODES,
    sobol_seed: int = SEED,
    proposal: str = "gaussian",
) -> SobolSampler:
    """Tell a finished evaluation's outcomes to another sampler.

    Parameters
    ----------
    evaluator : Evaluator
        The evaluation.
    nodes, sobol_seed, proposal
        As `Evaluator` takes them.

    Returns
    -------
    SobolSampler
        As if it had been told one outcome after another.
    """
    group_of = evaluator.groups.group_by_task
    return sampler_after(
        evaluator.groups,
        evaluator.config,
        [(group_of[task], outcome) for task, outcome in evaluator.outcomes.items()],
        nodes=nodes,
        sobol_seed=sobol_seed,
        proposal=proposal,
    )


def sampler_after(
    groups: TaskGroups,
    config: Config,
    told: Sequence[tuple[int, int]],
    *,
    nodes: int = NODES,
    sobol_seed: int = SEED,
    proposal: str = "gaussian",
) -> SobolSampler:
    """Return the sampler that was told outcomes one after another, without the way there.

    Parameters
    ----------
    groups : TaskGroups
        The groups.
    config : Config
        Rank, precision and kappa.
    told : sequence of (int, int)
        Group and outcome, in order.
    nodes, sobol_seed, proposal
        As `Evaluator` takes them.

    Returns
    -------
    SobolSampler
        The nodes depend on the counts at their last refresh only, so it starts there.
    """
    start = len(told) - len(told) % REFRESH_EVERY
    successes, trials = np.zeros_like(groups.size), np.zeros_like(groups.size)
    for group, outcome in told[:start]:
        successes[group] += outcome
        trials[group] += 1
    model = build_model(groups, config, successes=successes, trials=trials)
    sampler = SobolSampler(model, nodes=nodes, seed=sobol_seed, proposal=proposal)
    for group, outcome in told[start:]:
        sampler.update(group, outcome)
    return sampler
