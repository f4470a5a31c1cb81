"""The package's quadrature against the tests' own, and its limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hspr
from hspr.tests.oracles import grid, quadrature


@pytest.mark.parametrize("kappa", [0.25, 4.0])
@pytest.mark.parametrize("history", ["none", "all-fail", "mixed"])
@pytest.mark.parametrize("rank", [0, 1])
def test_integrate_agrees_with_an_independent_grid(groups, rank, history, kappa):
    n = np.zeros_like(groups.size) if history == "none" else (groups.size + 1) // 2
    s = n // 2 if history == "mixed" else 0 * n
    config = hspr.Config(rank=rank, precision=1.0, kappa=kappa)
    model = hspr.build_model(groups, config, successes=s, trials=n)
    found = hspr.integrate(model)
    precision = np.array([1.0] if rank == 0 else [0.25, 1.0])
    loading = np.column_stack([groups.slope, groups.loading[:, :rank]])

    def rates(z):
        eta = groups.intercept + z @ loading.T
        return kappa * (1 + np.exp(eta)), kappa * (1 + np.exp(-eta))

    def log_prior(z):
        return (-0.5 * precision * z**2 + 0.5 * np.log(precision / (2 * np.pi))).sum(axis=1)

    z, cell = grid(20.0, 8001 if rank == 0 else 801, 1 + rank)
    truth = quadrature(rates, log_prior, groups.size, s, n, z, cell)
    assert found.mean == pytest.approx(truth.score_mean, abs=1e-9)
    assert found.sd == pytest.approx(truth.score_sd, abs=1e-9)
    assert found.log_evidence == pytest.approx(truth.log_evidence, abs=1e-9)
    np.testing.assert_allclose(found.z_mean, truth.z_mean, atol=1e-8)
    np.testing.assert_allclose(found.z_sd, truth.z_sd, atol=1e-8)
    np.testing.assert_allclose(found.rate_mean, truth.rate_mean, atol=1e-9)
    assert found.weight.sum() == pytest.approx(1) and found.edge_mass < 1e-12


def test_integrate_says_when_the_grid_is_too_narrow(groups):
    model = hspr.build_model(groups, hspr.Config(rank=0))
    with pytest.raises(hspr.SamplingError, match=r"grid cuts the posterior off.*above 2"):
        hspr.integrate(model, half_width=2.0)


def test_integrate_takes_two_coordinates_at_most(groups):
    model = hspr.build_model(replace(groups), hspr.Config(rank=2))
    with pytest.raises(hspr.ModelError, match=r"at most 2 latent coordinates, 'z' has 3"):
        hspr.integrate(model)


@pytest.mark.parametrize(("name", "value"), [("points", 2), ("points", 4.5), ("half_width", 0)])
def test_integrate_bad_arguments(groups, name, value):
    model = hspr.build_model(groups, hspr.Config(rank=0))
    with pytest.raises(hspr.DataError, match=f"{name} must be .*got {value}"):
        hspr.integrate(model, **{name: value})
