"""The PIT is uniform where it must be, and the band covers what it promises."""

import numpy as np
import pytest
from scipy.stats import binom, kstest

from hspr.experiments.uniformity import (
    inside_band,
    randomised_pit,
    simultaneous_band,
    uniformity_p_value,
)
from hspr.models.errors import DataError

PIT_SEED = 5101
COVERAGE_SEED = 5102
SAMPLES = 4000
# Four standard errors of a share near 0.95 (and 0.8) of so many samples.
SLACK = {0.95: 0.014, 0.8: 0.026}


def test_pit_of_equal_weights_counts_values_below_and_shares_ties() -> None:
    values = np.array([1.0, 2.0, 2.0, 3.0])
    assert randomised_pit(values, 2.0, 0.5) == pytest.approx(0.25 + 0.5 * 0.5)
    assert randomised_pit(values, 0.0, 0.9) == 0.0
    assert randomised_pit(values, 9.0, 0.1) == 1.0


def test_pit_of_weights_equals_pit_of_the_values_repeated() -> None:
    values, counts = np.array([3.0, 1.0, 2.0]), np.array([5, 1, 2])
    repeated = np.repeat(values, counts)
    for truth in (0.5, 1.0, 2.0, 2.5, 3.0):
        weighted = randomised_pit(values, truth, 0.3, weight=counts / counts.sum())
        assert weighted == pytest.approx(randomised_pit(repeated, truth, 0.3))


def test_randomised_pit_of_a_discrete_distribution_is_uniform() -> None:
    rng = np.random.default_rng(PIT_SEED)
    support = np.arange(5)
    weight = binom.pmf(support, 4, 0.3)
    truths, ties = binom.rvs(4, 0.3, size=2000, random_state=rng), rng.random(2000)
    pit = [randomised_pit(support, t, u, weight=weight) for t, u in zip(truths, ties, strict=True)]
    assert uniformity_p_value(np.array(pit)) > 0.01
    assert kstest(pit, "uniform").pvalue > 0.01
    # Ties that are not broken, or all broken one way, show.
    for tie in (0.0, 0.5, 1.0):
        lumped = [randomised_pit(support, t, tie, weight=weight) for t in truths]
        assert uniformity_p_value(np.array(lumped)) < 1e-6


@pytest.mark.parametrize("prob", [0.95, 0.8])
@pytest.mark.parametrize("n", [12, 100])
def test_band_covers_as_often_as_simulated_uniform_samples_say(n: int, prob: float) -> None:
    rng = np.random.default_rng(COVERAGE_SEED)
    samples = np.sort(rng.random((SAMPLES, n)), axis=1)
    band = simultaneous_band(n, prob=prob)
    share = np.array([np.searchsorted(s, band.points, side="right") / n for s in samples])
    inside = (share >= band.lower - 1e-9) & (share <= band.upper + 1e-9)
    covered = inside.all(axis=1).mean()
    # Counts are discrete, so the band may hold a little more than it must.
    assert prob - SLACK[prob] <= covered <= prob + 0.04 + SLACK[prob]
    assert covered == np.mean([inside_band(s, prob=prob) for s in samples])
    # Point by point it is wider than needed, as a simultaneous band must be.
    assert inside.mean(axis=0).min() > prob


def test_p_value_and_band_agree_and_the_p_value_is_honest() -> None:
    rng = np.random.default_rng(COVERAGE_SEED)
    samples = rng.random((400, 40))
    p = np.array([uniformity_p_value(s) for s in samples])
    for prob in (0.5, 0.9):
        assert [inside_band(s, prob=prob) for s in samples] == list(p > 1 - prob)
        assert np.mean(p <= 1 - prob) <= 1 - prob + 4 * np.sqrt(prob * (1 - prob) / len(p))


def test_departures_from_uniformity_are_found() -> None:
    rng = np.random.default_rng(PIT_SEED)
    uniform = rng.random(1000)
    assert inside_band(uniform)
    for wrong in (uniform**1.2, 0.5 + 0.9 * (uniform - 0.5), np.round(uniform, 1)):
        assert not inside_band(wrong)


def test_band_is_symmetric_and_narrows_with_the_sample() -> None:
    band = simultaneous_band(60)
    np.testing.assert_allclose(band.lower, 1 - band.upper[::-1], atol=1e-12)
    widths = [np.max(b.upper - b.lower) for b in map(simultaneous_band, (20, 200, 1000))]
    assert widths[0] > widths[1] > widths[2]


def test_bad_samples_and_probabilities_are_refused() -> None:
    for pit in ([0.5], [0.5, 1.1], [0.5, np.nan], [-0.1, 0.2]):
        with pytest.raises(DataError, match="pit must hold two or more values from 0 to 1"):
            uniformity_p_value(np.array(pit))
    with pytest.raises(DataError, match="2 values or more, got 1"):
        simultaneous_band(1)
    for prob in (0.0, 1.0, float("nan")):
        with pytest.raises(DataError, match="prob must be between 0 and 1"):
            simultaneous_band(10, prob=prob)
