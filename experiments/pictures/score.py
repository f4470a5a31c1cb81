"""The picture of the score posterior."""

from __future__ import annotations

import math
from typing import Any

import arviz_plots as azp
import numpy as np
import xarray as xr

from ...inference.decision import ScorePosterior
from ...inference.trees import group_dataset
from ..metrics import PERCENT
from .layout import legend_below

_MAX_BINS = 60


def plot_score(
    tree: xr.DataTree,
    score: ScorePosterior,
    *,
    truth: float | None = None,
    prob: float = 0.9,
    figsize: tuple[float, float] = (7, 4),
) -> Any:
    """Draw the score posterior with estimate, interval, observed share and, if known, the truth.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with the group ``posterior_predictive``.
    score : ScorePosterior
        The decision that was taken on it.
    truth : float, default None
        True score as a share; None leaves it out.
    prob : float, default 0.9
        Probability of the drawn interval.
    figsize : (float, float), default (7, 4)
        Width and height in inches.

    Returns
    -------
    arviz_plots.PlotCollection
        Drawn with matplotlib; `PlotCollection.savefig` writes it.

    Notes
    -----
    The histogram's bins hold the same number of possible scores, multiples of 1/N, each.
    """
    draws = group_dataset(tree, "posterior_predictive")[["score"]]
    collection = azp.plot_dist(
        xr.DataTree.from_dict({"posterior": PERCENT * draws}),
        kind="hist",
        ci_prob=prob,
        ci_kind="eti",
        point_estimate="median",
        stats={"dist": _bins(draws["score"].values, score.n_tasks)},
        visuals={"credible_interval": False, "point_estimate": False, "point_estimate_text": False},
        backend="matplotlib",
        figure_kwargs={"figsize": figsize, "layout": "constrained"},
    )
    axes = collection.viz["plot"]["score"].item()
    low, high = (PERCENT * end for end in score.interval(prob))
    axes.axvspan(low, high, color="C0", alpha=0.15, label=f"{prob:.0%} interval")
    lines = [("estimate", score.estimate, "C0", "-")]
    if score.n_observed:
        lines.append(("observed share", score.observed_share, "C2", ":"))
    if truth is not None:
        lines.append(("truth", truth, "C3", "--"))
    for label, value, color, style in lines:
        axes.axvline(PERCENT * value, color=color, linestyle=style, label=f"{label} {value:.1%}")
    axes.set_xlabel("full-benchmark score (%)")
    axes.set_title(f"score posterior after {score.n_observed} of {score.n_tasks} tasks")
    legend_below(axes)
    return collection


def _bins(draws: np.ndarray, n_tasks: int) -> dict[str, Any]:
    """Return equal bins that hold the same number of possible scores each, in per cent."""
    low, high = (round(float(end) * n_tasks) for end in (draws.min(), draws.max()))
    width = max(1, math.ceil((high - low + 1) / _MAX_BINS))
    bins = math.ceil((high - low + 1) / width)
    edges = np.array([low - 0.5, low - 0.5 + bins * width]) * PERCENT / n_tasks
    return {"bins": bins, "range": tuple(edges.tolist())}
