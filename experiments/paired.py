"""Paired comparisons of two methods over the same agents (section 4 and appendix D of the paper).

One observation is an agent's absolute error, averaged over that method's query seeds, so that
methods with different numbers of seeds are paired all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import wilcoxon

from ..models.errors import DataError
from .metrics import PERCENT

RESAMPLES = 10_000
RESAMPLING_SEED = 20261005
CONFIDENCE = 0.95
# Errors are means of shares: what differs by less was equal before rounding.
_DECIMALS = 12


@dataclass(frozen=True)
class PairedDifference:
    """A difference of mean absolute errors and its bootstrap interval.

    Attributes
    ----------
    estimate, low, high : float
        First minus second method, and the percentile interval, in percentage points; negative
        values favour the first.
    ratio : float or None
        Mean absolute error of the first over that of the second; None if the second makes none.
    """

    estimate: float
    low: float
    high: float
    ratio: float | None


def paired_difference(
    first: ArrayLike,
    second: ArrayLike,
    *,
    resamples: int = RESAMPLES,
    seed: int = RESAMPLING_SEED,
    confidence: float = CONFIDENCE,
) -> PairedDifference:
    """Bootstrap the difference of two methods' mean absolute errors over the agents of a bank.

    Parameters
    ----------
    first, second : array-like, shape (n,)
        Absolute errors per agent as shares, averaged over seeds, in the same order of agents.
    resamples : int, default 10000
        Resamples of the n agents.
    seed : int, default 20261005
        Seed of the resampling, the same for every comparison.
    confidence : float, default 0.95
        Probability content of the percentile interval.

    Returns
    -------
    PairedDifference

    Raises
    ------
    DataError
        If the errors are not two equally long lists of at least two shares, or a setting is out of
        its range.

    Notes
    -----
    Table 5 of the paper. The interval is conditional on the tasks and not adjusted for the number
    of comparisons.
    """
    return macro_difference(
        {"bank": first},
        {"bank": second},
        resamples=resamples,
        seed=seed,
        confidence=confidence,
    )


def macro_difference(
    first: Mapping[str, ArrayLike],
    second: Mapping[str, ArrayLike],
    *,
    resamples: int = RESAMPLES,
    seed: int = RESAMPLING_SEED,
    confidence: float = CONFIDENCE,
) -> PairedDifference:
    """Bootstrap the difference of two methods' macro errors: banks weigh the same.

    Parameters
    ----------
    first, second : mapping of str to array-like, shape (n_bank,)
        Absolute errors per agent as shares, averaged over seeds, by bank; in each bank the same
        order of agents. The order of the banks does not matter.
    resamples : int, default 10000
        Resamples; each draws the agents of every bank anew, within the bank.
    seed : int, default 20261005
        Seed of the resampling.
    confidence : float, default 0.95
        Probability content of the percentile interval.

    Returns
    -------
    PairedDifference
        Its ratio is that of the macro errors.

    Raises
    ------
    DataError
        If the banks of the two methods differ or there is none, the errors of a bank are not two
        equally long lists of at least two shares, or a setting is out of its range.

    Notes
    -----
    Banks are resampled independently, as in the paper. Banks that share submissions are not
    independent replicates, so the interval describes these cohorts and no other.
    """
    _require_settings(resamples, seed, confidence)
    if not first or set(first) != set(second):
        raise DataError(
            f"both methods need errors on the same banks, at least one, got {sorted(first)} and "
            f"{sorted(second)}; leave out a bank that one of them lacks"
        )
    rng = np.random.default_rng(int(seed))
    macro = np.zeros(int(resamples))
    estimate = macro_first = macro_second = 0.0
    for bank in sorted(first):
        x, y = _paired_errors(first[bank], second[bank], bank)
        drawn = rng.integers(0, len(x), size=(len(macro), len(x)))
        macro += (x - y)[drawn].mean(axis=1) / len(first)
        estimate += float((x - y).mean()) / len(first)
        macro_first += float(x.mean()) / len(first)
        macro_second += float(y.mean()) / len(first)
    tail = (1 - confidence) / 2
    low, high = np.quantile(macro, [tail, 1 - tail])
    return PairedDifference(
        estimate=PERCENT * estimate,
        low=float(PERCENT * low),
        high=float(PERCENT * high),
        ratio=macro_first / macro_second if macro_second > 0 else None,
    )


def signed_rank(first: ArrayLike, second: ArrayLike) -> float:
    """Test whether two methods' errors are alike, by Wilcoxon's signed ranks.

    Parameters
    ----------
    first, second : array-like, shape (n,)
        Absolute errors per agent as shares, averaged over seeds, in the same order of agents.

    Returns
    -------
    float
        Two-sided p-value, not adjusted; 1 if all errors agree.

    Raises
    ------
    DataError
        If the errors are not two equally long lists of at least two shares.

    Notes
    -----
    Agents on which the errors agree are left out before ranking (Wilcoxon's own treatment of
    zeros). The p-value is exact for up to 50 remaining agents, or 13 if absolute differences are
    tied; otherwise it comes from the normal approximation with the tie correction.
    """
    x, y = _paired_errors(first, second, "bank")
    difference = np.round(x - y, _DECIMALS)
    difference = difference[difference != 0]
    if difference.size == 0:
        return 1.0
    return float(wilcoxon(difference, method="auto").pvalue)


def holm(p_values: ArrayLike) -> np.ndarray:
    """Adjust p-values for their number by Holm's step-down method.

    Parameters
    ----------
    p_values : array-like, shape (k,)
        The p-values of all comparisons that are made.

    Returns
    -------
    numpy.ndarray, shape (k,)
        Adjusted p-values in the same order. Rejecting those up to alpha keeps the probability of
        any false rejection at alpha, whatever the dependence of the comparisons.

    Raises
    ------
    DataError
        If a p-value is not a number from 0 to 1.
    """
    p = _numbers(p_values, "p-values")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def _paired_errors(first: ArrayLike, second: ArrayLike, bank: str) -> tuple[np.ndarray, np.ndarray]:
    x = _numbers(first, f"errors of the first method on {bank!r}")
    y = _numbers(second, f"errors of the second method on {bank!r}")
    if len(x) != len(y) or len(x) < 2:
        raise DataError(
            f"the errors of both methods on {bank!r} must be those of the same agents, at least "
            f"two, got {len(x)} and {len(y)} errors; give one a method and agent"
        )
    return x, y


def _numbers(values: ArrayLike, what: str) -> np.ndarray:
    """Return a list of numbers from 0 to 1."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"the {what} must be numbers ({error}); convert them") from None
    if array.ndim != 1:
        raise DataError(f"the {what} must be a list, got the shape {array.shape}; flatten it")
    wrong = ~((array >= 0) & (array <= 1))
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"the {what} must be from 0 to 1, got {array[place]} at position {place}; an error is "
            "a share, not percentage points, and none may be missing"
        )
    return array


def _require_settings(resamples: int, seed: int, confidence: float) -> None:
    if not isinstance(resamples, Integral) or isinstance(resamples, bool) or resamples < 1:
        raise DataError(
            f"resamples must be a whole number from 1, got {resamples!r}; the paper uses 10000"
        )
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise DataError(f"seed must be a whole number from 0, got {seed!r}; try {RESAMPLING_SEED}")
    if not isinstance(confidence, float) or not 0 < confidence < 1:
        raise DataError(
            f"confidence must be a number between 0 and 1, got {confidence!r}; the paper uses 0.95"
        )
