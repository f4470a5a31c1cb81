"""The two array operations that an evaluation at all nodes spends its time in, made fast.

A graph that is evaluated at many nodes is rewritten to use them: an exponential that runs in the
processor's vector registers, several times faster than a mathematical library's where that is
scalar, and a matrix product that leaves its result column by column in memory, so that each
group's values at all nodes lie side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.scalar as ps
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import WalkingGraphRewriter, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.tensor.blas import Dot22
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot

_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has so few digits that its multiples are exact.
_LN2_HIGH, _LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
# Added to a double below 2**51, it leaves the nearest whole number in the lowest bits.
_ROUND = 6755399441055744.0
_LOWEST, _HIGHEST = -708.0, 709.0


@intrinsic
def _float_bits(context: Any, number: Any) -> Any:
    """Reinterpret a double's bits as a whole number."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), build


@intrinsic
def _from_bits(context: Any, bits: Any) -> Any:
    """Reinterpret a whole number's bits as a double."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), build


@njit(inline="always")
def exp(x: float) -> float:
    """Return exp(x) to two units in the last place, in a form that loops over it vectorise.

    Parameters
    ----------
    x : float
        Exponent. Below -708 the result is zero and above 709 infinite, where double precision ends
        shortly after; NaN stays NaN.

    Notes
    -----
    x = n ln 2 + r with |r| <= ln 2 / 2; the series of exp(r) to the thirteenth power is exact to
    1e-17, and 2**n is written into the exponent's bits. No branch.
    """
    bounded = min(max(x, _LOWEST), _HIGHEST)
    shifted = bounded * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = (bounded - n * _LN2_HIGH) - n * _LN2_LOW
    series = 1 / 6227020800
    series = series * r + 1 / 479001600
    series = series * r + 1 / 39916800
    series = series * r + 1 / 3628800
    series = series * r + 1 / 362880
    series = series * r + 1 / 40320
    series = series * r + 1 / 5040
    series = series * r + 1 / 720
    series = series * r + 1 / 120
    series = series * r + 1 / 24
    series = series * r + 1 / 6
    series = series * r + 0.5
    series = series * r + 1.0
    series = series * r + 1.0
    power = _from_bits((_float_bits(shifted) << 52) + (1023 << 52))
    value = series * power
    value = 0.0 if x < _LOWEST else value
    value = np.inf if x > _HIGHEST else value
    return x if x != x else value


@njit(cache=True, fastmath={"contract"})
def fill_exp(x: np.ndarray, out: np.ndarray) -> None:
    """Write exp(x).

    Parameters
    ----------
    x, out : numpy.ndarray, shape (n,)
        Exponents and results.
    """
    for i in range(x.size):
        out[i] = exp(x[i])


class VectorisedExp(Op):
    """Exponential of an array, by `fill_exp`."""

    __props__ = ()

    def make_node(self, x: Variable) -> Apply:
        """Return the node that takes `x`."""
        return Apply(self, [x], [x.type()])

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        """Compute the exponential, in the memory order of the input."""
        (x,) = inputs
        if not (x.flags.c_contiguous or x.flags.f_contiguous):
            x = np.ascontiguousarray(x)
        out = np.empty_like(x)
        fill_exp(x.ravel(order="K"), out.ravel(order="K"))
        outputs[0][0] = out


class ColumnMajorDot(Op):
    """Product of two matrices whose result is contiguous column by column."""

    __props__ = ()

    def make_node(self, x: Variable, y: Variable) -> Apply:
        """Return the node that multiplies `x` and `y`."""
        return Apply(self, [x, y], [x.type.clone(shape=(x.type.shape[0], y.type.shape[1]))()])

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        """Compute the transposed product of the transposed factors."""
        x, y = inputs
        outputs[0][0] = (y.T @ x.T).T


@node_rewriter([Elemwise])
def _exp_vectorised(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    double = node.outputs[0].type.dtype == "float64" == node.inputs[0].type.dtype
    if not isinstance(node.op.scalar_op, ps.Exp) or not double or node.outputs[0].type.ndim != 2:
        return None
    return [VectorisedExp()(node.inputs[0])]


@node_rewriter([Dot, Dot22])
def _dot_by_column(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    matrices = all(v.type.ndim == 2 and v.type.dtype == "float64" for v in node.inputs)
    return [ColumnMajorDot()(*node.inputs)] if matrices else None


def vectorised(fgraph: FunctionGraph) -> None:
    """Rewrite a graph that is evaluated at many nodes to the operations of this module.

    Parameters
    ----------
    fgraph : FunctionGraph
        Changed in place; it computes the same, to rounding.
    """
    # Turns the products of many matrices with one, as vectorising writes them, into plain ones.
    rewrite_graph(fgraph, include=("canonicalize",))
    for rewrite in (_exp_vectorised, _dot_by_column):
        WalkingGraphRewriter(rewrite).rewrite(fgraph)
