"""Budgets as numbers and shares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hspr.acquisition.budget import budget_tasks, own_budget
from hspr.models.errors import DataError


@pytest.mark.parametrize(
    ("budget", "n_tasks", "expected"),
    [
        (0, 10, 0),
        (10, 10, 10),
        (1, 10, 1),
        (1.0, 10, 10),
        (0.0, 10, 0),
        (0.1, 300, 30),
        (0.1, 500, 50),
        (0.1, 2294, 229),
        (0.1, 730, 73),
        (0.1, 4, 0),
        (np.int64(3), 10, 3),
        (np.float64(0.5), 10, 5),
    ],
)
def test_budget_tasks_values(budget, n_tasks, expected):
    assert budget_tasks(budget, n_tasks) == expected


@pytest.mark.parametrize(
    "budget", [-1, 11, -0.1, 1.5, float("nan"), float("inf"), "3", None, True, 1 + 0j]
)
def test_budget_tasks_refuses(budget):
    with pytest.raises(DataError, match=r"budget .*got .*; give a number of tasks from 0 to 10"):
        budget_tasks(budget, 10)


@given(share=st.floats(0, 1), n_tasks=st.integers(1, 10**6))
def test_budget_tasks_is_within_the_bank(share, n_tasks):
    tasks = budget_tasks(share, n_tasks)
    assert 0 <= tasks <= n_tasks
    assert abs(tasks - share * n_tasks) <= 0.5 + 1e-9


@pytest.mark.parametrize(
    ("budget", "n_tasks", "expected"),
    [
        (10, 7, 7),
        (7, 7, 7),
        (3, 7, 3),
        (0, 7, 0),
        (1, 7, 1),
        (np.int64(10), 7, 7),
        (1.0, 7, 7),
        (0.0, 7, 0),
        (0.5, 7, 4),
        (0.1, 300, 30),
        (np.float64(0.5), 8, 4),
    ],
)
def test_own_budget_lowers_a_number_and_takes_a_share_of_ones_own(budget, n_tasks, expected):
    own = own_budget(budget, n_tasks)
    assert own == expected
    assert type(own) is int


@given(budget=st.integers(0, 50) | st.floats(0, 1), n_tasks=st.integers(1, 50))
def test_own_budget_on_the_whole_bank_is_the_budget(budget, n_tasks):
    own = own_budget(budget, n_tasks)
    assert 0 <= own <= n_tasks
    if isinstance(budget, float) or budget <= n_tasks:
        assert own == budget_tasks(budget, n_tasks)
