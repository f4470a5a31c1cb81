"""Pictures as files and as SVG text."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import matplotlib as mpl

from ..files import written_whole


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


def svg_text(collection: Any) -> str:
    """Return a picture as SVG: equal pictures are equal text, and words stay words.

    Parameters
    ----------
    collection : arviz_plots.PlotCollection
        The picture.

    Returns
    -------
    str
        An SVG document without date and metadata, on a transparent ground.
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hspr"}):
        figure = collection.viz["figure"].item()
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    return buffer.getvalue()
