"""The picture of a score posterior shows its numbers where they are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.pictures import plot_score

Evaluated = Callable[..., Evaluator]


def draw(evaluator: Evaluator, **settings: Any) -> Any:
    """Return the axes of the picture."""
    collection = plot_score(evaluator.posterior, evaluator.score(), **settings)
    return collection.viz["plot"]["score"].item()


def lines(axes: Any) -> dict[str, float]:
    """Return the position of each vertical line by the first word of its label."""
    return {
        line.get_label().split()[0]: line.get_xdata()[0]
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


def band(axes: Any) -> tuple[float, float]:
    (patch,) = (patch for patch in axes.patches if "interval" in str(patch.get_label()))
    return patch.get_x(), patch.get_x() + patch.get_width()


def test_plot_score_draws_its_numbers_in_per_cent(evaluated: Evaluated) -> None:
    evaluator = evaluated(6)
    score = evaluator.score()
    axes = draw(evaluator, truth=0.35)
    assert lines(axes) == pytest.approx(
        {"estimate": 100 * score.estimate, "observed": 50.0, "truth": 35.0}
    )
    assert band(axes) == pytest.approx(tuple(100 * np.array(score.interval(0.9))))
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [
        "90% interval",
        f"estimate {score.estimate:.1%}",
        "observed share 50.0%",
        "truth 35.0%",
    ]
    assert axes.get_title() == "score posterior after 6 of 20 tasks"
    assert "%" in axes.get_xlabel()


def test_plot_score_draws_the_interval_asked_for(evaluated: Evaluated) -> None:
    evaluator = evaluated(6)
    axes = draw(evaluator, prob=0.5)
    assert band(axes) == pytest.approx(tuple(100 * np.array(evaluator.score().interval(0.5))))
    assert "50% interval" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_plot_score_leaves_out_what_is_unknown(evaluated: Evaluated) -> None:
    assert set(lines(draw(evaluated(6)))) == {"estimate", "observed"}
    assert set(lines(draw(evaluated(0)))) == {"estimate"}


@pytest.mark.parametrize(("tasks", "outcomes"), [(20, 0), (20, 19), (20, 20), (150, 0), (151, 0)])
def test_plot_score_bins_hold_whole_scores(evaluated: Evaluated, tasks: int, outcomes: int) -> None:
    evaluator = evaluated(outcomes, tasks)
    predictive = evaluator.posterior["posterior_predictive"].to_dataset()
    draws = 100 * predictive["score"].values
    axes = draw(evaluator)
    (height,) = (line.get_ydata() for line in axes.lines if line.get_label().startswith("_"))
    (edge,) = (line.get_xdata() for line in axes.lines if line.get_label().startswith("_"))
    inner = (edge[np.isfinite(height)] * tasks / 100).round(6)
    # Every edge lies half-way between two possible scores, and the bins take all draws in.
    np.testing.assert_allclose(inner % 1, 0.5)
    assert inner.min() < draws.min() * tasks / 100
    assert inner.max() > draws.max() * tasks / 100
