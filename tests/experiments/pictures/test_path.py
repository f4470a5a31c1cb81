"""The picture of the path shows mean, interval and outcomes at their queries."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.pictures import plot_path
from hspr.experiments.score_path import score_path

Evaluated = Callable[..., Evaluator]


def by_label(axes: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in axes.lines}


def test_plot_path_draws_mean_interval_truth_and_outcomes(evaluated: Evaluated) -> None:
    path = score_path(evaluated(6), prob=0.8)
    collection = plot_path(path, truth=0.35, prob=0.8)
    axes = collection.viz["plot"]["score"].item()
    lines = by_label(axes)
    np.testing.assert_array_equal(lines["posterior mean"].get_xdata(), range(7))
    np.testing.assert_allclose(lines["posterior mean"].get_ydata(), 100 * path["mean"])
    assert lines["truth 35.0%"].get_ydata()[0] == pytest.approx(35)
    assert list(lines["solved (3)"].get_xdata()) == [2, 4, 6]
    assert list(lines["not solved (3)"].get_xdata()) == [1, 3, 5]
    assert lines["solved (3)"].get_ydata()[0] > lines["not solved (3)"].get_ydata()[0]
    (band,) = axes.collections
    corners = {(x, round(y, 6)) for x, y in band.get_paths()[0].vertices}
    for name in ("low", "high"):
        ends = zip(path.index.to_list(), path[name].to_list(), strict=True)
        assert {(float(q), round(100 * y, 6)) for q, y in ends} <= corners
    assert "80% interval" in [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.mark.parametrize("outcomes", [0, 1, 20])
def test_plot_path_draws_short_and_whole_paths(evaluated: Evaluated, outcomes: int) -> None:
    path = score_path(evaluated(outcomes))
    axes = plot_path(path).viz["plot"]["score"].item()
    assert axes.get_xlim() == (0, max(1, outcomes))
    assert not any(label.startswith("truth") for label in by_label(axes))
