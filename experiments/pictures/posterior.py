"""Pictures of latent state and group rates, and of two posteriors over each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import arviz_plots as azp
import numpy as np
import xarray as xr

from ...inference.trees import group_dataset
from ...models.errors import DataError
from ..metrics import PERCENT
from .layout import legend_of_models

_SAMPLE = ("chain", "draw")
_STYLES = ("-", "--", ":", "-.")


def plot_latent(
    tree: xr.DataTree, *, prob: float = 0.9, figsize: tuple[float, float] | None = None
) -> Any:
    """Draw medians and intervals of the latent state z.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with the group ``posterior``.
    prob : float, default 0.9
        Probability of the thin intervals; the thick ones hold half.
    figsize : (float, float), default None
        Width and height in inches; None grows with the number of coordinates.

    Returns
    -------
    arviz_plots.PlotCollection
    """
    z = group_dataset(tree, "posterior")[_name(tree, "latent", "z")]
    (dim,) = (dim for dim in z.dims if dim not in _SAMPLE)
    collection = _forest(
        xr.DataTree.from_dict({"posterior": z.to_dataset()}),
        dim=str(dim),
        prob=prob,
        figsize=figsize or (7, 1.4 + 0.35 * z.sizes[dim]),
    )
    axes = collection.viz["plot"].sel(column="forest").item()
    axes.axvline(0, color="C7", linewidth=0.8, zorder=0)
    axes.set_xlabel("latent state z")
    collection.viz["figure"].item().suptitle(
        f"latent state: median, 50% and {prob:.0%} interval", fontsize="medium"
    )
    return collection


def plot_rates(
    tree: xr.DataTree,
    *,
    groups: int = 18,
    prob: float = 0.9,
    figsize: tuple[float, float] | None = None,
) -> Any:
    """Draw what the outcomes of a group say about its own rate, beyond the latent state.

    For each group p, the mean of its rate given the latent state alone, beside q, its rate given
    its own outcomes too. Of the observed groups those are drawn whose outcomes moved the expected
    number of solved tasks the most, N_g abs(E[q_g] - E[p_g]), the largest at the top.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with the groups ``posterior``, ``observed_data`` and ``constant_data``.
    groups : int, default 18
        How many groups to draw at most.
    prob : float, default 0.9
        Probability of the thin intervals; the thick ones hold half.
    figsize : (float, float), default None
        Width and height in inches; None grows with the number of groups.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    DataError
        If no group has an outcome, or `groups` is not positive.
    """
    if groups < 1:
        raise DataError(f"groups must be a whole number from 1, got {groups!r}; try 18")
    posterior = group_dataset(tree, "posterior")
    p, q = posterior["p"], posterior[_name(tree, "rate", "q")]
    (dim,) = (dim for dim in q.dims if dim not in _SAMPLE)
    observed = group_dataset(tree, "observed_data")
    successes, trials = observed["successes"].values, observed["trials"].values
    size = group_dataset(tree, "constant_data")["group_size"].values
    shift = size * np.abs(q.mean(_SAMPLE).values - p.mean(_SAMPLE).values)
    order = [int(g) for g in np.argsort(-shift, kind="stable") if trials[g] > 0][:groups]
    if not order:
        raise DataError("no group has an outcome yet: tell one first, then draw its rates")
    labels = [f"{q[dim].values[g]}: {successes[g]}/{trials[g]} of {size[g]}" for g in order]
    kinds = {"p, from the latent state": p, "q, with own outcomes": q}
    trees = {
        kind: xr.DataTree.from_dict(
            {
                "posterior": xr.Dataset(
                    {"rate": PERCENT * rate.isel({dim: order}).assign_coords({dim: labels})}
                )
            }
        )
        for kind, rate in kinds.items()
    }
    collection = _forest(
        trees, dim=str(dim), prob=prob, figsize=figsize or (8, 1.8 + 0.35 * len(order))
    )
    axes = collection.viz["plot"].sel(column="forest").item()
    axes.set_xlabel("rate (%)")
    collection.viz["figure"].item().suptitle(
        f"group rates: median, 50% and {prob:.0%} interval\n"
        "(names: solved/queried of the group's tasks)",
        fontsize="medium",
    )
    legend_of_models(collection, "trunk", "rate", list(kinds))
    return collection


def plot_overlay(
    trees: Mapping[str, xr.DataTree],
    *,
    var_names: Sequence[str] = ("z", "score"),
    kind: Literal["ecdf", "kde", "hist"] = "ecdf",
    figsize: tuple[float, float] | None = None,
) -> Any:
    """Draw two or more posteriors over each other, such as NUTS and the importance sampler.

    Parameters
    ----------
    trees : mapping of str to xarray.DataTree
        Label to posterior; all have the variables to draw, in any number of chains and draws.
    var_names : sequence of str, default ("z", "score")
        Variables of the groups ``posterior`` or ``posterior_predictive``.
    kind : {"ecdf", "kde", "hist"}, default "ecdf"
        Cumulative distributions show the smallest difference, and take constants as well.
    figsize : (float, float), default None
        Width and height in inches; None grows with the number of panels.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    DataError
        If there are fewer than two posteriors, or one lacks a variable or has it of another size.
    """
    if len(trees) < 2:
        raise DataError(f"trees must hold two posteriors or more, got {len(trees)}; add one")
    pooled = {label: _pooled(label, tree, var_names) for label, tree in trees.items()}
    (first, reference), *others = pooled.items()
    for label, dataset in others:
        for name in var_names:
            if dataset[name].shape[1:] != reference[name].shape[1:]:
                raise DataError(
                    f"variable {name!r} has shape {dataset[name].shape[1:]} in posterior "
                    f"{label!r} and {reference[name].shape[1:]} in {first!r}; take posteriors of "
                    "one model"
                )
    # ArviZ puts posteriors side by side, so they need equally many draws and the same labels.
    draws = min(dataset.sizes["draw"] for dataset in pooled.values())
    thinned = {
        label: xr.DataTree.from_dict({"posterior": _thinned(dataset, draws, reference)})
        for label, dataset in pooled.items()
    }
    panels = sum(int(np.prod(reference[name].shape[1:])) for name in var_names)
    columns = min(3, panels)
    rows = -(-panels // columns)
    collection = azp.plot_dist(
        thinned,
        kind=kind,
        visuals={
            "credible_interval": False,
            "point_estimate": False,
            "point_estimate_text": False,
            "remove_axis": False,
        },
        backend="matplotlib",
        col_wrap=columns,
        figure_kwargs={
            "figsize": figsize or (2.7 * columns, 2.3 * rows + 0.5),
            "layout": "constrained",
        },
    )
    # Posteriors that agree cover each other: the later ones are dashed.
    for name in var_names:
        for index, label in enumerate(trees):
            for line in collection.viz["dist"][name].sel(model=label).values.flat:
                line.set_linestyle(_STYLES[index % len(_STYLES)])
    if "score" in var_names:
        collection.viz["plot"]["score"].item().set_title("score (%)")
    legend_of_models(collection, "dist", var_names[0], list(trees))
    return collection


def _forest(
    trees: xr.DataTree | dict[str, xr.DataTree],
    *,
    dim: str,
    prob: float,
    figsize: tuple[float, float],
) -> Any:
    collection = azp.plot_forest(
        trees,
        combined=True,
        point_estimate="median",
        ci_kind="eti",
        ci_probs=(0.5, prob),
        labels=[dim],
        backend="matplotlib",
        figure_kwargs={"figsize": figsize, "layout": "constrained"},
    )
    collection.viz["plot"].sel(column="forest").item().locator_params(axis="x", nbins=7)
    # The first and the last row would lie on the edges of the picture.
    axes = collection.viz["plot"].sel(column="forest").item()
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.3, high + 0.3)
    names = collection.viz["plot"].sel(column="labels").item()
    names.set_xticks([])
    names.spines["bottom"].set_visible(False)
    return collection


def _name(tree: xr.DataTree, role: str, default: str) -> str:
    """Return the name of the latent vector or the rates, which the samplers' own group records."""
    for group in ("importance", "sample_stats"):
        if group in tree.children and role in tree[group].attrs:
            return str(tree[group].attrs[role])
    return default


def _pooled(label: str, tree: xr.DataTree, var_names: Sequence[str]) -> xr.Dataset:
    """Return the variables with all chains in one, draws first; the score in per cent."""
    found: dict[Any, xr.DataArray] = {}
    for group in ("posterior_predictive", "posterior"):
        if group in tree.children:
            found.update(tree.children[group].dataset.data_vars)
    for name in var_names:
        if name not in found:
            raise DataError(
                f"posterior {label!r} has no variable {name!r} "
                f"(found: {', '.join(map(str, found))}); name others in var_names"
            )
    variables = {}
    for name in var_names:
        array = found[name].transpose(*_SAMPLE, ...)
        values = array.values.reshape(-1, *array.shape[2:])
        rest = array.dims[2:]
        variables[name] = xr.DataArray(
            PERCENT * values if name == "score" else values,
            dims=("draw", *rest),
            coords={dim: array[dim] for dim in rest if dim in array.coords},
        )
    return xr.Dataset(variables)


def _thinned(dataset: xr.Dataset, draws: int, reference: xr.Dataset) -> xr.Dataset:
    """Return equally spaced draws, in one chain and with the labels of the reference."""
    kept = np.linspace(0, dataset.sizes["draw"] - 1, draws).round().astype(int)
    labels = {dim: labels for dim, labels in reference.coords.items() if dim in dataset.dims}
    return dataset.isel(draw=kept).assign_coords(labels).expand_dims("chain")
