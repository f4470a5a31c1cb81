"""A response matrix is valid, unchangeable, and never takes a missing cell for a failure."""

from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hspr.models.errors import DataError, HSPRError
from hspr.models.responses import MISSING_POLICIES, ResponseMatrix

NAN = np.nan

cells = hnp.arrays(
    float,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.sampled_from([0.0, 1.0, NAN]),
)


def matrix(values: object, name: str = "bank") -> ResponseMatrix:
    """Build a matrix with agents a0, a1, ... and tasks t0, t1, ..."""
    array = np.asarray(values, dtype=float)
    agents = [f"a{row}" for row in range(array.shape[0])]
    tasks = [f"t{column}" for column in range(array.shape[1])]
    return ResponseMatrix.from_arrays(array, agents=agents, tasks=tasks, name=name)


def assert_refused(call: Callable[[], object], *parts: str) -> None:
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert isinstance(caught.value, HSPRError)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_from_arrays_keeps_cells_and_ids() -> None:
    bank = ResponseMatrix.from_arrays(
        np.array([[0, 1, None], [True, False, NAN]], dtype=object),
        agents=["NA", "007"],
        tasks=[" 1", "1e5", "模型"],
        name="x",
    )
    assert bank.agents == ["NA", "007"]
    assert bank.tasks == [" 1", "1e5", "模型"]
    np.testing.assert_array_equal(bank.values, [[0, 1, NAN], [1, 0, NAN]])
    assert bank.values.dtype == float
    assert (bank.name, bank.missing, bank.n_missing) == ("x", "refuse", 2)
    assert bank.outcomes.dims == ("agent", "task")
    assert all(type(name) is str for name in bank.agents + bank.tasks)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float32, object])
def test_from_arrays_takes_any_number_type(dtype: type) -> None:
    values: np.ndarray = np.array([[0, 1], [1, 0]], dtype=dtype)
    assert matrix(values).values.tolist() == [[0, 1], [1, 0]]


def test_from_arrays_takes_numpy_text_ids() -> None:
    bank = ResponseMatrix.from_arrays([[1, 0]], agents=np.array(["a"]), tasks=np.array(["x", "yy"]))  # type: ignore[arg-type]
    assert bank.tasks == ["x", "yy"]
    assert all(type(name) is str for name in bank.agents + bank.tasks)


@pytest.mark.parametrize("value", [2.0, -1.0, 0.5, 1e-300, np.inf, -np.inf])
def test_from_arrays_refuses_other_values(value: float) -> None:
    assert_refused(lambda: matrix([[0, 1], [1, value]]), "'bank'", "'a1'", "'t1'", str(value))


@pytest.mark.parametrize(
    ("agents", "tasks", "parts"),
    [
        (["a", "a"], ["x", "y"], ["agent ids", "unique", "'a'", "2 times"]),
        (["a", "b"], ["x", "x"], ["task ids", "unique", "'x'"]),
        (["a", ""], ["x", "y"], ["agent ids", "non-empty text", "''"]),
        (["a", "b"], ["x", " \t"], ["task ids", "non-empty text", r"' \t'"]),
        (["a", "b"], ["x", "half \ud83d"], ["task ids", "non-empty text", r"'half \ud83d'"]),
        (["a", 7], ["x", "y"], ["agent ids", "text", "7"]),
        (["a", None], ["x", "y"], ["agent ids", "text"]),
        (["a", "b"], ["x", NAN], ["task ids", "text", "nan"]),
        (["a", "b"], ["x", ["y"]], ["task ids", "text", "['y']"]),
        (["a"], ["x", "y"], ["shape (2, 2)", "1 agents", "2 tasks"]),
        (["a", "b"], ["x", "y", "z"], ["shape (2, 2)", "2 agents", "3 tasks"]),
    ],
)
def test_from_arrays_refuses_ids(agents: list[str], tasks: list[str], parts: list[str]) -> None:
    assert_refused(
        lambda: ResponseMatrix.from_arrays(np.eye(2), agents=agents, tasks=tasks, name="x'y"),
        repr("x'y"),
        *parts,
    )


@pytest.mark.parametrize("values", [[[1, 0], [1]], [["1", "yes"]], [[{}, 1]], [[1j, 0]]])
def test_from_arrays_refuses_what_is_no_rectangle_of_numbers(values: list[list[float]]) -> None:
    assert_refused(
        lambda: ResponseMatrix.from_arrays(values, agents=["a"], tasks=["x", "y"]),
        "rectangle of numbers",
    )


def test_from_arrays_refuses_empty_axes() -> None:
    assert_refused(lambda: matrix(np.zeros((0, 2))), "no agents")
    assert_refused(lambda: matrix(np.zeros((2, 0))), "no tasks")


def outcomes(**changes: object) -> xr.DataArray:
    arguments: dict[str, object] = {
        "data": np.zeros((1, 2)),
        "dims": ("agent", "task"),
        "coords": {"agent": ["a"], "task": ["x", "y"]},
    }
    return xr.DataArray(**(arguments | changes))  # type: ignore[arg-type]


def test_response_matrix_drops_what_is_not_part_of_it() -> None:
    array = outcomes().assign_coords(cost=("task", [1.0, 2.0])).assign_attrs(unit="x").rename("y")
    bank = ResponseMatrix(array)
    assert set(bank.outcomes.coords) == {"agent", "task"}
    assert bank.outcomes.attrs == {}


@pytest.mark.parametrize(
    ("array", "parts"),
    [
        (outcomes().T, ["dimensions", "('task', 'agent')", "transpose"]),
        (outcomes().rename(agent="subject"), ["dimensions", "('subject', 'task')"]),
        (outcomes()[0], ["dimensions", "('task',)"]),
        (outcomes(coords={"agent": ["a"]}), ["no task ids"]),
        (outcomes(coords={"task": ["x", "y"]}), ["no agent ids"]),
        (outcomes(coords={"agent": ["a"], "task": [1, 2]}), ["task ids", "text", "1"]),
        (outcomes(data=[["x", "y"]]), ["must be numbers"]),
    ],
)
def test_response_matrix_refuses(array: xr.DataArray, parts: list[str]) -> None:
    assert_refused(lambda: ResponseMatrix(array), *parts)


@pytest.mark.parametrize("policy", ["fail", "drop-task", "", None])
def test_response_matrix_refuses_a_policy_that_is_not_kept(policy: str) -> None:
    assert_refused(lambda: ResponseMatrix(outcomes(), missing=policy), repr(policy), "with_missing")


def test_response_matrix_cannot_be_changed() -> None:
    bank = matrix([[0, 1], [1, NAN]])
    source, truth = bank.hold_out("a0")
    for array in (bank.values, source.values, truth.values, bank.outcomes.values):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    with pytest.raises(AttributeError):
        bank.name = "other"  # type: ignore[misc]
    bank.agents.append("ghost")
    bank.tasks.clear()
    assert (len(bank.agents), len(bank.tasks)) == (2, 2)


def test_response_matrix_does_not_share_its_input() -> None:
    values = np.array([[0.0, 1.0], [1.0, NAN]])
    array = xr.DataArray(
        values, dims=("agent", "task"), coords={"agent": ["a", "b"], "task": ["x", "y"]}
    )
    before = array.copy(deep=True)
    bank = ResponseMatrix(array)
    bank.with_missing("fail"), bank.with_missing("drop-task"), bank.hold_out("a")
    xr.testing.assert_identical(array, before)
    values[0, 0] = 1.0
    assert bank.values[0, 0] == 0.0


def test_select_keeps_the_order_asked_for() -> None:
    bank = matrix([[0, 1], [1, NAN], [1, 1]], name="x").with_missing("model")
    part = bank.select(iter(["a2", "a0"]))
    assert part.agents == ["a2", "a0"]
    assert part.tasks == bank.tasks
    assert part.values.tolist() == [[1, 1], [0, 1]]
    assert (part.name, part.missing) == ("x", "model")


@pytest.mark.parametrize(
    ("agents", "parts"),
    [
        (["a0", "a9"], ["'a9'", "among its 2", "did you mean 'a"]),
        (["zebra"], ["'zebra'", "the first is 'a0'"]),
        ([0], ["no agent 0"]),
        ([], ["no agents"]),
        (["a0", "a0"], ["unique", "'a0'"]),
    ],
)
def test_select_refuses(agents: list[str], parts: list[str]) -> None:
    bank = matrix([[0, 1], [1, 0]], name="mine")
    assert_refused(lambda: bank.select(agents), "'mine'", *parts)


@settings(deadline=None)
@given(values=cells)
def test_hold_out_splits_the_matrix(values: np.ndarray) -> None:
    bank = matrix(values)
    for row, agent in enumerate(bank.agents):
        if len(bank.agents) == 1:
            assert_refused(lambda: bank.hold_out("a0"), "one agent", "'a0'", "no source")
            continue
        source, truth = bank.hold_out(agent)
        assert source.agents == [other for other in bank.agents if other != agent]
        assert source.tasks == bank.tasks
        np.testing.assert_array_equal(source.values, np.delete(values, row, axis=0))
        np.testing.assert_array_equal(truth, values[row])
        assert truth.dims == ("task",)
        assert set(truth.coords) == {"task"}
        assert list(truth["task"].values) == bank.tasks


def test_hold_out_finds_an_agent_with_an_odd_name() -> None:
    names = ["NA", "nan", " 1", "1", "1.0"]
    bank = ResponseMatrix.from_arrays(
        np.eye(5)[:, [0, 1, 2, 3, 4]], agents=names, tasks=[f"t{index}" for index in range(5)]
    )
    for row, name in enumerate(names):
        assert bank.hold_out(name)[1].values.tolist() == np.eye(5)[row].tolist()


def test_hold_out_unknown_agent() -> None:
    bank = matrix([[0], [1]], name="mine")
    assert_refused(lambda: bank.hold_out("A1"), "'mine'", "no agent 'A1'", "did you mean 'a1'?")


@settings(deadline=None)
@given(values=cells)
def test_with_missing_fail_counts_missing_as_not_solved(values: np.ndarray) -> None:
    filled = matrix(values).with_missing("fail")
    np.testing.assert_array_equal(filled.values, np.where(values == 1, 1.0, 0.0))
    assert filled.missing == "refuse"
    filled.require_complete()


@settings(deadline=None)
@given(values=cells)
def test_with_missing_drop_task_keeps_the_complete_tasks(values: np.ndarray) -> None:
    bank = matrix(values)
    kept = [task for task, column in zip(bank.tasks, values.T, strict=True) if (column >= 0).all()]
    if not kept:
        assert_refused(lambda: bank.with_missing("drop-task"), "drop-task", f"{len(bank.tasks)}")
        return
    complete = bank.with_missing("drop-task")
    assert complete.tasks == kept
    assert complete.agents == bank.agents
    np.testing.assert_array_equal(complete.outcomes, bank.outcomes.sel(task=kept))
    complete.require_complete()


@settings(deadline=None)
@given(values=cells)
def test_with_missing_model_keeps_every_cell(values: np.ndarray) -> None:
    bank = matrix(values).with_missing("model")
    np.testing.assert_array_equal(bank.values, values)
    assert bank.missing == "model"
    bank.require_complete()


@settings(deadline=None)
@given(values=cells)
def test_with_missing_refuse_counts_the_missing_cells(values: np.ndarray) -> None:
    bank = matrix(values, name="mine")
    count = int(np.isnan(values).sum())
    assert bank.n_missing == count
    if not count:
        assert bank.with_missing("refuse") is bank
        return
    first = f"agent {'a%d'!r}, task {'t%d'!r}" % tuple(np.argwhere(np.isnan(values))[0])
    for call in (lambda: bank.with_missing("refuse"), bank.require_complete):
        assert_refused(
            call, "'mine'", f"lacks {count} of {values.size}", first, "fail", "drop-task"
        )


@pytest.mark.parametrize("policy", MISSING_POLICIES)
def test_with_missing_leaves_a_complete_bank_as_it_is(policy: str) -> None:
    bank = matrix([[0, 1], [1, 0]], name="mine")
    after = bank.with_missing(policy)
    xr.testing.assert_identical(after.outcomes, bank.outcomes)
    assert after.name == "mine"


@pytest.mark.parametrize("policy", ["ignore", "FAIL", "", None])
def test_with_missing_unknown_policy(policy: str) -> None:
    assert_refused(lambda: matrix([[0, 1]]).with_missing(policy), repr(policy), *MISSING_POLICIES)
