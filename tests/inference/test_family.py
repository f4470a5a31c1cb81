"""One declaration: any model of the family runs untouched, any other is refused by name."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import t as student_t

import hspr
from hspr.inference import compiled
from hspr.inference.decision import score_posterior
from hspr.inference.family import read_family
from hspr.inference.sobol import SobolSampler
from hspr.models.errors import ModelError
from hspr.tests.oracles import grid, quadrature

INTERCEPT = np.array([-2.0, -0.6, 0.1, 0.4, 1.5])
SLOPE = np.array([0.8, 1.2, 1.0, 0.5, 1.4])
SIZE = np.array([12, 3, 6, 1, 8])
TRIALS = np.array([5, 1, 4, 0, 3])
SUCCESSES = np.array([0, 1, 3, 0, 3])
INDEX = np.repeat(np.arange(5), TRIALS)
OUTCOMES = np.concatenate(
    [[1] * s + [0] * (n - s) for s, n in zip(SUCCESSES, TRIALS, strict=True)]
).astype(int)
SCRAMBLES = range(12)


def check_against_quadrature(model, rates, log_prior) -> None:
    z, cell = grid(60.0, 60_001, 1)
    truth = quadrature(rates, log_prior, SIZE, SUCCESSES, TRIALS, z, cell)
    scores = [
        score_posterior(
            SobolSampler(model, nodes=4096, seed=seed, proposal="student").state(), draws=16
        )
        for seed in SCRAMBLES
    ]
    for name, expected in (("mean", truth.score_mean), ("sd", truth.score_sd)):
        values = np.array([getattr(score, name) for score in scores])
        error = values.std(ddof=1)
        assert abs(values.mean() - expected) < 4 * error / np.sqrt(len(values)) + 1e-9
        assert error < 1e-3


def normal_prior(z):
    return -0.125 * z[:, 0] ** 2 - np.log(2 * np.sqrt(2 * np.pi))


def test_student_t_prior_runs_untouched():
    with pm.Model() as model:
        z = pm.StudentT("z", nu=4, mu=0.3, sigma=1.5, shape=1)
        eta = INTERCEPT + SLOPE * z[0]
        q = pm.Beta("q", 2 * (1 + pt.exp(eta)), 2 * (1 + pt.exp(-eta)))
        pm.Bernoulli("y", q[INDEX], observed=OUTCOMES)
        pm.Data("group_size", SIZE)

    def rates(z):
        with np.errstate(over="ignore"):
            e = np.exp(np.clip(INTERCEPT + z * SLOPE, -300, 300))
        return 2 * (1 + e), 2 * (1 + 1 / e)

    check_against_quadrature(model, rates, lambda z: student_t.logpdf(z[:, 0], 4, 0.3, 1.5))


def test_constant_concentration_runs_untouched():
    with pm.Model(coords={"g": list("abcde"), "k": ["theta"]}) as model:
        z = pm.Normal("ability", 0, 2, dims="k")
        p = pm.math.sigmoid(INTERCEPT + SLOPE * z[0])
        q = pm.Beta("rate", mu=p, nu=6.0, dims="g")
        pm.Bernoulli("y", q[INDEX], observed=OUTCOMES)
        pm.Data("group_size", SIZE, dims="g")

    def rates(z):
        # 1e-300 is where the sampler takes a parameter of zero to its limit.
        eta = INTERCEPT + z * SLOPE
        return (
            np.maximum(6 / (1 + np.exp(-eta)), 1e-300),
            np.maximum(6 / (1 + np.exp(eta)), 1e-300),
        )

    check_against_quadrature(model, rates, normal_prior)
    tree = SobolSampler(model, nodes=64).posterior(draws=8)
    assert set(tree["posterior"].data_vars) == {"ability", "p", "rate"}
    assert list(tree["posterior"]["g"].values) == list("abcde")


def test_probit_link_runs_untouched():
    scale = 0.6  # keeps both tails above the smallest double over the grid
    with pm.Model() as model:
        z = pm.Normal("z", 0, 2, shape=1)
        eta = scale * (INTERCEPT + SLOPE * z[0])
        p = 0.5 * pt.erfc(-eta / np.sqrt(2))
        not_p = 0.5 * pt.erfc(eta / np.sqrt(2))
        q = pm.Beta("q", alpha=3.0 / not_p, beta=3.0 / p)
        pm.Bernoulli("y", q[INDEX], observed=OUTCOMES)
        pm.Data("group_size", SIZE)

    def rates(z):
        eta = np.clip(scale * (INTERCEPT + z * SLOPE), -36, 36)
        return 3 * np.exp(-log_ndtr(-eta)), 3 * np.exp(-log_ndtr(eta))

    assert ndtr(-36.0) > 0
    check_against_quadrature(model, rates, normal_prior)


def family_model(**changes) -> pm.Model:
    """A model of the family, with one part exchanged."""
    parts = {
        "z": lambda: pm.Normal("z", 0, 1, shape=1),
        "q": lambda z: pm.Beta("q", 1 + pt.exp(SLOPE * z[0]), 1 + pt.exp(-SLOPE * z[0])),
        "y": lambda q: pm.Bernoulli("y", q[INDEX], observed=OUTCOMES),
        "extra": lambda z: pm.Data("group_size", SIZE),
    } | changes
    with pm.Model() as model:
        z = parts["z"]()
        q = parts["q"](z)
        parts["y"](q)
        parts["extra"](z)
    return model


OUTSIDE = {
    "no Beta variable": (
        {"q": lambda z: pm.LogitNormal("q", z[0] * SLOPE, 1.0)},
        "exactly one Beta variable, found: none",
    ),
    "second latent": (
        {"extra": lambda z: pm.Normal("w")},
        "exactly one latent variable, found: z, w",
    ),
    "second Beta": (
        {"extra": lambda z: pm.Beta("r", 1.0, 1.0)},
        "exactly one Beta variable, found: q, r",
    ),
    "no latent": (
        {"z": lambda: pt.zeros(1), "q": lambda z: pm.Beta("q", 2.0, 2.0, shape=5)},
        "exactly one latent variable, found: none",
    ),
    "Binomial outcome": (
        {"y": lambda q: pm.Binomial("y", n=TRIALS, p=q, observed=SUCCESSES)},
        "observed variable 'y' has distribution 'binomial', not Bernoulli",
    ),
    "nothing observed": ({"y": lambda q: None}, "exactly one observed variable, found: none"),
    "two outcomes": (
        {"extra": lambda z: pm.Normal("x", z[0], observed=0.1)},
        "exactly one observed variable, found: y, x",
    ),
    "transformed rate": (
        {"y": lambda q: pm.Bernoulli("y", q[INDEX] ** 2, observed=OUTCOMES)},
        r"probabilities of 'y' must be entries of 'q'",
    ),
    "mixed rate": (
        {"y": lambda q: pm.Bernoulli("y", (q[INDEX] + q[0]) / 2, observed=OUTCOMES)},
        r"probabilities of 'y' must be entries of 'q'",
    ),
    "outcome of two": (
        {"y": lambda q: pm.Bernoulli("y", q[INDEX], observed=OUTCOMES * 2)},
        "observed outcomes of 'y' must be 0 or 1, got 2",
    ),
    "potential": (
        {"extra": lambda z: pm.Potential("constraint", -(z.sum() ** 2))},
        "potential 'constraint' would be ignored",
    ),
    "scalar latent": (
        {"z": lambda: pm.Normal("z"), "q": lambda z: pm.Beta("q", pt.exp(SLOPE * z), 1.0)},
        "'z' must be a vector, it has 0 dimensions",
    ),
    "rate matrix": (
        {
            "q": lambda z: pm.Beta("q", pt.exp(SLOPE * z[0]), 1.0, shape=(2, 5)),
            "y": lambda q: pm.Bernoulli("y", q[0][INDEX], observed=OUTCOMES),
        },
        "'q' must be a vector, it has 2 dimensions",
    ),
    "hidden random variable": (
        {"q": lambda z: pm.Beta("q", pt.exp(SLOPE * z[0] * pm.Normal.dist()), 1.0)},
        "depend on a random variable besides 'z'",
    ),
    "rate without latent": (
        {"q": lambda z: pm.Beta("q", 2.0, 2.0, shape=5)},
        "do not depend on 'z'",
    ),
    "no group sizes": ({"extra": lambda z: None}, "no data named 'group_size'"),
    "wrong number of sizes": (
        {"extra": lambda z: pm.Data("group_size", SIZE[:3])},
        "group_size must hold 5 whole numbers",
    ),
    "more outcomes than tasks": (
        {"extra": lambda z: pm.Data("group_size", np.array([2, 3, 6, 1, 8]))},
        "group 0 has 5 observed outcomes but 2 tasks",
    ),
    "negative parameter": (
        {"q": lambda z: pm.Beta("q", SLOPE * z[0], 1.0)},
        "Beta parameter is not positive there",
    ),
}


def test_negative_parameter_far_out_is_refused():
    """A parameter that turns negative only at some nodes is found when they are evaluated."""
    with pytest.raises(ModelError, match=r"parameters of 'q' must be positive.* at z = \["):
        SobolSampler(
            family_model(q=lambda z: pm.Beta("q", 1 + 0.9 * SLOPE * z[0], 1.0)), nodes=1024
        )


@pytest.mark.parametrize("name", OUTSIDE)
def test_model_outside_the_family_is_refused_by_name(name):
    changes, message = OUTSIDE[name]
    with pytest.raises(ModelError, match=message) as caught:
        SobolSampler(family_model(**changes), nodes=64)
    assert "\n" not in str(caught.value)


def test_group_sizes_can_be_passed():
    sampler = SobolSampler(family_model(extra=lambda z: None), group_size=SIZE, nodes=64)
    assert score_posterior(sampler.state(), draws=8).n_tasks == SIZE.sum()


def test_counts_are_read_from_any_index(groups):
    """Counts by group from outcomes in any order, and from probabilities given one by one."""
    order = np.random.default_rng(3).permutation(len(INDEX))
    model = family_model(y=lambda q: pm.Bernoulli("y", q[INDEX[order]], observed=OUTCOMES[order]))
    family = read_family(model)
    np.testing.assert_array_equal(family.trials, TRIALS)
    np.testing.assert_array_equal(family.successes, SUCCESSES)
    whole = read_family(family_model(y=lambda q: pm.Bernoulli("y", q, observed=[1, 0, 1, 1, 0])))
    np.testing.assert_array_equal(whole.trials, np.ones(5))
    np.testing.assert_array_equal(whole.successes, [1, 0, 1, 1, 0])


def test_compiled_once_for_each_structure(groups):
    """New data, other numbers of groups and factors, and set_data reuse the compiled functions."""
    from dataclasses import replace

    read_family(hspr.build_model(groups, hspr.Config(rank=2)))
    known = list(compiled._structures)
    smaller = replace(
        groups,
        intercept=groups.intercept[:4],
        slope=groups.slope[:4],
        loading=groups.loading[:4, :1],
        size=groups.size[:4],
    )
    for bank, rank in ((groups, 2), (groups, 1), (groups, 0), (smaller, 1)):
        family = read_family(hspr.build_model(bank, hspr.Config(rank=rank, kappa=3.0 + rank)))
        assert family.evaluate(np.zeros((3, 1 + rank)))[0].shape == (3, len(bank.size))
    assert compiled._structures == known

    model = hspr.build_model(groups, hspr.Config(rank=2, kappa=1.0))
    before = read_family(model)
    moved = hspr.build_model(smaller, hspr.Config(rank=1, kappa=5.0))
    values = {data.name: data.get_value() for data in moved.data_vars}
    with model:
        pm.set_data(values, coords={dim: list(moved.coords[dim]) for dim in ("group", "latent")})
    after, expected = read_family(model), read_family(moved)
    assert compiled._structures == known
    z = np.random.default_rng(0).normal(size=(5, 2))
    for got, wanted in zip(after.evaluate(z), expected.evaluate(z), strict=True):
        np.testing.assert_array_equal(got, wanted)
    # What was read before keeps the data that it was read with.
    assert before.evaluate(np.zeros((1, 3)))[0].shape == (1, len(groups.size))


def test_linearise_agrees_with_finite_differences():
    with pm.Model() as model:
        z = pm.StudentT("z", nu=3, mu=0.2, sigma=1.3, shape=2)
        eta = INTERCEPT + SLOPE * z[0] * (1 + 0.2 * z[1]) + 0.3 * z[1] ** 2
        q = pm.Beta("q", pt.exp(eta) * (1 + z[1] ** 2), 2.0)
        pm.Bernoulli("y", q[INDEX], observed=OUTCOMES)
        pm.Data("group_size", SIZE)
    family = read_family(model)
    at, step = np.array([0.4, -0.7]), 1e-5
    around = family.linearise(at)
    alpha, beta, log_prior = family.evaluate(at[None])
    np.testing.assert_allclose(around.predictor, np.log(alpha[0] / beta[0]), rtol=1e-12)
    np.testing.assert_allclose(around.offset_precision, (1 / (1 / alpha + 1 / beta))[0], rtol=1e-12)
    assert around.log_prior == pytest.approx(log_prior[0], rel=1e-12)
    expected = student_t.logpdf(at, 3, 0.2, 1.3).sum()
    # PyMC takes log-gamma of the small integer nu in single precision: a constant, off by 1e-8.
    assert around.log_prior == pytest.approx(expected, abs=2e-8)
    for k in range(2):
        shift = step * np.eye(2)[k]
        up, down = family.linearise(at + shift), family.linearise(at - shift)
        slope = (up.predictor - down.predictor) / (2 * step)
        np.testing.assert_allclose(around.jacobian[:, k], slope, rtol=1e-7)
        rise = (up.log_prior - down.log_prior) / (2 * step)
        assert around.prior_gradient[k] == pytest.approx(rise, rel=1e-7)
        bend = (up.prior_gradient - down.prior_gradient) / (2 * step)
        np.testing.assert_allclose(around.prior_hessian[:, k], bend, rtol=1e-7, atol=1e-9)


def test_number_of_rates_may_follow_from_the_predictor_alone():
    """A Beta without dims or shape, on a latent of fixed length, as people write it by hand."""
    loading = np.random.default_rng(1).normal(size=(5, 3))
    with pm.Model() as model:
        intercept, slopes = pm.Data("b", np.linspace(-1, 1, 5)), pm.Data("l", loading)
        z = pm.Normal("z", 0, 1, shape=3)
        eta = intercept + slopes @ z
        q = pm.Beta("q", 2 * (1 + pt.exp(eta)), 2 * (1 + pt.exp(-eta)))
        pm.Bernoulli("y", q[[0, 3]], observed=[1, 0])
    family = read_family(model)
    np.testing.assert_array_equal(family.trials, [1, 0, 0, 1, 0])
    at = np.array([[0.3, -0.2, 0.5]])
    expected = 2 * (1 + np.exp(np.linspace(-1, 1, 5) + loading @ at[0]))
    np.testing.assert_allclose(family.evaluate(at)[0][0], expected, rtol=1e-12)
