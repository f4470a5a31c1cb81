"""The picture of the importance weights."""

from __future__ import annotations

from typing import Any

import arviz_plots as azp
import numpy as np
import xarray as xr

from ...inference.diagnostics import effective_sample_size, normalised_weights, pareto_k
from ...inference.trees import group_dataset
from .layout import legend_below

# Weights further below the mean than this play no part and would stretch the picture.
_FLOOR = 1e-6
_BINS = 60


def plot_weights(tree: xr.DataTree, *, figsize: tuple[float, float] = (7, 4)) -> Any:
    """Draw the distribution of the importance weights with their diagnostics.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with the group ``importance``.
    figsize : (float, float), default (7, 4)
        Width and height in inches.

    Returns
    -------
    arviz_plots.PlotCollection
        Weights relative to their mean on a logarithmic axis; those under a millionth stand at the
        left end. Effective sample size, Pareto k and the largest share are in the title.
    """
    log_weight = group_dataset(tree, "importance")["log_weight"].values
    weight = normalised_weights(log_weight)
    relative = np.log10(np.maximum(len(weight) * weight, _FLOOR))
    low, high = min(relative.min(), -0.5), max(relative.max(), 0.5)
    collection = azp.plot_dist(
        xr.DataTree.from_dict({"posterior": xr.Dataset({"weight": ("draw", relative)})}),
        sample_dims=["draw"],
        kind="hist",
        stats={"dist": {"bins": _BINS, "range": (float(low), float(high))}},
        visuals={"credible_interval": False, "point_estimate": False, "point_estimate_text": False},
        backend="matplotlib",
        figure_kwargs={"figsize": figsize, "layout": "constrained"},
    )
    axes = collection.viz["plot"]["weight"].item()
    axes.axvline(0, color="C7", linewidth=0.8, label="all weights equal")
    axes.axvline(
        relative.max(), color="C3", linestyle="--", label=f"largest: {weight.max():.2%} of the sum"
    )
    powers = np.arange(np.ceil(low), np.floor(high) + 1)
    axes.set_xticks(powers, [f"{10.0**power:g}" for power in powers])
    axes.set_xlabel("weight of a node, relative to the mean")
    k = pareto_k(log_weight)
    tail = "no tail" if np.isneginf(k) else f"Pareto k {k:.2f}"
    ess = effective_sample_size(weight)
    axes.set_title(f"{len(weight):,} nodes, {ess:,.0f} effective, {tail}")
    legend_below(axes)
    return collection
