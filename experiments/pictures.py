"""Pictures of posteriors, through ArviZ plots."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import arviz_plots as azp
import numpy as np
import xarray as xr

from ..inference.decision import ScorePosterior
from .files import written_whole
from .metrics import PERCENT

_MAX_BINS = 60


def plot_score(
    tree: xr.DataTree, score: ScorePosterior, *, truth: float | None = None, prob: float = 0.9
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

    Returns
    -------
    arviz_plots.PlotCollection
        Drawn with matplotlib; `PlotCollection.savefig` writes it.
    """
    draws = tree["posterior_predictive"].to_dataset()[["score"]]
    collection = azp.plot_dist(
        xr.DataTree.from_dict({"posterior": PERCENT * draws}),
        kind="hist",
        ci_prob=prob,
        ci_kind="eti",
        point_estimate="median",
        stats={"dist": _bins(draws["score"].values, score.n_tasks)},
        visuals={"credible_interval": False, "point_estimate": False, "point_estimate_text": False},
        backend="matplotlib",
        figure_kwargs={"figsize": (7, 4)},
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
    axes.legend(frameon=False)
    return collection


def _bins(draws: np.ndarray, n_tasks: int) -> dict[str, Any]:
    """Return equal bins that hold the same number of possible scores each, in per cent."""
    low, high = (round(float(end) * n_tasks) for end in (draws.min(), draws.max()))
    width = max(1, math.ceil((high - low + 1) / _MAX_BINS))
    bins = math.ceil((high - low + 1) / width)
    edges = np.array([low - 0.5, low - 0.5 + bins * width]) * PERCENT / n_tasks
    return {"bins": bins, "range": tuple(edges.tolist())}


def save_picture(collection: Any, path: str | os.PathLike[str]) -> Path:
    """Write a picture whole.

    Parameters
    ----------
    collection : arviz_plots.PlotCollection
        The picture.
    path : str or path-like
        Target file; its suffix says the format.

    Returns
    -------
    pathlib.Path
        The target.

    Raises
    ------
    DataError
        If the folder does not exist or cannot be written.
    """
    with written_whole(path) as part:
        collection.savefig(part, dpi=150)
    return Path(path)
