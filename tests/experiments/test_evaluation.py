"""One replayed evaluation: what is revealed, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.evaluation import evaluate_agent, retell, sampler_after
from hspr.inference.sobol import SobolSampler
from hspr.models.config import Config
from hspr.models.declaration import build_model
from hspr.models.errors import DataError
from hspr.models.groups import TaskGroups, group_tasks
from hspr.models.items import fit_items
from hspr.models.responses import ResponseMatrix
from hspr.tests.oracles_models import random_matrix

TOLD_SEED = 4805

BANK = random_matrix(7, 24, seed=4804)
FAST: dict[str, Any] = {"budget": 5, "nodes": 128}
CONFIG = Config(rank=1)


def with_holes() -> ResponseMatrix:
    values = BANK.values.copy()
    values[2, :10] = np.nan
    values[4, 20] = np.nan
    return ResponseMatrix.from_arrays(values, agents=BANK.agents, tasks=BANK.tasks)


@pytest.mark.filterwarnings("ignore:the score posterior rests on")
def test_evaluate_agent_is_the_ask_and_tell_loop() -> None:
    evaluation = evaluate_agent(BANK, "a2", CONFIG, seed=3, **FAST)
    source, outcomes = BANK.hold_out("a2")
    evaluator = Evaluator(source, CONFIG, seed=3, **FAST)
    while (task := evaluator.ask()) is not None:
        evaluator.tell(task, int(outcomes.sel(task=task)))
    assert list(evaluation.evaluator.outcomes.items()) == list(evaluator.outcomes.items())
    assert evaluation.score.estimate == evaluator.score().estimate
    assert evaluation.truth == pytest.approx(float(outcomes.mean()))
    assert (evaluation.agent, evaluation.source_agents, evaluation.bank_tasks) == ("a2", 6, 24)
    assert evaluation.evaluator.posterior["constant_data"].attrs["agent"] == "a2"


def test_evaluate_agent_asks_only_for_known_outcomes() -> None:
    bank = with_holes().with_missing("model")
    evaluation = evaluate_agent(bank, "a2", CONFIG, budget=1.0, nodes=128)
    assert set(evaluation.evaluator.outcomes) == set(BANK.tasks[10:])
    assert evaluation.truth == pytest.approx(BANK.values[2, 10:].mean())
    assert evaluation.score.estimate == pytest.approx(evaluation.truth)
    assert (evaluation.score.n_tasks, evaluation.bank_tasks) == (14, 24)


def test_evaluate_agent_refuses_what_it_cannot_evaluate() -> None:
    with pytest.raises(DataError, match="no agent 'nobody'"):
        evaluate_agent(BANK, "nobody")
    with pytest.raises(DataError, match="lacks 11 of 168 outcomes"):
        evaluate_agent(with_holes(), "a0")
    with pytest.raises(DataError, match="budget must be from 0 to 24 tasks, got 25"):
        evaluate_agent(BANK, "a0", budget=25)
    values = BANK.values.copy()
    values[2] = np.nan
    empty = ResponseMatrix.from_arrays(values, agents=BANK.agents, tasks=BANK.tasks)
    with pytest.raises(DataError, match="agent 'a2' of bank 'bank' has no outcome; choose another"):
        evaluate_agent(empty.with_missing("model"), "a2")


ARRAYS = ("z", "log_weight", "mean_score", "rate_alpha", "rate_beta", "mean_rate")


def assert_same_posterior(sampler: SobolSampler, other: SobolSampler) -> None:
    assert sampler.arrays.successes.tolist() == other.arrays.successes.tolist()
    assert sampler.arrays.trials.tolist() == other.arrays.trials.tolist()
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(sampler.arrays, name), getattr(other.arrays, name))


def told_outcomes(groups: TaskGroups, count: int) -> list[tuple[int, int]]:
    """Groups and outcomes of some tasks in a made-up order."""
    rng = np.random.default_rng(TOLD_SEED)
    tasks = rng.permutation(len(groups.tasks))[:count]
    return [(int(groups.group_of_task[task]), int(rng.integers(2))) for task in tasks]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 15, 16, 24])
def test_sampler_after_is_the_one_told_one_after_another(count: int) -> None:
    """Equal bytes, and equal ones after further outcomes: also the refreshes fall alike."""
    groups = group_tasks(BANK, fit_items(BANK))
    told = told_outcomes(groups, 24)
    slow = SobolSampler(build_model(groups, CONFIG), nodes=128, seed=3)
    for group, outcome in told[:count]:
        slow.update(group, outcome)
    fast = sampler_after(groups, CONFIG, told[:count], nodes=128, sobol_seed=3)
    assert_same_posterior(fast, slow)
    for group, outcome in told[count : count + 8]:
        slow.update(group, outcome)
        fast.update(group, outcome)
        assert_same_posterior(fast, slow)


@pytest.mark.filterwarnings("ignore:the score posterior rests on")
def test_retell_gives_the_evaluators_sampler_and_others() -> None:
    evaluator = evaluate_agent(BANK, "a2", CONFIG, budget=11, nodes=128).evaluator
    assert_same_posterior(retell(evaluator, nodes=128), evaluator.sampler)
    other = retell(evaluator, nodes=256, sobol_seed=1, proposal="student")
    assert other.arrays.trials.tolist() == evaluator.sampler.arrays.trials.tolist()
    assert (len(other.arrays.z), other.seed) == (256, 1)
    assert np.isfinite(other.proposal.dof) and np.isinf(evaluator.sampler.proposal.dof)
