"""HSPR's reconstruction on other queries, and the number of draws that it needs."""

import numpy as np
import pytest
from scipy.stats import binom

from hspr.experiments.methods.base import MethodRun
from hspr.experiments.methods.static import (
    MAX_DRAWS,
    UNIFORM_SEEDS,
    is_precise,
    precise_score,
    static_method,
)
from hspr.experiments.simulate import simulate_bank
from hspr.inference.decision import ScorePosterior, score_posterior
from hspr.inference.sobol import SobolSampler
from hspr.models.config import Config
from hspr.models.declaration import build_model
from hspr.models.groups import TaskGroups, group_tasks
from hspr.models.items import fit_items

BANK_SEED = 4761
BANK = simulate_bank(agents=5, tasks=24, seed=BANK_SEED)
SOURCE, TARGET = BANK.select(BANK.agents[1:]), BANK.values[0]
CONFIG = Config(rank=1, kappa=1.0, calibration=0.5)
NODES = 64
BUDGET = 9


def finish(run: MethodRun) -> list[int]:
    tasks = run.ask()
    for task in tasks:
        run.tell(task, int(TARGET[task]))
    assert run.ask() == []
    return tasks


def sampler_told(tasks: list[int]) -> SobolSampler:
    groups = group_tasks(SOURCE, fit_items(SOURCE))
    sampler = SobolSampler(build_model(groups, CONFIG), nodes=NODES)
    for task in tasks:
        sampler.update(groups.group_of_task[task], int(TARGET[task]))
    return sampler


def test_uniform_queries_are_those_of_the_listed_seeds() -> None:
    assert UNIFORM_SEEDS == (11, 23, 37, 53, 71)
    method = static_method(CONFIG, uniform=True, nodes=NODES)
    assert (method.name, method.seeds) == ("hspr-uniform", 5)
    fitted = method.fit(SOURCE, BUDGET)
    for seed, listed in enumerate((11, 23, 37, 53, 71)):
        expected = np.random.default_rng(listed).choice(24, size=BUDGET, replace=False)
        assert fitted.start(seed).ask() == expected.tolist()


def test_mid_range_queries_are_the_tasks_nearest_one_half() -> None:
    method = static_method(CONFIG, uniform=False, nodes=NODES)
    assert (method.name, method.seeds) == ("hspr-mid-range", 1)
    rate = SOURCE.values.mean(axis=0)
    expected = sorted(range(24), key=lambda task: (round(abs(float(rate[task]) - 0.5), 9), task))
    assert method.fit(SOURCE, BUDGET).start(0).ask() == expected[:BUDGET]


@pytest.mark.parametrize("uniform", [True, False])
def test_estimate_is_the_decision_of_the_sampler_told_the_same(uniform: bool) -> None:
    run = static_method(CONFIG, uniform=uniform, nodes=NODES).fit(SOURCE, BUDGET).start(0)
    sampler = sampler_told(finish(run))
    score = score_posterior(sampler.state(), calibration=0.5)
    # So few tasks need no more draws than the first.
    assert is_precise(score)
    assert run.estimate() == pytest.approx(score.estimate, rel=1e-9)


def test_the_criterion_plays_no_part() -> None:
    estimates = set()
    for criterion in ("score", "latent"):
        config = Config(rank=1, criterion=criterion)
        run = static_method(config, uniform=True, nodes=NODES).fit(SOURCE, BUDGET).start(1)
        finish(run)
        estimates.add(run.estimate())
    assert len(estimates) == 1


def posterior(draws: np.ndarray, n_tasks: int, mean: float | None = None) -> ScorePosterior:
    """Return a score of given draws; what the rule does not read is made up."""
    return ScorePosterior(
        estimate=0.5,
        median=float(np.median(draws)),
        mean=float(draws.mean()) if mean is None else mean,
        sd=0.1,
        observed_share=0.5,
        n_observed=2,
        n_tasks=n_tasks,
        mean_residual=0.0,
        ess=10.0,
        pareto_k=0.1,
        draws=np.sort(draws),
        nodes=64,
    )


def stepped(draws: int, jump: int, tasks: int) -> np.ndarray:
    """Return draws of 50 tasks of 100 up to a rank (from 0), and of `tasks` more beyond."""
    return np.where(np.arange(draws) < jump, 50, 50 + tasks) / 100


DRAWS = 4096
# Ranks of the 95 % order-statistic interval of the median, by their definition.
LOW, HIGH = (
    next(k for k in range(DRAWS) if binom.cdf(k, DRAWS, 0.5) >= tail) for tail in (0.025, 0.975)
)


def test_the_interval_of_the_median_holds_it_in_95_of_100_samples() -> None:
    # P(X_(low) <= median <= X_(high)) for ranks from 0 is P(low < K <= high), K ~ Bin(D, 1/2).
    covered = binom.cdf(HIGH, DRAWS, 0.5) - binom.cdf(LOW, DRAWS, 0.5)
    assert covered == pytest.approx(0.95, abs=binom.pmf(LOW, DRAWS, 0.5))
    assert pytest.approx(DRAWS / 2 - 1.96 * np.sqrt(DRAWS) / 2, abs=1.5) == LOW


@pytest.mark.parametrize(
    ("jump", "tasks", "precise"),
    [
        (DRAWS // 2, 0, True),
        (DRAWS // 2, 1, True),  # at most one task
        (DRAWS // 2, 2, False),
        (LOW + 1, 2, False),
        (LOW, 2, True),
        (HIGH, 2, False),
        (HIGH + 1, 2, True),
        (HIGH + 1, 40, True),
    ],
)
def test_is_precise_spans_at_most_a_task_around_the_median(
    jump: int, tasks: int, precise: bool
) -> None:
    assert is_precise(posterior(stepped(DRAWS, jump, tasks), 100)) == precise


@pytest.mark.parametrize(
    ("errors", "precise"), [(-6.1, False), (-5.9, True), (0, True), (5.9, True), (6.1, False)]
)
def test_is_precise_takes_six_standard_errors_of_the_mean(errors: float, precise: bool) -> None:
    draws = np.random.default_rng(BANK_SEED).binomial(10, 0.4, DRAWS) / 10
    off = errors * draws.std() / np.sqrt(DRAWS)
    assert is_precise(posterior(draws, 10, mean=float(draws.mean() + off))) == precise


def wide(size: int) -> SobolSampler:
    """Return the prior on two groups of many tasks."""
    groups = TaskGroups(
        group_of_task=np.repeat([0, 1], size),
        size=np.array([size, size]),
        intercept=np.array([0.0, -0.5]),
        slope=np.ones(2),
        loading=np.zeros((2, 1)),
        tasks=tuple(f"t{i}" for i in range(2 * size)),
        bank="wide",
    )
    return SobolSampler(build_model(groups, Config(rank=1)), nodes=NODES)


def precise_by_definition(score: ScorePosterior) -> bool:
    count = len(score.draws)
    low, high = binom.interval(0.95, count, 0.5)
    span = score.draws[int(high)] - score.draws[int(low)]
    distance = abs(score.draws.mean() - score.mean)
    few = round(span * score.n_tasks) <= 1
    return bool(few and distance <= 6 * score.draws.std() / count**0.5)


@pytest.mark.parametrize("size", [20, 150, 5000])
def test_precise_score_doubles_the_draws_until_they_are_enough_or_too_many(size: int) -> None:
    tree = wide(size).state()
    found = precise_score(tree, CONFIG)
    draws = 131_072
    while True:
        expected = score_posterior(tree, calibration=0.5, draws=draws)
        if precise_by_definition(expected) or draws == 2_097_152:
            break
        draws *= 2
    assert len(found.draws) == draws
    assert found.estimate == expected.estimate
    # The banks stand for: at once, after some doubling, and never.
    least, most = {20: (1, 1), 150: (2, 8), 5000: (16, 16)}[size]
    assert least * 131_072 <= draws <= most * 131_072
    assert precise_by_definition(found) == (size < 5000)
    assert MAX_DRAWS == 2_097_152


def test_precise_score_takes_decision_and_calibration_of_the_configuration() -> None:
    tree = sampler_told([1, 5, 7]).state()
    plain = precise_score(tree, Config(rank=1))
    assert plain.estimate == plain.median
    mean = precise_score(tree, Config(rank=1, decision="mean"))
    assert mean.estimate == pytest.approx(plain.mean)
    shifted = plain.median + 0.5 * (1 - 3 / 24) * plain.mean_residual
    assert precise_score(tree, CONFIG).estimate == pytest.approx(shifted)
