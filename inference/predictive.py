"""Predictive draws of the score.

Legend of shapes: J nodes, G groups, D draws.
"""

from __future__ import annotations

import numpy as np

from .kernels import add_bernoulli, add_urn

# Groups with at most this many unqueried tasks draw their successes from an urn, task by task;
# larger ones draw a rate and then a binomial count. Both are the beta-binomial distribution.
URN_LIMIT = 16


def stratified_nodes(weight: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Resample nodes by weight, one from each of equally wide strata of the cumulative weight.

    Parameters
    ----------
    weight : numpy.ndarray, shape (J,)
        Normalised weights.
    draws : int
        Number of draws D.
    rng : numpy.random.Generator
        Advanced by D uniforms.

    Returns
    -------
    numpy.ndarray of int, shape (D,)
        Node of each draw, ascending.
    """
    strata = (np.arange(draws) + rng.random(draws)) / draws
    edges = np.cumsum(weight)
    return np.minimum(np.searchsorted(edges / edges[-1], strata, side="right"), len(weight) - 1)


def draw_successes(
    node: np.ndarray,
    mean_rate: np.ndarray,
    rate_alpha: np.ndarray,
    rate_beta: np.ndarray,
    unqueried: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw the number of successes among all unqueried tasks (equation 9, summed over groups).

    Parameters
    ----------
    node : numpy.ndarray of int, shape (D,)
        Node of each draw.
    mean_rate, rate_alpha, rate_beta : numpy.ndarray, shape (G, J)
        Posterior means of the rates and their Beta parameters A and F.
    unqueried : numpy.ndarray of int, shape (G,)
        Unqueried tasks U of each group.
    rng : numpy.random.Generator
        Generator of the draws.

    Returns
    -------
    numpy.ndarray of int, shape (D,)
    """
    total = np.zeros(len(node), dtype=np.int64)
    for g in np.flatnonzero(unqueried):
        u = unqueried[g]
        if u == 1:
            uniform = rng.integers(0, 2**32, len(node), dtype=np.uint32)
            add_bernoulli(node, mean_rate[g], uniform, total)
        elif u <= URN_LIMIT:
            uniform = rng.integers(0, 2**32, (len(node), u), dtype=np.uint32)
            add_urn(node, rate_alpha[g], rate_beta[g], uniform, total)
        else:
            rate = rng.beta(rate_alpha[g, node], rate_beta[g, node])
            total += rng.binomial(u, rate)
    return total
