"""Folds against scikit-learn's own."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from hspr.experiments.folds import agent_folds
from hspr.models.errors import DataError
from hspr.models.responses import ResponseMatrix
from hspr.tests.oracles_models import matrix


def bank_of(m: int) -> ResponseMatrix:
    return matrix(np.zeros((m, 2)))


@pytest.mark.parametrize("m", [2, 3, 4, 5, 14, 22, 134])
def test_agent_folds_are_those_of_scikit_learn(m: int) -> None:
    folds = agent_folds(bank_of(m))
    splitter = KFold(min(4, m), shuffle=True, random_state=42)
    expected = list(splitter.split(np.arange(m)))
    assert [fold.index for fold in folds] == list(range(len(expected)))
    for fold, (source, target) in zip(folds, expected, strict=True):
        assert fold.source == tuple(f"a{row}" for row in source)
        assert fold.target == tuple(f"a{row}" for row in target)


@pytest.mark.parametrize(("m", "count"), [(2, 2), (7, 3), (9, 9), (9, 100), (14, 4)])
def test_agent_folds_take_every_agent_as_target_once(m: int, count: int) -> None:
    bank = bank_of(m)
    folds = agent_folds(bank, folds=count, seed=7)
    assert len(folds) == min(m, count)
    targets = [agent for fold in folds for agent in fold.target]
    assert sorted(targets) == sorted(bank.agents)
    for fold in folds:
        assert fold.source
        # In bank order, and nobody on both sides.
        assert [a for a in bank.agents if a in fold.source] == list(fold.source)
        assert set(fold.source) | set(fold.target) == set(bank.agents)
        assert not set(fold.source) & set(fold.target)


def test_agent_folds_depend_on_the_seed_alone() -> None:
    bank = bank_of(30)
    assert agent_folds(bank, seed=1) == agent_folds(bank, seed=np.int64(1))  # type: ignore[arg-type]
    assert agent_folds(bank, seed=1) != agent_folds(bank, seed=2)


def test_agent_folds_refuse_a_single_agent() -> None:
    with pytest.raises(DataError, match="bank 'bank' has one agent, 'a0'"):
        agent_folds(bank_of(1))


@pytest.mark.parametrize("folds", [1, 0, -4, 2.0, "4", None, True])
def test_agent_folds_refuse_a_wrong_number(folds: object) -> None:
    with pytest.raises(DataError, match="folds must be a whole number from 2, got"):
        agent_folds(bank_of(5), folds=folds)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, None, "42", True])
def test_agent_folds_refuse_a_wrong_seed(seed: object) -> None:
    with pytest.raises(DataError, match="seed of the folds must be a whole number"):
        agent_folds(bank_of(5), seed=seed)  # type: ignore[arg-type]
