"""Pictures of the comparison: errors by method, error against budget, estimates against truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ...models.errors import DataError
from ..cells import cell_text

_PANEL = (4.2, 3.6)
_MARKERS = "osD^vPX<>*hp"


def plot_table(frame: pd.DataFrame, title: str) -> Figure:
    """Draw a table as a picture.

    Parameters
    ----------
    frame : pandas.DataFrame
        The cells.
    title : str
        Heading.

    Returns
    -------
    matplotlib.figure.Figure
    """
    cells = [[cell_text(value) for value in row] for row in frame.itertuples(index=False)]
    columns = [str(column).replace("_", " ") for column in frame.columns]
    widths = [max(len(text) for text in column) for column in zip(columns, *cells, strict=True)]
    figure = plt.figure(
        figsize=(0.095 * sum(widths) + 0.25 * len(columns), 0.2 * (len(cells) + 1) + 0.4),
        layout="constrained",
    )
    axes = figure.add_subplot()
    axes.axis("off")
    axes.set_title(title, loc="left", fontsize=11)
    table = axes.table(
        cells,
        colLabels=columns,
        colWidths=[(width + 2) / (sum(widths) + 2 * len(widths)) for width in widths],
        loc="upper left",
        edges="horizontal",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    numeric = [pd.api.types.is_numeric_dtype(frame[column]) for column in frame.columns]
    for (_, column), cell in table.get_celld().items():
        cell.get_text().set_horizontalalignment("right" if numeric[column] else "left")
        cell.set_linewidth(0.4)
    return figure


def plot_budgets(frame: pd.DataFrame, title: str) -> Figure:
    """Draw error against budget, a panel a bank.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns bank, method, share, mae.
    title : str
        Heading.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, panels = _panels(frame, title)
    for axes, (bank, part) in zip(panels, frame.groupby("bank", sort=False), strict=True):
        for marker, (method, line) in zip(
            _MARKERS, part.groupby("method", sort=False), strict=False
        ):
            width = 2.2 if method == "HSPR" else 1.1
            axes.plot(line["share"], line["mae"], marker=marker, lw=width, ms=4, label=method)
        axes.set(title=bank, xlabel="budget (% of the tasks)", ylabel="MAE (pp)", ylim=(0, None))
    _legend(figure, panels[0])
    return figure


def plot_families(frame: pd.DataFrame, title: str) -> Figure:
    """Draw estimates against true scores by model family, a panel a bank.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns bank, family, truth, estimate, sd, in percent.
    title : str
        Heading.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, panels = _panels(frame, title)
    families = list(dict.fromkeys(sorted(frame["family"])))
    colors = plt.get_cmap("tab20")(np.linspace(0, 1, max(2, len(families))))
    for axes, (bank, part) in zip(panels, frame.groupby("bank", sort=False), strict=True):
        top = 1.05 * max(part["truth"].max(), part["estimate"].max(), 1.0)
        axes.plot([0, top], [0, top], "--", color="0.5", lw=0.8)
        for position, family in enumerate(families):
            points = part[part["family"] == family]
            axes.errorbar(
                points["truth"],
                points["estimate"],
                yerr=points["sd"].fillna(0.0),
                fmt=_MARKERS[position % len(_MARKERS)],
                color=colors[position],
                ms=4,
                lw=0.8,
                label=family,
            )
        axes.set(title=bank, xlabel="true score (%)", ylabel="estimate (%)")
    _legend(figure, panels[0])
    return figure


def _panels(frame: pd.DataFrame, title: str) -> tuple[Figure, list[Any]]:
    count = frame["bank"].nunique()
    if not count:
        raise DataError("there is nothing to draw: the table has no row; give a bank with agents")
    columns = min(count, 3)
    rows = -(-count // columns)
    figure, grid = plt.subplots(
        rows,
        columns,
        figsize=(_PANEL[0] * columns, _PANEL[1] * rows + 0.8),
        squeeze=False,
        layout="constrained",
    )
    figure.suptitle(title)
    panels = list(grid.flat)
    for unused in panels[count:]:
        unused.axis("off")
    return figure, panels[:count]


def _legend(figure: Figure, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=8)


# How each result is drawn.
PICTURES: dict[str, Callable[[pd.DataFrame, str], Figure]] = {
    "figure3": plot_budgets,
    "figure4": plot_families,
}
