"""Cells say what a number is, and nothing where there is none."""

import numpy as np
import pandas as pd
import pytest

from hspr.experiments.cells import cell_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.23456, "1.235"),
        (np.float64(-0.5), "-0.500"),
        (np.float32(0.25), "0.250"),
        (0.0, "0.000"),
        (0.0005, "0.001"),
        (0.00049, "5e-04"),
        (-1e-9, "-1e-09"),
        (np.inf, "inf"),
        (7, "7"),
        (np.int64(10), "10"),
        (True, "True"),
        ("one\ntwo", "one two"),
        ("", ""),
        (None, ""),
        (float("nan"), ""),
        (np.float64("nan"), ""),
        (pd.NA, ""),
    ],
)
def test_cell_text(value: object, text: str) -> None:
    assert cell_text(value) == text
