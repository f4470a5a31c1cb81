"""Paired statistics against scipy, complete enumeration and closed testing."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import bootstrap, rankdata

from hspr.experiments.metrics import mean_absolute_error
from hspr.experiments.paired import (
    PairedDifference,
    holm,
    macro_difference,
    paired_difference,
    signed_rank,
)
from hspr.models.errors import DataError


def errors(n: int, *, seed: int, shift: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """Draw correlated absolute errors of two methods on n agents."""
    rng = np.random.default_rng(seed)
    shared = rng.gamma(2, 0.01, n)
    return shared + rng.gamma(1, 0.01, n), shared + rng.gamma(1, 0.01 + shift, n)


def close(a: PairedDifference, b: PairedDifference) -> None:
    for name in ("estimate", "low", "high", "ratio"):
        assert getattr(a, name) == pytest.approx(getattr(b, name), abs=1e-10)


# Bootstrap


@pytest.mark.parametrize(("n", "confidence"), [(14, 0.95), (35, 0.9), (70, 0.95)])
def test_paired_difference_agrees_with_scipy(n: int, confidence: float) -> None:
    first, second = errors(n, seed=n)
    ours = paired_difference(first, second, confidence=confidence)
    other = bootstrap(
        (first, second),
        lambda x, y, axis: 100 * (x.mean(axis=axis) - y.mean(axis=axis)),
        paired=True,
        vectorized=True,
        n_resamples=20_000,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(1),
    )
    assert ours.estimate == pytest.approx(100 * (first.mean() - second.mean()))
    # A quantile's Monte Carlo error, sqrt(p (1-p) / R) / density, is under 0.03 sd for either.
    tolerance = 4 * 0.03 * float(other.standard_error)
    assert ours.low == pytest.approx(float(other.confidence_interval.low), abs=tolerance)
    assert ours.high == pytest.approx(float(other.confidence_interval.high), abs=tolerance)
    assert ours.low < ours.estimate < ours.high


@pytest.mark.parametrize("n", [2, 3, 5])
def test_paired_difference_has_the_tails_of_all_resamples(n: int) -> None:
    first, second = errors(n, seed=n)
    d = 100 * (first - second)
    every = np.array([d[list(rows)].mean() for rows in product(range(n), repeat=n)])
    ours = paired_difference(first, second, confidence=0.8)
    slack = 5 * np.sqrt(0.1 * 0.9 / 10_000)
    for end, tail in ((ours.low, 0.1), (ours.high, 0.9)):
        assert (every < end - 1e-9).mean() <= tail + slack
        assert (every < end + 1e-9).mean() >= tail - slack


def test_paired_difference_and_ratio_are_those_of_the_errors() -> None:
    truth, a, b = np.array([0.5, 0.25]), np.array([0.375, 0.25]), np.array([0.75, 0.5])
    result = paired_difference(abs(a - truth), abs(b - truth))
    assert result.estimate == mean_absolute_error(a, truth) - mean_absolute_error(b, truth)
    assert result.ratio == mean_absolute_error(a, truth) / mean_absolute_error(b, truth) == 0.25


def test_swapping_the_methods_turns_the_interval_round() -> None:
    first, second = errors(20, seed=3)
    one, other = paired_difference(first, second), paired_difference(second, first)
    assert (one.estimate, one.low, one.high) == pytest.approx(
        (-other.estimate, -other.high, -other.low)
    )
    assert one.ratio is not None and other.ratio is not None
    assert one.ratio * other.ratio == pytest.approx(1)


def test_a_constant_difference_has_no_scatter() -> None:
    first = np.array([0.5, 0.25, 0.125])
    result = paired_difference(first + 0.25, first)
    assert (result.estimate, result.low, result.high) == (25, 25, 25)


def test_ratio_is_none_where_undefined() -> None:
    assert paired_difference([0.5, 0.25], [0, 0]).ratio is None
    assert paired_difference([0, 0], [0, 0]) == PairedDifference(0, 0, 0, None)


def test_equal_seeds_give_equal_intervals_and_others_do_not() -> None:
    first, second = errors(20, seed=4)
    assert paired_difference(first, second) == paired_difference(first, second)
    assert paired_difference(first, second) != paired_difference(first, second, seed=1)


def test_macro_difference_weighs_banks_the_same() -> None:
    banks = {"a": errors(5, seed=5), "b": errors(50, seed=6)}
    first = {name: pair[0] for name, pair in banks.items()}
    second = {name: pair[1] for name, pair in banks.items()}
    macro = macro_difference(first, second)
    single = [paired_difference(*pair).estimate for pair in banks.values()]
    assert macro.estimate == pytest.approx(np.mean(single))
    assert macro.ratio == pytest.approx(
        sum(x.mean() for x in first.values()) / sum(y.mean() for y in second.values())
    )
    # In whatever order the banks come.
    assert macro == macro_difference({"b": first["b"], "a": first["a"]}, second)


def test_macro_difference_resamples_within_each_bank() -> None:
    """The scatter is that of independent bank means; pooling would add that between banks."""
    banks = {"a": errors(12, seed=7), "b": errors(40, seed=8, shift=0.05)}
    first = {name: pair[0] for name, pair in banks.items()}
    second = {name: pair[1] for name, pair in banks.items()}
    macro = macro_difference(first, second, confidence=0.6827)
    variance = sum(np.var(100 * (x - y)) / len(x) for x, y in banks.values()) / 4
    assert (macro.high - macro.low) / 2 == pytest.approx(np.sqrt(variance), rel=0.05)


def test_macro_difference_of_one_bank_is_the_paired_difference() -> None:
    first, second = errors(20, seed=9)
    close(macro_difference({"x": first}, {"x": second}), paired_difference(first, second))


def test_macro_difference_refuses_different_banks() -> None:
    with pytest.raises(DataError, match=r"same banks, .*got \['a'\] and \['b'\]"):
        macro_difference({"a": [0.1, 0.2]}, {"b": [0.1, 0.2]})
    with pytest.raises(DataError, match=r"at least one, got \[\]"):
        macro_difference({}, {})


@pytest.mark.parametrize("function", [paired_difference, signed_rank])
@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([0.1, 0.2], [0.1], "got 2 and 1 errors"),
        ([0.1], [0.2], "got 1 and 1 errors"),
        ([], [], "got 0 and 0 errors"),
        ([0.1, np.nan], [0.1, 0.2], "from 0 to 1, got nan at position 1"),
        ([0.1, 0.2], [2.7, 0.2], "second method on 'bank' must be from 0 to 1, got 2.7"),
        ([-0.1, 0.2], [0.1, 0.2], "first method on 'bank' must be from 0 to 1, got -0.1"),
        ([[0.1, 0.2]], [0.1, 0.2], r"must be a list, got the shape \(1, 2\)"),
        (["x", "y"], [0.1, 0.2], "must be numbers"),
    ],
)
def test_wrong_errors_are_refused(function, first: object, second: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        function(first, second)


@pytest.mark.parametrize(
    "setting",
    [
        *({"resamples": value} for value in (0, -1, 1.5, "10", True)),
        *({"seed": value} for value in (-1, 0.5, None, True)),
        *({"confidence": value} for value in (0.0, 1.0, 95, "0.9", float("nan"))),
    ],
)
def test_wrong_settings_are_refused(setting: dict) -> None:
    with pytest.raises(DataError, match=f"{next(iter(setting))} must be"):
        paired_difference([0.1, 0.2], [0.1, 0.3], **setting)


# Wilcoxon


def sign_flip_p(difference: np.ndarray) -> float:
    """Compute the two-sided p-value by flipping the signs of the nonzero ranks in every way."""
    nonzero = difference[difference != 0]
    ranks = rankdata(abs(nonzero))
    total = ranks.sum()
    seen = ranks[nonzero > 0].sum()
    sums = np.array([np.dot(ranks, signs) for signs in product((0, 1), repeat=len(ranks))])
    # The statistic is symmetric about its mean, half the total.
    return float((abs(sums - total / 2) >= abs(seen - total / 2) - 1e-9).mean())


@pytest.mark.parametrize("n", [2, 5, 9, 14])
def test_signed_rank_enumerates_the_signs(n: int) -> None:
    first, second = errors(n, seed=10 + n)
    assert signed_rank(first, second) == pytest.approx(sign_flip_p(first - second))
    assert signed_rank(first, second) == signed_rank(second, first)


def test_signed_rank_leaves_zeros_out_and_shares_ranks_of_ties() -> None:
    difference = np.array([0, 0, 0, 3, 3, 3, -2, -2, 5, 8, -1, 1]) / 64
    second = np.full(len(difference), 0.25)
    p = signed_rank(second + difference, second)
    assert p == pytest.approx(sign_flip_p(difference))
    assert p == signed_rank((second + difference)[3:], second[3:])


def test_signed_rank_takes_rounding_noise_for_zero() -> None:
    second = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    noisy = second + np.array([0, 3e-17, 6e-17, -6e-17, 0.02])
    assert signed_rank(noisy, second) == 1  # one agent differs
    assert signed_rank(np.nextafter(second, 1), second) == 1


def test_signed_rank_of_equal_errors_is_one() -> None:
    assert signed_rank([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]) == 1
    assert signed_rank(np.zeros(70), np.zeros(70)) == 1


@pytest.mark.parametrize("n", [60, 134])
def test_signed_rank_of_many_agents_is_uniform_under_no_difference(n: int) -> None:
    rng = np.random.default_rng(n)
    p = [signed_rank(0.5 + d / 8, np.full(n, 0.5)) for d in rng.uniform(-1, 1, (400, n))]
    for level in (0.05, 0.25, 0.5):
        assert np.mean(np.array(p) <= level) == pytest.approx(
            level, abs=4 * np.sqrt(level * (1 - level) / 400)
        )


# Holm


def closed_testing(p: np.ndarray) -> np.ndarray:
    """Adjust by testing every intersection of hypotheses with Bonferroni."""
    k = len(p)
    adjusted = np.zeros(k)
    for size in range(1, k + 1):
        for subset in combinations(range(k), size):
            local = min(1.0, size * min(p[list(subset)]))
            for member in subset:
                adjusted[member] = max(adjusted[member], local)
    return adjusted


@pytest.mark.parametrize("k", range(1, 9))
def test_holm_is_closed_testing_with_bonferroni(k: int) -> None:
    rng = np.random.default_rng(k)
    for _ in range(20):
        p = rng.uniform(0, 1, k) ** rng.integers(1, 5)
        np.testing.assert_allclose(holm(p), closed_testing(p), atol=1e-14)
        tied = np.round(p, 1)
        np.testing.assert_allclose(holm(tied), closed_testing(tied), atol=1e-14)


def test_holm_by_hand() -> None:
    np.testing.assert_allclose(holm([0.04, 0.01, 0.03]), [0.06, 0.03, 0.06])
    assert holm([0.2]).tolist() == [0.2]
    assert holm([1, 0, 1]).tolist() == [1, 0, 1]
    assert holm([]).tolist() == []


def test_holm_keeps_order_and_leaves_its_input() -> None:
    p = np.random.default_rng(0).uniform(0, 0.2, 16)
    before = p.copy()
    adjusted = holm(p)
    assert (p == before).all()
    assert (adjusted >= p).all() and (adjusted <= 1).all()
    assert (np.diff(adjusted[np.argsort(p)]) >= 0).all()
    shuffle = np.random.default_rng(1).permutation(16)
    np.testing.assert_array_equal(holm(p[shuffle]), adjusted[shuffle])


@pytest.mark.parametrize("p", [[0.1, np.nan], [1.2], [-0.1], [[0.1]], ["p"]])
def test_holm_refuses_what_is_no_p_value(p: list) -> None:
    with pytest.raises(DataError, match="the p-values must be"):
        holm(p)
