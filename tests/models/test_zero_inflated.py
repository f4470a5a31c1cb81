"""The zero-inflated Beta prior against scipy.stats, quadrature and a global search."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import differential_evolution
from scipy.special import comb, expit, logit
from scipy.stats import betabinom

from hspr.models.zero_inflated import (
    _BOUNDS,
    ZeroInflatedBeta,
    _log_likelihood,
    fit_zero_inflated_beta,
)

COUNT_SEED = 4101
SEARCH_SEED = 4102

PRIORS = [(0.25, 1.3, 2.1), (0.001, 0.4, 0.9), (0.9, 3.0, 0.2), (0.5, 40.0, 60.0)]


def draw_counts(
    prior: tuple[float, float, float], m: int, n: int, seed: int = COUNT_SEED
) -> tuple[np.ndarray, np.ndarray]:
    """Draw successes and trials of n tasks among m agents."""
    rng = np.random.default_rng(seed)
    zero_mass, a, b = prior
    rate = np.where(rng.random(n) < zero_mass, 0.0, rng.beta(a, b, n))
    return rng.binomial(m, rate), np.full(n, m)


def as_parameters(prior: tuple[float, float, float]) -> np.ndarray:
    return np.array([logit(prior[0]), np.log(prior[1]), np.log(prior[2])])


def log_likelihood(prior: ZeroInflatedBeta, h: np.ndarray, m: np.ndarray) -> float:
    parameters = as_parameters((prior.zero_mass, prior.a, prior.b))
    return _log_likelihood(parameters, h, m, np.ones(len(h)))[0]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("agents", [1, 14, 133])
def test_log_likelihood_is_the_beta_binomial_mixture(
    prior: tuple[float, float, float], agents: int
) -> None:
    m = np.array([agents] * (agents + 1) + [3, 0])
    h = np.array([*range(agents + 1), 0, 0])
    count = np.arange(1, len(h) + 1)
    zero_mass, a, b = prior
    pmf = zero_mass * (h == 0) + (1 - zero_mass) * betabinom.pmf(h, m, a, b)
    # The code leaves the binomial coefficients out; at h = 0 they are 1.
    expected = count @ (np.log(pmf) - np.log(comb(m, h)))
    value, _ = _log_likelihood(as_parameters(prior), h, m, count)
    assert value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("prior", PRIORS)
def test_log_likelihood_gradient_is_that_of_finite_differences(
    prior: tuple[float, float, float],
) -> None:
    h, m = draw_counts((0.3, 1.0, 1.5), 20, 60)
    m[:10], h[:10] = 7, np.minimum(h[:10], 7)
    parameters, count, step = as_parameters(prior), np.ones(60), 1e-5
    expected = [
        (
            _log_likelihood(parameters + delta, h, m, count)[0]
            - _log_likelihood(parameters - delta, h, m, count)[0]
        )
        / (2 * step)
        for delta in step * np.eye(3)
    ]
    _, gradient = _log_likelihood(parameters, h, m, count)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("prior", [(0.25, 1.3, 2.1), (0.6, 0.5, 0.5), (0.1, 4.0, 2.0)])
def test_fit_recovers_the_parameters_of_many_tasks(prior: tuple[float, float, float]) -> None:
    fit = fit_zero_inflated_beta(*draw_counts(prior, 40, 100_000))
    assert fit.zero_mass == pytest.approx(prior[0], abs=0.01)
    assert (fit.a, fit.b) == pytest.approx(prior[1:], rel=0.05)


@pytest.mark.parametrize(
    ("prior", "agents"),
    [((0.3, 1.2, 2.3), 14), ((1e-9, 0.4, 0.9), 84), ((0.5, 6.0, 1.0), 5), ((1e-9, 1.0, 1.0), 2)],
)
def test_fit_is_the_global_optimum(prior: tuple[float, float, float], agents: int) -> None:
    h, m = draw_counts(prior, agents, 150)
    pairs, count = np.unique(np.column_stack([h, m]), axis=0, return_counts=True)

    def negative(parameters: np.ndarray) -> float:
        return -_log_likelihood(parameters, pairs[:, 0], pairs[:, 1], count)[0]

    search = differential_evolution(
        negative,
        _BOUNDS,
        rng=SEARCH_SEED,
        popsize=8,
        tol=1e-8,
    )
    assert log_likelihood(fit_zero_inflated_beta(h, m), h, m) >= -search.fun - 1e-6


def test_fit_depends_on_the_counts_only() -> None:
    h, m = draw_counts((0.3, 1.2, 2.3), 14, 100)
    order = np.random.default_rng(SEARCH_SEED).permutation(100)
    assert fit_zero_inflated_beta(h[order], m[order]) == fit_zero_inflated_beta(h, m)


@pytest.mark.parametrize("prior", PRIORS[:3])
@pytest.mark.parametrize(("h", "m"), [(0, 0), (0, 1), (1, 1), (0, 9), (4, 9), (9, 9), (0, 60)])
def test_posterior_mean_is_the_integral_over_the_mixture(
    prior: tuple[float, float, float], h: int, m: int
) -> None:
    zero_mass, a, b = prior

    def integral(moment: int, successes: int, failures: int) -> float:
        """Integrate q**moment times the unnormalised Beta kernel, singular ends included."""
        weights = (successes + a - 1, failures + b - 1)
        return quad(lambda q: q**moment, 0, 1, weight="alg", wvar=weights)[0]

    normaliser = integral(0, 0, 0)
    evidence = zero_mass * (h == 0) + (1 - zero_mass) * integral(0, h, m - h) / normaliser
    expected = (1 - zero_mass) * integral(1, h, m - h) / normaliser / evidence
    rate = ZeroInflatedBeta(*prior).posterior_mean(np.array([h]), np.array([m]))
    assert rate == pytest.approx([expected], rel=1e-7)


def test_posterior_mean_never_falls_with_successes() -> None:
    h = np.arange(21)
    for prior in PRIORS:
        rate = ZeroInflatedBeta(*prior).posterior_mean(h, np.full(21, 20))
        assert (np.diff(rate) > 0).all()


@pytest.mark.parametrize(
    ("h", "m"),
    [
        ([0] * 50, [14] * 50),
        ([14] * 50, [14] * 50),
        ([0, 1, 1, 0], [1, 1, 1, 1]),
        ([0], [1]),
        ([1], [1]),
        ([3], [7]),
        ([0, 0, 0], [0, 0, 0]),
        ([0, 5, 0], [0, 5, 5]),
        ([7] * 40, [14] * 40),
        ([0] * 20 + [14] * 20, [14] * 40),
        ([0, 3_000, 10_000], [10_000] * 3),
    ],
)
def test_fit_of_degenerate_counts_gives_finite_rates(h: list[int], m: list[int]) -> None:
    successes, trials = np.array(h), np.array(m)
    prior = fit_zero_inflated_beta(successes, trials)
    assert 0 < prior.zero_mass < 1
    assert 0 < prior.a < np.inf
    assert 0 < prior.b < np.inf
    rate = prior.posterior_mean(successes, trials)
    assert ((rate >= 0) & (rate <= 1)).all()
    assert log_likelihood(prior, successes, trials) <= 0


def test_fit_of_extreme_banks_puts_the_rates_at_the_edge() -> None:
    trials = np.full(50, 14)
    none, every = np.zeros(50, dtype=int), trials
    assert fit_zero_inflated_beta(none, trials).posterior_mean(none, trials).max() < 1e-3
    prior = fit_zero_inflated_beta(every, trials)
    assert prior.posterior_mean(every, trials).min() > 0.999
    assert prior.zero_mass == pytest.approx(expit(_BOUNDS[0][0]), rel=1e-3)
