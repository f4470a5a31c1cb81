"""The item bank fit against the marginal likelihood computed one agent and item at a time."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import beta as beta_distribution
from scipy.stats import norm

from hspr.experiments.methods.item_bank import NODES, ItemBank
from hspr.experiments.methods.item_fit import fit_item_bank
from hspr.experiments.methods.item_mstep import HIGHEST, LOWEST
from hspr.experiments.methods.item_prior import ItemPrior, difficulty_prior
from hspr.models.errors import DataError

PRIOR = ItemPrior(0.5, 0.4, 2.0, 20.0)
FLAT = ItemPrior()


def simulate(m: int, n: int, seed: int, upper: float = 1.0) -> tuple[np.ndarray, ItemBank]:
    rng = np.random.default_rng(seed)
    slope = np.exp(rng.normal(0, 0.4, n))
    bank = ItemBank(slope, -slope * rng.normal(0.3, 1.2, n), np.zeros(n), np.full(n, upper))
    p = np.array([bank.probability(theta) for theta in rng.normal(size=m)])
    return (rng.random((m, n)) < p).astype(float), bank


def columns(bank: ItemBank) -> np.ndarray:
    return np.column_stack([np.log(bank.slope), bank.intercept, bank.lower, bank.upper])


def log_prior(x: np.ndarray, prior: ItemPrior) -> float:
    """Scipy's densities of log a, b, c, d; constants included."""
    total, b = 0.0, -x[:, 1] / np.exp(x[:, 0])
    if np.isfinite(prior.log_slope_sd):
        total += norm.logpdf(x[:, 0], scale=prior.log_slope_sd).sum()
        total += norm.logpdf(b, prior.difficulty_mean, prior.difficulty_sd).sum()
    total += beta_distribution.logpdf(x[:, 2], 1, prior.asymptote_count).sum()
    return total + beta_distribution.logpdf(x[:, 3], prior.asymptote_count, 1).sum()


def objective(x: np.ndarray, outcomes: np.ndarray, prior: ItemPrior) -> float:
    """Penalised marginal log likelihood on a Gauss-Hermite rule, which the fit does not use."""
    node, weight = np.polynomial.hermite_e.hermegauss(120)
    total = log_prior(x, prior)
    for row in outcomes:
        likelihood = np.ones_like(node)
        for (log_a, xi, c, d), y in zip(x, row, strict=True):
            p = c + (d - c) * expit(np.exp(log_a) * node + xi)
            likelihood = likelihood * (p if y else 1 - p)
        total += np.log(weight @ likelihood / np.sqrt(2 * np.pi))
    return total


@pytest.mark.parametrize(
    ("prior", "asymptotes"), [(PRIOR, False), (PRIOR, True), (FLAT, True), (FLAT, False)]
)
def test_the_gradient_vanishes_at_the_optimum(prior: ItemPrior, asymptotes: bool) -> None:
    outcomes, _ = simulate(14, 9, seed=1)
    bank = fit_item_bank(outcomes, prior=prior, asymptotes=asymptotes)
    x, step = columns(bank), 1e-4
    assert (x >= LOWEST - 1e-12).all() and (x <= HIGHEST + 1e-12).all()
    free = 0
    for item in range(x.shape[0]):
        for k in range(4 if asymptotes else 2):
            slope = np.zeros(2)
            for side, sign in enumerate((-1, 1)):
                moved = x.copy()
                moved[item, k] = x[item, k] + sign * step
                inside = LOWEST[k] - 1e-12 <= moved[item, k] <= HIGHEST[k] + 1e-12
                slope[side] = (
                    sign
                    * (objective(moved, outcomes, prior) - objective(x, outcomes, prior))
                    / step
                    if inside
                    else np.nan
                )
            if np.isnan(slope).any():
                # At an edge of the box the objective falls inwards.
                inwards = slope[0] if np.isnan(slope[1]) else -slope[1]
                assert inwards > -0.02
            else:
                free += 1
                assert abs(slope.mean()) < 0.02
    assert free >= 9


@pytest.mark.parametrize("asymptotes", [False, True])
@pytest.mark.parametrize("prior", [PRIOR, FLAT])
def test_the_objective_never_falls_and_is_the_marginal_likelihood(
    prior: ItemPrior, asymptotes: bool
) -> None:
    outcomes, _ = simulate(25, 12, seed=4)
    bank = fit_item_bank(outcomes, prior=prior, asymptotes=asymptotes)
    trace = np.array(bank.trace)
    assert len(trace) > 5
    assert (np.diff(trace) >= -1e-9 * abs(trace[-1])).all()
    x = columns(bank)
    total = log_prior(x, prior) - log_prior(np.array([[0.0, 0, 0, 1]] * 12), prior)
    # log_density leaves the constants out: its value at a = 1, b = 0, c = 0, d = 1 is known.
    at_zero = -0.5 * (prior.difficulty_mean / prior.difficulty_sd) ** 2 * 12
    for row in outcomes:

        def joint(theta: float, row: np.ndarray = row) -> float:
            p = bank.lower + (bank.upper - bank.lower) * expit(bank.slope * theta + bank.intercept)
            return float(norm.pdf(theta) * np.prod(np.where(row == 1, p, 1 - p)))

        total += np.log(quad(joint, -6, 6, epsabs=0, epsrel=1e-9, limit=200, points=[-1, 0, 1])[0])
    assert trace[-1] == pytest.approx(total + at_zero, abs=1e-5)


def test_a_large_bank_is_recovered_within_its_standard_errors() -> None:
    outcomes, truth = simulate(3000, 30, seed=7)
    bank = fit_item_bank(outcomes, prior=ItemPrior(0.5, 0.0, 2.0), asymptotes=False)
    # Information of known abilities: a lower bound of the variance, so the ratio is about 1.
    density = norm.pdf(NODES) / norm.pdf(NODES).sum()
    p = expit(truth.slope[:, None] * NODES + truth.intercept[:, None])
    weight = 3000 * density * p * (1 - p)
    terms = np.stack([weight, weight * NODES, weight * NODES**2]).sum(axis=2)
    determinant = terms[0] * terms[2] - terms[1] ** 2
    z_intercept = (bank.intercept - truth.intercept) / np.sqrt(terms[2] / determinant)
    z_slope = (bank.slope - truth.slope) / np.sqrt(terms[0] / determinant)
    for z in (z_intercept, z_slope):
        assert 0.4 < np.sqrt(np.mean(z**2)) < 2.0
        assert np.abs(z).max() < 5.0


@pytest.mark.slow
def test_the_upper_asymptote_is_found_on_many_agents() -> None:
    outcomes, truth = simulate(4000, 25, seed=2, upper=0.8)
    # Only steep and easy items show their upper asymptote to standard normal abilities.
    easy = (outcomes.mean(axis=0) > 0.5) & (truth.slope > 1)
    with_asymptotes = fit_item_bank(outcomes, prior=PRIOR, asymptotes=True)
    assert easy.sum() >= 3
    assert np.abs(with_asymptotes.upper[easy] - 0.8).max() < 0.1


def test_equal_columns_get_equal_items_and_order_does_not_matter() -> None:
    outcomes, _ = simulate(12, 8, seed=3)
    repeated = np.concatenate([outcomes, outcomes[:, ::-1]], axis=1)
    bank = fit_item_bank(repeated, prior=PRIOR, asymptotes=True)
    x = columns(bank)
    np.testing.assert_array_equal(x[:8], x[8:][::-1])
    order = np.random.default_rng(0).permutation(16)
    shuffled = fit_item_bank(repeated[:, order], prior=PRIOR, asymptotes=True)
    np.testing.assert_array_equal(columns(shuffled), x[order])


@pytest.mark.parametrize("asymptotes", [False, True])
@pytest.mark.parametrize("prior", [PRIOR, FLAT])
@pytest.mark.parametrize(
    "outcomes",
    [
        np.zeros((6, 5)),
        np.ones((6, 5)),
        np.zeros((1, 1)),
        np.ones((1, 1)),
        np.array([[1.0, 0.0, 1.0]]),
        np.array([[1.0], [0.0]]),
        np.eye(4),
    ],
)
def test_extreme_sources_give_finite_items(
    outcomes: np.ndarray, prior: ItemPrior, asymptotes: bool
) -> None:
    bank = fit_item_bank(outcomes, prior=prior, asymptotes=asymptotes)
    assert np.isfinite(columns(bank)).all() and np.isfinite(bank.trace).all()
    assert all(np.isfinite(difficulty_prior(outcomes)))


def test_unsolved_items_are_harder_than_solved_ones_but_not_at_the_edge() -> None:
    outcomes, _ = simulate(12, 40, seed=5)
    outcomes[:, 0], outcomes[:, 1] = 0.0, 1.0
    bank = fit_item_bank(outcomes, prior=PRIOR, asymptotes=False)
    assert bank.difficulty.max() == bank.difficulty[0] < 6
    assert bank.difficulty.min() == bank.difficulty[1] > -6


def test_difficulty_prior_is_that_of_the_simulation() -> None:
    rng = np.random.default_rng(11)
    b, theta = rng.normal(1.5, 2.5, 3000), rng.normal(size=30)
    outcomes = (rng.random((30, 3000)) < expit(theta[:, None] - b)).astype(float)
    mean, sd = difficulty_prior(outcomes)
    # The fit standardises the logits of scores, so it knows the abilities up to shift and scale.
    raw = logit((outcomes.sum(axis=1) + 0.5) / 3001)
    assert np.corrcoef(raw, theta)[0, 1] > 0.98
    assert mean == pytest.approx(1.5 - theta.mean(), abs=0.2)
    assert sd == pytest.approx(2.5, abs=0.25)


@pytest.mark.parametrize(
    "outcomes",
    [np.array([[0.0, np.nan]]), np.array([[0.0, 0.5]]), np.zeros((0, 3)), np.zeros((3, 0))],
)
def test_fit_refuses_what_is_no_complete_matrix(outcomes: np.ndarray) -> None:
    with pytest.raises(DataError, match="outcomes must be a matrix of 0 and 1"):
        fit_item_bank(outcomes, prior=PRIOR, asymptotes=True)
