"""The loops over groups x nodes, compiled by numba and cached on disk.

Arrays are group-major: row g holds group g at every node, contiguous in memory.
Legend of shapes: J nodes, G groups, D draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# Groups with at most this many unqueried tasks draw their successes from an urn, task by task;
# larger ones draw a rate and then a binomial count. Both are the beta-binomial distribution.
URN_LIMIT = 16


@njit(cache=True)
def fill_nodes(
    first: int,
    alpha: np.ndarray,
    beta: np.ndarray,
    successes: np.ndarray,
    trials: np.ndarray,
    size: np.ndarray,
    rate_alpha: np.ndarray,
    rate_beta: np.ndarray,
    mean_rate: np.ndarray,
    log_likelihood: np.ndarray,
    mean_score: np.ndarray,
) -> None:
    """Write the posterior of a block of nodes into the group-major arrays.

    The likelihood is that of the ordered outcomes of each group, built from rising factorials by
    log1p: no difference of gamma functions (appendix A of the paper).

    Parameters
    ----------
    first : int
        Index of the block's first node.
    alpha, beta : numpy.ndarray, shape (block, G)
        Prior Beta parameters of the rates.
    successes, trials, size : numpy.ndarray of int, shape (G,)
        Counts s, n and N of each group.
    rate_alpha, rate_beta, mean_rate : numpy.ndarray, shape (G, J)
        Written: posterior Beta parameters A and F, and A / (A + F).
    log_likelihood, mean_score : numpy.ndarray, shape (J,)
        Written: log likelihood, and E[S | z, D].
    """
    block, n_groups = alpha.shape
    n_tasks = size.sum()
    for i in range(block):
        log_likelihood[first + i] = 0.0
        mean_score[first + i] = 0.0
    for g in range(n_groups):
        s, n = successes[g], trials[g]
        f, unqueried = n - s, size[g] - n
        for i in range(block):
            a, b = alpha[i, g], beta[i, g]
            if n > 0:
                total = 0.0
                if s > 0:
                    total -= s * np.log1p(b / a)
                if f > 0:
                    total -= f * np.log1p(a / b)
                for k in range(1, s):
                    total += np.log1p(k / a)
                for k in range(1, f):
                    total += np.log1p(k / b)
                for k in range(1, n):
                    total -= np.log1p(k / (a + b))
                log_likelihood[first + i] += total
            a, b = a + s, b + f
            rate_alpha[g, first + i] = a
            rate_beta[g, first + i] = b
            m = a / (a + b)
            mean_rate[g, first + i] = m
            mean_score[first + i] += (s + unqueried * m) / n_tasks


@njit(cache=True, fastmath={"reassoc", "contract"})
def outcome_moments(
    mean_rate: np.ndarray,
    rate_alpha: np.ndarray,
    rate_beta: np.ndarray,
    unqueried: np.ndarray,
    weight: np.ndarray,
    weighted_deviation: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum over the nodes what the Score criterion needs of each group, in one pass.

    Parameters
    ----------
    mean_rate, rate_alpha, rate_beta : numpy.ndarray, shape (G, J)
        Posterior means m and Beta parameters of the rates.
    unqueried : numpy.ndarray of int, shape (G,)
        Unqueried tasks U of each group.
    weight, weighted_deviation : numpy.ndarray, shape (J,)
        Node weights w, and w (T - E[T]) for the conditional mean score T.

    Returns
    -------
    mean : numpy.ndarray, shape (G,)
        E[m], the probability that an unqueried task of the group is solved.
    within : numpy.ndarray, shape (G,)
        E[m (1 - m) + (U - 1) tau^2]: N times the mean of equation 23.
    between : numpy.ndarray, shape (G,)
        Cov(T, m) over the nodes.
    """
    n_groups, n_nodes = mean_rate.shape
    mean, within, between = np.zeros(n_groups), np.zeros(n_groups), np.zeros(n_groups)
    for g in range(n_groups):
        others = unqueried[g] - 1
        if others < 0:
            continue
        total = inside = across = 0.0
        for j in range(n_nodes):
            m = mean_rate[g, j]
            total += weight[j] * m
            inside += weight[j] * m * (1 - m)
            across += weighted_deviation[j] * m
        if others > 0:
            shared = 0.0
            for j in range(n_nodes):
                m = mean_rate[g, j]
                shared += weight[j] * m * (1 - m) / (rate_alpha[g, j] + rate_beta[g, j] + 1)
            inside += others * shared
        mean[g], within[g], between[g] = total, inside, across
    return mean, within, between


@njit(cache=True)
def conditional_variance(
    mean_rate: np.ndarray,
    rate_alpha: np.ndarray,
    rate_beta: np.ndarray,
    unqueried: np.ndarray,
) -> np.ndarray:
    """Return sum_g Var(K_g | z, D) at each node (equation 22).

    Parameters
    ----------
    mean_rate, rate_alpha, rate_beta : numpy.ndarray, shape (G, J)
        Posterior means and Beta parameters of the rates.
    unqueried : numpy.ndarray of int, shape (G,)
        Unqueried tasks of each group.

    Returns
    -------
    numpy.ndarray, shape (J,)
        In squared tasks.
    """
    n_groups, n_nodes = mean_rate.shape
    variance = np.zeros(n_nodes)
    for g in range(n_groups):
        u = unqueried[g]
        if u == 0:
            continue
        for j in range(n_nodes):
            m = mean_rate[g, j]
            shared = (u - 1) / (rate_alpha[g, j] + rate_beta[g, j] + 1)
            variance[j] += u * m * (1 - m) * (1 + shared)
    return variance


@njit(cache=True)
def draw_urn_successes(
    rng: Any,
    node: np.ndarray,
    rate_alpha: np.ndarray,
    rate_beta: np.ndarray,
    unqueried: np.ndarray,
    total: np.ndarray,
) -> None:
    """Add predictive successes of the small groups to each draw.

    Pólya's urn: after k successes in t tasks the next is solved with probability
    (A + k) / (A + F + t). With one task left that is a Bernoulli draw of the mean rate.

    Parameters
    ----------
    rng : numpy.random.Generator
        Advanced by one uniform a draw and task.
    node : numpy.ndarray of int, shape (D,)
        Node of each draw.
    rate_alpha, rate_beta : numpy.ndarray, shape (G, J)
        Posterior Beta parameters of the rates.
    unqueried : numpy.ndarray of int, shape (G,)
        Unqueried tasks; groups with none or with more than `URN_LIMIT` are left out.
    total : numpy.ndarray of int, shape (D,)
        Added to.
    """
    for g in range(len(unqueried)):
        u = unqueried[g]
        if u == 0 or u > URN_LIMIT:
            continue
        for d in range(len(node)):
            a, b = rate_alpha[g, node[d]], rate_beta[g, node[d]]
            k = 0
            for t in range(u):
                if rng.random() * (a + b + t) < a + k:
                    k += 1
            total[d] += k
