"""The steps of FAQ-port, compiled by numba and cached on disk.

Legend of shapes: N tasks, D factors, B tasks to reveal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from .factor_model import FactorModel


@dataclass(frozen=True, eq=False)
class TargetPrior:
    """A target's prior, in the form that the kernels read.

    Attributes
    ----------
    factors : numpy.ndarray, shape (D, N)
        v, one row a factor.
    mean, covariance : numpy.ndarray, shapes (D,) and (D, D)
        Of the target's factors u.
    logit, spread : numpy.ndarray, shape (N,)
        u'v_j and v_j' Sigma v_j.
    """

    factors: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    logit: np.ndarray
    spread: np.ndarray

    @classmethod
    def of(cls, model: FactorModel) -> TargetPrior:
        """Return the prior of a target under a fitted factor model."""
        factors = np.ascontiguousarray(model.task.T)
        mean, covariance = model.target_prior()
        spread = np.einsum("dj,dk,kj->j", factors, covariance, factors)
        return cls(factors, mean, covariance, mean @ factors, spread)


@njit(cache=True)
def query_probabilities(
    logit: np.ndarray,
    spread: np.ndarray,
    factors: np.ndarray,
    covariance: np.ndarray,
    queried: np.ndarray,
    alpha: float,
    beta: float,
    tau: float,
    rate: np.ndarray,
    probability: np.ndarray,
) -> float:
    """Write the predicted rates and the probabilities of the next query.

    Parameters
    ----------
    logit, spread : numpy.ndarray, shape (N,)
        u'v_j and v_j' Sigma v_j.
    factors : numpy.ndarray, shape (D, N)
        v, one row a factor.
    covariance : numpy.ndarray, shape (D, D)
        Sigma.
    queried : numpy.ndarray of bool, shape (N,)
        Tasks that are revealed; at least one is not.
    alpha, beta, tau : float
        Share of the active score, tempering exponent, share of the uniform distribution.
    rate, probability : numpy.ndarray, shape (N,)
        Written: p_j = sigmoid(logit), and q_j, which sums to 1 and is 0 on queried tasks.

    Returns
    -------
    float
        Sum of p_j over the tasks not queried.
    """
    n_tasks = factors.shape[1]
    weight, score = np.empty(n_tasks), np.empty(n_tasks)
    remaining = 0.0
    total = 0.0
    for j in range(n_tasks):
        decay = np.exp(-abs(logit[j]))
        rate[j] = (1.0 if logit[j] >= 0 else decay) / (1.0 + decay)
        if not queried[j]:
            remaining += rate[j]
        # Above zero even where a logit is so large that p(1-p) underflows.
        weight[j] = max(decay / (1.0 + decay) ** 2, 1e-300)
        score[j] = np.sqrt(weight[j])
        total += score[j]
    for j in range(n_tasks):
        score[j] *= (1.0 - alpha) / total
    if alpha > 0.0:
        # The softmax of the log score is the score itself, normalised.
        centre = factors @ weight / n_tasks
        effect = (covariance @ centre) @ factors
        active = np.empty(n_tasks)
        total = 0.0
        for j in range(n_tasks):
            active[j] = weight[j] * effect[j] ** 2 / (1.0 + weight[j] * max(spread[j], 0.0))
            total += active[j]
        for j in range(n_tasks):
            score[j] += alpha * (active[j] / total if total > 0.0 else 1.0 / n_tasks)
    total = 0.0
    for j in range(n_tasks):
        if beta != 1.0:
            score[j] = score[j] ** beta
        total += score[j]
    free = 0.0
    for j in range(n_tasks):
        probability[j] = 0.0
        if not queried[j]:
            probability[j] = (1.0 - tau) * score[j] / total + tau / n_tasks
            free += probability[j]
    for j in range(n_tasks):
        probability[j] /= free
    return remaining


@njit(cache=True)
def draw_task(probability: np.ndarray, uniform: float) -> int:
    """Return the task at a uniform number from [0, 1) of the cumulative probabilities.

    Parameters
    ----------
    probability : numpy.ndarray, shape (N,)
        Query probabilities; a task of probability 0 is never returned.
    uniform : float
        The random number.

    Returns
    -------
    int
    """
    cumulative = 0.0
    last = -1
    for j in range(len(probability)):
        if probability[j] > 0.0:
            last = j
            cumulative += probability[j]
            if uniform < cumulative:
                break
    return last


@njit(cache=True)
def update_posterior(
    task: int,
    outcome: float,
    rate: float,
    factors: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    logit: np.ndarray,
    spread: np.ndarray,
) -> None:
    """Update the factor posterior in place by one outcome (a Kalman step at weight p(1-p)).

    Parameters
    ----------
    task : int
        The queried task.
    outcome, rate : float
        Its outcome z, and its predicted rate p before.
    factors : numpy.ndarray, shape (D, N)
        v, one row a factor.
    mean, covariance : numpy.ndarray, shapes (D,) and (D, D)
        u and Sigma; updated.
    logit, spread : numpy.ndarray, shape (N,)
        u'v_j and v_j' Sigma v_j; updated.
    """
    n_factors, n_tasks = factors.shape
    weight = rate * (1.0 - rate)
    pull = np.zeros(n_factors)
    for d in range(n_factors):
        for k in range(n_factors):
            pull[d] += covariance[d, k] * factors[k, task]
    shrink = 1.0
    for d in range(n_factors):
        shrink += weight * factors[d, task] * pull[d]
    step = (outcome - rate) / shrink
    shared = np.zeros(n_tasks)
    for d in range(n_factors):
        mean[d] += step * pull[d]
        for k in range(n_factors):
            covariance[d, k] -= weight * pull[d] * pull[k] / shrink
        for j in range(n_tasks):
            shared[j] += pull[d] * factors[d, j]
    for j in range(n_tasks):
        logit[j] += step * shared[j]
        spread[j] -= weight * shared[j] ** 2 / shrink


@njit(cache=True)
def schedule(t: int, budget: int, rho: float, gamma: float, beta0: float) -> tuple[float, float]:
    """Return the share of the active score and the tempering exponent of a query.

    Parameters
    ----------
    t, budget : int
        Number of the query, from 1, and tasks B to reveal.
    rho, gamma, beta0 : float
        See `hspr.experiments.methods.faq_tuning.FaqSettings`.

    Returns
    -------
    alpha, beta : float
        max(0, 1 - t / (rho B)), 0 for rho = 0; beta0 min(1, t / (gamma B)), beta0 for gamma = 0.
    """
    alpha = max(0.0, 1.0 - t / (rho * budget)) if rho > 0.0 else 0.0
    beta = beta0 * min(1.0, t / (gamma * budget)) if gamma > 0.0 else beta0
    return alpha, beta


@njit(cache=True)
def replay_agent(
    outcomes: np.ndarray,
    uniforms: np.ndarray,
    factors: np.ndarray,
    prior_mean: np.ndarray,
    prior_covariance: np.ndarray,
    prior_logit: np.ndarray,
    prior_spread: np.ndarray,
    beta0: float,
    rho: float,
    gamma: float,
    tau: float,
) -> float:
    """Return the unclipped estimate of a whole run, as `FaqRun` computes it step by step.

    Parameters
    ----------
    outcomes : numpy.ndarray, shape (N,)
        The agent's outcomes; only those of queried tasks are read.
    uniforms : numpy.ndarray, shape (B,)
        One random number a query, B at least 1.
    factors : numpy.ndarray, shape (D, N)
        v, one row a factor.
    prior_mean, prior_covariance : numpy.ndarray, shapes (D,) and (D, D)
        Prior of the target's factors.
    prior_logit, prior_spread : numpy.ndarray, shape (N,)
        u'v_j and v_j' Sigma v_j under the prior.
    beta0, rho, gamma, tau : float
        See `hspr.experiments.methods.faq_tuning.FaqSettings`.

    Returns
    -------
    float
    """
    n_tasks, budget = len(outcomes), len(uniforms)
    mean, covariance = prior_mean.copy(), prior_covariance.copy()
    logit, spread = prior_logit.copy(), prior_spread.copy()
    queried = np.zeros(n_tasks, dtype=np.bool_)
    rate, probability = np.empty(n_tasks), np.empty(n_tasks)
    known = total = 0.0
    for step in range(budget):
        alpha, beta = schedule(step + 1, budget, rho, gamma, beta0)
        remaining = query_probabilities(
            logit, spread, factors, covariance, queried, alpha, beta, tau, rate, probability
        )
        task = draw_task(probability, uniforms[step])
        outcome = outcomes[task]
        total += known + remaining + (outcome - rate[task]) / probability[task]
        update_posterior(task, outcome, rate[task], factors, mean, covariance, logit, spread)
        queried[task] = True
        known += outcome
    return total / (budget * n_tasks)
