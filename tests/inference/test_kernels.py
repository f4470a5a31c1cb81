"""The loops over groups and nodes against mpmath and exhaustive sums."""

from __future__ import annotations

from itertools import product

import mpmath
import numpy as np
import pytest

from hspr.inference.kernels import (
    LARGEST,
    SMALLEST,
    add_bernoulli,
    add_log_likelihood,
    add_urn,
    fill_nodes,
    weighted_sums,
)
from hspr.inference.logistic import fill_logistic_nodes, fill_parameters
from hspr.tests.oracles import log_sequence_likelihood

WEIGHT_SEED = 5011
ETA = np.array([-40.0, -23.5, -8.0, -1.3, 0.0, 0.7, 5.0, 17.25, 40.0])
COUNTS = [(0, 0), (1, 0), (0, 1), (3, 2), (40, 0), (0, 40), (200, 0), (0, 200), (200, 200)]


def exact_rates(eta: float, kappa: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    odds = mpmath.exp(mpmath.mpf(float(eta)))
    return kappa * (1 + odds), kappa * (1 + 1 / odds)


def assert_close(found: np.ndarray, expected: list[mpmath.mpf], tolerance: float) -> None:
    for value, exact in zip(found, expected, strict=True):
        assert abs(mpmath.mpf(float(value)) - exact) <= tolerance * max(1, abs(exact))


@pytest.mark.parametrize(("s", "f"), COUNTS)
@pytest.mark.parametrize("kappa", [0.25, 4.0, 1e4, 1e12])
def test_add_log_likelihood_agrees_with_mpmath(kappa: float, s: int, f: int) -> None:
    """Also where the plain product of probabilities is far below the smallest double."""
    a, b = np.empty_like(ETA), np.empty_like(ETA)
    fill_parameters(ETA, kappa, a, b)
    total = np.full_like(ETA, 2.5)
    add_log_likelihood(a, b, s, f, total)
    with mpmath.workdps(60):
        expected = [
            mpmath.mpf(2.5) + log_sequence_likelihood(*exact_rates(eta, kappa), s, s + f)
            for eta in ETA
        ]
        assert_close(total, expected, 1e-9)
        if s == f == 200:
            assert min(expected) < -5000


@pytest.mark.parametrize(("s", "f"), [(1, 1), (2, 3), (5, 0), (0, 5)])
@pytest.mark.parametrize("scale", [1e-150, 1e-60, 1e-12])
def test_add_log_likelihood_of_tiny_parameters(scale: float, s: int, f: int) -> None:
    a, b = np.array([scale, 1.0, scale]), np.array([1.0, scale, scale])
    total = np.zeros(3)
    add_log_likelihood(a, b, s, f, total)
    with mpmath.workdps(60):
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        assert_close(total, [log_sequence_likelihood(*pair, s, s + f) for pair in pairs], 1e-9)


@pytest.mark.parametrize("count", [1, 9, 10, 11, 12, 40])
def test_add_log_likelihood_of_unlikely_outcomes(count: int) -> None:
    """Whatever the step, no product is rounded among the subnormal numbers."""
    few, many = np.ones(31), 10.0 ** np.arange(10, 41)
    successes, failures = np.zeros(31), np.zeros(31)
    for each in range(31):
        # One node at a time: no other one decides when a logarithm is taken.
        at = slice(each, each + 1)
        add_log_likelihood(few[at], many[at], count, 0, successes[at])
        add_log_likelihood(many[at], few[at], 0, count, failures[at])
    with mpmath.workdps(60):
        expected = [log_sequence_likelihood(1, float(b), count, count) for b in many]
        assert_close(successes, expected, 1e-12)
        assert_close(failures, expected, 1e-12)


def test_add_log_likelihood_leaves_its_parameters_alone() -> None:
    a, b = np.array([0.3, 2.0]), np.array([1.5, 0.2])
    add_log_likelihood(a, b, 4, 7, np.zeros(2))
    assert (a.tolist(), b.tolist()) == ([0.3, 2.0], [1.5, 0.2])


SIZE = np.array([1, 1, 400, 250, 60, 1, 300])
SUCCESSES = np.array([0, 1, 200, 0, 7, 0, 200])
TRIALS = np.array([0, 1, 400, 200, 19, 1, 200])


class Arrays:
    """What the fills write, group by group."""

    def __init__(self, nodes: int) -> None:
        shape = (len(SIZE), nodes)
        self.rates = [np.full(shape, np.nan) for _ in range(3)]
        self.log_likelihood, self.mean_score = np.full(nodes, np.nan), np.full(nodes, np.nan)

    @property
    def all(self) -> list[np.ndarray]:
        return [*self.rates, self.log_likelihood, self.mean_score]


def filled(fill: str, kappa: float) -> Arrays:
    """Fill with eta equal to `ETA` in every group."""
    arrays, counts = Arrays(len(ETA)), (SUCCESSES, TRIALS, SIZE)
    if fill == "logistic":
        data = np.zeros(len(SIZE)), np.ones((len(SIZE), 1)), kappa
        fill_logistic_nodes(ETA[None].copy(), *data, *counts, False, *arrays.all)
        return arrays
    a, b = kappa * (1 + np.exp(ETA)), kappa * (1 + np.exp(-ETA))
    # In two blocks of unequal width.
    for block in (slice(0, 5), slice(5, None)):
        prior = (np.ascontiguousarray(np.tile(x[block], (len(SIZE), 1))) for x in (a, b))
        assert fill_nodes(block.start, *prior, *counts, *arrays.all) == -1
    return arrays


@pytest.mark.parametrize("fill", ["nodes", "logistic"])
@pytest.mark.parametrize("kappa", [0.25, 16.0, 1e12])
def test_fills_agree_with_mpmath(fill: str, kappa: float) -> None:
    arrays = filled(fill, kappa)
    with mpmath.workdps(60):
        for j, eta in enumerate(ETA):
            prior_a, prior_b = exact_rates(eta, kappa)
            likelihood, score = mpmath.mpf(0), mpmath.mpf(int(SUCCESSES.sum()))
            for g, (size, s, n) in enumerate(zip(SIZE, SUCCESSES, TRIALS, strict=True)):
                a, b = prior_a + int(s), prior_b + int(n - s)
                for found, exact in zip(arrays.rates, (a, b, a / (a + b)), strict=True):
                    assert abs(found[g, j] - exact) <= 1e-12 * exact
                likelihood += log_sequence_likelihood(prior_a, prior_b, int(s), int(n))
                score += int(size - n) * a / (a + b)
            assert_close(arrays.log_likelihood[[j]], [likelihood], 1e-9)
            assert_close(arrays.mean_score[[j]], [score / int(SIZE.sum())], 1e-12)


def test_fill_nodes_takes_parameters_of_zero_and_infinity_to_their_limits() -> None:
    arrays = Arrays(2)
    alpha = np.tile([0.0, np.inf], (len(SIZE), 1))
    beta = np.tile([np.inf, 0.0], (len(SIZE), 1))
    none = np.zeros_like(SIZE)
    assert fill_nodes(0, alpha, beta, none, none, SIZE, *arrays.all) == -1
    a, b, mean = arrays.rates
    assert (a == [SMALLEST, LARGEST]).all() and (b == [LARGEST, SMALLEST]).all()
    assert (mean == [0.0, 1.0]).all()
    np.testing.assert_allclose(arrays.mean_score, [0.0, 1.0], rtol=1e-12)


@pytest.mark.parametrize("wrong", [np.nan, -1e-9, -np.inf])
@pytest.mark.parametrize("which", [0, 1])
def test_fill_nodes_finds_the_first_node_out_of_range(which: int, wrong: float) -> None:
    prior = [np.ones((len(SIZE), 6)) for _ in range(2)]
    prior[which][4, 5] = prior[which][6, 3] = wrong
    assert fill_nodes(0, *prior, SUCCESSES, TRIALS, SIZE, *Arrays(6).all) == 3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weighted_sums_are_sums_in_double_precision(dtype: type) -> None:
    rng = np.random.default_rng(WEIGHT_SEED)
    rates: np.ndarray = rng.random((5, 1001)).astype(dtype)
    weight = rng.normal(size=(3, 1001))
    exact = [[float(mpmath.fdot(row.tolist(), w.tolist())) for w in weight] for row in rates]
    np.testing.assert_allclose(weighted_sums(rates, weight), exact, rtol=1e-12, atol=1e-12)
    assert weighted_sums(rates, weight).dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_add_bernoulli_meets_a_probability_to_the_last_number(dtype: type) -> None:
    mean: np.ndarray = np.array([0.0, 0.25, 1.0, 2.0**-32], dtype=dtype)
    uniform = np.array([0, 2**30 - 1, 2**30, 2**32 - 1, 1], dtype=np.uint32)
    found = np.array([uniform / 2**32 < float(p) for p in mean]).astype(int)
    for node, expected in enumerate(found):
        total = np.full(len(uniform), 10)
        add_bernoulli(np.full(len(uniform), node), mean, uniform, total)
        assert (total - 10).tolist() == expected.tolist()
    assert found.sum(axis=1).tolist() == [0, 3, 5, 1]
    total = np.zeros(3, dtype=np.int64)
    add_bernoulli(np.array([2, 0, 1]), mean, uniform[:3].copy(), total)
    assert total.tolist() == [1, 0, 0]


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.7), (2.0, 5.0), (1e-6, 3.0), (1e12, 3e12)])
def test_add_urn_is_beta_binomial(a: float, b: float) -> None:
    """All combinations of evenly spread uniforms: their shares are the probabilities."""
    steps, tasks = 48, 3
    levels = ((np.arange(steps) + 0.5) / steps * 2**32).astype(np.uint32)
    uniform = np.array(list(product(levels, repeat=tasks)), dtype=np.uint32)
    total = np.zeros(len(uniform), dtype=np.int64)
    parameters = np.array([99.0, a]), np.array([1.0, b])
    add_urn(np.ones(len(uniform), dtype=np.int64), *parameters, uniform, total)
    expected = np.zeros(tasks + 1)
    for outcomes in product((0, 1), repeat=tasks):
        probability, k = 1.0, 0
        for t, y in enumerate(outcomes):
            solved = (a + k) / (a + b + t)
            probability *= solved if y else 1 - solved
            k += y
        expected[k] += probability
    shares = np.bincount(total, minlength=tasks + 1) / len(uniform)
    np.testing.assert_allclose(shares, expected, atol=0.5 * tasks / steps)
    # The mean of one task is met as well as the levels allow.
    single = np.zeros(steps, dtype=np.int64)
    add_urn(np.ones(steps, dtype=np.int64), *parameters, levels[:, None].copy(), single)
    assert abs(single.mean() - a / (a + b)) <= 0.5 / steps + 1e-12
