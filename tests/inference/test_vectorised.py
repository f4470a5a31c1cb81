"""The vectorised exponential against mpmath, and the rewritten graph against NumPy."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph

from hspr.inference.vectorised import ColumnMajorDot, VectorisedExp, exp, fill_exp, vectorised

EXPONENT_SEED = 5001
MATRIX_SEED = 5002
# Outside, the result is zero or infinite.
LOWEST, HIGHEST = -708.0, 709.0


def filled(x: object) -> np.ndarray:
    array = np.asarray(x, dtype=float)
    out = np.full_like(array, np.nan)
    fill_exp(array, out)
    return out


def units_off(x: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Distance from the true exponential, in units of its last place."""
    with mpmath.workdps(40):
        exact = [mpmath.exp(mpmath.mpf(float(each))) for each in x]
        return np.array(
            [
                float(abs(mpmath.mpf(float(v)) - e) / mpmath.mpf(float(np.spacing(float(e)))))
                for v, e in zip(value, exact, strict=True)
            ]
        )


def test_exp_is_within_two_units_in_the_last_place() -> None:
    rng = np.random.default_rng(EXPONENT_SEED)
    halves = (np.arange(-1020, 1021, 15) + 0.5) * np.log(2)  # the ends of the reduced range
    x = np.concatenate(
        [
            rng.uniform(LOWEST, HIGHEST, 3000),
            rng.normal(0, 3, 1000),
            rng.uniform(-1, 1, 500) * 10.0 ** rng.integers(-320, 0, 500),
            halves,
            np.nextafter(halves, 0),
            np.arange(-1020, 1021, 15) * np.log(2),
            [LOWEST, HIGHEST, 0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324],
        ]
    )
    assert units_off(x, filled(x)).max() <= 2


@pytest.mark.parametrize("x", [-1e-300, -0.0, 0.0, 5e-324])
def test_exp_of_nothing_is_one(x: float) -> None:
    assert exp(x) == 1.0


def test_exp_beyond_the_range_is_zero_or_infinite() -> None:
    """Where doubles become subnormal or overflow, and at most that much before."""
    low = np.array([np.nextafter(LOWEST, -np.inf), -708.4, -745.2, -750.0, -1e300, -np.inf])
    high = np.array([np.nextafter(HIGHEST, np.inf), 709.79, 750.0, 1e300, np.inf])
    assert filled(low).tolist() == [0.0] * len(low)
    assert filled(high).tolist() == [np.inf] * len(high)
    assert mpmath.exp(LOWEST) < 2 * np.finfo(float).tiny
    assert mpmath.exp(HIGHEST + 1) > np.finfo(float).max
    assert 0 < filled([LOWEST])[0] and filled([HIGHEST])[0] < np.inf


def test_exp_over_the_whole_range_is_monotone_and_never_nan() -> None:
    values = filled(np.linspace(-750, 750, 30_001))
    assert (np.diff(values[values < np.inf]) >= 0).all()
    assert not np.isnan(values).any() and (values >= 0).all()


def test_exp_of_nan_is_nan() -> None:
    assert np.isnan(exp(np.nan))
    assert np.isnan(filled([0.0, np.nan, 1.0, 2.0, 3.0])).tolist() == [False, True, *[False] * 3]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7, 8, 9, 33])
def test_fill_exp_takes_any_length(count: int) -> None:
    x = np.linspace(-3, 3, count)
    np.testing.assert_allclose(filled(x), np.exp(x), rtol=1e-15)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.T,
        lambda x: np.asfortranarray(x),
        lambda x: x[::2],
        lambda x: x[:, ::3],
        lambda x: x[::-1, 1:],
        lambda x: np.broadcast_to(x[0], x.shape),
        lambda x: x[:0],
    ],
)
def test_vectorised_exp_takes_any_layout(view) -> None:
    x = view(np.random.default_rng(MATRIX_SEED).normal(size=(6, 10)))
    node = VectorisedExp().make_node(pt.matrix())
    outputs: list[list[Any]] = [[None]]
    before = x.copy()
    node.op.perform(node, [x], outputs)
    np.testing.assert_allclose(outputs[0][0], np.exp(x), rtol=1e-15)
    np.testing.assert_array_equal(x, before)


def test_column_major_dot_is_the_product_column_by_column() -> None:
    rng = np.random.default_rng(MATRIX_SEED)
    x, y = rng.normal(size=(7, 3)), rng.normal(size=(3, 5))
    node = ColumnMajorDot().make_node(pt.matrix(), pt.matrix())
    for left, right in ((x, y), (np.asfortranarray(x), np.asfortranarray(y))):
        outputs: list[list[Any]] = [[None]]
        node.op.perform(node, [left, right], outputs)
        np.testing.assert_allclose(outputs[0][0], x @ y, rtol=1e-13, atol=1e-15)
        assert outputs[0][0].flags.f_contiguous


def rewritten(inputs: list, outputs: list) -> tuple[FunctionGraph, list[type]]:
    fgraph = FunctionGraph(inputs, outputs, clone=True)
    vectorised(fgraph)
    return fgraph, [type(node.op) for node in fgraph.toposort()]


def test_vectorised_rewrites_rates_at_many_nodes() -> None:
    z, nodes, loading = pt.vector("z"), pt.matrix("nodes"), pt.matrix("loading")
    intercept = pt.vector("intercept")
    eta = intercept + loading @ z
    rates = vectorize_graph([1 + pt.exp(eta), 1 + pt.exp(-eta)], {z: nodes})
    fgraph, ops = rewritten([nodes, intercept, loading], rates)
    assert ops.count(VectorisedExp) == 2
    assert ColumnMajorDot in ops
    rng = np.random.default_rng(MATRIX_SEED)
    values = rng.normal(size=(20, 3)), rng.normal(size=6), rng.normal(size=(6, 3))
    function = pytensor.function(fgraph.inputs, fgraph.outputs, mode="FAST_COMPILE")
    expected = values[1] + values[0] @ values[2].T
    for found, sign in zip(function(*values), (1, -1), strict=True):
        np.testing.assert_allclose(found, 1 + np.exp(sign * expected), rtol=1e-13)
    assert all(value.flags.f_contiguous for value in function(*values))


@pytest.mark.parametrize(
    "x",
    [pt.vector("x"), pt.scalar("x"), pt.fmatrix("x"), pt.tensor3("x"), pt.imatrix("x")],
    ids=str,
)
def test_vectorised_leaves_other_exponentials_alone(x) -> None:
    _, ops = rewritten([x], [pt.exp(x)])
    assert VectorisedExp not in ops


def test_vectorised_leaves_products_in_single_precision_alone() -> None:
    x, y = pt.fmatrix("x"), pt.fmatrix("y")
    _, ops = rewritten([x, y], [x @ y])
    assert ColumnMajorDot not in ops
