"""The picture of the path: the score after each query."""

from __future__ import annotations

from typing import Any

import arviz_plots as azp
import pandas as pd
import xarray as xr

from ..metrics import PERCENT
from .layout import legend_below


def plot_path(
    path: pd.DataFrame,
    *,
    truth: float | None = None,
    prob: float = 0.9,
    figsize: tuple[float, float] = (7, 4),
) -> Any:
    """Draw the score's mean and interval after each query.

    Parameters
    ----------
    path : pandas.DataFrame
        What `score_path` returns.
    truth : float, default None
        True score as a share; None leaves it out.
    prob : float, default 0.9
        Probability of the intervals in `path`, for the legend.
    figsize : (float, float), default (7, 4)
        Width and height in inches.

    Returns
    -------
    arviz_plots.PlotCollection
        Ticks above mark solved tasks, ticks below tasks that were not.
    """
    query = path.index.to_numpy()
    mean, low, high = (PERCENT * path[name].to_numpy() for name in ("mean", "low", "high"))
    collection = azp.PlotCollection.wrap(
        xr.Dataset({"score": ("query", mean)}, coords={"query": query}),
        cols=["__variable__"],
        backend="matplotlib",
        figure_kwargs={"figsize": figsize, "layout": "constrained"},
    )
    collection.map(
        azp.visuals.fill_between_y,
        "interval",
        x=query,
        y_bottom=low,
        y_top=high,
        color="C0",
        alpha=0.2,
        label=f"{prob:.0%} interval",
    )
    marker = "o" if len(query) == 1 else None
    collection.map(
        azp.visuals.line_xy, "mean", x=query, color="C0", label="posterior mean", marker=marker
    )
    axes = collection.viz["plot"]["score"].item()
    if truth is not None:
        axes.axhline(PERCENT * truth, color="C3", linestyle="--", label=f"truth {truth:.1%}")
    for outcome, height, name in ((1, 0.985, "solved"), (0, 0.015, "not solved")):
        asked = query[(path["outcome"] == outcome).to_numpy(bool, na_value=False)]
        axes.plot(
            asked,
            [height] * len(asked),
            "|",
            color="C2" if outcome else "C1",
            transform=axes.get_xaxis_transform(),
            label=f"{name} ({len(asked)})",
        )
    axes.set_xlim(0, max(1, query[-1]))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("queried tasks")
    axes.set_ylabel("full-benchmark score (%)")
    axes.set_title("score after each query")
    legend_below(axes, columns=3)
    return collection
