"""Priors of item parameters, and the difficulties' prior as the source agents suggest it.

Legend of shapes: m source agents, N or J items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import logit, logsumexp

DIFFICULTY_SD = 2.0
# Weak prior of the difficulties' mean and log sd: a few dozen items outweigh it.
_MEAN_SD = 2.0
_LOG_SD_SD = 0.5
_SD_RANGE = (0.25, 6.0)
_MEAN_RANGE = (-8.0, 8.0)
_DIFFICULTIES = np.linspace(-20.0, 20.0, 401)
_ABILITY_SD_FLOOR = 0.25


@dataclass(frozen=True)
class ItemPrior:
    """Independent priors of an item's parameters; the defaults leave them flat.

    Attributes
    ----------
    log_slope_sd : float
        Sd of log a ~ Normal(0, sd^2); infinite for none.
    difficulty_mean, difficulty_sd : float
        Mean and sd of b ~ Normal(mean, sd^2), for xi = -a b; an infinite sd for none.
    asymptote_count : float
        beta of c ~ Beta(1, beta) and d ~ Beta(beta, 1), from 1 for none. Their modes are 0 and 1:
        an item gets another asymptote only where the outcomes ask for it.
    """

    log_slope_sd: float = np.inf
    difficulty_mean: float = 0.0
    difficulty_sd: float = np.inf
    asymptote_count: float = 1.0

    def log_density(self, parameters: np.ndarray) -> np.ndarray:
        """Return the log density in (log a, b, c, d) up to a constant, shape (J, 4) to (J,).

        The parameters are log a, xi, c, d.
        """
        log_slope, intercept, lower, upper = parameters.T
        difficulty = -intercept * np.exp(-log_slope)
        deviation = (difficulty - self.difficulty_mean) / self.difficulty_sd
        normal = (log_slope / self.log_slope_sd) ** 2 + deviation**2
        return -0.5 * normal + (self.asymptote_count - 1) * (np.log1p(-lower) + np.log(upper))

    def gradient(self, parameters: np.ndarray) -> np.ndarray:
        """Return the gradient of `log_density` in (log a, xi, c, d), shape (J, 4)."""
        log_slope, intercept, lower, upper = parameters.T
        difficulty = -intercept * np.exp(-log_slope)
        pull = (difficulty - self.difficulty_mean) / self.difficulty_sd**2
        count = self.asymptote_count - 1
        log_slope_part = -log_slope / self.log_slope_sd**2 + pull * difficulty
        intercept_part = pull * np.exp(-log_slope)
        return np.column_stack(
            [log_slope_part, intercept_part, -count / (1 - lower), count / upper]
        )

    def curvature(self, parameters: np.ndarray) -> np.ndarray:
        """Return the Gauss-Newton curvature of `log_density`, its diagonal; shape (J, 4)."""
        log_slope, intercept, lower, upper = parameters.T
        inverse_slope, count = np.exp(-log_slope), self.asymptote_count - 1
        columns = (
            1 / self.log_slope_sd**2 + (intercept * inverse_slope / self.difficulty_sd) ** 2,
            (inverse_slope / self.difficulty_sd) ** 2,
            count / (1 - lower) ** 2,
            count / upper**2,
        )
        return np.column_stack(columns)


def difficulty_prior(outcomes: np.ndarray) -> tuple[float, float]:
    """Estimate mean and sd of the items' difficulties from the source agents (empirical Bayes).

    Parameters
    ----------
    outcomes : numpy.ndarray, shape (m, N)
        0 or 1.

    Returns
    -------
    mean, sd : float
        From -8 to 8, and from 0.25 to 6.

    Notes
    -----
    Maximum of the marginal likelihood of b_j ~ Normal(mean, sd^2), logit p_sj = theta_s - b_j
    (slope 1), with theta the standardised logits of the agents' smoothed scores; b is integrated
    out on a grid. No outcome bounds the difficulty of a task that no source agent solved, so how
    far above the others it lies depends on this prior alone: a fixed Normal(0, 2^2) would expect
    one in twenty agents to solve it, whatever the bank. The mean has the weak prior
    Normal(0, 2^2), and log sd the prior Normal(log 2, 0.5^2).
    """
    m, n_items = outcomes.shape
    raw = logit((outcomes.sum(axis=1) + 0.5) / (n_items + 1))
    ability = (raw - raw.mean()) / max(raw.std(), _ABILITY_SD_FLOOR)
    # Given b, an item's likelihood depends on its outcomes through its number of successes only.
    weight = np.bincount(outcomes.sum(axis=0).astype(int), minlength=m + 1)
    counts = np.flatnonzero(weight)
    normaliser = np.logaddexp(0.0, ability - _DIFFICULTIES[:, None]).sum(axis=1)
    log_likelihood = -counts[:, None] * _DIFFICULTIES - normaliser

    def loss(point: np.ndarray) -> float:
        mean, log_sd = point
        log_density = -0.5 * ((_DIFFICULTIES - mean) / np.exp(log_sd)) ** 2
        log_density -= logsumexp(log_density)
        marginal = weight[counts] @ logsumexp(log_likelihood + log_density, axis=1)
        hyper = (mean / _MEAN_SD) ** 2 + ((log_sd - np.log(DIFFICULTY_SD)) / _LOG_SD_SD) ** 2
        return float(0.5 * hyper - marginal)

    best = minimize(
        loss,
        np.array([0.0, np.log(DIFFICULTY_SD)]),
        method="L-BFGS-B",
        bounds=[_MEAN_RANGE, tuple(np.log(_SD_RANGE))],
    )
    return float(best.x[0]), float(np.exp(best.x[1]))
