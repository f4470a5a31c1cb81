"""How a cell of a table is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def cell_text(value: Any) -> str:
    """Return the text of one cell.

    Parameters
    ----------
    value : Any
        A number, a text or nothing (None, NaN).

    Returns
    -------
    str
        Three decimals; smaller numbers than those show in scientific notation; nothing is empty.
    """
    if value is None or value is pd.NA:
        return ""
    if isinstance(value, float | np.floating):
        number = float(value)
        if np.isnan(number):
            return ""
        return f"{number:.0e}" if 0 < abs(number) < 0.0005 else f"{number:.3f}"
    return " ".join(str(value).splitlines())
