"""Nodes and proposals against scipy and a general optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import expit
from scipy.stats import multivariate_normal, multivariate_t

import hspr
from hspr.inference import proposal as proposal_module
from hspr.inference.family import read_family
from hspr.inference.proposal import (
    Proposal,
    gaussian_proposal,
    place_nodes,
    sobol_points,
)

FACTOR = np.array([[1.0, 0.3], [-0.4, 0.7]])
CENTER = np.array([0.5, -1.0])


@pytest.mark.parametrize("dof", [np.inf, 5.0])
def test_log_density_agrees_with_scipy(dof):
    proposal = Proposal(CENTER, FACTOR, dof)
    z = proposal.nodes(256, seed=1)
    scale = FACTOR @ FACTOR.T
    oracle = (
        multivariate_normal(CENTER, scale)
        if np.isinf(dof)
        else multivariate_t(CENTER, scale, df=dof)
    )
    np.testing.assert_allclose(proposal.log_density(z), oracle.logpdf(z), rtol=1e-10)


@pytest.mark.parametrize("dof", [np.inf, 5.0])
def test_nodes_have_the_proposal_moments(dof):
    proposal = Proposal(CENTER, FACTOR, dof)
    z = proposal.nodes(2**15, seed=2)
    np.testing.assert_allclose(z.mean(axis=0), CENTER, atol=1e-3)
    np.testing.assert_allclose(np.cov(z.T), proposal.covariance, atol=0.03)


def test_mixture_density_is_the_mean_of_its_parts():
    parts = [Proposal(CENTER, FACTOR), Proposal(-CENTER, 2 * FACTOR, 5.0)]
    z, log_density = place_nodes(parts, 512, seed=3)
    scale = FACTOR @ FACTOR.T
    expected = 0.5 * multivariate_normal(CENTER, scale).pdf(z)
    expected += 0.5 * multivariate_t(-CENTER, 4 * scale, df=5.0).pdf(z)
    np.testing.assert_allclose(np.exp(log_density), expected, rtol=1e-9)
    assert (z[:256].mean(axis=0) * CENTER > 0).all()
    assert (z[256:].mean(axis=0) * CENTER < 0).all()


def test_sobol_error_falls_faster_than_random_draws():
    """The integral of a smooth function: 16 times the nodes cut the error by more than 4."""

    def error(count: int) -> float:
        exact = np.exp(0.5 * 3 * 0.25)
        errors = [
            np.exp(0.5 * Proposal(np.zeros(3), np.eye(3)).nodes(count, seed).sum(axis=1)).mean()
            - exact
            for seed in range(16)
        ]
        return float(np.sqrt(np.mean(np.square(errors))))

    assert error(4096) < error(256) / 6


@pytest.mark.parametrize("count", [0, -4, 1, 1000, 3, 2**25])
def test_sobol_points_must_be_a_power_of_two(count):
    with pytest.raises(hspr.DataError, match=rf"power of two.*got {count}"):
        sobol_points(2, count, 0)


def test_sobol_points_are_inside_the_open_cube_and_read_only():
    points = sobol_points(3, 2**12, 0)
    assert points.min() > 0 and points.max() < 1
    with pytest.raises(ValueError, match="read-only"):
        points[0, 0] = 0.5


@pytest.mark.parametrize("kappa", [0.25, 4.0, 100.0])
@pytest.mark.parametrize("history", ["all-fail", "all-pass", "mixed", "none"])
def test_gaussian_proposal_is_the_mode_of_the_auxiliary_model(groups, kappa, history):
    """Joint mode and Schur complement of the logistic-normal model, by a general optimiser."""
    n = np.zeros_like(groups.size) if history == "none" else (groups.size + 1) // 2
    s = {"all-fail": 0 * n, "all-pass": n, "mixed": n // 2, "none": n}[history]
    config = hspr.Config(rank=2, precision=2.0, kappa=kappa)
    family = read_family(hspr.build_model(groups, config))
    proposal = gaussian_proposal(family, s, n, groups.size)
    loading = np.column_stack([groups.slope, groups.loading])
    prior = np.array([0.25, 2.0, 2.0])
    g = len(groups.size)

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        z, delta = x[:3], x[3:]
        eta = groups.intercept + loading @ z + delta
        p = 1 / (1 + np.exp(-eta))
        value = (prior * z**2).sum() / 2 + kappa * (delta**2).sum() / 2
        value -= (s * eta - n * np.logaddexp(0, eta)).sum()
        slope = s - n * p
        return value, np.concatenate([prior * z - loading.T @ slope, kappa * delta - slope])

    found = minimize(objective, np.zeros(3 + g), jac=True, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(proposal.center, found.x[:3], atol=1e-5)
    eta = groups.intercept + loading @ found.x[:3] + found.x[3:]
    p = 1 / (1 + np.exp(-eta))
    hessian = np.zeros((3 + g, 3 + g))
    w = n * p * (1 - p)
    hessian[:3, :3] = np.diag(prior) + (loading * w[:, None]).T @ loading
    hessian[:3, 3:] = (loading * w[:, None]).T
    hessian[3:, :3] = hessian[:3, 3:].T
    hessian[3:, 3:] = np.diag(w + kappa)
    covariance = np.linalg.inv(hessian)[:3, :3]
    np.testing.assert_allclose(proposal.covariance, covariance, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("eta", [-700.0, -40.0, -5.0, 0.0, 2.0, 20.0, 40.0, 700.0])
@pytest.mark.parametrize("kappa", [1e-6, 0.25, 4.0, 1e6])
@pytest.mark.parametrize(("s", "n"), [(0, 1), (1, 1), (0, 16), (16, 16), (3, 16), (500, 1000)])
def test_best_offset_is_the_root(eta, kappa, s, n):
    """Saturated logistics make a plain Newton iteration cycle between the ends of the bracket."""

    def slope(offset: float) -> float:
        return s - n * float(expit(eta + offset)) - kappa * offset

    found = proposal_module._best_offset(
        np.array([eta]), np.array([kappa]), np.array([s]), np.array([n])
    )[0]
    low, high = -(n - s) / kappa - 1e-9, s / kappa + 1e-9
    expected = brentq(slope, low, high, xtol=1e-14, rtol=1e-14)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("precision", [0.25, 4.0])
@pytest.mark.parametrize("kappa", [0.01, 0.25, 1.0, 100.0])
@pytest.mark.parametrize("eta", [20.0, 40.0])
@pytest.mark.parametrize("told", [1, 8, 30, 60])
def test_mode_is_found_where_certain_tasks_fail(groups, eta, kappa, precision, told):
    """The gradient of the profile vanishes at the centre, however far off the data are."""
    from dataclasses import replace

    size = np.full(3, 20)
    bank = replace(
        groups,
        size=size,
        intercept=np.array([eta, 1.4 * eta, -eta]),
        slope=np.array([1.0, 1.5, 0.8]),
        loading=np.empty((3, 0)),
    )
    n = np.clip(told - np.array([0, 20, 40]), 0, 20)
    s = 0 * n
    family = read_family(
        hspr.build_model(bank, hspr.Config(rank=0, kappa=kappa, precision=precision))
    )
    center = gaussian_proposal(family, s, n, size).center

    def height(z: float) -> float:
        around = family.linearise(np.array([z]))
        return proposal_module._profile(around, s[n > 0], n[n > 0], n > 0)[0]

    top = height(center[0])
    for shift in (-1.0, -1e-2, 1e-2, 1.0):
        assert height(center[0] + shift) <= top + 1e-9
