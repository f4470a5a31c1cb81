"""NUTS, in both forms, against quadrature; names, seeds and refusals."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from arviz_stats.base import array_stats

import hspr
from hspr.experiments.files import load_tree, save_tree
from hspr.inference import nuts
from hspr.inference.compare import compare_posteriors
from hspr.inference.nuts import sample_nuts
from hspr.inference.sobol import SobolSampler
from hspr.models.errors import DataError, ModelError, SamplingError, SamplingWarning
from hspr.tests.oracles import grid, quadrature

KAPPA = 1.0
# PyMC's own sampler: nutpie compiles for half a minute and has one slow test of its own.
FAST = {"nuts_sampler": "pymc", "tune": 300, "random_seed": 11}
INTERCEPT = np.array([-2.0, -0.5, 0.4, 1.5])
SLOPE = np.array([0.6, 1.5, 1.0, 0.8])
SIZE = np.array([9, 4, 12, 1])
TRIALS = np.array([4, 2, 5, 0])
SUCCESSES = np.array([0, 1, 4, 0])


def bank(make, intercept=INTERCEPT):
    return make(intercept=intercept, slope=SLOPE, loading=np.ones((4, 1)) / 2, size=SIZE)


@pytest.fixture(scope="module")
def small():
    from hspr.tests.inference.conftest import make_groups

    return bank(make_groups)


@pytest.fixture(scope="module")
def model(small):
    config = hspr.Config(rank=1, precision=4.0, kappa=KAPPA)
    return hspr.build_model(small, config, successes=SUCCESSES, trials=TRIALS)


@pytest.fixture(scope="module")
def marginal(model):
    return sample_nuts(model, draws=400, **FAST)


@pytest.fixture(scope="module")
def full(model):
    return sample_nuts(model, form="full", draws=400, **FAST)


@pytest.fixture(scope="module")
def truth(small):
    sd = np.array([2.0, 0.5])

    def rates(z):
        eta = small.intercept + z @ np.column_stack([small.slope, small.loading]).T
        return KAPPA * (1 + np.exp(eta)), KAPPA * (1 + np.exp(-eta))

    def log_prior(z):
        return (-0.5 * (z / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)).sum(axis=1)

    return quadrature(rates, log_prior, SIZE, SUCCESSES, TRIALS, *grid(14.0, 701, 2))


def assert_agrees(draws, mean, sd=None):
    """Mean and sd within four Monte Carlo standard errors, by ArviZ's effective sample size."""
    axes = {"chain_axis": 0, "draw_axis": 1}
    error = array_stats.mcse(draws, method="mean", **axes)
    assert abs(draws.mean() - mean) < 4 * error, (draws.mean(), mean, error)
    if sd is not None:
        error = array_stats.mcse(draws, method="sd", **axes)
        assert abs(draws.std() - sd) < 4 * error, (draws.std(), sd, error)


@pytest.mark.parametrize("form", ["marginal", "full"])
def test_posterior_agrees_with_quadrature(form, request, truth):
    tree = request.getfixturevalue(form)
    samples = tree["posterior"]
    assert_agrees(tree["posterior_predictive"]["score"].values, truth.score_mean, truth.score_sd)
    for k in range(2):
        assert_agrees(samples["z"].values[..., k], truth.z_mean[k], truth.z_sd[k])
    for g in range(4):
        assert_agrees(samples["q"].values[..., g], truth.rate_mean[g])
    assert tree["sample_stats"].attrs["divergences"] < 10


def test_both_forms_and_the_importance_sampler_agree(marginal, full, model):
    sobol = SobolSampler(model).posterior()
    for a, b in ((sobol, marginal), (marginal, full)):
        comparison = compare_posteriors(a, b)
        errors = comparison.table["difference_in_mcse"]
        assert errors.abs().max() < 4.5
        assert comparison.verdict != "disagree", comparison.reasons


def test_names_and_dimensions_are_those_of_the_importance_sampler(marginal, full, model):
    sobol = SobolSampler(model).posterior(draws=10)
    for tree in (marginal, full):
        assert list(tree.children) == [
            "posterior",
            "posterior_predictive",
            "sample_stats",
            "observed_data",
            "constant_data",
        ]
        for name in ("posterior", "posterior_predictive", "observed_data", "constant_data"):
            found, expected = tree[name].to_dataset(), sobol[name].to_dataset()
            assert list(found.data_vars) == list(expected.data_vars)
            for variable in expected.data_vars:
                assert found[variable].dims == expected[variable].dims
                assert found[variable].dtype == expected[variable].dtype
            assert set(found.coords) == set(expected.coords)
            for dim in {"latent", "group"} & set(expected.coords):
                assert list(found[dim].values) == list(expected[dim].values)
        for name in ("observed_data", "constant_data"):
            xr.testing.assert_equal(tree[name].to_dataset(), sobol[name].to_dataset())
        assert tree["posterior"].sizes == {"chain": 4, "draw": 400, "latent": 2, "group": 4}


def test_rates_and_score_belong_to_each_draw(marginal):
    samples = marginal["posterior"]
    eta = INTERCEPT + samples["z"].values @ np.column_stack([SLOPE, np.ones(4) / 2]).T
    np.testing.assert_allclose(samples["p"].values, 1 / (1 + np.exp(-eta)), rtol=1e-12)
    predictive = marginal["posterior_predictive"]
    successes = predictive["unqueried_successes"].values
    assert ((successes >= 0) & (successes <= SIZE - TRIALS)).all()
    np.testing.assert_allclose(
        predictive["score"].values, (SUCCESSES.sum() + successes.sum(axis=-1)) / SIZE.sum()
    )


def test_facts_are_recorded_and_the_tree_can_be_saved(marginal, full, tmp_path):
    facts = marginal["sample_stats"].attrs
    assert facts["sampler"] == "pymc"
    assert facts["form"] == "marginal"
    assert facts["random_seed"] == 11
    assert facts["tune"] == 300
    assert facts["divergences"] == int(marginal["sample_stats"]["diverging"].sum())
    assert "density_error" not in facts
    assert 0 < full["sample_stats"].attrs["density_error"] < 1e-6
    save_tree(full, tmp_path / "nuts.nc")
    again = load_tree(tmp_path / "nuts.nc")
    assert (
        again["sample_stats"].attrs["density_error"] == full["sample_stats"].attrs["density_error"]
    )
    xr.testing.assert_equal(again["posterior"].to_dataset(), full["posterior"].to_dataset())


def test_equal_seeds_give_equal_draws(model):
    def draw(seed):
        return sample_nuts(
            model, draws=20, tune=20, chains=2, nuts_sampler="pymc", random_seed=seed
        )

    first, second, other, picked = (draw(seed) for seed in (3, 3, 4, None))
    for name in ("posterior", "posterior_predictive"):
        xr.testing.assert_identical(first[name].to_dataset(), second[name].to_dataset())
    assert not np.array_equal(first["posterior"]["z"].values, other["posterior"]["z"].values)
    # A seed that was picked is recorded and gives the same draws again.
    again = draw(picked["sample_stats"].attrs["random_seed"])
    np.testing.assert_array_equal(again["posterior"]["q"].values, picked["posterior"]["q"].values)


def test_names_and_sizes_may_be_other_ones():
    # The group sizes may come from the call, for a model without them.
    with pm.Model() as other:
        z = pm.Normal("ability", 0, 2, shape=1)
        eta = INTERCEPT + SLOPE * z[0]
        q = pm.Beta("rate", 1 + pm.math.exp(eta), 1 + pm.math.exp(-eta))
        pm.Bernoulli("y", q[np.zeros(3, int)], observed=np.ones(3, int))
    settings = {"draws": 20, "tune": 20, "chains": 1, "nuts_sampler": "pymc", "random_seed": 0}
    with pytest.raises(ModelError, match="group_size"):
        sample_nuts(other, **settings)
    tree = sample_nuts(other, group_size=[7, 1, 1, 2], **settings)
    assert list(tree["posterior"].data_vars) == ["ability", "p", "rate"]
    assert tree["observed_data"]["trials"].values.tolist() == [3, 0, 0, 0]
    assert tree["posterior_predictive"]["score"].values.min() >= 3 / 11


def test_marginal_form_holds_where_the_density_of_the_rates_does_not(small):
    far = replace(small, intercept=np.array([-38.0, -0.5, 0.4, 38.0]), loading=np.zeros((4, 0)))
    config = hspr.Config(rank=0, precision=0.25, kappa=4.0)
    s, n = np.array([0, 1, 4, 1]), np.array([4, 2, 5, 1])
    model = hspr.build_model(far, config, successes=s, trials=n)

    def rates(z):
        eta = far.intercept + z * far.slope
        return 4 * (1 + np.exp(eta)), 4 * (1 + np.exp(-eta))

    def log_prior(z):
        return -0.125 * z[:, 0] ** 2 - np.log(2 * np.sqrt(2 * np.pi))

    truth = quadrature(rates, log_prior, SIZE, s, n, *grid(14.0, 4001, 1))
    tree = sample_nuts(model, draws=400, chains=2, **FAST)
    assert_agrees(tree["posterior_predictive"]["score"].values, truth.score_mean, truth.score_sd)
    assert_agrees(tree["posterior"]["z"].values[..., 0], truth.z_mean[0], truth.z_sd[0])
    # The full form finds no start there, and says that it is inaccurate where it finds one.
    with pytest.raises(SamplingError, match="use form='marginal'"):
        sample_nuts(model, form="full", draws=20, chains=1, **FAST)
    pm.set_data({"intercept": np.array([-27.0, -0.5, 0.4, 27.0])}, model=model)
    with pytest.warns(SamplingWarning) as warned:
        tree = sample_nuts(model, form="full", draws=20, chains=1, **FAST)
    texts = [str(warning.message) for warning in warned]
    assert any("Beta density" in text and "form='marginal'" in text for text in texts)
    assert tree["sample_stats"].attrs["density_error"] > 1e-3


def test_density_error_is_that_of_pymc():
    """The estimate is within a factor of five of the error measured against mpmath."""
    import mpmath

    rng = np.random.default_rng(3)
    with pm.Model() as model:
        parameters = pm.Data("parameters", np.ones(2))
        pm.Beta("q", parameters[0], parameters[1])
    density = model.compile_logp()
    for kappa, eta in ((1.0, 20.0), (4.0, -24.0), (0.25, 28.0)):
        alpha, beta = kappa * (1 + np.exp(eta)), kappa * (1 + np.exp(-eta))
        pm.set_data({"parameters": np.array([alpha, beta])}, model=model)
        errors = []
        for y in np.log(rng.gamma(alpha + 1, size=30)) - np.log(rng.gamma(beta + 1, size=30)):
            with mpmath.workdps(60):
                logit, a, b = mpmath.mpf(y), mpmath.mpf(alpha), mpmath.mpf(beta)
                expected = -a * mpmath.log1p(mpmath.exp(-logit)) - b * mpmath.log1p(
                    mpmath.exp(logit)
                )
                expected -= mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
                errors.append(abs(float(density({"q_logodds__": np.array(y)}) - expected)))
        assert 0.2 < max(errors) / nuts.density_error(alpha + beta) < 5


def test_divergences_are_told():
    with pytest.warns(SamplingWarning, match="3 of 100 draws diverged"):
        nuts._warn(3, 100, 0.0)


def test_a_failure_of_the_sampler_is_told(model, monkeypatch):
    def fail(**settings):
        raise RuntimeError("all chains\nfailed")

    monkeypatch.setattr(nuts.pm, "sample", fail)
    with pytest.raises(
        SamplingError, match=r"NUTS failed \(RuntimeError: all chains failed\); check"
    ):
        sample_nuts(model)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"form": "half"}, "form must be one of marginal, full, got 'half'"),
        ({"draws": 3}, "draws must be a whole number from 4, got 3"),
        ({"draws": True}, "draws must be a whole number"),
        ({"draws": 10.0}, "draws must be a whole number"),
        ({"tune": 0}, "tune must be a whole number from 1"),
        ({"chains": 0}, "chains must be a whole number from 1"),
        ({"cores": -1}, "cores must be a whole number from 1"),
        ({"random_seed": -1}, "random_seed must be None or a whole number"),
        ({"random_seed": 0.5}, "random_seed must be None or a whole number"),
        ({"nuts_sampler": "stan"}, "nuts_sampler must be None or one of nutpie, pymc, got 'stan'"),
        ({"target_accept": 1.0}, "target_accept must be between 0 and 1"),
        ({"target_accept": "high"}, "target_accept must be between 0 and 1"),
    ],
)
def test_bad_arguments_are_refused(model, settings, message):
    with pytest.raises(DataError, match=message):
        sample_nuts(model, **settings)


def test_a_missing_nutpie_is_told(model, monkeypatch):
    monkeypatch.setattr(nuts, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"install hspr\[nuts\]"):
        sample_nuts(model, nuts_sampler="nutpie")


def test_models_outside_the_family_are_refused():
    with pm.Model() as model:
        pm.Normal("z", 0, 1, shape=1)
    with pytest.raises(ModelError, match="exactly one Beta variable"):
        sample_nuts(model)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nutpie") is None, reason="nutpie is not installed")
def test_nutpie_is_the_default_and_its_draws_do_not_depend_on_the_cores(model, truth):
    first, second = (
        sample_nuts(model, draws=400, tune=300, random_seed=1, cores=cores) for cores in (1, 2)
    )
    assert first["sample_stats"].attrs["sampler"] == "nutpie"
    for name in ("posterior", "posterior_predictive"):
        xr.testing.assert_identical(first[name].to_dataset(), second[name].to_dataset())
    assert_agrees(first["posterior_predictive"]["score"].values, truth.score_mean, truth.score_sd)
