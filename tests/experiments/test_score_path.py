"""The recomputed path equals evaluators that are built step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.score_path import score_path
from hspr.models.config import Config
from hspr.models.errors import DataError
from hspr.tests.oracles_models import random_matrix

SOURCE = random_matrix(7, 24, seed=4803)
OUTCOME = dict(zip(SOURCE.tasks, (1, 0, 0, 1, 1, 0) * 4, strict=True))


def evaluated(**settings: Any) -> tuple[Evaluator, list[dict[str, Any]]]:
    """Return an evaluator after eleven queries, and its score and predictions at each."""
    config = Config(rank=2, calibration=0.5, kappa=1.0)
    evaluator = Evaluator(SOURCE, config, budget=11, nodes=256, **settings)
    steps: list[dict[str, Any]] = [{"score": evaluator.score(), "task": None}]
    while (task := evaluator.ask()) is not None:
        group = evaluator.groups.group_of_task[SOURCE.tasks.index(task)]
        arrays = evaluator.sampler.arrays
        predicted = arrays.mean_rate[group] @ arrays.weight
        evaluator.tell(task, OUTCOME[task])
        steps.append({"score": evaluator.score(), "task": task, "predicted": predicted})
    return evaluator, steps


@pytest.mark.parametrize("settings", [{}, {"proposal": "student", "sobol_seed": 5, "seed": 3}])
@pytest.mark.filterwarnings("ignore:the score posterior rests on")
def test_score_path_repeats_every_step(settings: dict[str, Any]) -> None:
    evaluator, steps = evaluated(**settings)
    path = score_path(evaluator, prob=0.8, draws=131_072)
    assert list(path.index) == list(range(12))
    assert path.index.name == "query"
    for (query, row), step in zip(path.iterrows(), steps, strict=True):
        score = step["score"]
        for name in ("estimate", "median", "mean", "sd", "ess", "pareto_k", "trusted"):
            assert row[name] == getattr(score, name), (query, name)
        assert (row["low"], row["high"]) == score.interval(0.8)
        if step["task"] is not None:
            assert row["task"] == step["task"]
            assert row["outcome"] == OUTCOME[step["task"]]
            assert row["predicted"] == pytest.approx(step["predicted"], rel=1e-12)


@pytest.mark.filterwarnings("ignore:the score posterior rests on")
def test_score_path_with_few_draws_ends_at_the_score() -> None:
    evaluator, _ = evaluated()
    before = evaluator.sampler.arrays.copy(), dict(evaluator.outcomes)
    path = score_path(evaluator, draws=512)
    score, last = evaluator.score(), path.iloc[-1]
    assert (last["estimate"], last["mean"], last["sd"]) == (score.estimate, score.mean, score.sd)
    assert (last["low"], last["high"]) == score.interval(0.9)
    exact = score_path(evaluator, draws=131_072)
    np.testing.assert_array_equal(path["mean"], exact["mean"])
    assert np.abs(path["low"] - exact["low"]).max() < 0.1
    # The evaluator is left as it was.
    np.testing.assert_array_equal(evaluator.sampler.arrays.log_weight, before[0].log_weight)
    assert evaluator.outcomes == before[1]


def test_score_path_without_outcomes_is_the_prior() -> None:
    evaluator = Evaluator(SOURCE, Config(rank=0), budget=0, nodes=128)
    path = score_path(evaluator)
    assert len(path) == 1
    assert path["task"].isna().all() and path["outcome"].isna().all()
    assert path["mean"].item() == evaluator.score().mean


def test_score_path_refuses_bad_settings() -> None:
    evaluator = Evaluator(SOURCE, Config(rank=0), budget=0, nodes=128)
    with pytest.raises(DataError, match="prob must be between 0 and 1, got 1"):
        score_path(evaluator, prob=1)
    evaluator.tell(SOURCE.tasks[0], 1)
    with pytest.raises(DataError, match="draws must be a whole number from 1, got 0"):
        score_path(evaluator, draws=0)
