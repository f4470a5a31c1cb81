"""The picture of a calibration, through ArviZ plots."""

from __future__ import annotations

from typing import Any

import arviz_plots as azp
import numpy as np

from .sbc import Calibration
from .uniformity import PROB, simultaneous_band, uniformity_p_value


def plot_pit(calibration: Calibration, *, prob: float = PROB) -> Any:
    """Draw how far the PITs' distribution functions lie from the uniform one, with the band.

    Parameters
    ----------
    calibration : Calibration
        The simulations.
    prob : float, default 0.95
        Probability of the simultaneous band, drawn at the points where `inside_band` tests it.

    Returns
    -------
    arviz_plots.PlotCollection
        Drawn with matplotlib; `hspr.experiments.pictures.save_picture` writes it.
    """
    columns = 4
    rows = -(-calibration.pit.shape[1] // columns)
    collection = azp.plot_ecdf_pit(
        calibration.to_tree(),
        # The band below is exact; ArviZ's is simulated and deprecated.
        visuals={"suspicious_points": False, "p_value_text": False, "title": False},
        backend="matplotlib",
        figure_kwargs={"figsize": (3 * columns, 3.4 * rows), "layout": "constrained"},
    )
    band = simultaneous_band(len(calibration.pit), prob=prob)
    points = np.concatenate([[0.0], band.points, [1.0]])
    ends = (np.concatenate([[0.0], edge, [1.0]]) - points for edge in (band.lower, band.upper))
    low, high = ends
    for number, (name, values) in enumerate(calibration.pit.items()):
        axes = collection.viz["plot"][name].item()
        axes.fill_between(points, low, high, step="mid", color="C0", alpha=0.15, linewidth=0)
        limit = 1.3 * max(np.abs(low).max(), np.abs(high).max())
        bottom, top = axes.get_ylim()
        axes.set_ylim(min(bottom, -limit), max(top, limit))
        p_value = uniformity_p_value(values.to_numpy())
        axes.set_title(f"{name}, p = {p_value:.2f}", fontsize=11)
        if number % columns == 0:
            axes.set_ylabel("share of PITs below, less PIT", fontsize=11)
    return collection
