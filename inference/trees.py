"""The posterior of the importance sampler as an `xarray.DataTree`.

Legend of shapes: J nodes, K latent coordinates, G groups, D draws.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ..models.errors import DataError
from .chains import dimension_labels, draw_groups, model_data
from .diagnostics import effective_sample_size, log_evidence, pareto_k
from .family import RateFamily
from .nodes import WeightedNodes
from .predictive import stratified_nodes
from .proposal import Proposal


def working_tree(family: RateFamily, arrays: WeightedNodes) -> xr.DataTree:
    """Build a tree of views on a sampler's arrays.

    Parameters
    ----------
    family : RateFamily
        The model: names and labels.
    arrays : WeightedNodes
        The sampler's arrays.

    Returns
    -------
    xarray.DataTree
        Groups ``importance`` (dimension ``node``: z, log_weight, mean_score, and mean_rate,
        rate_alpha, rate_beta by group), ``observed_data`` and ``constant_data``.
    """
    latent, group = family.dims["latent"], family.dims["group"]
    by_group = ("node", group)
    importance = xr.Dataset(
        {
            family.latent: (("node", latent), arrays.z),
            "log_weight": ("node", arrays.log_weight),
            "mean_score": ("node", arrays.mean_score),
            "mean_rate": (by_group, arrays.mean_rate.T),
            "rate_alpha": (by_group, arrays.rate_alpha.T),
            "rate_beta": (by_group, arrays.rate_beta.T),
        },
        attrs={"latent": family.latent, "rate": family.rate, "group": group},
    )
    observed = xr.Dataset(
        {"successes": (group, arrays.successes), "trials": (group, arrays.trials)}
    )
    constant = xr.Dataset({"group_size": (group, arrays.size)})
    groups = {"importance": importance, "observed_data": observed, "constant_data": constant}
    return xr.DataTree.from_dict(groups)


def group_dataset(tree: xr.DataTree, name: str) -> xr.Dataset:
    """Return one group of a posterior tree, without a copy.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior.
    name : str
        Name of the group.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    DataError
        If the tree has no such group.
    """
    if name not in tree.children:
        found = ", ".join(tree.children) or "none"
        raise DataError(
            f"the posterior tree has no group {name!r} (found: {found}); take the tree of a "
            "SobolSampler or an Evaluator"
        )
    return tree.children[name].dataset


def posterior_tree(
    family: RateFamily,
    arrays: WeightedNodes,
    proposal: Proposal,
    *,
    draws: int,
    seed: int,
    sobol_seed: int,
) -> xr.DataTree:
    """Build a tree that no later update changes.

    Parameters
    ----------
    family : RateFamily
        The model: names, labels and data.
    arrays : WeightedNodes
        The sampler's arrays.
    proposal : Proposal
        The proposal that placed the nodes.
    draws : int
        Equally weighted draws D of the stratified resample.
    seed : int
        Seed of the resampling and of the predictive draws.
    sobol_seed : int
        Seed of the nodes' scramble, recorded.

    Returns
    -------
    xarray.DataTree
        The groups of `working_tree`, copied and labelled, ``posterior`` (chain, draw: latent state,
        ``p`` = mean rate given the latent state alone, rates) and ``posterior_predictive`` (score,
        unqueried_successes).
    """
    if draws < 1:
        raise DataError(f"draws must be a whole number from 1, got {draws!r}")
    latent = family.dims["latent"]
    labels = dimension_labels(family)

    def kept(dataset: xr.Dataset) -> xr.Dataset:
        present = {dim: values for dim, values in labels.items() if dim in dataset.dims}
        return dataset.copy(deep=True).assign_coords(present)

    groups = {name: kept(node.to_dataset()) for name, node in working_tree(family, arrays).items()}
    groups["importance"] = (
        groups["importance"]
        .assign(
            proposal_mean=(latent, proposal.center),
            proposal_covariance=((latent, f"{latent}_other"), proposal.covariance),
        )
        .assign_attrs(
            ess=effective_sample_size(arrays.weight),
            pareto_k=pareto_k(arrays.log_weight),
            max_weight=float(arrays.weight.max()),
            log_evidence=log_evidence(arrays.log_weight),
            proposal=proposal.kind,
            sobol_seed=sobol_seed,
        )
    )
    groups["constant_data"] = groups["constant_data"].assign(model_data(family))

    rng = np.random.default_rng(seed)
    node = stratified_nodes(arrays.weight, draws, rng)
    # Shuffled, since ArviZ reads the order of draws as time.
    rng.shuffle(node)
    z = arrays.z[node]
    alpha, beta, _ = family.evaluate(z)
    rate = rng.beta(arrays.rate_alpha[:, node].T, arrays.rate_beta[:, node].T)
    unqueried = rng.binomial(arrays.unqueried, rate)
    groups |= draw_groups(
        family,
        z=z[None],
        prior_rate=(alpha / (alpha + beta))[None],
        rate=rate[None],
        unqueried=unqueried[None],
        successes=arrays.successes,
        size=arrays.size,
    )
    order = ("posterior", "posterior_predictive", "importance", "observed_data", "constant_data")
    return xr.DataTree.from_dict({name: groups[name] for name in order})


def add_outcomes(
    tree: xr.DataTree,
    *,
    tasks: Sequence[str],
    outcomes: Sequence[int],
    groups: Sequence[int],
    seed: int,
) -> None:
    """Add the outcomes in the order of the queries, and replicates of them, to a posterior tree.

    Parameters
    ----------
    tree : xarray.DataTree
        Tree of `posterior_tree`; its groups ``observed_data`` and ``posterior_predictive`` get the
        variable ``outcome`` over the dimension ``query``, the former also ``queried_task``.
    tasks : sequence of str, length n
        Queried tasks in order.
    outcomes : sequence of {0, 1}, length n
        Their outcomes.
    groups : sequence of int, length n
        Their groups.
    seed : int
        Seed of the replicates.

    Notes
    -----
    A replicate is a Bernoulli draw at the posterior rate of the query's group. The two variables of
    one name are what ArviZ's predictive checks compare: ``az.plot_ppc_pava(tree,
    var_names="outcome")``.
    """
    rate = group_dataset(tree, "posterior")[tree["importance"].attrs["rate"]]
    # Apart from the generator of the draws, whose uniforms it would repeat.
    rng = np.random.default_rng([seed, 1])
    at_query = rate.values[..., np.asarray(groups, dtype=np.int64)]
    replicates = (rng.random(at_query.shape) < at_query).astype(np.int64)
    query = np.arange(len(outcomes))
    tree["observed_data"].dataset = (
        tree["observed_data"]
        .to_dataset()
        .assign(outcome=("query", np.asarray(outcomes, dtype=np.int64)))
        .assign_coords(query=query, queried_task=("query", np.array(list(tasks), dtype=object)))
    )
    # Without the tasks' names: `arviz.summary` cannot put variables with and without them together.
    tree["posterior_predictive"].dataset = (
        tree["posterior_predictive"]
        .to_dataset()
        .assign(outcome=(("chain", "draw", "query"), replicates))
        .assign_coords(query=query)
    )


def plain_attributes(settings: Mapping[Any, Any]) -> dict[str, Any]:
    """Return settings as attributes that every netCDF engine writes.

    Parameters
    ----------
    settings : mapping of str to Any
        Settings by name.

    Returns
    -------
    dict of str to Any
        Without those that are None; text and numbers as they are, all else (true and false,
        lists, dictionaries) as JSON.
    """
    plain = {str(name): _plain(value) for name, value in settings.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim < 2 and value.dtype.kind in "iuf":
        return value
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | float):
        return value
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and -(2**63) <= value < 2**63:
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
