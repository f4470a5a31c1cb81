"""The M step of the item bank fit: every item is updated at once.

Legend of shapes: J items, Q quadrature nodes, P free parameters an item (2 or 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from .item_bank import NODES
from .item_prior import ItemPrior

# Columns of a parameter array: log a, xi, c, d. The box keeps every number finite.
LOWEST = np.array([np.log(0.05), -20.0, 0.0, 0.5])
HIGHEST = np.array([np.log(6.0), 20.0, 0.5, 1.0])
_LARGEST_STEP = np.array([0.5, 1.0, 0.1, 0.1])
_STEPS = 5
_DAMPING = (1e-6, 1e8)
_CURVATURE_FLOOR = 1e-8
# An item's expected log likelihood is a sum over nodes, known to about this share of itself.
_ROUNDING = 1e-12
_NEGLIGIBLE_AGENTS = 1e-12


@dataclass(frozen=True, eq=False)
class Expected:
    """What the E step expects of the source agents.

    Attributes
    ----------
    agents : numpy.ndarray, shape (Q,)
        Expected number of agents at each node.
    successes : numpy.ndarray, shape (J, Q)
        Those of them that solve each item.
    nodes : numpy.ndarray, shape (Q,)
        The nodes.
    """

    agents: np.ndarray
    successes: np.ndarray
    nodes: np.ndarray

    @classmethod
    def of(cls, outcomes: np.ndarray, posterior: np.ndarray) -> Expected:
        """Count from outcomes (m, J) and the agents' posteriors (m, Q), without empty nodes."""
        agents = posterior.sum(axis=0)
        kept = agents > _NEGLIGIBLE_AGENTS
        return cls(agents[kept], outcomes.T @ posterior[:, kept], NODES[kept])


@dataclass(frozen=True, eq=False)
class LocalFit:
    """The expected penalised log likelihood of items around their parameters.

    Attributes
    ----------
    value : numpy.ndarray, shape (J,)
        Its value.
    gradient : numpy.ndarray, shape (J, P)
        Its gradient; 0 for a held parameter.
    information : numpy.ndarray, shape (J, P, P)
        Expected (Fisher) information plus the curvature of the prior.
    held : numpy.ndarray, shape (J, P)
        Whether a parameter is at an edge of the box that the gradient points out of.
    """

    value: np.ndarray
    gradient: np.ndarray
    information: np.ndarray
    held: np.ndarray

    def rows(self, index: np.ndarray) -> LocalFit:
        """Return some items."""
        return LocalFit(
            self.value[index], self.gradient[index], self.information[index], self.held[index]
        )

    def replaced(self, other: LocalFit, where: np.ndarray) -> LocalFit:
        """Return `other` for the items of a mask of shape (J,), and this one elsewhere."""
        return LocalFit(
            np.where(where, other.value, self.value),
            np.where(where[:, None], other.gradient, self.gradient),
            np.where(where[:, None, None], other.information, self.information),
            np.where(where[:, None], other.held, self.held),
        )


def local_fit(
    parameters: np.ndarray, successes: np.ndarray, expected: Expected, prior: ItemPrior, free: int
) -> LocalFit:
    """Return value, gradient and information of items.

    Parameters
    ----------
    parameters : numpy.ndarray, shape (J, 4)
        log a, xi, c, d.
    successes : numpy.ndarray, shape (J, Q)
        Expected successes of these items.
    expected : Expected
        For the nodes and the agents at them.
    prior : ItemPrior
        The prior.
    free : {2, 4}
        Number P of leading parameters that are fitted.

    Returns
    -------
    LocalFit
    """
    log_slope, intercept, lower, upper = (column[:, None] for column in parameters.T)
    slope, span = np.exp(log_slope), upper - lower
    eta = slope * expected.nodes + intercept
    rise, rest = expit(eta), expit(-eta)
    p, q = lower + span * rise, (1 - upper) + span * rest
    derivative = np.empty((len(parameters), free, len(expected.nodes)))
    derivative[:, 1] = span * rise * rest
    derivative[:, 0] = derivative[:, 1] * slope * expected.nodes
    if free == 4:
        derivative[:, 2], derivative[:, 3] = rest, rise
    inverse_variance = 1 / (p * q)
    score = (successes - expected.agents * p) * inverse_variance
    gradient = (derivative @ score[:, :, None])[:, :, 0]
    gradient += prior.gradient(parameters)[:, :free]
    weighted = derivative * (expected.agents * inverse_variance)[:, None, :]
    information = weighted @ derivative.transpose(0, 2, 1)
    diagonal = np.arange(free)
    information[:, diagonal, diagonal] += prior.curvature(parameters)[:, :free]
    inside = parameters[:, :free]
    held = ((inside <= LOWEST[:free]) & (gradient < 0)) | (
        (inside >= HIGHEST[:free]) & (gradient > 0)
    )
    value = (successes * np.log(p) + (expected.agents - successes) * np.log(q)).sum(axis=1)
    value += prior.log_density(parameters)
    return LocalFit(value, np.where(held, 0.0, gradient), information, held)


def update_items(
    parameters: np.ndarray,
    start: LocalFit,
    expected: Expected,
    prior: ItemPrior,
    damping: np.ndarray,
    tolerance: float,
) -> np.ndarray:
    """Improve every item by up to five damped Fisher scoring steps inside the box (the M step).

    Parameters
    ----------
    parameters : numpy.ndarray, shape (J, 4)
        log a, xi, c, d.
    start : LocalFit
        At these parameters.
    expected : Expected
        Counts of the E step.
    prior : ItemPrior
        The prior.
    damping : numpy.ndarray, shape (J,)
        Levenberg-Marquardt damping of each item, updated in place for the next M step.
    tolerance : float
        An item is left alone once the absolute values of its gradient sum to less.

    Returns
    -------
    numpy.ndarray, shape (J, 4)
        No item's expected penalised log likelihood is lower than before.
    """
    parameters, free = parameters.copy(), start.gradient.shape[1]
    rows, here = np.arange(len(parameters)), start
    for _ in range(_STEPS):
        moved = parameters[rows]
        moved[:, :free] = np.clip(
            moved[:, :free] + _damped_step(here, damping[rows]), LOWEST[:free], HIGHEST[:free]
        )
        there = local_fit(moved, expected.successes[rows], expected, prior, free)
        better = there.value >= here.value - _ROUNDING * np.abs(here.value)
        damping[rows] = np.clip(damping[rows] * np.where(better, 0.1, 10.0), *_DAMPING)
        parameters[rows[better]] = moved[better]
        here = here.replaced(there, better)
        unfinished = np.abs(here.gradient).sum(axis=1) > tolerance
        if not unfinished.any():
            break
        rows, here = rows[unfinished], here.rows(unfinished)
    return parameters


def _damped_step(here: LocalFit, damping: np.ndarray) -> np.ndarray:
    """Return Fisher scoring steps with damping, 0 for held parameters; shape (J, P)."""
    free = here.gradient.shape[1]
    matrix = np.where(here.held[:, :, None] | here.held[:, None, :], 0.0, here.information)
    diagonal = np.arange(free)
    own = matrix[:, diagonal, diagonal] * (1 + damping[:, None]) + _CURVATURE_FLOOR
    matrix[:, diagonal, diagonal] = np.where(here.held, 1.0, own)
    step = np.linalg.solve(matrix, here.gradient[:, :, None])[:, :, 0]
    return np.clip(step, -_LARGEST_STEP[:free], _LARGEST_STEP[:free])
