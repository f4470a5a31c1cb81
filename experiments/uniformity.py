"""Whether samples of the probability integral transform (PIT) are uniform.

Legend of shapes: n values of the PIT, C cells of the grid on [0, 1].

References
----------
.. [1] Säilynoja, Bürkner, Vehtari (2022), Graphical test for discrete uniformity and its
   applications in goodness-of-fit evaluation and multiple sample comparison, Statistics and
   Computing 32(32), https://doi.org/10.1007/s11222-022-10090-6
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, poisson

from ..models.errors import DataError

PROB = 0.95
_MAX_CELLS = 1000
_BISECTIONS = 40
_TINY = 1e-13


class Band(NamedTuple):
    """A simultaneous band for the empirical distribution function of a uniform sample."""

    points: np.ndarray
    """Inner points of the grid, shape (C - 1,)."""
    lower: np.ndarray
    """Least share of the sample at or below each point, shape (C - 1,)."""
    upper: np.ndarray
    """Largest share of the sample at or below each point, shape (C - 1,)."""


def randomised_pit(
    values: np.ndarray, truth: float, uniform: float, *, weight: np.ndarray | None = None
) -> float:
    """Return P(value < truth) + u P(value = truth): uniform if the truth is one of such values.

    Parameters
    ----------
    values : numpy.ndarray, shape (D,)
        Draws or nodes of a distribution, continuous or discrete.
    truth : float
        The value whose place among them is asked for.
    uniform : float
        A uniform variate u in [0, 1], which breaks ties.
    weight : numpy.ndarray, shape (D,), default None
        Normalised weights; None means equal ones.

    Returns
    -------
    float
        From 0 to 1.
    """
    below, equal = values < truth, values == truth
    if weight is None:
        pit = below.mean() + uniform * equal.mean()
    else:
        pit = weight[below].sum() + uniform * weight[equal].sum()
    return float(min(pit, 1.0))


@lru_cache(maxsize=32)
def simultaneous_band(n: int, *, prob: float = PROB) -> Band:
    """Return the band that holds the distribution function of a uniform sample with a probability.

    At each point of a grid of `n` cells (1,000 at most) the band is a central interval of the
    binomial count at one common level; the level is the largest at which all intervals hold
    together with the wanted probability [1]_, computed exactly.

    Parameters
    ----------
    n : int
        Size of the sample.
    prob : float, default 0.95
        Probability that the whole function lies inside.

    Returns
    -------
    Band
        Counts are discrete, so the true probability is `prob` or a little more.

    Raises
    ------
    DataError
        If the sample has fewer than two values or `prob` is not between 0 and 1.
    """
    if n < 2:
        raise DataError(f"a band needs a sample of 2 values or more, got {n}; simulate more")
    if not 0 < prob < 1:
        raise DataError(f"prob must be between 0 and 1, got {prob!r}; try 0.95")
    points = _grid(n)
    narrow, wide = 1.0, 0.0
    for _ in range(_BISECTIONS):
        level = 0.5 * (narrow + wide)
        if _probability_inside(n, *_limits(n, points, level)) >= prob:
            wide = level
        else:
            narrow = level
    lower, upper = _limits(n, points, wide)
    return Band(points, lower / n, upper / n)


def inside_band(pit: np.ndarray, *, prob: float = PROB) -> bool:
    """Return whether the distribution function of a sample lies inside the simultaneous band.

    Parameters
    ----------
    pit : numpy.ndarray, shape (n,)
        Values of the PIT.
    prob : float, default 0.95
        Probability that a uniform sample lies inside.

    Returns
    -------
    bool

    Raises
    ------
    DataError
        If a value lies outside [0, 1] or there are fewer than two.
    """
    counts = _counts(pit)
    band = simultaneous_band(len(pit), prob=prob)
    # Half a value of slack: the band was divided by n.
    low, high = len(pit) * band.lower - 0.5, len(pit) * band.upper + 0.5
    return bool(((counts > low) & (counts < high)).all())


def uniformity_p_value(pit: np.ndarray) -> float:
    """Return the probability that a uniform sample leaves its expectation as far as this one.

    Parameters
    ----------
    pit : numpy.ndarray, shape (n,)
        Values of the PIT.

    Returns
    -------
    float
        The sample lies inside the simultaneous band of probability `prob` exactly if this exceeds
        1 - `prob`.

    Raises
    ------
    DataError
        If a value lies outside [0, 1] or there are fewer than two.
    """
    counts, n = _counts(pit), len(pit)
    points = _grid(n)
    tails = np.minimum(binom.cdf(counts, n, points), binom.sf(counts - 1, n, points))
    # A little more, since tails that are equal by symmetry differ by rounding.
    level = min(1.0, 2 * float(tails.min()) * (1 + 1e-7))
    if level < _TINY:
        # The sum over the points: an upper bound, and too little to be told from 1 - 1.
        return level * len(points)
    return 1.0 - _probability_inside(n, *_limits(n, points, level))


def _grid(n: int) -> np.ndarray:
    cells = min(n, _MAX_CELLS)
    return np.arange(1, cells) / cells


def _counts(pit: np.ndarray) -> np.ndarray:
    """Return how many values lie at or below each point of the grid, shape (C - 1,)."""
    if len(pit) < 2 or not ((pit >= 0) & (pit <= 1)).all():
        raise DataError(
            "pit must hold two or more values from 0 to 1, got "
            f"{np.array2string(np.asarray(pit), threshold=6)}; see randomised_pit"
        )
    return np.searchsorted(np.sort(pit), _grid(len(pit)), side="right")


def _limits(n: int, points: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and largest count whose tails both exceed half the level, by point."""
    tail = level / 2
    lower = np.asarray(binom.ppf(tail, n, points), dtype=np.int64)
    lower += binom.cdf(lower, n, points) <= tail
    upper = np.asarray(binom.isf(tail, n, points), dtype=np.int64)
    upper -= binom.sf(upper - 1, n, points) <= tail
    return lower, upper


def _probability_inside(n: int, lower: np.ndarray, upper: np.ndarray) -> float:
    """Return the probability that all counts of a uniform sample of n lie within their limits.

    The counts of the cells are independent Poisson counts given their total, so they can be summed
    cell by cell, dropping what leaves the band on the way.
    """
    if (lower > upper).any():
        return 0.0
    rate = n / (len(lower) + 1)
    # What is cut off has a probability below 1e-20.
    step = poisson.pmf(np.arange(int(rate + 12 * np.sqrt(rate)) + 30), rate)
    state, first = np.ones(1), 0
    for low, high in zip([*lower, n], [*upper, n], strict=True):
        state = np.convolve(state, step)[low - first : high - first + 1]
        first = low
        if not state.size:
            return 0.0
    return min(1.0, float(state[0] / poisson.pmf(n, n)))
