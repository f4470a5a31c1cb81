"""Forests and overlays show medians, intervals and distributions where they are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.pictures import plot_latent, plot_overlay, plot_rates
from hspr.models.errors import DataError

Evaluated = Callable[..., Evaluator]
CHAINS_SEED = 4802


def values(tree: xr.DataTree, group: str, name: str, **labels: str) -> np.ndarray:
    """Return all draws of a variable, flat."""
    return np.ravel(tree[group].to_dataset()[name].sel(labels).to_numpy())


def ends(line: Any) -> tuple[float, float]:
    """Return where an interval begins and ends."""
    x = line.get_xdata()
    return float(x[0]), float(x[-1])


def height(line: Any) -> float:
    return float(line.get_ydata()[0])


def middle(points: Any) -> float:
    return float(points.get_offsets()[0, 0])


def legend(collection: Any) -> list[str]:
    (found,) = collection.viz["figure"].item().legends
    return [text.get_text() for text in found.get_texts()]


def in_chains(tree: xr.DataTree) -> xr.DataTree:
    """Return a posterior such as NUTS gives: four chains, in another order, other groups."""
    rng = np.random.default_rng(CHAINS_SEED)
    groups = {}
    for name in ("posterior", "posterior_predictive"):
        dataset = tree[name].to_dataset().isel(chain=0, drop=True)
        parts = [dataset.isel(draw=rng.permutation(2000)[:300]) for _ in range(4)]
        clean = [part.assign_coords(draw=np.arange(300)) for part in parts]
        groups[name] = xr.concat(clean, dim="chain")
    return xr.DataTree.from_dict(groups)


def test_plot_latent_draws_medians_and_intervals(evaluated: Evaluated) -> None:
    tree = evaluated(6).posterior
    viz = plot_latent(tree, prob=0.8).viz
    for label in ("ability", "factor 1"):
        draws = values(tree, "posterior", "z", latent=label)
        artists = {name: viz[name]["z"].sel(latent=label).item() for name in ("trunk", "twig")}
        assert ends(artists["twig"]) == pytest.approx(np.quantile(draws, [0.1, 0.9]))
        assert ends(artists["trunk"]) == pytest.approx(np.quantile(draws, [0.25, 0.75]))
        point = viz["point_estimate"]["z"].sel(latent=label).item()
        assert middle(point) == pytest.approx(np.median(draws))


def test_plot_latent_finds_the_vector_by_its_recorded_name(evaluated: Evaluated) -> None:
    tree = evaluated(6).posterior
    renamed = xr.DataTree.from_dict(
        {
            "posterior": tree["posterior"].to_dataset().rename(z="state"),
            "sample_stats": xr.Dataset(attrs={"latent": "state"}),
        }
    )
    assert "state" in plot_latent(renamed).viz["twig"].data_vars


@pytest.mark.parametrize("limit", [18, 2])
def test_plot_rates_draws_the_groups_that_were_moved_most(evaluated: Evaluated, limit: int) -> None:
    tree = evaluated(6).posterior
    viz = plot_rates(tree, groups=limit, prob=0.8).viz["twig"]["rate"]
    posterior = tree["posterior"].to_dataset().isel(chain=0)
    counts = tree["observed_data"].to_dataset()
    size = tree["constant_data"].to_dataset()["group_size"]
    moved = abs(posterior["q"].mean("draw") - posterior["p"].mean("draw")) * size
    wanted = {
        f"{g}: {int(counts['successes'].sel(group=g))}/{int(counts['trials'].sel(group=g))} of "
        f"{int(size.sel(group=g))}": (float(moved.sel(group=g)), g)
        for g in posterior["group"].to_numpy()
        if counts["trials"].sel(group=g) > 0
    }
    order = sorted(wanted, key=lambda label: -wanted[label][0])[:limit]
    assert list(viz["group"].values) == order
    for label in order:
        for kind, name in (("p, from the latent state", "p"), ("q, with own outcomes", "q")):
            draws = 100 * posterior[name].sel(group=wanted[label][1]).values
            line = viz.sel(model=kind, group=label).item()
            assert ends(line) == pytest.approx(np.quantile(draws, [0.1, 0.9]))
    # The first stands at the top, and p above q.
    lines = [viz.sel(group=label).values for label in order]
    heights = [[height(line) for line in pair] for pair in lines]
    assert heights == sorted(heights, reverse=True)
    assert all(p > q for p, q in heights)


def test_plot_rates_explains_its_colours(evaluated: Evaluated) -> None:
    assert legend(plot_rates(evaluated(6).posterior)) == [
        "p, from the latent state",
        "q, with own outcomes",
    ]


def test_plot_rates_needs_outcomes_and_a_positive_number(evaluated: Evaluated) -> None:
    with pytest.raises(DataError, match="no group has an outcome yet: tell one first"):
        plot_rates(evaluated(0).posterior)
    with pytest.raises(DataError, match="groups must be a whole number from 1, got 0"):
        plot_rates(evaluated(6).posterior, groups=0)


def test_plot_overlay_draws_both_distributions(evaluated: Evaluated) -> None:
    tree = evaluated(6).posterior
    other = in_chains(tree)
    collection = plot_overlay({"Sobol": tree, "NUTS": other})
    assert legend(collection) == ["Sobol", "NUTS"]
    for label, posterior in (("Sobol", tree), ("NUTS", other)):
        for latent in ("ability", "factor 1"):
            draws = values(posterior, "posterior", "z", latent=latent)
            line = collection.viz["dist"]["z"].sel(model=label, latent=latent).item()
            assert_cumulative(line, draws)
        draws = 100 * values(posterior, "posterior_predictive", "score")
        assert_cumulative(collection.viz["dist"]["score"].sel(model=label).item(), draws)
    styles = {line.get_linestyle() for line in collection.viz["dist"]["score"].values.flat}
    assert styles == {"-", "--"}


def assert_cumulative(line: Any, draws: np.ndarray) -> None:
    """The line is the distribution function of the draws, up to thinning to 1,200 of 2,000."""
    x, y = line.get_xdata(), line.get_ydata()
    inside = np.isfinite(x)
    # A step stands between the shares below and up to its place.
    below = (draws[:, None] < x[inside]).mean(axis=0)
    up_to = (draws[:, None] <= x[inside]).mean(axis=0)
    assert (y[inside] > below - 0.05).all()
    assert (y[inside] < up_to + 0.05).all()


def test_plot_overlay_takes_constants_and_densities(evaluated: Evaluated) -> None:
    tree = evaluated(20).posterior
    collection = plot_overlay({"a": tree, "b": tree.copy()}, var_names=["score"])
    assert set(collection.viz["dist"].data_vars) == {"score"}
    tree = evaluated(6).posterior
    plot_overlay({"a": tree, "b": in_chains(tree)}, var_names=["z"], kind="kde")


def test_plot_overlay_leaves_its_posteriors_alone(evaluated: Evaluated) -> None:
    tree = evaluated(6).posterior
    other = in_chains(tree)
    before = tree.copy(deep=True), other.copy(deep=True)
    plot_overlay({"a": tree, "b": other})
    assert tree.identical(before[0])
    assert other.identical(before[1])


def test_plot_overlay_refuses_what_it_cannot_compare(evaluated: Evaluated) -> None:
    tree = evaluated(6).posterior
    with pytest.raises(DataError, match="trees must hold two posteriors or more, got 1; add one"):
        plot_overlay({"a": tree})
    with pytest.raises(DataError, match=r"posterior 'a' has no variable 'w' \(found: .*z, p, q"):
        plot_overlay({"a": tree, "b": tree}, var_names=["w"])
    smaller = xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset().isel(latent=[0])})
    with pytest.raises(DataError, match=r"'z' has shape \(1,\) in posterior 'b' and \(2,\) in 'a'"):
        plot_overlay({"a": tree, "b": smaller}, var_names=["z"])
