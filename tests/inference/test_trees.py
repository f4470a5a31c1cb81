"""The DataTree: contents, names, labels, and that a kept tree stays as it is."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest
from scipy.stats import kstest

import hspr
from hspr.inference.sobol import SobolSampler
from hspr.inference.trees import add_outcomes, plain_attributes


@pytest.fixture
def sampler(groups) -> SobolSampler:
    n = (groups.size + 1) // 2
    config = hspr.Config(rank=2, precision=2.0, kappa=1.0)
    return SobolSampler(hspr.build_model(groups, config, successes=n // 2, trials=n), nodes=1024)


def test_state_views_the_working_arrays(sampler):
    tree = sampler.state()
    assert np.shares_memory(tree["importance"]["mean_rate"].values, sampler.arrays.mean_rate)
    assert np.shares_memory(tree["observed_data"]["trials"].values, sampler.arrays.trials)
    sampler.update(7, 1)
    assert tree["observed_data"]["trials"].values[7] == sampler.arrays.trials[7]


def test_posterior_stays_as_it_is(sampler):
    tree = sampler.posterior(draws=64)
    before = tree.copy(deep=True)
    for outcome in (1, 0, 1, 1, 0, 1, 0, 0):
        sampler.update(7, outcome)
    assert tree.identical(before)


def test_posterior_is_labelled(sampler):
    tree = sampler.posterior(draws=64)
    assert set(tree.children) == {
        "posterior",
        "posterior_predictive",
        "importance",
        "observed_data",
        "constant_data",
    }
    posterior = tree["posterior"]
    assert dict(posterior.sizes) == {"chain": 1, "draw": 64, "latent": 3, "group": 10}
    assert list(posterior["latent"].values) == ["ability", "factor 1", "factor 2"]
    assert list(posterior["group"].values[:2]) == ["g0", "g1"]
    assert tree["importance"]["mean_rate"].dims == ("node", "group")
    assert set(tree["constant_data"].data_vars) == {
        "group_size",
        "intercept",
        "loading",
        "prior_sd",
        "kappa",
    }


def test_resample_has_the_moments_of_the_weighted_nodes(sampler):
    tree = sampler.posterior(draws=8000)
    importance, weight = tree["importance"], sampler.arrays.weight
    for name, nodes in (("z", importance["z"].values), ("q", importance["mean_rate"].values)):
        draws = tree["posterior"][name].values[0]
        error = draws.std(axis=0) / np.sqrt(len(draws))
        assert (np.abs(draws.mean(axis=0) - weight @ nodes) < 6 * error + 1e-9).all(), name
    score = tree["posterior_predictive"]["score"].values[0]
    exact = hspr.score_posterior(tree, draws=64)
    assert abs(score.mean() - exact.mean) < 6 * exact.sd / np.sqrt(len(score))
    assert score.std() == pytest.approx(exact.sd, rel=0.05)


def test_prior_rates_and_predictions_follow_their_definitions(sampler):
    tree = sampler.posterior(draws=500)
    z, constant = tree["posterior"]["z"].values[0], tree["constant_data"]
    eta = constant["intercept"].values + z @ constant["loading"].values.T
    np.testing.assert_allclose(tree["posterior"]["p"].values[0], 1 / (1 + np.exp(-eta)), rtol=1e-9)
    predictive = tree["posterior_predictive"]
    unqueried = predictive["unqueried_successes"].values[0]
    assert (unqueried >= 0).all() and (unqueried <= sampler.arrays.unqueried).all()
    total = (sampler.arrays.successes.sum() + unqueried.sum(axis=1)) / sampler.arrays.size.sum()
    np.testing.assert_array_equal(predictive["score"].values[0], total)


def test_draws_are_not_in_the_order_of_the_nodes(sampler):
    """ArviZ reads the order of draws as time: sorted nodes would look like a trend."""
    z = sampler.posterior(draws=2000)["posterior"]["z"].values[0, :, 0]
    assert kstest(z[:1000], z[1000:]).pvalue > 1e-3


def test_arviz_reads_the_tree(sampler):
    tree = sampler.posterior(draws=400)
    summary = az.summary(tree, var_names=["z"], ci_prob=0.9, ci_kind="eti", round_to="none")
    draws = tree["posterior"]["z"].values[0]
    np.testing.assert_allclose(summary["mean"].to_numpy(float), draws.mean(axis=0), rtol=1e-9)
    assert az.extract(tree, var_names="q").sizes == {"group": 10, "sample": 400}


def test_posterior_needs_a_draw(sampler):
    with pytest.raises(hspr.DataError, match="draws must be a whole number from 1, got 0"):
        sampler.posterior(draws=0)


def test_replicates_are_draws_at_the_rates_of_their_groups(sampler):
    tree = sampler.posterior(draws=4000)
    groups = [7, 7, 4, 0]
    add_outcomes(tree, tasks=["a", "b", "c", "d"], outcomes=[1, 0, 0, 1], groups=groups, seed=1)
    for name, dims in (("observed_data", ()), ("posterior_predictive", ("chain", "draw"))):
        assert tree[name]["outcome"].dims == (*dims, "query")
        assert list(tree[name]["query"].values) == [0, 1, 2, 3]
    assert list(tree["observed_data"]["queried_task"].values) == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(tree["observed_data"]["outcome"].values, [1, 0, 0, 1])
    replicate = tree["posterior_predictive"]["outcome"].values[0]
    rate = tree["posterior"]["q"].values[0][:, groups]
    assert set(np.unique(replicate)) == {0, 1}
    # Given the rates of its draw, a replicate is Bernoulli and independent of all else.
    centred = replicate - rate
    noise = np.sqrt((rate * (1 - rate)).mean(axis=0) / len(rate))
    assert (np.abs(centred.mean(axis=0)) < 5 * noise).all()
    slope = (centred * (rate - rate.mean(axis=0))).mean(axis=0)
    assert (np.abs(slope) < 5 * noise * rate.std(axis=0) + 1e-12).all()
    assert abs(np.corrcoef(centred[:, 0], centred[:, 1])[0, 1]) < 5 / np.sqrt(len(rate))
    # The variables that were there before stay as they were.
    before = sampler.posterior(draws=4000)
    for name in ("observed_data", "posterior_predictive"):
        kept = tree[name].to_dataset().drop_vars(["outcome", "query"])
        kept = kept.drop_vars("queried_task", errors="ignore")
        assert kept.identical(before[name].to_dataset())


def test_replicates_of_no_outcome(sampler):
    tree = sampler.posterior(draws=10)
    add_outcomes(tree, tasks=[], outcomes=[], groups=[], seed=1)
    assert tree["observed_data"]["outcome"].shape == (0,)
    assert tree["posterior_predictive"]["outcome"].shape == (1, 10, 0)
    assert tree["observed_data"]["queried_task"].dtype == object


def test_plain_attributes_keeps_what_netcdf_knows():
    kept = {"text": "é", "empty": "", "number": 1.5, "whole": -(2**63), "vector": np.arange(3)}
    plain = plain_attributes(kept)
    assert list(plain) == list(kept)
    assert all(plain[name] is kept[name] for name in kept)
    assert plain_attributes({"a": None, "b": {"c": None}, "d": True, "e": 2**63, "f": ("x",)}) == {
        "b": '{"c": null}',
        "d": "true",
        "e": "9223372036854775808",
        "f": '["x"]',
    }
    assert plain_attributes({"n": np.int8(3), "b": np.True_}) == {"n": 3, "b": "true"}
    assert plain_attributes({1: "one"}) == {"1": "one"}
