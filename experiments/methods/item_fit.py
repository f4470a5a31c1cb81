"""Marginal maximum likelihood for item banks, by an accelerated EM algorithm.

Legend of shapes: m source agents, N items, J items with different outcomes, Q quadrature nodes.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logit, logsumexp

from ...models.errors import DataError
from .item_bank import LOG_WEIGHTS, ItemBank
from .item_mstep import HIGHEST, LOWEST, Expected, local_fit, update_items
from .item_prior import ItemPrior

TOLERANCE = 0.01
FLAT_GAIN = 1e-3
FLAT_ITERATIONS = 10
MAX_ITERATIONS = 300
_MEMORY = 5
_START_ASYMPTOTE = 0.05
_START_DAMPING = 1e-3
_ITEM_TOLERANCE = 0.01
_SINGULAR = 1e-8


def fit_item_bank(outcomes: np.ndarray, *, prior: ItemPrior, asymptotes: bool) -> ItemBank:
    """Fit an item bank to source agents whose abilities are standard normal.

    Parameters
    ----------
    outcomes : numpy.ndarray, shape (m, N)
        0 or 1, no missing cell.
    prior : ItemPrior
        Prior of every item; ``ItemPrior()`` for none.
    asymptotes : bool
        Whether to fit c and d (4PL) or keep them at 0 and 1 (2PL).

    Returns
    -------
    ItemBank
        The mode of the marginal likelihood times the prior density of (log a, b, c, d), inside a
        box that keeps numbers finite: a from 0.05 to 6, xi from -20 to 20, c from 0 to 0.5, d from
        0.5 to 1.

    Raises
    ------
    DataError
        If an outcome is neither 0 nor 1, or there is no agent or no item.

    Notes
    -----
    Bock & Aitkin (1981), with the abilities on 241 equally spaced nodes from -6 to 6. The M step is
    damped Fisher scoring; its fixed-point iteration is extrapolated by Anderson's method (memory
    five, Walker & Ni 2011), and an extrapolation that lowers the objective is replaced by the plain
    step, so the objective never falls. The fit ends when the absolute values of the gradient (of
    parameters that the box does not hold) sum to less than 0.01 over all items, or, for a
    likelihood that is flat there, when ten iterations gained less than 0.001, or after 300.

    Items with the same outcomes have the same parameters and are fitted once.
    """
    outcomes = np.asarray(outcomes, dtype=float)
    if outcomes.ndim != 2 or 0 in outcomes.shape or not np.isin(outcomes, (0.0, 1.0)).all():
        raise DataError(
            "outcomes must be a matrix of 0 and 1 with at least one agent and one item, got shape "
            f"{outcomes.shape}; apply a policy for missing outcomes first"
        )
    unique, inverse, count = np.unique(outcomes, axis=1, return_inverse=True, return_counts=True)
    parameters, trace = _maximise(unique, count.astype(float), prior, free=4 if asymptotes else 2)
    log_slope, intercept, lower, upper = parameters[inverse.ravel()].T
    return ItemBank(np.exp(log_slope), intercept.copy(), lower.copy(), upper.copy(), tuple(trace))


def _maximise(
    outcomes: np.ndarray, count: np.ndarray, prior: ItemPrior, *, free: int
) -> tuple[np.ndarray, list[float]]:
    """Return parameters (J, 4) of items that each occur `count` times, and the objectives."""
    parameters = _start(outcomes, free)
    damping = np.full(len(parameters), _START_DAMPING)
    objective, posterior = _expect(parameters, outcomes, count, prior)
    trace, item_tolerance = [objective], _ITEM_TOLERANCE
    visited: list[np.ndarray] = []
    changes: list[np.ndarray] = []
    for _ in range(MAX_ITERATIONS):
        expected = Expected.of(outcomes, posterior)
        here = local_fit(parameters, expected.successes, expected, prior, free)
        slope = float(count @ np.abs(here.gradient).sum(axis=1))
        if slope < TOLERANCE or _is_flat(trace):
            break
        # The M step need not be more exact than the E step before it.
        item_tolerance = min(item_tolerance, 0.1 * slope / len(parameters))
        plain = update_items(parameters, here, expected, prior, damping, item_tolerance)
        visited = [*visited[-_MEMORY:], parameters]
        changes = [*changes[-_MEMORY:], plain - parameters]
        scale = np.zeros_like(parameters)
        scale[:, :free] = np.sqrt(count[:, None] * np.einsum("jpp->jp", here.information))
        parameters = _extrapolate(plain, visited, changes, scale)
        objective, posterior = _expect(parameters, outcomes, count, prior)
        if objective < trace[-1]:
            visited, changes, parameters = [], [], plain
            objective, posterior = _expect(parameters, outcomes, count, prior)
        trace.append(objective)
    return parameters, trace


def _start(outcomes: np.ndarray, free: int) -> np.ndarray:
    """Return slopes 1 and intercepts at the smoothed success rates, shape (J, 4)."""
    m, n_items = outcomes.shape
    asymptote = _START_ASYMPTOTE if free == 4 else 0.0
    intercept = logit((outcomes.sum(axis=0) + 0.5) / (m + 1))
    zero = np.zeros(n_items)
    return np.column_stack([zero, intercept, zero + asymptote, zero + 1 - asymptote])


def _expect(
    parameters: np.ndarray, outcomes: np.ndarray, count: np.ndarray, prior: ItemPrior
) -> tuple[float, np.ndarray]:
    """Return the penalised marginal log likelihood and the agents' posteriors (m, Q): E step."""
    log_slope, intercept, lower, upper = parameters.T
    failure, success = ItemBank(np.exp(log_slope), intercept, lower, upper).log_curves()
    log_joint = (outcomes * count) @ success + ((1 - outcomes) * count) @ failure + LOG_WEIGHTS
    log_marginal = logsumexp(log_joint, axis=1)
    objective = float(log_marginal.sum() + count @ prior.log_density(parameters))
    return objective, np.exp(log_joint - log_marginal[:, None])


def _extrapolate(
    plain: np.ndarray, visited: list[np.ndarray], changes: list[np.ndarray], scale: np.ndarray
) -> np.ndarray:
    """Return Anderson's extrapolation of the EM iteration, inside the box; shape (J, 4).

    `plain` is the last EM step; `changes` are the EM steps from the `visited` parameters, compared
    in units of each parameter's standard error.
    """
    if len(visited) < 2:
        return plain
    bends, moves = np.diff(changes, axis=0), np.diff(visited, axis=0)
    matrix = (bends * scale).reshape(len(bends), -1).T
    weight = np.linalg.lstsq(matrix, (changes[-1] * scale).ravel(), rcond=_SINGULAR)[0]
    return np.clip(plain - np.tensordot(weight, moves + bends, axes=1), LOWEST, HIGHEST)


def _is_flat(trace: list[float]) -> bool:
    return len(trace) > FLAT_ITERATIONS and trace[-1] - trace[-1 - FLAT_ITERATIONS] < FLAT_GAIN
