"""Item banks of item response theory: response curves, their information, and ability by EAP.

Legend of shapes: N items, Q quadrature nodes of the ability.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit

# A run of 229 queries pins an ability down to about 0.05, so the spacing must be no wider: the
# trapezoid rule is exact to rounding for a normal density as long as the spacing is below its sd.
NODES = np.linspace(-6.0, 6.0, 241)
LOG_WEIGHTS = -0.5 * NODES**2 - np.log(np.exp(-0.5 * NODES**2).sum())
NODES.flags.writeable = False
LOG_WEIGHTS.flags.writeable = False


@dataclass(frozen=True, eq=False)
class ItemBank:
    """Four-parameter logistic items, p(theta) = c + (d - c) sigmoid(a theta + xi).

    Attributes
    ----------
    slope : numpy.ndarray, shape (N,)
        Discrimination a, above 0.
    intercept : numpy.ndarray, shape (N,)
        xi = -a b for an item of difficulty b.
    lower, upper : numpy.ndarray, shape (N,)
        Asymptotes c < d, from 0 to 1; 0 and 1 for a two-parameter item.
    trace : tuple of float
        Objective of the fit at each iteration, the last one that of these parameters; empty for
        parameters that were not fitted.

    Notes
    -----
    The 4PL in its usual form, c + (d - c) sigmoid(a (theta - b)), written with an intercept (as the
    package mirt does): an item that hardly discriminates has a finite intercept, but no finite
    difficulty.
    """

    slope: np.ndarray
    intercept: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    trace: tuple[float, ...] = field(default=())

    @property
    def difficulty(self) -> np.ndarray:
        """Difficulty b of each item, shape (N,)."""
        return -self.intercept / self.slope

    def probability(self, ability: float) -> np.ndarray:
        """Return the success probability of every item at an ability.

        Parameters
        ----------
        ability : float
            Ability theta.

        Returns
        -------
        numpy.ndarray, shape (N,)
        """
        return self.lower + (self.upper - self.lower) * expit(self.slope * ability + self.intercept)

    def information(self, ability: float) -> np.ndarray:
        """Return the Fisher information of every item on the ability.

        Parameters
        ----------
        ability : float
            Ability theta.

        Returns
        -------
        numpy.ndarray, shape (N,)
            a^2 (p - c)^2 (d - p)^2 / ((d - c)^2 p (1 - p)); 0 where a curve is flat to rounding.
        """
        eta = self.slope * ability + self.intercept
        rise, rest, span = expit(eta), expit(-eta), self.upper - self.lower
        # p - c = span * rise, d - p = span * rest; neither difference is formed.
        p, q = self.lower + span * rise, (1 - self.upper) + span * rest
        return (self.slope * span * rise * rest) ** 2 / (p * q)

    def log_curves(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log probabilities of failure and success at the quadrature nodes.

        Returns
        -------
        failure, success : numpy.ndarray, shape (N, Q)
            Finite, even where a curve reaches 0 or 1 to rounding.
        """
        eta = self.slope[:, None] * NODES + self.intercept[:, None]
        span = (self.upper - self.lower)[:, None]
        failure = (1 - self.upper)[:, None] + span * expit(-eta)
        success = self.lower[:, None] + span * expit(eta)
        return np.log(failure), np.log(success)


def expected_ability(log_posterior: np.ndarray) -> float:
    """Return the expected a posteriori (EAP) ability.

    Parameters
    ----------
    log_posterior : numpy.ndarray, shape (Q,)
        Unnormalised log posterior at the quadrature nodes: `LOG_WEIGHTS` plus the log likelihood
        of the known outcomes.

    Returns
    -------
    float
    """
    weight = np.exp(log_posterior - log_posterior.max())
    return float(weight @ NODES / weight.sum())
