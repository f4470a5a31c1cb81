"""The loops over groups x nodes, compiled by numba and cached on disk.

Arrays are group-major: row g holds group g at every node, contiguous in memory.
Legend of shapes: J nodes, G groups, D draws.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Beyond these a Beta parameter is 0 or infinite in double precision; its rate is then 0 or 1 to
# every digit, and the limit is the right value.
SMALLEST, LARGEST = 1e-300, 1e300
# Products are kept above this, well within the range of normal doubles.
UNDERFLOW = 1e-300


@njit(cache=True, error_model="numpy")
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
) -> int:
    """Write the posterior of a block of nodes into the group-major arrays.

    Parameters
    ----------
    first : int
        Index of the block's first node.
    alpha, beta : numpy.ndarray, shape (G, block)
        Prior Beta parameters of the rates.
    successes, trials, size : numpy.ndarray of int, shape (G,)
        Counts s, n and N of each group.
    rate_alpha, rate_beta, mean_rate : numpy.ndarray, shape (G, J)
        Written: posterior Beta parameters A and F, and A / (A + F).
    log_likelihood, mean_score : numpy.ndarray, shape (J,)
        Written: log likelihood of the ordered outcomes, and E[S | z, D].

    Returns
    -------
    int
        Index in the block of a node with a negative or NaN parameter, -1 if there is none.
    """
    n_groups, block = alpha.shape
    n_tasks = size.sum()
    likelihood = np.zeros(block)
    score = np.full(block, successes.sum() / n_tasks)
    invalid = False
    for g in range(n_groups):
        s, n = successes[g], trials[g]
        share = (size[g] - n) / n_tasks
        prior_a, prior_b = alpha[g], beta[g]
        a, b = rate_alpha[g, first : first + block], rate_beta[g, first : first + block]
        m = mean_rate[g, first : first + block]
        for i in range(block):
            invalid |= not (prior_a[i] >= 0 and prior_b[i] >= 0)
            a[i] = min(max(prior_a[i], SMALLEST), LARGEST)
            b[i] = min(max(prior_b[i], SMALLEST), LARGEST)
        if n > 0:
            add_log_likelihood(a, b, s, n - s, likelihood)
            for i in range(block):
                a[i] += s
                b[i] += n - s
        for i in range(block):
            m[i] = a[i] / (a[i] + b[i])
            score[i] += share * m[i]
    log_likelihood[first : first + block] = likelihood
    mean_score[first : first + block] = score
    if invalid:
        for i in range(block):
            for g in range(n_groups):
                if not (alpha[g, i] >= 0 and beta[g, i] >= 0):
                    return i
    return -1


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def add_log_likelihood(a: np.ndarray, b: np.ndarray, s: int, f: int, total: np.ndarray) -> None:
    """Add the log probability of s successes and then f failures, one after another.

    Each outcome has its predictive probability: a product of ratios of positive numbers, without a
    difference of gamma functions (appendix A of the paper writes the same as rising factorials).
    A logarithm is taken only where the product would leave the range of doubles.

    Parameters
    ----------
    a, b : numpy.ndarray, shape (J,)
        Beta parameters before the outcomes.
    s, f : int
        Successes and failures.
    total : numpy.ndarray, shape (J,)
        Added to.
    """
    count = len(total)
    product = np.ones(count)
    # Each ratio rises with k, so the first success and the first failure are the least likely.
    least = 1.0
    for i in range(count):
        if s > 0:
            least = min(least, a[i] / (a[i] + b[i]))
        if f > 0:
            least = min(least, b[i] / (a[i] + b[i] + s))
    for k in range(s + f):
        smallest = 1.0
        if k < s:
            for i in range(count):
                product[i] *= (a[i] + k) / (a[i] + b[i] + k)
                smallest = min(smallest, product[i])
        else:
            for i in range(count):
                product[i] *= (b[i] + (k - s)) / (a[i] + b[i] + k)
                smallest = min(smallest, product[i])
        if smallest * least < UNDERFLOW or k == s + f - 1:
            for i in range(count):
                total[i] += np.log(product[i])
                product[i] = 1.0


@njit(cache=True, fastmath={"reassoc", "contract"}, error_model="numpy")
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


@njit(cache=True, fastmath={"reassoc", "contract"})
def weighted_sums(mean_rate: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Sum the mean rates over the nodes with several sets of weights.

    Parameters
    ----------
    mean_rate : numpy.ndarray, shape (G, J)
        Posterior means of the rates, in single or double precision.
    weight : numpy.ndarray, shape (M, J)
        Sets of weights.

    Returns
    -------
    numpy.ndarray, shape (G, M)
        Accumulated in double precision.
    """
    n_groups, n_nodes = mean_rate.shape
    sums = np.empty((n_groups, len(weight)))
    for g in range(n_groups):
        for k in range(len(weight)):
            total = 0.0
            for j in range(n_nodes):
                total += weight[k, j] * mean_rate[g, j]
            sums[g, k] = total
    return sums


@njit(cache=True, error_model="numpy")
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
def add_bernoulli(
    node: np.ndarray, mean_rate: np.ndarray, uniform: np.ndarray, total: np.ndarray
) -> None:
    """Add to each draw whether the one unqueried task of a group is solved.

    Parameters
    ----------
    node : numpy.ndarray of int, shape (D,)
        Node of each draw.
    mean_rate : numpy.ndarray, shape (J,)
        Mean rate of the group, which is the task's probability.
    uniform : numpy.ndarray of uint32, shape (D,)
        Uniform whole numbers below 2**32: a probability is met to 2**-32.
    total : numpy.ndarray of int, shape (D,)
        Added to.
    """
    for d in range(len(node)):
        total[d] += uniform[d] < mean_rate[node[d]] * 4294967296.0


@njit(cache=True)
def add_urn(
    node: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray,
    uniform: np.ndarray,
    total: np.ndarray,
) -> None:
    """Add to each draw the successes among the few unqueried tasks of a group.

    Pólya's urn: after k successes in t tasks the next is solved with probability
    (A + k) / (A + F + t).

    Parameters
    ----------
    node : numpy.ndarray of int, shape (D,)
        Node of each draw.
    alpha, beta : numpy.ndarray, shape (J,)
        Posterior Beta parameters A and F of the group's rate.
    uniform : numpy.ndarray of uint32, shape (D, U)
        Uniform whole numbers below 2**32, one a task.
    total : numpy.ndarray of int, shape (D,)
        Added to.
    """
    for d in range(len(node)):
        a, b = alpha[node[d]], beta[node[d]]
        k = 0
        for t in range(uniform.shape[1]):
            if uniform[d, t] * (a + b + t) < (a + k) * 4294967296.0:
                k += 1
        total[d] += k
