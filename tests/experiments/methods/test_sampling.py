"""Uniform, stratified and Mid-Range sampling against counting, enumeration and exact fractions."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from hspr.experiments.methods.base import Method, MethodRun, uniform_tasks
from hspr.experiments.methods.sampling import (
    MID_RANGE,
    STRATA,
    STRATIFIED,
    UNIFORM,
    allocate,
    difficulty_strata,
    middle_tasks,
)
from hspr.models.errors import DataError
from hspr.tests.oracles_models import matrix, random_matrix

METHODS = [UNIFORM, STRATIFIED, MID_RANGE]
each_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


def drive(run: MethodRun, target: np.ndarray) -> list[int]:
    """Tell a run every outcome that it asks for; return the tasks in order."""
    asked: list[int] = []
    while tasks := run.ask():
        for task in tasks:
            run.tell(task, int(target[task]))
        asked += tasks
    return asked


def target_of(n: int, seed: int = 3) -> np.ndarray:
    return (np.random.default_rng(seed).random(n) < 0.4).astype(float)


@each_method
def test_names_and_seeds(method: Method) -> None:
    assert method.name in ("uniform", "stratified", "mid-range")
    assert method.seeds == (1 if method is MID_RANGE else 10)


@each_method
@pytest.mark.parametrize("budget", [1, 4, 9, 10, 23, 40])
def test_runs_ask_distinct_tasks_once_and_repeat_by_seed(method: Method, budget: int) -> None:
    source, target = random_matrix(7, 40, seed=1), target_of(40)
    fitted = method.fit(source, budget)
    estimates = {}
    for seed in (0, 1):
        run = fitted.start(seed)
        asked = drive(run, target)
        assert len(asked) == len(set(asked)) == budget
        assert run.ask() == []
        assert 0 <= run.estimate() <= 1
        again = method.fit(source, budget).start(seed)
        assert drive(again, target) == asked
        assert again.estimate() == run.estimate()
        # Outcomes that were not revealed change nothing.
        other = 1 - target
        other[asked] = target[asked]
        blind = fitted.start(seed)
        assert drive(blind, other) == asked
        assert blind.estimate() == run.estimate()
        estimates[seed] = asked
    assert (estimates[0] == estimates[1]) == (method is MID_RANGE)


@each_method
def test_no_budget_gives_the_source_mean_and_all_gives_the_score(method: Method) -> None:
    source, target = random_matrix(6, 21, seed=2), target_of(21)
    assert method.fit(source, 0).start(0).estimate() == pytest.approx(source.values.mean())
    assert method.fit(source, 0).start(0).ask() == []
    run = method.fit(source, 21).start(0)
    assert sorted(drive(run, target)) == list(range(21))
    assert run.estimate() == pytest.approx(target.mean(), abs=1e-12)


@each_method
@pytest.mark.parametrize("fill", [0.0, 1.0])
@pytest.mark.parametrize("m", [1, 3])
def test_constant_sources_and_single_agents_work(method: Method, fill: float, m: int) -> None:
    source = matrix(np.full((m, 9), fill))
    for target in (np.zeros(9), np.ones(9)):
        run = method.fit(source, 4).start(0)
        assert len(drive(run, target)) == 4
        assert run.estimate() == target.mean()
    assert method.fit(source, 0).start(0).estimate() == fill
    single = method.fit(matrix([[fill]]), 1).start(0)
    assert drive(single, np.ones(1)) == [0]
    assert single.estimate() == 1.0


def test_uniform_asks_the_shared_query_set_and_averages() -> None:
    source, target = random_matrix(4, 30, seed=3), target_of(30)
    for seed in range(5):
        run = UNIFORM.fit(source, 8).start(seed)
        assert drive(run, target) == uniform_tasks(30, 8, seed)
        assert run.estimate() == pytest.approx(target[uniform_tasks(30, 8, seed)].mean())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("strata", [1, 2, 5, 10, 50])
def test_strata_keep_equal_rates_together_and_are_ordered(seed: int, strata: int) -> None:
    outcomes = random_matrix(5 + 4 * seed, 60, seed=seed).values
    rate = outcomes.sum(axis=0)
    stratum = difficulty_strata(outcomes, strata)
    assert set(stratum) == set(range(stratum.max() + 1))
    assert stratum.max() + 1 <= strata
    for value in np.unique(rate):
        assert len(set(stratum[rate == value])) == 1
    order = np.argsort(rate, kind="stable")
    assert (np.diff(stratum[order]) >= 0).all()


def test_strata_of_distinct_rates_are_equal_in_size() -> None:
    rank = np.random.default_rng(0).permutation(30)
    outcomes = (np.arange(30)[:, None] < rank).astype(float)
    stratum = difficulty_strata(outcomes, 10)
    assert stratum.tolist() == (rank // 3).tolist()


def largest_remainder(sizes: list[int], budget: int) -> list[int]:
    share = [Fraction(budget * size, sum(sizes)) for size in sizes]
    count = [int(x) for x in share]
    order = sorted(range(len(sizes)), key=lambda k: (count[k] - share[k], k))
    for k in order[: budget - sum(count)]:
        count[k] += 1
    return count


def test_allocation_is_the_largest_remainder_method() -> None:
    rng = np.random.default_rng(5)
    plain = 0
    for _ in range(500):
        sizes = rng.integers(1, 40, size=rng.integers(1, 11))
        budget = int(rng.integers(len(sizes), sizes.sum() + 1))
        count = allocate(sizes, budget)
        assert count.sum() == budget
        assert (count >= 1).all()
        assert (count <= sizes).all()
        if (budget * sizes >= sizes.sum()).all():
            assert count.tolist() == largest_remainder(sizes.tolist(), budget)
            plain += 1
    assert plain > 100


def test_allocation_takes_from_those_most_above_their_share() -> None:
    # Shares 4.8, 0.1 and 0.1: the small ones get one each, at the cost of the large one.
    assert allocate(np.array([48, 1, 1]), 5).tolist() == [3, 1, 1]


def test_stratified_estimate_is_the_weighted_mean_of_the_strata() -> None:
    source, target = random_matrix(9, 50, seed=8), target_of(50)
    for budget in (3, 10, 17):
        stratum = difficulty_strata(source.values, min(STRATA, budget))
        run = STRATIFIED.fit(source, budget).start(4)
        asked = np.array(drive(run, target))
        sizes = np.bincount(stratum)
        assert np.bincount(stratum[asked]).tolist() == allocate(sizes, budget).tolist()
        expected = sum(
            sizes[k] / 50 * target[asked[stratum[asked] == k]].mean() for k in range(len(sizes))
        )
        assert run.estimate() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("budget", [2, 5])
def test_stratified_estimate_is_unbiased_over_seeds(budget: int) -> None:
    source, target = random_matrix(6, 12, seed=11), target_of(12, seed=1)
    fitted = STRATIFIED.fit(source, budget)
    estimates = []
    for seed in range(3000):
        run = fitted.start(seed)
        drive(run, target)
        estimates.append(run.estimate())
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert error > 0
    assert abs(np.mean(estimates) - target.mean()) < 4 * error


@pytest.mark.parametrize("seed", range(5))
def test_middle_tasks_are_the_nearest_to_one_half_in_bank_order(seed: int) -> None:
    outcomes = random_matrix(8, 40, seed=seed, spread=0.5).values
    rate = [Fraction(int(n), 8) for n in outcomes.sum(axis=0)]
    order = sorted(range(40), key=lambda j: (abs(rate[j] - Fraction(1, 2)), j))
    for budget in (0, 1, 13, 40):
        assert middle_tasks(outcomes, budget) == order[:budget]
    # Ties on both sides of one half are what the order is about.
    assert {Fraction(3, 8), Fraction(5, 8)} <= set(rate)


def tell_unknown(run: MethodRun) -> None:
    run.tell(99, 1)


def tell_twice(run: MethodRun) -> None:
    task = run.ask()[0]
    run.tell(task, 1)
    run.tell(task, 1)


def tell_half(run: MethodRun) -> None:
    run.tell(run.ask()[0], 0.5)  # type: ignore[arg-type]


def estimate_early(run: MethodRun) -> None:
    run.tell(run.ask()[0], 1)
    run.estimate()


@each_method
@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (tell_unknown, "task 99 is not one of the 3 tasks"),
        (tell_twice, "is not one of the 2 tasks"),
        (tell_half, "must be 0 or 1, got 0.5"),
        (estimate_early, "all 3 asked tasks, and 2 are missing"),
    ],
)
def test_misuse_is_refused(
    method: Method, misuse: Callable[[MethodRun], None], message: str
) -> None:
    run = method.fit(random_matrix(4, 10, seed=0), 3).start(0)
    with pytest.raises(DataError, match=message):
        misuse(run)


@each_method
def test_bad_input_is_refused(method: Method) -> None:
    with pytest.raises(DataError, match="missing outcomes"):
        method.fit(random_matrix(4, 10, seed=0, missing=0.3), 3)
    for budget in (-1, 11):
        with pytest.raises(DataError, match="budget must be from 0 to 10 tasks"):
            method.fit(random_matrix(4, 10, seed=0), budget)
