"""The declared model's rates at all nodes, in one pass.

`build_model` declares an affine predictor eta = b + L z with Beta parameters kappa (1 + exp(eta))
and kappa (1 + exp(-eta)). Where a model's graph is that declaration, term by term, this kernel
computes what the graph says, several times faster; any other model goes through its compiled graph.

Legend of shapes: J nodes, K latent coordinates, G groups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pymc as pm
from numba import njit
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable, equal_computations

from ..models.declaration import rate_parameters
from .kernels import LARGEST, add_log_likelihood
from .vectorised import exp, fill_exp

_BLOCK = 1024


class LogisticRates(NamedTuple):
    """Data of the declared rates."""

    intercept: np.ndarray
    """Intercepts b, shape (G,)."""
    loading: np.ndarray
    """Slopes and loadings L, shape (G, K)."""
    kappa: float
    """Strength of the group rates."""


def read_logistic_rates(
    model: pm.Model, alpha: Variable, beta: Variable, z: Variable, n_groups: int
) -> LogisticRates | None:
    """Return the data of the rates if the model declares them as `build_model` does.

    Parameters
    ----------
    model : pymc.Model
        The model.
    alpha, beta : Variable
        Graphs of its Beta parameters as functions of `z`.
    z : Variable, shape (K,)
        The latent vector in them.
    n_groups : int
        Number of groups G.

    Returns
    -------
    LogisticRates or None
        Copies of the data's present values; None for any other model.
    """
    data = [model.named_vars.get(name) for name in LogisticRates._fields]
    shared = [variable for variable in data if isinstance(variable, SharedVariable)]
    if len(shared) != len(data):
        return None
    declared = rate_parameters(shared[0], shared[1], shared[2], z)
    if not equal_computations([alpha, beta], list(declared[1:])):
        return None
    intercept, loading, kappa = (np.array(v.get_value(), dtype=float) for v in shared)
    if intercept.shape != (n_groups,) or loading.shape[0] != n_groups or kappa.ndim:
        return None
    return LogisticRates(intercept, loading, float(kappa))


def linearise_logistic(
    rates: LogisticRates, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return predictor, precision of the local offset and Jacobian at one latent state.

    Parameters
    ----------
    rates : LogisticRates
        Data of the rates.
    z : numpy.ndarray, shape (K,)
        Latent state.

    Returns
    -------
    predictor, precision : numpy.ndarray, shape (G,)
        eta, and alpha beta / (alpha + beta) = kappa.
    jacobian : numpy.ndarray, shape (G, K)
        L.
    """
    eta = rates.intercept + rates.loading @ z
    return eta, np.full_like(eta, rates.kappa), rates.loading


@njit(cache=True)
def is_single(size: int, trials: int) -> bool:
    """Return whether a group is one unqueried task, whose Beta parameters matter to nothing."""
    return size == 1 and trials == 0


@njit(cache=True, fastmath={"contract"}, error_model="numpy")
def fill_parameters(eta: np.ndarray, kappa: float, alpha: np.ndarray, beta: np.ndarray) -> None:
    """Write the Beta parameters of one group's rate.

    Parameters
    ----------
    eta : numpy.ndarray, shape (J,)
        Predictor.
    kappa : float
        Strength of the group rates.
    alpha, beta : numpy.ndarray, shape (J,)
        Written.
    """
    for i in range(len(eta)):
        odds = exp(eta[i])
        alpha[i] = min(kappa * (1 + odds), LARGEST)
        beta[i] = min(kappa * (1 + 1 / odds), LARGEST)


# Loops over contiguous buffers, each a function of its own: so they vectorise.
@njit(cache=True, fastmath={"contract"})
def _add_multiple(factor: float, row: np.ndarray, first: int, total: np.ndarray) -> None:
    for i in range(len(total)):
        total[i] += factor * row[first + i]


@njit(cache=True, fastmath={"contract"}, error_model="numpy")
def _fill_mean(
    a: np.ndarray,
    b: np.ndarray,
    share: float,
    first: int,
    mean: np.ndarray,
    mean_score: np.ndarray,
) -> None:
    for i in range(len(a)):
        m = a[i] / (a[i] + b[i])
        mean[first + i] = m
        mean_score[first + i] += share * m


@njit(cache=True, fastmath={"contract"}, error_model="numpy")
def _fill_single(
    odds: np.ndarray, share: float, first: int, mean: np.ndarray, mean_score: np.ndarray
) -> None:
    """Write the mean rate of an unqueried group of one task, which kappa does not change."""
    for i in range(len(odds)):
        bounded = min(odds[i], LARGEST)
        m = bounded / (1 + bounded)
        mean[first + i] = m
        mean_score[first + i] += share * m


@njit(cache=True)
def _copy(values: np.ndarray, first: int, row: np.ndarray) -> None:
    for i in range(len(values)):
        row[first + i] = values[i]


@njit(cache=True, fastmath={"contract"}, error_model="numpy")
def fill_logistic_nodes(
    z: np.ndarray,
    intercept: np.ndarray,
    loading: np.ndarray,
    kappa: float,
    successes: np.ndarray,
    trials: np.ndarray,
    size: np.ndarray,
    compact: bool,
    rate_alpha: np.ndarray,
    rate_beta: np.ndarray,
    mean_rate: np.ndarray,
    log_likelihood: np.ndarray,
    mean_score: np.ndarray,
) -> None:
    """Write the posterior of all nodes into the group-major arrays, as `fill_nodes` does.

    Parameters
    ----------
    z : numpy.ndarray, shape (K, J)
        Latent states, a row a coordinate.
    intercept, loading, kappa
        Data of the rates, shapes (G,), (G, K) and scalar.
    successes, trials, size : numpy.ndarray of int, shape (G,)
        Counts s, n and N of each group.
    compact : bool
        Whether the Beta parameters of unqueried groups of one task are left out.
    rate_alpha, rate_beta, mean_rate : numpy.ndarray, shape (G, J)
        Written: posterior Beta parameters A and F, and A / (A + F).
    log_likelihood, mean_score : numpy.ndarray, shape (J,)
        Written: log likelihood of the ordered outcomes, and E[S | z, D].
    """
    n_groups, n_latent = loading.shape
    n_nodes = z.shape[1]
    n_tasks = size.sum()
    mean_score[:] = successes.sum() / n_tasks
    for first in range(0, n_nodes, _BLOCK):
        block = min(_BLOCK, n_nodes - first)
        eta, a, b, likelihood = np.empty(block), np.empty(block), np.empty(block), np.zeros(block)
        for g in range(n_groups):
            s, n = successes[g], trials[g]
            eta[:] = intercept[g]
            for k in range(n_latent):
                _add_multiple(loading[g, k], z[k], first, eta)
            share = (size[g] - n) / n_tasks
            if compact and is_single(size[g], n):
                fill_exp(eta, a)
                _fill_single(a, share, first, mean_rate[g], mean_score)
                continue
            fill_parameters(eta, kappa, a, b)
            if n > 0:
                add_log_likelihood(a, b, s, n - s, likelihood)
                a += s
                b += n - s
            _fill_mean(a, b, share, first, mean_rate[g], mean_score)
            _copy(a, first, rate_alpha[g])
            _copy(b, first, rate_beta[g])
        _copy(likelihood, first, log_likelihood)
