"""Independent oracles: dense quadrature over the latent state and mpmath, from the formulas.

They share no code with the package: a model here is a function from latent states to Beta
parameters and a log prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np

Rates = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
LogPrior = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Moments:
    """Posterior moments by quadrature."""

    score_mean: float
    score_sd: float
    z_mean: np.ndarray
    z_sd: np.ndarray
    log_evidence: float
    rate_mean: np.ndarray
    score_covariance: np.ndarray
    z_covariance: np.ndarray


def grid(half_width: float, points: int, dimensions: int) -> tuple[np.ndarray, float]:
    """A uniform grid (points^K, K) and the volume of its cells (the trapezoid rule's weight)."""
    axis = np.linspace(-half_width, half_width, points)
    mesh = np.meshgrid(*[axis] * dimensions, indexing="ij")
    return np.stack([part.ravel() for part in mesh], axis=1), (axis[1] - axis[0]) ** dimensions


def quadrature(
    rates: Rates,
    log_prior: LogPrior,
    size: np.ndarray,
    successes: np.ndarray,
    trials: np.ndarray,
    z: np.ndarray,
    cell: float,
) -> Moments:
    """Posterior moments on a grid: exact beta-binomial terms, one rising factor at a time.

    `score_covariance` is Cov(S, Y_g) for one unqueried task of group g; `z_covariance` (K, G) is
    Cov(z_k, Y_g).
    """
    n_tasks = size.sum()
    alpha, beta = rates(z)
    log_joint = log_prior(z)
    for g in range(len(size)):
        a, b = alpha[:, g].copy(), beta[:, g].copy()
        for outcome in [1] * successes[g] + [0] * (trials[g] - successes[g]):
            log_joint = log_joint - (np.log1p(b / a) if outcome else np.log1p(a / b))
            a, b = (a + 1, b) if outcome else (a, b + 1)
        alpha[:, g], beta[:, g] = a, b
    top = log_joint.max()
    weight = np.exp(log_joint - top)
    log_evidence = top + np.log(weight.sum() * cell)
    weight /= weight.sum()

    m, total = alpha / (alpha + beta), alpha + beta
    unqueried = size - trials
    variance = m * (1 - m)
    tau2 = variance / (total + 1)
    conditional_mean = (successes.sum() + m @ unqueried) / n_tasks
    conditional_variance = (variance * unqueried + tau2 * unqueried * (unqueried - 1)).sum(axis=1)
    score_mean = weight @ conditional_mean
    score_variance = (
        weight @ (conditional_mean - score_mean) ** 2 + weight @ conditional_variance / n_tasks**2
    )
    z_mean = weight @ z
    within = weight @ (variance + (unqueried - 1) * tau2) / n_tasks
    between = (weight * (conditional_mean - score_mean)) @ m
    return Moments(
        score_mean=float(score_mean),
        score_sd=float(np.sqrt(score_variance)),
        z_mean=z_mean,
        z_sd=np.sqrt(weight @ (z - z_mean) ** 2),
        log_evidence=float(log_evidence),
        rate_mean=weight @ m,
        score_covariance=within + between,
        z_covariance=(weight[:, None] * (z - z_mean)).T @ m,
    )


def log_sequence_likelihood(alpha: object, beta: object, successes: int, trials: int) -> mpmath.mpf:
    """Log B(alpha + s, beta + n - s) / B(alpha, beta) in the working precision of mpmath."""
    a, b = mpmath.mpf(alpha), mpmath.mpf(beta)
    failures = trials - successes
    numerator = mpmath.rf(a, successes) * mpmath.rf(b, failures)
    return mpmath.log(numerator / mpmath.rf(a + b, trials))
