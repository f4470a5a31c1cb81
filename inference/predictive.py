"""Predictive draws of the score.

Legend of shapes: J nodes, G groups, D draws.
"""

from __future__ import annotations

import numpy as np

from .kernels import URN_LIMIT, draw_urn_successes


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
    rate_alpha, rate_beta : numpy.ndarray, shape (G, J)
        Posterior Beta parameters A and F of the rates.
    unqueried : numpy.ndarray of int, shape (G,)
        Unqueried tasks U of each group.
    rng : numpy.random.Generator
        Generator of the draws.

    Returns
    -------
    numpy.ndarray of int, shape (D,)
    """
    total = np.zeros(len(node), dtype=np.int64)
    draw_urn_successes(rng, node, rate_alpha, rate_beta, unqueried, total)
    for g in np.flatnonzero(unqueried > URN_LIMIT):
        rate = rng.beta(rate_alpha[g, node], rate_beta[g, node])
        total += rng.binomial(unqueried[g], rate)
    return total
