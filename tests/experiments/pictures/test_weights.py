"""The picture of the weights shows their distribution, and the diagnostics in words."""

from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.pictures import plot_weights
from hspr.models.errors import DataError

Evaluated = Callable[..., Evaluator]


def test_plot_weights_draws_the_distribution(evaluated: Evaluated) -> None:
    evaluator = evaluated(6)
    weight = evaluator.sampler.arrays.weight
    collection = plot_weights(evaluator.posterior)
    axes = collection.viz["plot"]["weight"].item()
    lines = {line.get_label().split(":")[0]: line for line in axes.lines}
    largest = np.log10(128 * weight.max())
    assert lines["largest"].get_xdata()[0] == pytest.approx(largest)
    assert lines["largest"].get_label() == f"largest: {weight.max():.2%} of the sum"
    assert lines["all weights equal"].get_xdata()[0] == 0
    score = evaluator.score()
    assert axes.get_title() == (
        f"128 nodes, {score.ess:.0f} effective, Pareto k {score.pareto_k:.2f}"
    )
    histogram = collection.viz["dist"]["weight"].item()
    x, density = histogram.get_xdata(), histogram.get_ydata()
    relative = np.log10(np.maximum(128 * weight, 1e-6))
    assert x[np.isfinite(x)].min() <= relative.min()
    assert x[np.isfinite(x)].max() >= largest
    ends = min(relative.min(), -0.5), max(largest, 0.5)
    count, edge = np.histogram(relative, bins=60, range=ends, density=True)
    assert np.nanmax(density) == pytest.approx(count.max())
    peak = x[np.nanargmax(density)]
    assert np.isclose(edge, peak).any()
    assert count[np.isclose(edge, peak)[:-1] | np.isclose(edge, peak)[1:]].max() == count.max()


def test_plot_weights_takes_equal_and_vanishing_weights(evaluated: Evaluated) -> None:
    axes = plot_weights(evaluated(0).posterior).viz["plot"]["weight"].item()
    assert axes.get_title() == "128 nodes, 128 effective, no tail"
    log_weight = np.full(128, -np.inf)
    log_weight[:40] = np.linspace(0, 1, 40)
    tree = xr.DataTree.from_dict({"importance": xr.Dataset({"log_weight": ("node", log_weight)})})
    axes = plot_weights(tree).viz["plot"]["weight"].item()
    assert axes.get_xlim()[0] <= -6


def test_plot_weights_needs_an_importance_sample() -> None:
    with pytest.raises(DataError, match="no group 'importance'"):
        plot_weights(xr.DataTree.from_dict({"posterior": xr.Dataset()}))
