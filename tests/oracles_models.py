"""Independent computations that the tests of several modules compare with, and small banks."""

from typing import Any

import numpy as np
from scipy.optimize import minimize

from hspr.models.responses import ResponseMatrix

INTERCEPT_PRECISION = 1.0
SLOPE_PRECISION = 2.0


def matrix(values: object, name: str = "bank") -> ResponseMatrix:
    """Build a matrix with agents a0, a1, ... and tasks t0, t1, ..."""
    array = np.asarray(values, dtype=float)
    agents = [f"a{row}" for row in range(array.shape[0])]
    tasks = [f"t{column}" for column in range(array.shape[1])]
    return ResponseMatrix.from_arrays(array, agents=agents, tasks=tasks, name=name)


def random_matrix(
    m: int, n: int, *, seed: int, missing: float = 0.0, spread: float = 1.5
) -> ResponseMatrix:
    """Draw a matrix of agents and tasks of different strength; missing cells are modelled."""
    rng = np.random.default_rng(seed)
    eta = spread * (rng.normal(size=(m, 1)) + rng.normal(size=n))
    values = (rng.random((m, n)) < 1 / (1 + np.exp(-eta))).astype(float)
    values[rng.random((m, n)) < missing] = np.nan
    return matrix(values).with_missing("model" if missing else "refuse")


def best_item(
    outcomes: np.ndarray, ability: np.ndarray, start: float
) -> tuple[np.ndarray, np.ndarray]:
    """Maximise one task's penalised log likelihood over (intercept, slope); NaN is unknown.

    Returns the optimum and its distance from the start (start, 1).
    """
    known = ~np.isnan(outcomes)
    y, theta = outcomes[known], ability[known]

    def negative(x: np.ndarray) -> float:
        eta = x[0] + x[1] * theta
        log_likelihood = (y * eta - np.logaddexp(0, eta)).sum()
        penalty = INTERCEPT_PRECISION * (x[0] - start) ** 2 + SLOPE_PRECISION * (x[1] - 1) ** 2
        return -log_likelihood + penalty / 2

    begin = np.array([start, 1.0])
    options: Any = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 4000, "maxfev": 4000}
    fit = minimize(negative, begin, method="Nelder-Mead", options=options)
    assert fit.success, fit.message
    return fit.x, np.abs(fit.x - begin)


def residual_loading(
    outcomes: np.ndarray, probability: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute equation 19 through the eigenvectors of E E', for a complete matrix.

    Returns the loadings of all directions with a singular value above 1e-8, and these values.
    """
    m = len(outcomes)
    residual = outcomes - probability
    residual = residual - residual.mean(axis=0)
    value, left = np.linalg.eigh(residual @ residual.T)
    keep = value > 1e-16 * max(1.0, value.max())
    singular, left = np.sqrt(value[keep])[::-1], left[:, keep][:, ::-1]
    variance = np.maximum((probability * (1 - probability)).mean(axis=0), 0.08)
    # V S = E' U.
    return residual.T @ left / (np.sqrt(max(1, m - 1)) * variance[:, None]), singular
