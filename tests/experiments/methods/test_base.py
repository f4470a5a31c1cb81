"""What the compared methods share."""

import numpy as np
import pytest

from hspr.experiments.methods import METHODS
from hspr.experiments.methods.base import complete_outcomes, uniform_tasks
from hspr.models.errors import DataError
from hspr.tests.oracles_models import matrix

HOLED = [[1, 0, np.nan], [0, np.nan, 1]]


def test_methods_are_named_as_they_are_listed() -> None:
    assert all(method.name == name for name, method in METHODS.items())
    assert {name for name, method in METHODS.items() if method.seeds == 1} == {
        "mid-range",
        "mid-range-ridge",
        "adaptive-2pl",
    }


@pytest.mark.parametrize(("n_tasks", "budget"), [(10, 0), (10, 3), (10, 10), (1, 1)])
def test_uniform_tasks_are_distinct_and_decided_by_the_seed(n_tasks: int, budget: int) -> None:
    tasks = uniform_tasks(n_tasks, budget, 7)
    assert len(tasks) == len(set(tasks)) == budget
    assert set(tasks) <= set(range(n_tasks))
    assert all(type(task) is int for task in tasks)
    assert uniform_tasks(n_tasks, budget, 7) == tasks


def test_uniform_tasks_take_each_task_equally_often() -> None:
    counts = np.bincount(np.concatenate([uniform_tasks(8, 2, seed) for seed in range(4000)]))
    # 1,000 each; the standard deviation of a count is sqrt(4000 * 1/4 * 3/4) = 27.
    assert len(counts) == 8
    assert abs(counts - 1000).max() < 5 * 27


def test_complete_outcomes_are_those_of_the_matrix() -> None:
    np.testing.assert_array_equal(complete_outcomes(matrix([[1, 0], [0, 0]])), [[1, 0], [0, 0]])
    filled = complete_outcomes(matrix(HOLED).with_missing("fail"))
    np.testing.assert_array_equal(filled, [[1, 0, 0], [0, 0, 1]])


def test_complete_outcomes_refuse_missing_ones() -> None:
    with pytest.raises(DataError, match="lacks 2 of 6"):
        complete_outcomes(matrix(HOLED))
    with pytest.raises(DataError, match=r"'bank' has 2 missing outcomes, .*choose missing='fail'"):
        complete_outcomes(matrix(HOLED).with_missing("model"))
