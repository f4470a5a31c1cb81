"""Diagnostics of importance weights: effective sample size and Pareto k."""

from __future__ import annotations

import numpy as np
from arviz_stats.base import array_stats
from scipy.special import logsumexp


def normalised_weights(log_weight: np.ndarray) -> np.ndarray:
    """Return weights that sum to one; any constant added to the logarithms cancels.

    Parameters
    ----------
    log_weight : numpy.ndarray, shape (J,)
        Log weights; minus infinity is a weight of zero.

    Returns
    -------
    numpy.ndarray, shape (J,)
    """
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


def effective_sample_size(weight: np.ndarray) -> float:
    """Return Kish's effective sample size, (sum w)^2 / sum w^2.

    Parameters
    ----------
    weight : numpy.ndarray, shape (J,)
        Weights, normalised or not.

    Returns
    -------
    float
        From 1 to J.
    """
    return float(weight.sum() ** 2 / (weight**2).sum())


def log_evidence(log_weight: np.ndarray) -> float:
    """Return the log marginal likelihood of the ordered outcomes, log mean(w).

    Parameters
    ----------
    log_weight : numpy.ndarray, shape (J,)
        Log of prior times likelihood over proposal, with every constant.

    Returns
    -------
    float
    """
    return float(logsumexp(log_weight) - np.log(len(log_weight)))


def pareto_k(log_weight: np.ndarray) -> float:
    """Estimate the shape of the weights' tail by Pareto smoothed importance sampling.

    Parameters
    ----------
    log_weight : numpy.ndarray, shape (J,)
        Log weights; minus infinity is a weight of zero.

    Returns
    -------
    float
        Below 0.7 the mean and the error of an estimate can be trusted; infinite if the weights have
        no tail that could be fitted because one or a few of them dominate, or if any is NaN or
        positive infinity. Weights that are all equal have no tail at all: minus infinity.

    References
    ----------
    .. [1] Vehtari et al. (2024), Pareto smoothed importance sampling, JMLR 25(72).
    """
    if np.isnan(log_weight).any() or np.isposinf(log_weight).any():
        return float("inf")
    if np.ptp(log_weight) < 1e-12:
        return float("-inf")
    try:
        # ArviZ takes log likelihoods, of which importance weights are the reciprocals.
        _, k = array_stats.psislw(-log_weight)
    except (ValueError, IndexError):  # fewer weights than a tail needs
        return float("inf")
    return float(k) if np.isfinite(k) else float("inf")
