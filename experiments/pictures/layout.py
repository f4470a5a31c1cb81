"""Where legends stand: outside the axes, so that they cover nothing."""

from __future__ import annotations

from typing import Any

from matplotlib.transforms import ScaledTranslation

# Inches below the axes at which tick labels and the label of the axis end.
_BELOW = 0.48


def legend_below(axes: Any, *, columns: int = 2) -> None:
    """Explain the labelled lines of one plot below it.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        In a figure of constrained layout, which makes room.
    columns : int, default 2
        Columns of the legend.
    """
    below = ScaledTranslation(0, -_BELOW, axes.figure.dpi_scale_trans)
    axes.legend(
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=axes.transAxes + below,
        borderaxespad=0,
        ncols=columns,
    )


def legend_of_models(collection: Any, visual: str, name: str, labels: list[str]) -> None:
    """Explain the colours of several posteriors below all panels.

    Parameters
    ----------
    collection : arviz_plots.PlotCollection
        A picture with the dimension ``model``, in constrained layout.
    visual, name : str
        Artist and variable whose lines stand for a posterior.
    labels : list of str
        The models.
    """
    lines = collection.viz[visual][name]
    handles = [lines.sel(model=label).values.flat[0] for label in labels]
    figure = collection.viz["figure"].item()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=len(labels))
