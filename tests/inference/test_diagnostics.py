"""Weights, effective sample size and Pareto k, with the edge cases that ArviZ leaves open."""

from __future__ import annotations

import numpy as np
import pytest

from hspr.inference.diagnostics import (
    effective_sample_size,
    log_evidence,
    normalised_weights,
    pareto_k,
)

RNG_SEED = sum(map(ord, "pareto"))


@pytest.mark.parametrize("shift", [-2000.0, 0.0, 700.0])
def test_shifting_log_weights_changes_nothing(shift):
    log_weight = np.random.default_rng(RNG_SEED).normal(size=4096)
    np.testing.assert_allclose(
        normalised_weights(log_weight + shift), normalised_weights(log_weight), rtol=1e-9
    )
    assert pareto_k(log_weight + shift) == pytest.approx(pareto_k(log_weight), rel=1e-6)
    assert log_evidence(log_weight + shift) == pytest.approx(log_evidence(log_weight) + shift)


@pytest.mark.parametrize("k", [0.3, 0.5, 0.9])
def test_pareto_k_recovers_the_shape_of_a_pareto_tail(k):
    """Weights u^-k have a generalised Pareto tail of shape k; the wrong sign would see none."""
    uniform = np.random.default_rng(RNG_SEED).random(200_000)
    assert pareto_k(-k * np.log(uniform)) == pytest.approx(k, abs=0.1)


@pytest.mark.parametrize(
    ("log_weight", "expected"),
    [
        (np.zeros(1000), -np.inf),
        (np.full(1000, -1500.0), -np.inf),
        (np.array([0.0, -1.0]), np.inf),
        (np.append(np.full(999, -800.0), 0.0), np.inf),
        (np.append(np.zeros(999), np.nan), np.inf),
        (np.append(np.zeros(999), np.inf), np.inf),
    ],
    ids=["constant", "constant-far", "two", "one-dominates", "nan", "inf"],
)
def test_pareto_k_edge_cases(log_weight, expected):
    assert pareto_k(log_weight) == expected


def test_pareto_k_takes_zero_weights():
    log_weight = np.random.default_rng(RNG_SEED).normal(size=4096)
    log_weight[::7] = -np.inf
    assert np.isfinite(pareto_k(log_weight))


def test_effective_sample_size_limits():
    assert effective_sample_size(np.full(128, 1 / 128)) == pytest.approx(128)
    assert effective_sample_size(np.eye(1, 128)[0]) == pytest.approx(1)
    half = np.repeat([1.0, 0.0], 64)
    assert effective_sample_size(half) == pytest.approx(64)
