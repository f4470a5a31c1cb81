"""Equally weighted draws, in chains, as groups of an `xarray.DataTree`.

Legend of shapes: K latent coordinates, G groups, C chains, D draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from .family import RateFamily

SAMPLE = ("chain", "draw")


def chain_tree(
    family: RateFamily,
    *,
    z: np.ndarray,
    prior_rate: np.ndarray,
    rate: np.ndarray,
    unqueried: np.ndarray,
    size: np.ndarray,
    stats: xr.Dataset,
    attributes: Mapping[str, Any],
) -> xr.DataTree:
    """Build the tree of a Markov chain sampler, with the names of the importance sampler's.

    Parameters
    ----------
    family : RateFamily
        The model: names, labels, outcomes and data.
    z : numpy.ndarray, shape (C, D, K)
        Latent states.
    prior_rate, rate : numpy.ndarray, shape (C, D, G)
        Mean rates given the latent state alone, and rates.
    unqueried : numpy.ndarray of int, shape (C, D, G)
        Successes among the tasks without an outcome.
    size : numpy.ndarray of int, shape (G,)
        Tasks of each group.
    stats : xarray.Dataset
        Statistics of the sampler by chain and draw; those that are not numbers are left out.
    attributes : mapping of str to Any
        Facts about the run: attributes of ``sample_stats``.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior`` (latent state, ``p``, rates), ``posterior_predictive`` (score,
        unqueried_successes), ``sample_stats``, ``observed_data`` and ``constant_data``.
    """
    group = family.dims["group"]
    labels = dimension_labels(family)
    by_group = {group: labels[group]}
    kept = {
        name: (SAMPLE, values.values)
        for name, values in stats.data_vars.items()
        # Texts and missing values, such as a divergence's message, cannot be saved as netCDF.
        if values.dims == SAMPLE and values.dtype.kind in "biuf"
    }
    names = {"latent": family.latent, "rate": family.rate, "group": group}
    groups = draw_groups(
        family,
        z=z,
        prior_rate=prior_rate,
        rate=rate,
        unqueried=unqueried,
        successes=family.successes,
        size=size,
    )
    groups["sample_stats"] = xr.Dataset(
        kept,
        coords={"chain": np.arange(z.shape[0]), "draw": np.arange(z.shape[1])},
        attrs=names | dict(attributes),
    )
    groups["observed_data"] = xr.Dataset(
        {"successes": (group, family.successes), "trials": (group, family.trials)},
        coords=by_group,
    )
    groups["constant_data"] = xr.Dataset({"group_size": (group, size)}, coords=by_group).assign(
        model_data(family)
    )
    return xr.DataTree.from_dict(groups)


def dimension_labels(family: RateFamily) -> dict[str, np.ndarray]:
    """Return the labels of the dimensions of latent vector and rates, by dimension.

    Parameters
    ----------
    family : RateFamily
        The model.

    Returns
    -------
    dict of str to numpy.ndarray
    """
    return {dim: _labels(family.coords[role]) for role, dim in family.dims.items()}


def model_data(family: RateFamily) -> dict[str, tuple[tuple[str | None, ...], np.ndarray]]:
    """Return the model's data that belong to ``constant_data``, as dims and values by name.

    Parameters
    ----------
    family : RateFamily
        The model.

    Returns
    -------
    dict of str to tuple
        Without the group sizes, which the sampler validates, and the observations, which are in
        ``observed_data`` by group.
    """
    dims = set(family.dims.values())
    return {
        name: data
        for name, data in family.data.items()
        if set(data[0]) <= dims and name != "group_size"
    }


def draw_groups(
    family: RateFamily,
    *,
    z: np.ndarray,
    prior_rate: np.ndarray,
    rate: np.ndarray,
    unqueried: np.ndarray,
    successes: np.ndarray,
    size: np.ndarray,
) -> dict[str, xr.Dataset]:
    """Build the groups of a tree that hold equally weighted draws, in C chains of D.

    Parameters
    ----------
    family : RateFamily
        The model: names and labels.
    z : numpy.ndarray, shape (C, D, K)
        Latent states.
    prior_rate, rate : numpy.ndarray, shape (C, D, G)
        Mean rates given the latent state alone, and rates.
    unqueried : numpy.ndarray of int, shape (C, D, G)
        Successes among the tasks without an outcome.
    successes, size : numpy.ndarray of int, shape (G,)
        Observed successes and tasks of each group.

    Returns
    -------
    dict of str to xarray.Dataset
        ``posterior`` and ``posterior_predictive``.
    """
    latent, group = family.dims["latent"], family.dims["group"]
    labels = dimension_labels(family)
    score = (successes.sum() + unqueried.sum(axis=-1)) / size.sum()
    coords = {"chain": np.arange(z.shape[0]), "draw": np.arange(z.shape[1])}
    posterior = xr.Dataset(
        {
            family.latent: ((*SAMPLE, latent), z),
            "p": ((*SAMPLE, group), prior_rate),
            family.rate: ((*SAMPLE, group), rate),
        },
        coords=coords | labels,
    )
    predictive = xr.Dataset(
        {
            "score": (SAMPLE, score),
            "unqueried_successes": ((*SAMPLE, group), unqueried),
        },
        coords=coords | {group: labels[group]},
    )
    return {"posterior": posterior, "posterior_predictive": predictive}


def _labels(values: list[Any]) -> np.ndarray:
    array = np.array(values)
    return array.astype(object) if array.dtype.kind == "U" else array
