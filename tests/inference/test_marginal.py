"""The marginal form against mpmath, finite differences and quadrature."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import logsumexp, ndtr
from scipy.stats import t as student_t

import hspr
from hspr.inference.marginal import marginal_model
from hspr.models.errors import ModelError
from hspr.tests.oracles import grid, log_sequence_likelihood, quadrature

EXTREME = np.array([-40.0, -30.0, -20.0, -8.0, -1.0, 0.5, 8.0, 20.0, 30.0, 40.0])
STATES = np.array([[0.0, 0.0], [1.7, -0.6], [-2.5, 0.9], [0.3, 4.0]])


def counts_of(history, size):
    """Half of each group observed, rounded up, with given outcomes."""
    n = (size + 1) // 2
    return {"all-fail": 0 * n, "all-pass": n, "mixed": n // 2}[history], n


def extreme_bank(groups, rank):
    """Groups at logits up to 40 that the latent state moves by little."""
    return replace(
        groups,
        intercept=EXTREME,
        slope=np.linspace(0.05, 0.4, len(EXTREME)),
        loading=groups.loading[:, :rank] / 10,
    )


def value_and_gradient(model):
    function = model.logp_dlogp_function(ravel_inputs=True)
    function.set_extra_values({})
    return lambda z: function(np.asarray(z, dtype=float))


def exact(bank, kappa, precision, s, n):
    """Log joint density of latent state and ordered outcomes in mpmath, from the formulas."""

    def joint(*z):
        state = [mpmath.mpf(value) for value in z]
        total = mpmath.mpf(0)
        for value, gamma in zip(state, precision, strict=True):
            total += (mpmath.log(gamma) - mpmath.log(2 * mpmath.pi) - gamma * value**2) / 2
        for g in np.flatnonzero(n):
            eta = mpmath.mpf(bank.intercept[g]) + mpmath.mpf(bank.slope[g]) * state[0]
            eta += mpmath.mpf(bank.loading[g, 0]) * state[1]
            alpha, beta = kappa * (1 + mpmath.exp(eta)), kappa * (1 + mpmath.exp(-eta))
            total += log_sequence_likelihood(alpha, beta, int(s[g]), int(n[g]))
        return total

    return joint


@pytest.mark.parametrize("history", ["all-fail", "all-pass", "mixed"])
def test_density_and_gradient_agree_with_mpmath(groups, history):
    bank = extreme_bank(groups, 1)
    s, n = counts_of(history, bank.size)
    config = hspr.Config(rank=1, precision=4.0)
    model = marginal_model(hspr.build_model(bank, config, successes=s, trials=n))
    evaluate = value_and_gradient(model)
    for kappa in (0.25, 4.0, 1e4):
        pm.set_data({"kappa": kappa}, model=model)
        joint = exact(bank, kappa, (0.25, 4.0), s, n)
        for z in STATES:
            value, gradient = evaluate(z)
            with mpmath.workdps(60):
                true_value = joint(*z)
                true_gradient = [mpmath.diff(joint, tuple(z), order) for order in ((1, 0), (0, 1))]
                assert abs(value - true_value) <= 1e-9 * abs(true_value)
                for found, expected in zip(gradient, true_gradient, strict=True):
                    assert abs(found - expected) <= 1e-9 * max(1, abs(expected))


def test_likelihood_keeps_its_relative_accuracy_where_it_is_nearly_certain():
    # One success at a logit of 40 has the log probability -4e-18: no difference could give it.
    with pm.Model() as model:
        z = pm.Normal("z", 0, 1, shape=1)
        eta = 40.0 + z
        q = pm.Beta("q", 2 * (1 + pt.exp(eta)), 2 * (1 + pt.exp(-eta)))
        pm.Bernoulli("y", q[np.zeros(1, int)], observed=np.ones(1, int))
        pm.Data("group_size", np.array([3]))
    marginal = marginal_model(model)
    (potential,) = marginal.potentials
    found = pm.compile([marginal["z"]], potential)(np.zeros(1))
    assert float(found) == pytest.approx(-np.exp(-40.0), rel=1e-12)


def test_gradient_agrees_with_finite_differences(groups):
    s, n = counts_of("mixed", groups.size)
    evaluate = value_and_gradient(
        marginal_model(hspr.build_model(groups, hspr.Config(rank=2), successes=s, trials=n))
    )
    step = 1e-5
    for z in np.random.default_rng(5).normal(0, 2, (5, 3)):
        _, gradient = evaluate(z)
        for k, unit in enumerate(np.eye(3)):
            slope = (evaluate(z + step * unit)[0] - evaluate(z - step * unit)[0]) / (2 * step)
            assert gradient[k] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_density_integrates_to_the_evidence(groups):
    s, n = counts_of("mixed", groups.size)
    config = hspr.Config(rank=0, precision=1.0, kappa=1.0)
    evaluate = value_and_gradient(
        marginal_model(hspr.build_model(groups, config, successes=s, trials=n))
    )

    def rates(z):
        eta = groups.intercept + z * groups.slope
        return 1 + np.exp(eta), 1 + np.exp(-eta)

    z, cell = grid(12.0, 1201, 1)
    truth = quadrature(
        rates, lambda z: -0.5 * (z[:, 0] ** 2 + np.log(2 * np.pi)), groups.size, s, n, z, cell
    )
    log_density = np.array([float(evaluate(state)[0]) for state in z])
    assert logsumexp(log_density) + np.log(cell) == pytest.approx(truth.log_evidence, abs=1e-9)


def test_any_model_of_the_family_is_taken_from_its_declaration():
    index, outcomes = np.array([0, 0, 2, 2, 2]), np.array([1, 0, 1, 1, 0])
    with pm.Model() as model:
        # As an array: PyMC inverts a plain sigma in single precision.
        z = pm.StudentT("ability", nu=4, mu=0.3, sigma=np.array(1.5), shape=1)
        p = pt.clip(0.5 * (1 + pt.erf((np.array([-1.0, 0.0, 0.7]) + z) / np.sqrt(2))), 1e-9, 1)
        q = pm.Beta("rate", alpha=6 * p, beta=6 * (1 - p))
        pm.Bernoulli("y", q[index], observed=outcomes)
        pm.Data("group_size", np.array([4, 1, 5]))
    evaluate = value_and_gradient(marginal_model(model))
    for state in (-1.2, 0.0, 0.8):
        p = ndtr(np.array([-1.0, 0.0, 0.7]) + state)
        expected = student_t.logpdf(state, 4, 0.3, 1.5)
        for g, s, n in ((0, 1, 2), (2, 2, 3)):
            expected += float(log_sequence_likelihood(6 * p[g], 6 * (1 - p[g]), s, n))
        assert float(evaluate([state])[0]) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("eta", [-650.0, -300.0, -40.0, 40.0, 300.0, 650.0])
def test_far_states_have_a_finite_density_and_gradient(eta, far_model):
    value, gradient = far_model(np.array([eta]))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    # Failures pull an ability that is far too high down, and successes the other way.
    assert np.sign(gradient[0]) == -np.sign(eta)


@pytest.fixture(scope="module")
def far_model():
    with pm.Model() as model:
        z = pm.Normal("z", 0, 2, shape=1)
        eta = np.array([0.0, 0.0]) + z
        q = pm.Beta("q", 4 * (1 + pt.exp(eta)), 4 * (1 + pt.exp(-eta)))
        pm.Bernoulli("y", q[np.array([0, 0, 1])], observed=np.array([1, 0, 0]))
    return value_and_gradient(marginal_model(model))


def test_no_outcomes_leave_the_prior(groups):
    model = marginal_model(hspr.build_model(groups, hspr.Config(rank=2, precision=4.0)))
    z = np.array([0.4, -0.2, 0.9])
    expected = -0.5 * (np.array([0.25, 4, 4]) @ z**2 + 3 * np.log(2 * np.pi) - np.log(0.25 * 16))
    assert float(model.compile_logp()({"z": z})) == pytest.approx(expected, rel=1e-12)


def test_model_holds_the_latent_vector_alone_and_leaves_the_other_as_it_is(groups):
    s, n = counts_of("mixed", groups.size)
    model = hspr.build_model(groups, hspr.Config(rank=1), successes=s, trials=n)
    before = set(model.named_vars)
    marginal = marginal_model(model)
    assert set(model.named_vars) == before
    assert [rv.name for rv in marginal.free_RVs] == ["z"]
    assert marginal.observed_RVs == []
    assert marginal.named_vars_to_dims["z"] == ("latent",)
    assert list(marginal.coords["latent"]) == ["ability", "factor 1"]
    # p depends on z alone and stays; the observations do not reach anything any more.
    assert [variable.name for variable in marginal.deterministics] == ["p"]
    assert {data.name for data in marginal.data_vars} == {
        "intercept",
        "loading",
        "prior_sd",
        "kappa",
    }
    # The copy shares no data with the original.
    density = marginal.compile_logp()
    value = density({"z": np.zeros(2)})
    pm.set_data({"kappa": 100.0}, model=model)
    assert density({"z": np.zeros(2)}) == value


def test_a_variable_with_the_name_of_the_likelihood_stays():
    with pm.Model() as model:
        z = pm.Normal("z", 0, 1, shape=1)
        pm.Deterministic("log_likelihood", z.sum())
        q = pm.Beta("q", 1 + pt.exp(z), 1 + pt.exp(-z))
        pm.Bernoulli("y", q[np.zeros(1, int)], observed=np.ones(1, int))
    marginal = marginal_model(model)
    assert [variable.name for variable in marginal.deterministics] == ["log_likelihood"]
    assert [variable.name for variable in marginal.potentials] == ["log_likelihood_"]


def test_models_outside_the_family_are_refused():
    with pm.Model() as model:
        pm.Normal("z", 0, 1, shape=1)
    with pytest.raises(ModelError, match="exactly one Beta variable"):
        marginal_model(model)


def test_a_model_with_start_values_is_refused():
    with pm.Model() as model:
        z = pm.Normal("z", 0, 1, shape=1, initval=np.ones(1))
        q = pm.Beta("q", 1 + pt.exp(z), 1 + pt.exp(-z))
        pm.Bernoulli("y", q[np.zeros(1, int)], observed=np.ones(1, int))
    with pytest.raises(ModelError, match="without initial values"):
        marginal_model(model)
