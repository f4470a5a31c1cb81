"""The zero-inflated Beta prior of the tasks' success rates, fitted by marginal likelihood.

A task's rate is 0 with probability ``zero_mass`` and Beta(a, b) otherwise; its h successes among m
source agents are then zero-inflated beta-binomial (appendix A of the paper, on initialisation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

# Bounds of (logit zero_mass, log a, log b): wide enough that only a likelihood that grows towards
# the edge (no zero mass at all, say) ends on them.
_BOUNDS = ((-11.5, 11.5), (-7.0, 7.0), (-7.0, 7.0))
_STARTS = ((0.05, 1.0, 1.0), (0.3, 1.0, 2.0), (0.5, 0.5, 0.5))


@dataclass(frozen=True)
class ZeroInflatedBeta:
    """The mixture zero_mass * delta_0 + (1 - zero_mass) * Beta(a, b) of success rates."""

    zero_mass: float
    a: float
    b: float

    def posterior_mean(self, successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
        """Return the expected rate of tasks with given counts.

        Parameters
        ----------
        successes, trials : numpy.ndarray, shape (N,)
            Counts over the source agents.

        Returns
        -------
        numpy.ndarray, shape (N,)
            (h + a) / (m + a + b), times the posterior probability of the continuous component
            where h = 0.
        """
        rate = (successes + self.a) / (trials + self.a + self.b)
        log_none = _log_rising(self.b, trials) - _log_rising(self.a + self.b, trials)
        continuous = (1 - self.zero_mass) * np.exp(log_none)
        return np.where(successes == 0, rate * continuous / (self.zero_mass + continuous), rate)


def fit_zero_inflated_beta(successes: np.ndarray, trials: np.ndarray) -> ZeroInflatedBeta:
    """Fit the zero-inflated Beta prior by maximum marginal likelihood.

    Parameters
    ----------
    successes, trials : numpy.ndarray of int, shape (N,)
        Successes h and trials m of each task over the source agents.

    Returns
    -------
    ZeroInflatedBeta
        The best of three deterministic starts.
    """
    pairs, count = np.unique(np.column_stack([successes, trials]), axis=0, return_counts=True)
    h, m = pairs.T

    def negative(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _log_likelihood(parameters, h, m, count)
        return -value / count.sum(), -gradient / count.sum()

    fits = [
        minimize(
            negative,
            x0=[np.log(zero / (1 - zero)), np.log(a), np.log(b)],
            jac=True,
            method="L-BFGS-B",
            bounds=_BOUNDS,
            options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 1000},
        )
        for zero, a, b in _STARTS
    ]
    best = min(fits, key=lambda fit: fit.fun)
    return ZeroInflatedBeta(float(expit(best.x[0])), *np.exp(best.x[1:]).tolist())


def _log_likelihood(
    parameters: np.ndarray, h: np.ndarray, m: np.ndarray, count: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the log marginal likelihood (binomial coefficients left out) and its gradient."""
    logit, (a, b) = parameters[0], np.exp(parameters[1:])
    log_beta = _log_rising(a, h) + _log_rising(b, m - h) - _log_rising(a + b, m)
    total = _inverse_rising(a + b, m)
    d_log_a = a * (_inverse_rising(a, h) - total)
    d_log_b = b * (_inverse_rising(b, m - h) - total)
    log_zero, log_rest = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
    log_terms = np.stack([np.where(h == 0, log_zero, -np.inf), log_rest + log_beta])
    log_mixture = logsumexp(log_terms, axis=0)
    responsibility = np.exp(log_terms[1] - log_mixture)
    zero_mass = expit(logit)
    gradient = np.array(
        [
            count @ (1 - responsibility - zero_mass),
            count @ (responsibility * d_log_a),
            count @ (responsibility * d_log_b),
        ]
    )
    return float(count @ log_mixture), gradient


def _log_rising(x: float, n: np.ndarray) -> np.ndarray:
    """Return log x(x+1)...(x+n-1) for each n, as a sum: no difference of gamma functions."""
    steps = np.arange(int(n.max(initial=0)))
    return np.concatenate([[0.0], np.cumsum(np.log(x + steps))])[n]


def _inverse_rising(x: float, n: np.ndarray) -> np.ndarray:
    """Return 1/x + 1/(x+1) + ... + 1/(x+n-1), the derivative of the above in x."""
    steps = np.arange(int(n.max(initial=0)))
    return np.concatenate([[0.0], np.cumsum(1 / (x + steps))])[n]
