"""Groups against brute force over the columns of the source."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hspr.models.errors import DataError
from hspr.models.groups import group_tasks
from hspr.models.items import fit_items
from hspr.models.responses import ResponseMatrix
from hspr.tests.oracles_models import matrix, random_matrix

SOURCE_SEED = 4301


def symbols(source: ResponseMatrix) -> list[tuple[str, ...]]:
    """Return the signature of each task as a tuple of "0", "1" and "?"."""
    return [
        tuple("?" if np.isnan(cell) else str(int(cell)) for cell in column)
        for column in source.values.T
    ]


def brute_force(source: ResponseMatrix) -> list[list[int]]:
    """Return the tasks of each group, groups in the order of their first task."""
    members: dict[tuple[str, ...], list[int]] = {}
    for task, signature in enumerate(symbols(source)):
        members.setdefault(signature, []).append(task)
    return list(members.values())


def assert_grouped(source: ResponseMatrix) -> None:
    items = fit_items(source)
    groups = group_tasks(source, items)
    members = brute_force(source)
    assert groups.size.tolist() == [len(tasks) for tasks in members]
    for group, tasks in enumerate(members):
        assert np.flatnonzero(groups.group_of_task == group).tolist() == tasks
        for name in ("intercept", "slope", "loading"):
            values = getattr(items, name)
            expected = sum(values[task] for task in tasks) / len(tasks)
            np.testing.assert_allclose(getattr(groups, name)[group], expected, 1e-12, 1e-12)
    assert groups.tasks == tuple(source.tasks)
    assert groups.bank == source.name
    assert groups.labels == [f"g{index}" for index in range(len(members))]


@pytest.mark.parametrize(("m", "n"), [(1, 30), (2, 30), (3, 60), (8, 60), (9, 60), (17, 40)])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_group_tasks_agrees_with_brute_force(m: int, n: int, missing: float) -> None:
    source = random_matrix(m, n, seed=SOURCE_SEED, missing=missing)
    # Repeat some columns far from their first place.
    repeated = np.hstack([source.values, source.values[:, ::3]])
    assert_grouped(matrix(repeated).with_missing("model"))


@settings(max_examples=30, deadline=None)
@given(
    hnp.arrays(
        float,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=5),
        elements=st.sampled_from([0.0, 1.0, np.nan]),
    ).filter(lambda values: not np.isnan(values).all())
)
def test_group_tasks_of_any_matrix_agrees_with_brute_force(values: np.ndarray) -> None:
    assert_grouped(matrix(values).with_missing("model"))


def test_group_tasks_numbers_groups_by_their_first_task() -> None:
    source = matrix([[1, 0, 1, 0, 1], [1, 0, 1, 1, 0]])
    groups = group_tasks(source, fit_items(source))
    assert groups.group_of_task.tolist() == [0, 1, 0, 2, 3]
    assert groups.size.tolist() == [2, 1, 1, 1]


def test_group_tasks_takes_missing_for_a_third_symbol() -> None:
    source = matrix([[0, np.nan, 0, 1, np.nan], [1, 1, 1, 1, 1]]).with_missing("model")
    groups = group_tasks(source, fit_items(source))
    assert groups.group_of_task.tolist() == [0, 1, 0, 2, 1]


def test_group_tasks_of_equal_tasks_is_one_group() -> None:
    source = matrix(np.zeros((3, 500)))
    groups = group_tasks(source, fit_items(source))
    assert groups.size.tolist() == [500]
    assert groups.loading.shape == (1, 2)


def test_group_tasks_of_one_agent_has_no_factors() -> None:
    source = matrix([[0, 1, 0, 1]])
    groups = group_tasks(source, fit_items(source))
    assert groups.size.tolist() == [2, 2]
    assert groups.loading.shape == (2, 0)


@pytest.mark.parametrize("other", [random_matrix(5, 9, seed=SOURCE_SEED), matrix(np.eye(6))])
def test_group_tasks_refuses_items_of_another_matrix(other: ResponseMatrix) -> None:
    source = random_matrix(5, 8, seed=SOURCE_SEED)
    with pytest.raises(DataError, match=r"items were fitted to .*'bank'; fit them .*fit_items"):
        group_tasks(source, fit_items(other))


def test_group_tasks_refuses_items_in_another_order() -> None:
    source = random_matrix(5, 8, seed=SOURCE_SEED)
    items = fit_items(ResponseMatrix(source.outcomes[:, ::-1]))
    with pytest.raises(DataError, match="5 agents x 8 tasks that are not those"):
        group_tasks(source, items)
