"""What one more outcome would teach: a gain for each group, larger is better.

Legend of shapes: J nodes, K latent coordinates, G groups.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from ..inference.diagnostics import normalised_weights
from ..inference.kernels import outcome_moments, weighted_sums
from ..inference.trees import group_dataset
from ..models.errors import DataError


def score_gain(tree: xr.DataTree) -> np.ndarray:
    """Return the expected drop of the score's variance by one outcome of each group.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with the groups ``importance``, ``observed_data`` and ``constant_data``.

    Returns
    -------
    numpy.ndarray, shape (G,)
        Cov(S, Y)^2 / Var(Y) (equation 10, proposition 1); minus infinity where nothing is left to
        query, zero where the outcome is certain.
    """
    importance = group_dataset(tree, "importance")
    size = group_dataset(tree, "constant_data")["group_size"].values
    unqueried = size - group_dataset(tree, "observed_data")["trials"].values
    weight = normalised_weights(importance["log_weight"].values)
    mean_score = importance["mean_score"].values
    deviation = weight * (mean_score - weight @ mean_score)
    rates = (_by_group(importance[name]) for name in ("mean_rate", "rate_alpha", "rate_beta"))
    mean, within, between = outcome_moments(*rates, unqueried, weight, deviation)
    return _gain((within / size.sum() + between) ** 2, mean, unqueried)


def latent_gain(tree: xr.DataTree) -> np.ndarray:
    """Return the expected drop of the latent state's total variance by one outcome of each group.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with the groups ``importance``, ``observed_data`` and ``constant_data``.

    Returns
    -------
    numpy.ndarray, shape (G,)
        sum_k Cov(z_k, Y)^2 / Var(Y) (equation 13); minus infinity where nothing is left to query,
        zero where the outcome is certain.
    """
    importance = group_dataset(tree, "importance")
    size = group_dataset(tree, "constant_data")["group_size"].values
    unqueried = size - group_dataset(tree, "observed_data")["trials"].values
    weight = normalised_weights(importance["log_weight"].values)
    z = importance[importance.attrs["latent"]].values
    deviation = weight[:, None] * (z - weight @ z)
    mean_rate = _by_group(importance["mean_rate"])
    weights = np.column_stack([weight, deviation])
    if mean_rate.dtype == np.float64:
        moments = mean_rate @ weights
    else:
        moments = weighted_sums(mean_rate, np.ascontiguousarray(weights.T))
    return _gain((moments[:, 1:] ** 2).sum(axis=1), moments[:, 0], unqueried)


GAINS: dict[str, Callable[[xr.DataTree], np.ndarray]] = {
    "score": score_gain,
    "latent": latent_gain,
}


def gain_of(criterion: str) -> Callable[[xr.DataTree], np.ndarray]:
    """Return the gain function of a criterion by name.

    Parameters
    ----------
    criterion : {"score", "latent"}
        Name of the criterion.

    Returns
    -------
    callable

    Raises
    ------
    DataError
        If the name is unknown.
    """
    if criterion not in GAINS:
        raise DataError(f"criterion must be one of {', '.join(GAINS)}, got {criterion!r}")
    return GAINS[criterion]


def _by_group(values: xr.DataArray) -> np.ndarray:
    """Return a (node, group) array group-major: a view where the sampler wrote it so."""
    return np.ascontiguousarray(values.values.T)


def _gain(squared: np.ndarray, mean: np.ndarray, unqueried: np.ndarray) -> np.ndarray:
    variance = mean * (1 - mean)
    uncertain = variance > 0
    gain = np.divide(squared, variance, out=np.zeros_like(mean), where=uncertain)
    return np.where(unqueried > 0, gain, -np.inf)
