"""Metrics against hand computation, brute force and scipy."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from hspr.experiments.metrics import (
    max_error,
    mean_absolute_error,
    rank_correlation,
    summarise_runs,
)

SCORE_SEED = 4501


def tau_b(x: np.ndarray, y: np.ndarray) -> float:
    """Compute Kendall's tau-b by counting pairs."""
    signs = [
        (np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i, j in combinations(range(len(x)), 2)
    ]
    both = sum(s * t for s, t in signs)
    untied_x, untied_y = sum(s != 0 for s, _ in signs), sum(t != 0 for _, t in signs)
    return both / (untied_x * untied_y) ** 0.5


def test_errors_by_hand() -> None:
    estimate, truth = np.array([0.5, 0.25, 1.0]), np.array([0.25, 0.375, 1.0])
    assert mean_absolute_error(estimate, truth) == pytest.approx(12.5)
    assert max_error(estimate, truth) == pytest.approx(25.0)
    assert max_error(truth, estimate) == pytest.approx(25.0)
    assert mean_absolute_error(truth, truth) == max_error(truth, truth) == 0


@pytest.mark.parametrize("n", [2, 5, 14, 60])
def test_rank_correlation_is_tau_b(n: int) -> None:
    rng = np.random.default_rng(SCORE_SEED + n)
    # Coarse scores, so that there are ties on both sides.
    truth = rng.integers(0, 8, n) / 8
    truth[:2] = 0, 1
    estimate = np.round(truth + rng.normal(0, 0.2, n), 1)
    value = rank_correlation(estimate, truth)
    assert value == pytest.approx(tau_b(estimate, truth))
    assert value == pytest.approx(kendalltau(estimate, truth).statistic)


def test_rank_correlation_of_monotone_scores_is_one() -> None:
    truth = np.array([0.1, 0.4, 0.2])
    assert rank_correlation(truth**2, truth) == 1
    assert rank_correlation(-truth, truth) == -1


@pytest.mark.parametrize(
    ("estimate", "truth"),
    [
        ([], []),
        ([0.5], [0.4]),
        ([0.5, 0.5], [0.1, 0.9]),
        ([0.1, 0.9], [0.5, 0.5]),
        ([0] * 3, [0] * 3),
    ],
)
def test_rank_correlation_is_none_where_undefined(estimate: list, truth: list) -> None:
    assert rank_correlation(np.array(estimate), np.array(truth)) is None


def runs(*rows: tuple[int, float, float]) -> pd.DataFrame:
    """Build runs of (seed, estimate, truth) with intervals of 0.1 to either side."""
    frame = pd.DataFrame(list(rows), columns=["seed", "estimate", "truth"])
    return frame.assign(low=frame["estimate"] - 0.1, high=frame["estimate"] + 0.1)


def test_summarise_runs_pools_within_a_seed_and_averages_over_seeds() -> None:
    summary = summarise_runs(
        runs(
            (0, 0.30, 0.25),
            (1, 0.25, 0.25),
            (0, 0.50, 0.75),
            (1, 0.80, 0.75),
            (0, 0.55, 0.50),
            (1, 0.60, 0.50),
        )
    )
    # Seed 0: errors 5, 25, 5 and one of three pairs in the wrong order; seed 1: 0, 5, 10, none.
    assert summary["mae"] == pytest.approx((35 / 3 + 15 / 3) / 2)
    assert summary["max_error"] == pytest.approx((25 + 10) / 2)
    assert summary["tau"] == pytest.approx((1 / 3 + 1) / 2)
    assert summary["mae_sd"] == pytest.approx((35 / 3 - 15 / 3) / 2**0.5)
    assert summary["coverage"] == pytest.approx(4 / 6, abs=0.2)
    assert summary["width"] == pytest.approx(20)


def test_summarise_runs_counts_the_truths_inside_the_interval_ends_included() -> None:
    frame = runs((0, 0.5, 0.25), (0, 0.5, 0.5), (0, 0.5, 0.375), (0, 0.5, 0.75))
    frame = frame.assign(low=0.375, high=0.5)
    assert summarise_runs(frame)["coverage"] == 0.5
    assert summarise_runs(frame)["width"] == pytest.approx(12.5)


def test_summarise_runs_of_one_seed_has_no_scatter() -> None:
    summary = summarise_runs(runs((3, 0.5, 0.4), (3, 0.2, 0.1)))
    assert summary["mae"] == pytest.approx(10)
    assert summary["mae_sd"] is None
    assert summary["tau"] == 1


def test_summarise_runs_averages_tau_over_the_seeds_that_define_it() -> None:
    both_equal, rising = [(0, 0.5, 0.1), (0, 0.5, 0.2)], [(1, 0.1, 0.1), (1, 0.3, 0.2)]
    assert summarise_runs(runs(*both_equal))["tau"] is None
    assert summarise_runs(runs(*both_equal, *rising))["tau"] == 1


def test_summarise_runs_of_one_target_is_json() -> None:
    summary = summarise_runs(runs((0, 0.5, 0.4), (1, 0.3, 0.4)))
    assert summary["tau"] is None
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
