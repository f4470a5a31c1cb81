"""One replayed evaluation: what is revealed, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.evaluation import evaluate_agent
from hspr.models.config import Config
from hspr.models.errors import DataError
from hspr.models.responses import ResponseMatrix
from hspr.tests.oracles_models import random_matrix

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
