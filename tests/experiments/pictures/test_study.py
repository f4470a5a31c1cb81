"""Pictures of the comparison show the numbers of their tables."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from hspr.experiments.pictures.study import PICTURES, plot_budgets, plot_families, plot_table
from hspr.models.errors import DataError


def test_plot_table_shows_every_cell() -> None:
    frame = pd.DataFrame(
        {"bank": ["one", "macro"], "max_error": [1 / 3, np.nan], "seeds": [5, None], "p": [1, 2]}
    )
    axes = plot_table(frame, "Errors").axes[0]
    assert axes.get_title(loc="left") == "Errors"
    (table,) = axes.tables
    cells = {place: cell.get_text().get_text() for place, cell in table.get_celld().items()}
    assert [cells[0, column] for column in range(4)] == ["bank", "max error", "seeds", "p"]
    assert [cells[1, column] for column in range(4)] == ["one", "0.333", "5.000", "1"]
    assert [cells[2, column] for column in range(4)] == ["macro", "", "", "2"]
    assert len(cells) == 12


def budgets(banks: int) -> pd.DataFrame:
    rng = np.random.default_rng(4771)
    return pd.DataFrame(
        [
            {"bank": f"bank {bank}", "method": method, "share": share, "mae": rng.uniform(1, 9)}
            for bank in range(banks)
            for share in (5.0, 10.0)
            for method in ("HSPR", "Uniform")
        ]
    )


@pytest.mark.parametrize("banks", [1, 2, 3, 5])
def test_plot_budgets_draws_each_method_in_each_bank(banks: int) -> None:
    frame = budgets(banks)
    figure = plot_budgets(frame, "Budgets")
    assert figure.get_suptitle() == "Budgets"
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in panels] == [f"bank {bank}" for bank in range(banks)]
    for axes in panels:
        lines = {line.get_label(): line for line in axes.lines}
        assert list(lines) == ["HSPR", "Uniform"]
        for method, line in lines.items():
            part = frame[(frame["bank"] == axes.get_title()) & (frame["method"] == method)]
            np.testing.assert_array_equal(line.get_xdata(), [5, 10])
            np.testing.assert_array_equal(line.get_ydata(), part["mae"])
        assert axes.get_ylim()[0] == 0
        assert lines["HSPR"].get_linewidth() > lines["Uniform"].get_linewidth()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["HSPR", "Uniform"]


def points(sd: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "bank": ["one", "one", "two"],
            "family": ["Qwen", "Claude", "Qwen"],
            "truth": [10.0, 20.0, 30.0],
            "estimate": [12.0, 18.0, 33.0],
            "sd": sd,
        }
    )


def test_plot_families_puts_agents_at_truth_and_estimate() -> None:
    figure = plot_families(points([1.0, 2.0, np.nan]), "Families")
    one, two = figure.axes
    found = {}
    for axes in (one, two):
        diagonal: Any = axes.lines[0]
        np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
        assert diagonal.get_xdata()[-1] > max(axes.dataLim.x1, 1) * 0.9
        containers: Any = axes.containers
        for container in containers:
            data = container.lines[0]
            xy = list(zip(data.get_xdata(), data.get_ydata(), strict=True))
            found[axes.get_title(), container.get_label()] = (xy, to_hex(data.get_color()))
    assert found["one", "Qwen"][0] == [(10.0, 12.0)]
    assert found["one", "Claude"][0] == [(20.0, 18.0)]
    assert found["two", "Qwen"][0] == [(30.0, 33.0)]
    assert found["two", "Claude"][0] == []
    # A family has one colour in all panels, and another than its neighbour's.
    assert found["one", "Qwen"][1] == found["two", "Qwen"][1] != found["one", "Claude"][1]
    qwen: Any = one.containers[1]
    bar = qwen.lines[2][0].get_segments()[0]
    np.testing.assert_allclose(bar[:, 1], [11, 13])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["Claude", "Qwen"]


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_refuse_a_table_without_rows(name: str) -> None:
    empty = pd.DataFrame(columns=["bank", "method", "family", "share", "mae", "truth"])
    with pytest.raises(DataError, match="there is nothing to draw"):
        PICTURES[name](empty, "Nothing")
