"""Summaries against quadrature and simulation; verdicts on right, wrong and poor posteriors."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import hspr
from hspr.inference.chains import chain_tree
from hspr.inference.compare import Comparison, compare_posteriors
from hspr.inference.family import read_family
from hspr.inference.sobol import SobolSampler
from hspr.inference.summaries import COLUMNS, _moments, summarise
from hspr.models.errors import DataError
from hspr.tests.inference.conftest import make_groups
from hspr.tests.oracles import grid, quadrature

NODES = 2048


def counts_of(size):
    n = (size + 1) // 2
    return n // 2, n


@pytest.fixture(scope="module")
def groups():
    """Ten groups of 1 to 25 tasks with two residual factors."""
    rng = np.random.default_rng(sum(map(ord, "compare")))
    return make_groups(
        intercept=rng.normal(-0.5, 1.5, 10),
        slope=rng.uniform(0.4, 1.8, 10),
        loading=rng.normal(0, 0.8, (10, 2)),
        size=np.array([1, 1, 2, 3, 5, 8, 1, 25, 4, 2]),
    )


@pytest.fixture(scope="module")
def model(groups):
    s, n = counts_of(groups.size)
    return hspr.build_model(groups, hspr.Config(rank=1, precision=4.0), successes=s, trials=n)


@pytest.fixture(scope="module")
def sobol(model):
    return SobolSampler(model, nodes=NODES).posterior(draws=10)


@pytest.fixture(scope="module")
def chains(model):
    # So many that the error of the mean score is a third of its tolerance.
    return chains_of(model, draws=6000)


def chains_of(model, *, chains=4, draws=1500, seed=1, **stats):
    """Independent draws of the exact posterior, written as chains."""
    family = read_family(model)
    sampler = SobolSampler(model, nodes=8192, seed=seed)
    tree = sampler.posterior(draws=chains * draws, seed=seed)
    shape = (chains, draws)

    def cut(values):
        return values.values[0].reshape(*shape, *values.shape[2:])

    attributes = {"sampler": "exact", "form": "marginal"} | stats.pop("attributes", {})
    return chain_tree(
        family,
        z=cut(tree["posterior"]["z"]),
        prior_rate=cut(tree["posterior"]["p"]),
        rate=cut(tree["posterior"]["q"]),
        unqueried=cut(tree["posterior_predictive"]["unqueried_successes"]),
        size=sampler.arrays.size,
        stats=xr.Dataset(
            {"diverging": (("chain", "draw"), stats.get("diverging", np.zeros(shape, bool)))}
        ),
        attributes=attributes,
    )


def test_summary_of_nodes_agrees_with_quadrature(groups):
    s, n = counts_of(groups.size)
    config = hspr.Config(rank=0, precision=1.0, kappa=1.0)
    model = hspr.build_model(groups, config, successes=s, trials=n)
    z, cell = grid(12.0, 4001, 1)

    def rates(z):
        eta = groups.intercept + z * groups.slope
        return 1 + np.exp(eta), 1 + np.exp(-eta)

    def log_prior(z):
        return -0.5 * (z[:, 0] ** 2 + np.log(2 * np.pi))

    truth = quadrature(rates, log_prior, groups.size, s, n, z, cell)
    rows = summarise(SobolSampler(model).posterior(draws=10)).rows
    assert list(rows.columns) == list(COLUMNS)
    active = np.flatnonzero(n)
    assert list(rows.index) == ["S", "z[ability]", *(f"q[g{g}]" for g in active)]
    assert rows.loc["S", "mean"] == pytest.approx(truth.score_mean, abs=1e-5)
    assert rows.loc["S", "sd"] == pytest.approx(truth.score_sd, abs=1e-5)
    assert rows.loc["z[ability]", "mean"] == pytest.approx(truth.z_mean[0], abs=1e-3)
    assert rows.loc["z[ability]", "sd"] == pytest.approx(truth.z_sd[0], abs=1e-3)
    np.testing.assert_allclose(rows["mean"].iloc[2:], truth.rate_mean[active], atol=1e-4)
    # Quantiles of z from the one-dimensional grid of the package's own quadrature.
    exact = hspr.integrate(model)
    cumulative = np.cumsum(exact.weight)
    for column, prob in (("q05", 0.05), ("q50", 0.5), ("q95", 0.95)):
        expected = np.interp(prob, cumulative, exact.z[:, 0])
        assert rows.loc["z[ability]", column] == pytest.approx(expected, abs=0.02)


def test_summary_of_nodes_agrees_with_that_of_its_draws(sobol, chains):
    nodes, draws = summarise(sobol).rows, summarise(chains).rows
    for column, error in (("mean", "mcse"), ("sd", "mcse_sd")):
        assert ((nodes[column] - draws[column]).abs() < 4.5 * draws[error]).all()
    for column in ("q05", "q50", "q95"):
        # The score's quantiles are multiples of 1/52.
        assert abs(nodes.loc["S", column] - draws.loc["S", column]) < 0.02
        difference = (nodes[column] - draws[column]).abs() / nodes["sd"]
        assert (difference.drop(index="S") < 0.1).all()
    assert draws[["r_hat", "ess_bulk", "ess_tail"]].notna().all(axis=None)
    assert nodes[["r_hat", "ess_bulk", "ess_tail"]].isna().all(axis=None)


def test_error_of_nodes_is_the_scatter_of_independent_ones():
    rng = np.random.default_rng(sum(map(ord, "scatter")))
    found = []
    for _ in range(600):
        z = rng.normal(0.3, 1.4, 400)
        weight = np.exp(-0.5 * z**2 + 0.5 * ((z - 0.3) / 1.4) ** 2)
        inner = np.column_stack([0.2 + 0.1 * z**2, 0 * z])
        moments = _moments(weight / weight.sum(), np.column_stack([np.sin(z), z]), inner)
        found.append([moments[name] for name in ("mean", "sd", "mcse", "mcse_sd")])
    mean, sd, mcse, mcse_sd = np.moveaxis(np.array(found), 1, 0)
    np.testing.assert_allclose(mcse.mean(axis=0), mean.std(axis=0), rtol=0.1)
    np.testing.assert_allclose(mcse_sd.mean(axis=0), sd.std(axis=0), rtol=0.1)


def test_scatter_of_scrambles_is_the_error_of_the_first(model):
    trees = [SobolSampler(model, nodes=NODES, seed=seed).posterior(draws=4) for seed in range(6)]
    one, several = summarise(trees[0]), summarise(iter(trees))
    columns = [column for column in COLUMNS if not column.startswith("mcse")]
    assert several.rows[columns].equals(one.rows[columns])
    assert several.facts["repeats"] == 6
    scores = [summarise(tree).rows.loc["S", "mean"] for tree in trees]
    assert several.rows.loc["S", "mcse"] == pytest.approx(np.std(scores, ddof=1), rel=1e-12)
    # Independent nodes would do worse than a scrambled sequence.
    assert (several.rows["mcse"] < one.rows["mcse"]).all()


def test_right_posteriors_agree(sobol, chains):
    comparison = compare_posteriors(sobol, chains)
    assert isinstance(comparison, Comparison)
    assert (comparison.verdict, comparison.reasons) == ("agree", ())
    assert comparison.names == ("sobol", "nuts")
    assert comparison.latent == ("z[ability]", "z[factor 1]")
    row = comparison.table.loc["S"]
    assert row["difference"] == row["mean_sobol"] - row["mean_nuts"]
    assert row["mcse"] == pytest.approx(np.hypot(row["mcse_sobol"], row["mcse_nuts"]))
    assert row["difference_in_mcse"] == pytest.approx(row["difference"] / row["mcse"])
    assert row["sd_ratio"] == pytest.approx(row["sd_sobol"] / row["sd_nuts"])
    assert comparison.facts["sobol"]["nodes"] == NODES
    assert comparison.facts["nuts"]["chains"] == 4
    # The other way round, the differences change their sign and nothing else.
    back = compare_posteriors(chains, sobol)
    assert back.names == ("nuts", "sobol")
    np.testing.assert_array_equal(back.table["difference"], -comparison.table["difference"])
    assert back.verdict == "agree"


def test_summary_is_json(sobol, chains):
    told = compare_posteriors(sobol, chains).summary()
    again = json.loads(json.dumps(told, allow_nan=False))
    assert again == told
    assert told["verdict"] == "agree"
    assert told["score"]["r_hat_sobol"] is None
    assert set(told["latent"]) == {"z[ability]", "z[factor 1]"}


def test_a_wrong_prior_disagrees(groups, model, sobol):
    s, n = counts_of(groups.size)
    config = hspr.Config(rank=1, precision=100.0)
    wrong = hspr.build_model(groups, config, successes=s, trials=n)
    pm.set_data({"prior_sd": np.array([0.4, 0.1])}, model=wrong)
    comparison = compare_posteriors(sobol, chains_of(wrong))
    assert comparison.verdict == "disagree"
    assert any(reason.startswith("mean of S") for reason in comparison.reasons)
    assert any(reason.startswith("mean of z[ability]") for reason in comparison.reasons)


def test_weights_with_the_prior_twice_disagree(sobol, chains):
    z = sobol["importance"]["z"].values
    prior = xr.DataArray(-0.5 * (z**2 @ np.array([0.25, 4.0])), dims="node")
    wrong = sobol.copy(deep=True)
    wrong["importance"]["log_weight"] = wrong["importance"]["log_weight"] + prior
    assert summarise(wrong).facts["trusted"]
    assert compare_posteriors(wrong, chains).verdict == "disagree"


def test_a_wrong_spread_disagrees(sobol, chains):
    wrong = chains.copy(deep=True)
    score = wrong["posterior_predictive"]["score"]
    wrong["posterior_predictive"]["score"] = score.mean() + 1.15 * (score - score.mean())
    comparison = compare_posteriors(sobol, wrong)
    assert comparison.verdict == "disagree"
    assert [reason.split(":")[0] for reason in comparison.reasons] == ["sd of S"]


def test_a_wrong_rate_of_one_group_disagrees(sobol, chains):
    wrong = chains.copy(deep=True)
    rates = wrong["posterior"]["q"].copy()
    rates.loc[{"group": "g5"}] += 0.05
    wrong["posterior"]["q"] = rates
    comparison = compare_posteriors(sobol, wrong)
    assert comparison.verdict == "disagree"
    assert [reason.split(":")[0] for reason in comparison.reasons] == ["mean of q[g5]"]


def shifted(chains, points):
    tree = chains.copy(deep=True)
    tree["posterior_predictive"]["score"] = tree["posterior_predictive"]["score"] + points / 100
    return tree


def test_small_but_certain_differences_disagree(model, chains):
    # Scrambles leave no error that could explain half a percentage point in 40,000 draws.
    scrambles = [SobolSampler(model, nodes=NODES, seed=s).posterior(draws=4) for s in range(4)]
    comparison = compare_posteriors(scrambles, shifted(chains, 0.7))
    assert comparison.verdict == "disagree"
    assert "combined MCSE" in comparison.reasons[0]
    wide = compare_posteriors(scrambles, shifted(chains, 0.7), max_mcse=50, score_tolerance=0.02)
    assert wide.verdict == "agree"


def test_differences_that_chance_explains_are_inconclusive(sobol, chains):
    at = compare_posteriors(sobol, chains).table.loc["S", "difference"]
    comparison = compare_posteriors(sobol, shifted(chains, 100 * at + 0.11))
    assert comparison.verdict == "inconclusive"
    assert "but only" in comparison.reasons[0]


def test_a_large_error_is_inconclusive(sobol, chains):
    comparison = compare_posteriors(sobol, chains, score_tolerance=1e-5)
    assert comparison.verdict == "inconclusive"
    assert any("exceeds the tolerance of 0.001 pp" in reason for reason in comparison.reasons)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"draws": 80}, "effective sample size"),
        ({"chains": 1, "draws": 4000}, "R-hat needs two chains"),
        ({"diverging": np.eye(4, 1500, dtype=bool)}, "4 of 6000 draws diverged"),
        ({"attributes": {"density_error": 0.02, "form": "full"}}, "off by about 0.02 nats"),
    ],
)
def test_unsound_chains_are_inconclusive(model, sobol, settings, reason):
    comparison = compare_posteriors(sobol, chains_of(model, **settings))
    assert comparison.verdict == "inconclusive"
    assert any(reason in text for text in comparison.reasons)


def test_chains_that_do_not_mix_are_inconclusive(sobol, chains):
    tree = chains.copy(deep=True)
    apart = tree["posterior"]["z"] + xr.DataArray([0.0, 0.0, 0.0, 2.0], dims="chain")
    tree["posterior"]["z"] = apart.transpose("chain", "draw", "latent")
    comparison = compare_posteriors(sobol, tree)
    assert comparison.verdict == "inconclusive"
    assert any("R-hat" in text for text in comparison.reasons)


def test_poor_weights_are_inconclusive(sobol, chains):
    poor = sobol.copy(deep=True)
    log_weight = poor["importance"]["log_weight"].values.copy()
    log_weight[7] += 12.0
    poor["importance"]["log_weight"] = xr.DataArray(log_weight, dims="node")
    comparison = compare_posteriors(poor, chains)
    assert comparison.verdict == "inconclusive"
    assert "Pareto k" in comparison.reasons[0]


def test_a_benchmark_run_in_full_agrees_exactly(groups):
    n = groups.size
    model = hspr.build_model(groups, hspr.Config(rank=1), successes=n // 2, trials=n)
    sobol = SobolSampler(model, nodes=NODES).posterior(draws=4)
    comparison = compare_posteriors(sobol, chains_of(model))
    row = comparison.table.loc["S"]
    assert row[["difference", "mcse"]].abs().max() < 1e-12
    assert row["difference_in_mcse"] == 0
    assert (row["sd_ratio"], row["sd_ratio_error"]) == (1, 0)
    assert (comparison.verdict, comparison.reasons) == ("agree", ())


def test_posteriors_of_one_kind_are_a_and_b(sobol):
    comparison = compare_posteriors(sobol, sobol)
    assert comparison.names == ("a", "b")
    assert comparison.verdict == "agree"
    assert (comparison.table["difference"] == 0).all()
    assert (comparison.table["sd_ratio"] == 1).all()
    named = compare_posteriors(sobol, sobol, names=("old", "new"))
    assert "mean_old" in named.table
    assert "mean_new" in named.table


def test_trees_are_left_as_they_are(sobol, chains):
    before = [tree.copy(deep=True) for tree in (sobol, chains)]
    compare_posteriors(sobol, chains)
    for tree, copy in zip((sobol, chains), before, strict=True):
        xr.testing.assert_identical(tree, copy)


def test_posteriors_of_other_models_are_refused(groups, sobol):
    s, n = counts_of(groups.size)
    config = hspr.Config(rank=1, precision=4.0)
    fewer = hspr.build_model(groups, config, successes=0 * s, trials=n)
    other = SobolSampler(fewer, nodes=64).posterior(draws=4)
    with pytest.raises(DataError, match="different successes: 11 and 0 in all; condition"):
        compare_posteriors(sobol, other)
    larger = hspr.build_model(replace(groups, size=groups.size + 1), config, successes=s, trials=n)
    other = SobolSampler(larger, nodes=64).posterior(draws=4)
    with pytest.raises(DataError, match="different group sizes"):
        compare_posteriors(sobol, other)
    more = hspr.build_model(groups, replace(config, rank=2), successes=s, trials=n)
    other = SobolSampler(more, nodes=64).posterior(draws=4)
    with pytest.raises(DataError, match=r"different quantities, such as 'z\[factor 2\]'"):
        compare_posteriors(sobol, other)
    repeats = [sobol, sobol, sobol, other]
    with pytest.raises(DataError, match="repeat the same one"):
        compare_posteriors(repeats, sobol)


def test_what_is_no_posterior_is_refused(sobol, chains):
    with pytest.raises(DataError, match=r"neither a group 'importance' nor 'sample_stats'"):
        compare_posteriors(sobol, xr.DataTree.from_dict({"posterior": xr.Dataset()}))
    nameless = chains.copy(deep=True)
    nameless["sample_stats"].attrs.clear()
    with pytest.raises(DataError, match="does not name latent vector and rates"):
        compare_posteriors(sobol, nameless)
    for count in (2, 3):
        with pytest.raises(DataError, match=f"scatter of {count} posteriors .* at least 4"):
            compare_posteriors([sobol] * count, sobol)
    with pytest.raises(DataError, match="no posterior to compare"):
        compare_posteriors([], sobol)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"names": ("a", "a")}, "names must be two different texts"),
        ({"names": "ab"}, "names must be two different texts"),
        ({"names": ("a", 1)}, "names must be two different texts"),
        ({"max_mcse": 0}, "max_mcse must be a positive number, got 0"),
        ({"score_tolerance": -1}, "score_tolerance must be a positive number"),
        ({"sd_tolerance": float("nan")}, "sd_tolerance must be a positive number"),
        ({"sd_tolerance": True}, "sd_tolerance must be a positive number"),
    ],
)
def test_bad_arguments_are_refused(sobol, settings, message):
    with pytest.raises(DataError, match=message):
        compare_posteriors(sobol, sobol, **settings)
