"""Small group banks for the sampler's tests."""

from __future__ import annotations

import numpy as np
import pytest

from hspr.models.groups import TaskGroups

N_GROUPS = 10


def make_groups(
    intercept: np.ndarray, slope: np.ndarray, loading: np.ndarray, size: np.ndarray
) -> TaskGroups:
    """Groups with given parameters and made-up task ids."""
    group_of_task = np.repeat(np.arange(len(size)), size)
    return TaskGroups(
        group_of_task=group_of_task,
        size=size,
        intercept=intercept,
        slope=slope,
        loading=loading,
        tasks=tuple(f"task-{index}" for index in range(len(group_of_task))),
        bank="made-up",
    )


@pytest.fixture
def groups() -> TaskGroups:
    """Ten groups of 1 to 25 tasks with two residual factors."""
    rng = np.random.default_rng(sum(map(ord, "groups")))
    return make_groups(
        intercept=rng.normal(-0.5, 1.5, N_GROUPS),
        slope=rng.uniform(0.4, 1.8, N_GROUPS),
        loading=rng.normal(0, 0.8, (N_GROUPS, 2)),
        size=np.array([1, 1, 2, 3, 5, 8, 1, 25, 4, 2]),
    )
