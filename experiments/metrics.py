"""Metrics of recovered scores, pooled over the targets of a bank (section 4.1 of the paper)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

PERCENT = 100.0


def mean_absolute_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean absolute error in percentage points (equation 17).

    Parameters
    ----------
    estimate, truth : numpy.ndarray, shape (n,)
        Estimated and true scores, as shares.

    Returns
    -------
    float
    """
    return float(PERCENT * np.abs(estimate - truth).mean())


def max_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Return the largest absolute error in percentage points (equation 18).

    Parameters
    ----------
    estimate, truth : numpy.ndarray, shape (n,)
        Estimated and true scores, as shares.

    Returns
    -------
    float
    """
    return float(PERCENT * np.abs(estimate - truth).max())


def rank_correlation(estimate: np.ndarray, truth: np.ndarray) -> float | None:
    """Return Kendall's tau-b over all pairs of agents.

    Parameters
    ----------
    estimate, truth : numpy.ndarray, shape (n,)
        Estimated and true scores.

    Returns
    -------
    float or None
        None where it is undefined: fewer than two agents, or all equal on one side.
    """
    if len(truth) < 2 or np.ptp(estimate) == 0 or np.ptp(truth) == 0:
        return None
    return float(kendalltau(estimate, truth, variant="b").statistic)


def pool_runs(runs: pd.DataFrame) -> dict[str, float | None]:
    """Pool the targets within each seed, then average over the seeds (section 4.1 of the paper).

    Parameters
    ----------
    runs : pandas.DataFrame
        One row a run: columns seed, estimate, truth.

    Returns
    -------
    dict
        ``mae``, ``max_error`` (percentage points), ``tau`` (None where undefined) and ``mae_sd``
        (over seeds; None for one seed).
    """
    per_seed = [
        (
            mean_absolute_error(frame["estimate"].to_numpy(), frame["truth"].to_numpy()),
            max_error(frame["estimate"].to_numpy(), frame["truth"].to_numpy()),
            rank_correlation(frame["estimate"].to_numpy(), frame["truth"].to_numpy()),
        )
        for _, frame in runs.groupby("seed")
    ]
    errors, largest, taus = zip(*per_seed, strict=True)
    defined = [tau for tau in taus if tau is not None]
    return {
        "mae": float(np.mean(errors)),
        "max_error": float(np.mean(largest)),
        "tau": float(np.mean(defined)) if defined else None,
        "mae_sd": float(np.std(errors, ddof=1)) if len(errors) > 1 else None,
    }


def summarise_runs(runs: pd.DataFrame) -> dict[str, float | None]:
    """Pool errors as `pool_runs` does, and say how often the intervals cover.

    Parameters
    ----------
    runs : pandas.DataFrame
        One row a run: columns seed, estimate, truth, low, high.

    Returns
    -------
    dict
        What `pool_runs` returns, ``coverage`` (share of truths within [low, high]) and ``width``
        (percentage points).
    """
    inside = (runs["low"] <= runs["truth"]) & (runs["truth"] <= runs["high"])
    return {
        **pool_runs(runs),
        "coverage": float(inside.mean()),
        "width": float(PERCENT * (runs["high"] - runs["low"]).mean()),
    }
