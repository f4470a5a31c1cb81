"""Proposition 1 by brute force within the nodes, and the gains against quadrature."""

from __future__ import annotations

import numpy as np
import pytest

import hspr
from hspr.acquisition.criteria import gain_of
from hspr.inference.decision import score_posterior
from hspr.inference.sobol import SobolSampler
from hspr.models.groups import TaskGroups
from hspr.tests.oracles import grid, quadrature


def make_groups() -> TaskGroups:
    rng = np.random.default_rng(sum(map(ord, "criteria")))
    size = np.array([1, 2, 7, 1, 30, 3, 1, 12])
    return TaskGroups(
        group_of_task=np.repeat(np.arange(8), size),
        size=size,
        intercept=rng.normal(-0.5, 1.2, 8),
        slope=rng.uniform(0.4, 1.6, 8),
        loading=rng.normal(0, 0.7, (8, 2)),
        tasks=tuple(f"task-{index}" for index in range(size.sum())),
        bank="made-up",
    )


TRIALS = np.array([0, 1, 3, 1, 9, 0, 1, 4])
SUCCESSES = np.array([0, 1, 1, 0, 4, 0, 1, 0])


def make_sampler(rank: int, kappa: float, **options) -> SobolSampler:
    config = hspr.Config(rank=rank, precision=2.0, kappa=kappa)
    model = hspr.build_model(make_groups(), config, successes=SUCCESSES, trials=TRIALS)
    return SobolSampler(model, refresh_every=1000, **{"nodes": 512, **options})


def score_variance(sampler: SobolSampler) -> float:
    return score_posterior(sampler.state(), draws=1).sd ** 2


def latent_variance(sampler: SobolSampler) -> float:
    z, weight = sampler.state()["importance"]["z"].values, sampler.arrays.weight
    return float((weight @ (z - weight @ z) ** 2).sum())


@pytest.mark.parametrize("kappa", [0.25, 1.0, 16.0])
@pytest.mark.parametrize(
    ("gain", "variance"),
    [(hspr.score_gain, score_variance), (hspr.latent_gain, latent_variance)],
    ids=["score", "latent"],
)
def test_gain_is_the_expected_drop_of_variance(gain, variance, kappa):
    """Both outcomes of each group told to a copy at equal nodes (proposition 1)."""
    sampler = make_sampler(2, kappa)
    gains = gain(sampler.state())
    before = variance(sampler)
    probability = sampler.arrays.weight @ sampler.state()["importance"]["mean_rate"].values
    for group in np.flatnonzero(sampler.arrays.unqueried):
        after = 0.0
        for outcome in (0, 1):
            told = sampler.copy()
            told.update(int(group), outcome)
            mass = probability[group] if outcome else 1 - probability[group]
            after += mass * variance(told)
        assert gains[group] == pytest.approx(before - after, abs=1e-10, rel=1e-7)
        assert gains[group] > 0


@pytest.mark.parametrize("rank", [0, 1])
def test_gains_agree_with_quadrature(rank):
    groups, kappa = make_groups(), 1.0
    sampler = make_sampler(rank, kappa, nodes=2**14)
    prior_precision = np.array([2.0] if rank == 0 else [0.25, 2.0])
    loading = np.column_stack([groups.slope, groups.loading[:, :rank]])

    def rates(z):
        eta = groups.intercept + z @ loading.T
        return kappa * (1 + np.exp(eta)), kappa * (1 + np.exp(-eta))

    truth = quadrature(
        rates,
        lambda z: -0.5 * z**2 @ prior_precision,
        groups.size,
        SUCCESSES,
        TRIALS,
        *grid(16.0, 8001 if rank == 0 else 501, 1 + rank),
    )
    open_groups = groups.size > TRIALS
    variance = truth.rate_mean * (1 - truth.rate_mean)
    for gain, squared in (
        (hspr.score_gain, truth.score_covariance**2),
        (hspr.latent_gain, (truth.z_covariance**2).sum(axis=0)),
    ):
        np.testing.assert_allclose(
            gain(sampler.state())[open_groups], (squared / variance)[open_groups], rtol=2e-3
        )


@pytest.mark.parametrize("gain", [hspr.score_gain, hspr.latent_gain])
def test_exhausted_groups_have_no_gain(gain):
    sampler = make_sampler(1, 1.0)
    assert np.isneginf(gain(sampler.state())).tolist() == (sampler.arrays.unqueried == 0).tolist()


@pytest.mark.parametrize("gain", [hspr.score_gain, hspr.latent_gain])
def test_gain_reads_a_kept_tree_as_the_working_one(gain):
    sampler = make_sampler(2, 1.0)
    np.testing.assert_array_equal(gain(sampler.state()), gain(sampler.posterior(draws=4)))


def test_gain_of_unknown_criterion():
    with pytest.raises(hspr.DataError, match="criterion must be one of score, latent, got 'x'"):
        gain_of("x")
