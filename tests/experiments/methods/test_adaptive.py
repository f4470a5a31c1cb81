"""Adaptive runs: exactness, reproducibility, independence of what is not revealed."""

import numpy as np
import pytest
from scipy.special import expit

import hspr
from hspr.acquisition.budget import budget_tasks
from hspr.experiments.methods.adaptive import (
    ADAPTIVE_2PL,
    ATLAS,
    ATLAS_NO_PRIOR,
    LOG_SLOPE_SDS,
    held_out_error,
    source_prior,
)
from hspr.experiments.methods.adaptive_run import AdaptiveTest, most_informative
from hspr.experiments.methods.base import Method, MethodRun
from hspr.experiments.methods.item_bank import ItemBank
from hspr.experiments.methods.item_fit import fit_item_bank
from hspr.experiments.methods.item_prior import ItemPrior, difficulty_prior
from hspr.models.errors import DataError
from hspr.tests.oracles_models import matrix

METHODS = [ATLAS, ATLAS_NO_PRIOR, ADAPTIVE_2PL]


def outcomes_of(m: int, n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    p = expit(rng.normal(size=(m, 1)) - rng.normal(0.5, 1.5, n))
    return (rng.random((m, n)) < p).astype(float)


def play(run: MethodRun, truth: np.ndarray) -> list[int]:
    asked = []
    while tasks := run.ask():
        assert len(tasks) == 1
        asked += tasks
        run.tell(tasks[0], int(truth[tasks[0]]))
    return asked


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_all_tasks_revealed_give_the_exact_score(method: Method) -> None:
    outcomes = outcomes_of(9, 20)
    run = method.fit(matrix(outcomes[1:]), 20).start(0)
    assert sorted(play(run, outcomes[0])) == list(range(20))
    assert run.estimate() == outcomes[0].mean()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_runs_are_reproducible_and_read_revealed_outcomes_only(method: Method) -> None:
    outcomes = outcomes_of(11, 40, seed=2)
    fitted, truth = method.fit(matrix(outcomes[1:]), 8), outcomes[0]
    first, again, other = fitted.start(3), fitted.start(3), fitted.start(3)
    asked = play(first, truth)
    assert len(set(asked)) == len(asked) == 8
    assert play(again, truth) == asked and again.estimate() == first.estimate()
    hidden = 1 - truth
    hidden[asked] = truth[asked]
    assert play(other, hidden) == asked and other.estimate() == first.estimate()
    seeds = {tuple(play(fitted.start(seed), truth)) for seed in range(6)}
    assert (len(seeds) == 1) == (method.seeds == 1)
    assert 0 <= first.estimate() <= 1


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_without_budget_the_estimate_is_that_of_the_mean_ability(method: Method) -> None:
    fitted = method.fit(matrix(outcomes_of(8, 15)), 0)
    run = fitted.start(0)
    assert run.ask() == []
    assert isinstance(fitted, AdaptiveTest)
    bank = fitted.bank
    p = bank.lower + (bank.upper - bank.lower) * expit(-bank.slope * bank.difficulty)
    assert run.estimate() == pytest.approx(p.mean(), abs=1e-12)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize(
    "source", [np.zeros((3, 6)), np.ones((3, 6)), np.eye(1, 6), np.ones((1, 1)), np.zeros((3, 1))]
)
def test_extreme_sources_and_targets_stay_finite(method: Method, source: np.ndarray) -> None:
    n = source.shape[1]
    for budget in {1, n}:
        fitted = method.fit(matrix(source), budget)
        for success in (0, 1):
            run = fitted.start(0)
            assert 0 <= run.estimate() <= 1
            assert len(play(run, np.full(n, success))) == budget
            assert 0 <= run.estimate() <= 1
            assert budget < n or run.estimate() == success


def test_a_run_follows_the_formulas_step_by_step() -> None:
    """EAP on a finer grid, the printed information and the printed score, with plain loops."""
    outcomes = outcomes_of(10, 30, seed=5)
    fitted, truth = ADAPTIVE_2PL.fit(matrix(outcomes[1:]), 10), outcomes[0]
    assert isinstance(fitted, AdaptiveTest)
    bank, run, known = fitted.bank, fitted.start(0), dict[int, int]()
    theta = np.linspace(-8, 8, 4001)

    def eap() -> float:
        weight = np.exp(-(theta**2) / 2)
        for task, y in known.items():
            p = expit(bank.slope[task] * (theta - bank.difficulty[task]))
            weight = weight * (p if y else 1 - p)
        return float(weight @ theta / weight.sum())

    for _ in range(10):
        p = expit(bank.slope * (eap() - bank.difficulty))
        information = bank.slope**2 * p * (1 - p)
        information[list(known)] = -1
        (task,) = run.ask()
        assert information[task] == pytest.approx(information.max(), rel=1e-6)
        assert run.ask() == [task]
        run.tell(task, int(truth[task]))
        known[task] = int(truth[task])
        p = expit(bank.slope * (eap() - bank.difficulty))
        rest = sum(p[j] for j in range(30) if j not in known)
        assert run.estimate() == pytest.approx((sum(known.values()) + rest) / 30, abs=1e-6)


def test_atlas_draws_uniformly_from_the_best_five() -> None:
    bank = ItemBank(np.linspace(2.0, 1.0, 12), np.zeros(12), np.zeros(12), np.ones(12))
    test = AdaptiveTest(bank, budget=1, choices=5)
    counts = np.bincount([test.start(seed).ask()[0] for seed in range(2000)], minlength=12)
    assert (counts[5:] == 0).all()
    # Five binomial counts of mean 400 and sd 18.
    assert (np.abs(counts[:5] - 400) < 5 * 18).all()


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_most_informative_is_a_stable_sort(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(50):
        information = rng.integers(0, 4, size=30).astype(float)
        unqueried = rng.random(30) < 0.7
        tasks = [j for j in range(30) if unqueried[j]]
        expected = sorted(tasks, key=lambda j: (-information[j], j))[:count]
        assert most_informative(information, unqueried, count).tolist() == expected


def test_errors_name_the_rule() -> None:
    source = matrix(outcomes_of(4, 5))
    with pytest.raises(DataError, match="budget must be from 0 to 5 tasks, got 6"):
        ADAPTIVE_2PL.fit(source, 6)
    fitted = ADAPTIVE_2PL.fit(source, 2)
    run = fitted.start(0)
    (task,) = run.ask()
    with pytest.raises(DataError, match="task must be the asked one"):
        run.tell(task + 1, 1)
    with pytest.raises(DataError, match=f"outcome of task {task} must be 0 or 1, got 2"):
        run.tell(task, 2)
    assert isinstance(fitted, AdaptiveTest)
    with pytest.raises(DataError, match="choices must be a whole number from 1, got 0"):
        AdaptiveTest(fitted.bank, budget=1, choices=0)


def test_the_prior_is_the_best_on_held_out_source_agents() -> None:
    source = matrix(outcomes_of(7, 25, seed=8))
    errors = {sd: held_out_error(source, 5, sd) for sd in LOG_SLOPE_SDS}
    assert len(set(errors.values())) > 1
    assert errors[source_prior(source, 5).log_slope_sd] == min(errors.values())
    # The same computed through the method itself: four folds, each held-out agent as a target.
    total = 0.0
    for fold in hspr.agent_folds(source):
        inner = source.select(fold.source)
        prior = ItemPrior(1.0, *difficulty_prior(inner.values))
        test = AdaptiveTest(
            fit_item_bank(inner.values, prior=prior, asymptotes=False), budget=5, choices=1
        )
        for agent in fold.target:
            run, truth = test.start(1), source.select([agent]).values[0]
            play(run, truth)
            total += abs(run.estimate() - truth.mean())
    assert errors[1.0] == pytest.approx(total / 7, abs=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("data_dir")
def test_a_tenth_of_the_tasks_beats_the_mean_of_the_sources() -> None:
    bank = hspr.load_bank("swebench-lite", missing="fail")
    fold = hspr.agent_folds(bank)[0]
    source, budget = bank.select(fold.source), budget_tasks(0.1, len(bank.tasks))
    fitted = ADAPTIVE_2PL.fit(source, budget)
    errors, naive = [], []
    for agent in fold.target:
        truth = bank.select([agent]).values[0]
        run = fitted.start(0)
        assert len(play(run, truth)) == budget
        errors.append(abs(run.estimate() - truth.mean()))
        naive.append(abs(source.values.mean() - truth.mean()))
    assert np.mean(errors) < 0.5 * np.mean(naive)
