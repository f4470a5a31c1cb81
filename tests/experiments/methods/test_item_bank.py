"""Response curves against finite differences, ability against adaptive quadrature."""

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from hspr.experiments.methods.item_bank import LOG_WEIGHTS, NODES, ItemBank, expected_ability


def random_bank(n: int, seed: int = 0) -> ItemBank:
    rng = np.random.default_rng(seed)
    slope = np.exp(rng.normal(0, 0.5, n))
    return ItemBank(slope, -slope * rng.normal(0, 1.5, n), rng.beta(1, 9, n), rng.beta(9, 1, n))


def curve(bank: ItemBank, theta: float) -> np.ndarray:
    logistic = 1 / (1 + np.exp(-bank.slope * (theta - bank.difficulty)))
    return bank.lower + (bank.upper - bank.lower) * logistic


@pytest.mark.parametrize("theta", [-3.0, -0.4, 0.0, 1.7, 4.0])
def test_information_is_that_of_the_numerical_derivative(theta: float) -> None:
    bank, step = random_bank(50), 1e-5
    p = bank.probability(theta)
    np.testing.assert_allclose(p, curve(bank, theta), rtol=1e-12)
    derivative = (curve(bank, theta + step) - curve(bank, theta - step)) / (2 * step)
    np.testing.assert_allclose(
        bank.information(theta), derivative**2 / (p * (1 - p)), rtol=1e-6, atol=1e-12
    )
    # The formula of the method, as it is printed.
    a, c, d = bank.slope, bank.lower, bank.upper
    printed = a**2 * (p - c) ** 2 * (d - p) ** 2 / ((d - c) ** 2 * p * (1 - p))
    np.testing.assert_allclose(bank.information(theta), printed, rtol=1e-8, atol=1e-14)


def test_log_curves_are_logarithms_and_stay_finite() -> None:
    bank = random_bank(30)
    failure, success = bank.log_curves()
    np.testing.assert_allclose(np.exp(failure) + np.exp(success), 1, rtol=1e-12)
    np.testing.assert_allclose(
        np.exp(success), np.column_stack([curve(bank, x) for x in NODES]), rtol=1e-12
    )
    extreme = ItemBank(np.full(2, 6.0), np.array([-20.0, 20.0]), np.zeros(2), np.ones(2))
    for log_curve in extreme.log_curves():
        assert np.isfinite(log_curve).all()
    assert np.isfinite(extreme.information(6.0)).all()
    assert np.isfinite(extreme.information(-6.0)).all()


@pytest.mark.parametrize("asked", [0, 1, 7, 60])
def test_expected_ability_is_that_of_adaptive_quadrature(asked: int) -> None:
    bank = random_bank(60, seed=asked)
    rng = np.random.default_rng(asked)
    outcomes = (rng.random(asked) < bank.probability(0.8)[:asked]).astype(int)
    curves = bank.log_curves()
    log_posterior = LOG_WEIGHTS.copy()
    for task, outcome in enumerate(outcomes):
        log_posterior = log_posterior + curves[outcome][task]

    def joint(theta: float) -> float:
        p = curve(bank, theta)[:asked]
        return float(norm.pdf(theta) * np.prod(np.where(outcomes == 1, p, 1 - p)) * 2.0**asked)

    options: Any = {"limit": 400, "epsabs": 0.0, "epsrel": 1e-10, "points": [-2, 0, 0.8, 2]}
    total = quad(joint, -9, 9, **options)[0]
    moment = quad(lambda x: (x + 10) * joint(x), -9, 9, **options)[0]
    assert expected_ability(log_posterior) == pytest.approx(moment / total - 10, abs=1e-6)


def test_the_grid_is_fine_enough_for_a_full_bank() -> None:
    """With thousands of outcomes the posterior is narrower than a usual grid's spacing."""
    bank = random_bank(2294)
    rng = np.random.default_rng(3)
    outcomes = rng.random(2294) < bank.probability(0.313)
    failure, success = bank.log_curves()
    log_posterior = LOG_WEIGHTS + np.where(outcomes[:, None], success, failure).sum(axis=0)
    fine = np.linspace(-1, 2, 6001)
    p = bank.lower[:, None] + (bank.upper - bank.lower)[:, None] * expit(
        bank.slope[:, None] * fine + bank.intercept[:, None]
    )
    exact = -0.5 * fine**2 + np.where(outcomes[:, None], np.log(p), np.log1p(-p)).sum(axis=0)
    weight = np.exp(exact - exact.max())
    assert expected_ability(log_posterior) == pytest.approx(weight @ fine / weight.sum(), abs=0.002)
