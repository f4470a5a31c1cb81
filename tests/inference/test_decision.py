"""Predictive draws and decision against scipy, equations 21 to 23 and exhaustive enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import betabinom, chisquare

import hspr
from hspr.inference.decision import calibrated, mean_and_residual, score_posterior
from hspr.inference.predictive import draw_successes, stratified_nodes
from hspr.inference.sobol import SobolSampler
from hspr.tests.inference.conftest import make_groups

DRAW_SEED = sum(map(ord, "draws"))


@pytest.mark.parametrize("unqueried", [1, 2, 16, 17, 40])
@pytest.mark.parametrize(("a", "b"), [(0.3, 0.7), (2.5, 1.5), (40.0, 3.0), (1e9, 2e9)])
def test_draw_successes_is_beta_binomial(unqueried, a, b):
    draws = 40_000
    counts = draw_successes(
        np.zeros(draws, dtype=np.int64),
        np.array([[a / (a + b)]]),
        np.array([[a]]),
        np.array([[b]]),
        np.array([unqueried]),
        np.random.default_rng(DRAW_SEED),
    )
    expected = draws * betabinom.pmf(np.arange(unqueried + 1), unqueried, a, b)
    observed = np.bincount(counts, minlength=unqueried + 1)
    # Cells with few expected draws are pooled into their neighbours.
    edges = np.searchsorted(np.cumsum(expected), np.arange(20, draws, max(20, draws // 50)))
    edges = np.unique(np.concatenate([[0], edges]))
    f_obs, f_exp = (np.add.reduceat(x, edges) for x in (observed, expected))
    keep = f_exp > 5
    f_obs = np.append(f_obs[keep], f_obs[~keep].sum())
    f_exp = np.append(f_exp[keep], f_exp[~keep].sum())
    filled = f_exp > 1e-9
    f_obs, f_exp = f_obs[filled], f_exp[filled]
    if len(f_obs) > 1:
        assert chisquare(f_obs, f_exp * f_obs.sum() / f_exp.sum()).pvalue > 1e-4
    assert counts.min() >= 0 and counts.max() <= unqueried


def test_stratified_nodes_counts_follow_the_weights():
    weight = np.array([0.5, 0.0, 0.25, 0.2, 0.05])
    node = stratified_nodes(weight, 1000, np.random.default_rng(DRAW_SEED))
    counts = np.bincount(node, minlength=5)
    # A stratum that straddles an edge may fall on either side of it.
    np.testing.assert_allclose(counts, 1000 * weight, atol=1)
    assert counts[1] == 0
    assert (np.diff(node) >= 0).all()


@pytest.fixture
def sampler(groups) -> SobolSampler:
    n = (groups.size + 1) // 2
    config = hspr.Config(rank=2, precision=2.0, kappa=1.0)
    model = hspr.build_model(groups, config, successes=n // 2, trials=n)
    return SobolSampler(model, nodes=1024)


def test_draws_agree_with_the_analytic_moments(sampler):
    """Equations 21 and 22, integrated over the nodes, against the draws."""
    score = score_posterior(sampler.state())
    draws = score.draws
    error = draws.std() / np.sqrt(len(draws))
    assert abs(draws.mean() - score.mean) < 6 * error
    fourth = ((draws - draws.mean()) ** 4).mean()
    variance_error = np.sqrt((fourth - draws.var() ** 2) / len(draws))
    assert abs(draws.var() - score.sd**2) < 6 * variance_error


def test_moments_agree_with_every_outcome_of_a_small_bank():
    """All outcomes of four open tasks, at one rate each: moments and median by brute force."""
    groups = make_groups(
        np.array([0.4, -1.0]), np.array([0.0, 0.0]), np.empty((2, 0)), np.array([3, 2])
    )
    s, n = np.array([1, 0]), np.array([1, 0])
    kappa = 0.7
    model = hspr.build_model(groups, hspr.Config(rank=0, kappa=kappa), successes=s, trials=n)
    score = score_posterior(SobolSampler(model, nodes=64).state())
    p = 1 / (1 + np.exp(-groups.intercept))
    totals, masses = [], []
    for outcome in product((0, 1), repeat=4):
        mass = 1.0
        for members, g in ((outcome[:2], 0), (outcome[2:], 1)):
            a, b = kappa / (1 - p[g]) + s[g], kappa / p[g] + n[g] - s[g]
            for y in members:
                mass *= (a if y else b) / (a + b)
                a, b = a + y, b + 1 - y
        totals.append((1 + sum(outcome)) / 5)
        masses.append(mass)
    totals, masses = np.array(totals), np.array(masses)
    assert masses.sum() == pytest.approx(1)
    mean = masses @ totals
    assert score.mean == pytest.approx(mean, abs=1e-12)
    assert score.sd == pytest.approx(np.sqrt(masses @ (totals - mean) ** 2), abs=1e-12)
    below = masses[totals <= score.median + 1e-9].sum()
    assert below >= 0.5 and masses[totals < score.median - 1e-9].sum() <= 0.5


@pytest.mark.parametrize("decision", ["median", "mean"])
@pytest.mark.parametrize("calibration", [0.0, 0.5])
def test_estimate_follows_equation_16(sampler, decision, calibration):
    tree = sampler.state()
    score = score_posterior(tree, calibration=calibration, decision=decision, draws=4096)
    importance = tree["importance"]
    q_bar = sampler.arrays.weight @ importance["mean_rate"].values
    residual = (
        sampler.arrays.successes.sum() - sampler.arrays.trials @ q_bar
    ) / sampler.arrays.trials.sum()
    assert score.mean_residual == pytest.approx(residual, abs=1e-12)
    center = score.median if decision == "median" else score.mean
    share = 1 - sampler.arrays.trials.sum() / sampler.arrays.size.sum()
    assert score.estimate == pytest.approx(center + calibration * share * residual, abs=1e-12)


def test_estimate_is_clipped(groups):
    """A bank that is all but solved, with a positive residual, stays at or below one."""
    easy = replace(groups, intercept=np.full(len(groups.size), 9.0))
    n = np.where(groups.size > 4, 1, 0)
    model = hspr.build_model(easy, hspr.Config(rank=0, kappa=0.2), successes=n, trials=n)
    tree = SobolSampler(model, nodes=256).state()
    assert score_posterior(tree, calibration=1.0, draws=512).estimate <= 1.0


def test_everything_observed_gives_the_exact_score(groups):
    n, s = groups.size, groups.size // 3
    model = hspr.build_model(groups, hspr.Config(rank=2), successes=s, trials=n)
    score = score_posterior(SobolSampler(model, nodes=256).state(), calibration=0.5)
    exact = s.sum() / n.sum()
    assert score.estimate == score.median == exact
    assert score.mean == pytest.approx(exact, abs=1e-14)
    assert score.sd == pytest.approx(0, abs=1e-7)
    assert score.interval(0.99) == (exact, exact)


def test_nothing_observed_has_no_residual(groups):
    tree = SobolSampler(hspr.build_model(groups, hspr.Config(rank=1)), nodes=256).state()
    score = score_posterior(tree, calibration=0.5, draws=256)
    assert score.mean_residual == 0
    assert score.estimate == score.median
    assert np.isnan(score.observed_share)


def test_equal_seed_gives_equal_bytes(sampler):
    first, second = (score_posterior(sampler.state(), draws=2048) for _ in range(2))
    assert first.draws.tobytes() == second.draws.tobytes()
    other = score_posterior(sampler.state(), draws=2048, seed=1)
    assert other.draws.tobytes() != first.draws.tobytes()


def test_working_tree_and_kept_tree_decide_alike(sampler):
    live, kept = (
        score_posterior(sampler.state(), draws=512),
        score_posterior(sampler.posterior(draws=16), draws=512),
    )
    assert live.draws.tobytes() == kept.draws.tobytes()
    assert (live.mean, live.sd, live.ess) == (kept.mean, kept.sd, kept.ess)


def test_score_posterior_bad_arguments(sampler):
    tree = sampler.state()
    with pytest.raises(hspr.DataError, match="decision must be 'median' or 'mean', got 'mode'"):
        score_posterior(tree, decision="mode")
    with pytest.raises(hspr.DataError, match=r"draws.*0"):
        score_posterior(tree, draws=0)
    with pytest.raises(hspr.DataError, match=r"prob must be between 0 and 1, got 90"):
        score_posterior(tree, draws=8).interval(90)


@pytest.mark.parametrize(
    ("center", "calibration", "residual", "observed", "expected"),
    [
        (0.4, 0.0, 0.3, 0.1, 0.4),
        (0.4, 0.5, 0.2, 0.1, 0.4 + 0.5 * 0.9 * 0.2),
        (0.4, 0.5, -0.2, 0.1, 0.4 - 0.5 * 0.9 * 0.2),
        (0.4, 1.0, 0.2, 1.0, 0.4),
        (0.9, 1.0, 0.5, 0.0, 1.0),
        (0.1, 1.0, -0.5, 0.0, 0.0),
    ],
)
def test_calibrated_is_equation_16_within_the_scores(
    center, calibration, residual, observed, expected
):
    assert calibrated(center, calibration, residual, observed) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("compact", [False, True])
def test_mean_and_residual_are_equations_15_and_21(groups, compact):
    n = (groups.size + 1) // 2
    model = hspr.build_model(groups, hspr.Config(rank=2, kappa=1.0), successes=n // 2, trials=n)
    sampler = SobolSampler(model, nodes=1024, compact=compact)
    arrays = sampler.arrays
    weight = np.exp(arrays.log_weight - arrays.log_weight.max())
    weight /= weight.sum()
    successes = (n // 2).sum()
    q_bar = arrays.mean_rate.astype(float) @ weight
    mean, residual = mean_and_residual(sampler.state())
    assert mean == pytest.approx(
        (successes + (groups.size - n) @ q_bar) / groups.size.sum(), abs=1e-7 if compact else 1e-12
    )
    assert residual == pytest.approx((successes - n @ q_bar) / n.sum(), abs=1e-12)
    score = score_posterior(sampler.state(), draws=8)
    assert (mean, residual) == (score.mean, score.mean_residual)


def test_mean_and_residual_before_any_outcome_has_no_residual(groups):
    sampler = SobolSampler(hspr.build_model(groups, hspr.Config(rank=1)), nodes=256)
    mean, residual = mean_and_residual(sampler.state())
    assert mean == pytest.approx(
        groups.size @ (sampler.arrays.mean_rate @ sampler.arrays.weight) / groups.size.sum()
    )
    assert residual == 0.0
    assert score_posterior(sampler.state(), calibration=1.0, draws=8).mean_residual == 0.0
