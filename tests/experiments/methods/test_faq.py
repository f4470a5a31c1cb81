"""FAQ-port against a plain transcription of its formulas, enumeration and Monte Carlo."""

from dataclasses import astuple, dataclass

import numpy as np
import pytest
from sklearn.model_selection import KFold

from hspr.experiments.methods.base import MethodRun
from hspr.experiments.methods.factor_model import FactorModel, choose_factors, fit_factors
from hspr.experiments.methods.faq import FAQ, FaqRun, fit_faq
from hspr.experiments.methods.faq_kernels import TargetPrior, draw_task, replay_agent
from hspr.experiments.methods.faq_tuning import (
    DEFAULT_SETTINGS,
    FINAL_SEEDS,
    FINALISTS,
    SCREENING_SEEDS,
    SETTINGS,
    FaqSettings,
    choose_settings,
    held_out_errors,
)
from hspr.models.errors import DataError
from hspr.tests.oracles_models import matrix, random_matrix

SCHEDULES = [
    FaqSettings(0.5, 0.75, 0.25, 0.25),
    FaqSettings(1.0, 0.0, 0.0, 0.05),
    FaqSettings(1.0, 0.25, 0.75, 0.75),
    FaqSettings(0.25, 0.5, 0.0, 0.1),
]
each_schedule = pytest.mark.parametrize("settings", SCHEDULES, ids=str)


def random_model(m: int, n: int, rank: int, seed: int) -> FactorModel:
    rng = np.random.default_rng(seed)
    return FactorModel(0.5 + rng.normal(size=(m, rank)), rng.normal(size=(n, rank)), 1.0)


def target_of(n: int, seed: int = 1) -> np.ndarray:
    return (np.random.default_rng(seed).random(n) < 0.4).astype(float)


def drive(run: MethodRun, target: np.ndarray) -> list[int]:
    """Tell a run every outcome that it asks for; return the tasks in order."""
    asked: list[int] = []
    while tasks := run.ask():
        for task in tasks:
            run.tell(task, int(target[task]))
        asked += tasks
    return asked


@dataclass
class Transcription:
    """The formulas of the method, step by step and with full inverses."""

    model: FactorModel
    settings: FaqSettings
    budget: int

    def __post_init__(self) -> None:
        self.u = self.model.agent.mean(axis=0)
        self.precision = np.linalg.inv(np.cov(self.model.agent, rowvar=False))
        self.queried: list[int] = []

    def rate(self) -> np.ndarray:
        return 1 / (1 + np.exp(-self.model.task @ self.u))

    def probability(self) -> np.ndarray:
        v, p, sigma = self.model.task, self.rate(), np.linalg.inv(self.precision)
        n, t, b = len(v), len(self.queried) + 1, self.budget
        w = p * (1 - p)
        oracle = np.sqrt(w) / np.sqrt(w).sum()
        mean_direction = sigma @ (w[:, None] * v).sum(axis=0) / n
        log_active = np.log(w) + 2 * np.log(np.abs(v @ mean_direction))
        log_active -= np.log(1 + w * np.array([x @ sigma @ x for x in v]))
        active = np.exp(log_active) / np.exp(log_active).sum()
        beta0, rho, gamma, tau = astuple(self.settings)
        alpha = max(0.0, 1 - t / (rho * b)) if rho else 0.0
        beta = beta0 * min(1.0, t / (gamma * b)) if gamma else beta0
        h = ((1 - alpha) * oracle + alpha * active) ** beta
        q = (1 - tau) * h / h.sum() + tau / n
        q[self.queried] = 0
        return q / q.sum()

    def update(self, task: int, outcome: float) -> None:
        v, p = self.model.task[task], self.rate()[task]
        self.precision = self.precision + p * (1 - p) * np.outer(v, v)
        self.u = self.u + np.linalg.inv(self.precision) @ v * (outcome - p)
        self.queried.append(task)


@each_schedule
@pytest.mark.parametrize(("rank", "n", "budget"), [(2, 25, 12), (4, 40, 10), (3, 9, 9)])
def test_a_run_is_the_transcription(settings: FaqSettings, rank: int, n: int, budget: int) -> None:
    model, target = random_model(9, n, rank, seed=rank), target_of(n)
    run = FaqRun(model, settings, np.random.default_rng(0).random(budget))
    oracle = Transcription(model, settings, budget)
    terms = []
    for _ in range(budget):
        (task,) = run.ask()
        rate, probability = oracle.rate(), oracle.probability()
        assert run.rate == pytest.approx(rate, abs=1e-10)
        assert run.probability == pytest.approx(probability, abs=1e-10)
        assert run.probability.sum() == pytest.approx(1.0, abs=1e-12)
        assert (run.probability[oracle.queried] == 0).all()
        free = np.delete(np.arange(n), oracle.queried)
        assert (run.probability[free] > 0).all()
        known = target[oracle.queried].sum() + rate[free].sum()
        terms.append(known + (target[task] - rate[task]) / probability[task])
        run.tell(task, int(target[task]))
        oracle.update(task, target[task])
        assert run.mean == pytest.approx(oracle.u, abs=1e-10)
        assert run.covariance == pytest.approx(np.linalg.inv(oracle.precision), abs=1e-10)
        assert run.terms == pytest.approx(terms, rel=1e-8)
        assert run.estimate() == pytest.approx(np.clip(np.mean(terms) / n, 0, 1), abs=1e-10)
    assert run.ask() == []
    assert len(set(oracle.queried)) == budget


@each_schedule
@pytest.mark.parametrize("past", [0, 1, 4, 7])
def test_every_term_is_unbiased_given_the_past(settings: FaqSettings, past: int) -> None:
    n, budget = 12, 8
    model, target = random_model(6, n, 2, seed=5), target_of(n, seed=2)
    uniforms = np.random.default_rng(past).random(budget)

    def run_until(last: float) -> FaqRun:
        run = FaqRun(model, settings, np.append(uniforms[:past], np.full(budget - past, last)))
        for _ in range(past):
            (task,) = run.ask()
            run.tell(task, int(target[task]))
        run.ask()
        return run

    probability = run_until(0.5).probability
    edges = np.concatenate([[0], np.cumsum(probability)])
    expected, reached = 0.0, set()
    for choice in range(n):
        if probability[choice] > 0:
            run = run_until((edges[choice] + edges[choice + 1]) / 2)
            assert run.ask() == [choice]
            run.tell(choice, int(target[choice]))
            expected += probability[choice] * run.terms[past]
            reached.add(choice)
    assert len(reached) == n - past
    assert expected == pytest.approx(target.sum(), abs=1e-10)


@each_schedule
def test_the_estimator_is_unbiased_over_seeds(settings: FaqSettings) -> None:
    n, budget = 60, 15
    model = random_model(8, n, 2, seed=3)
    rng = np.random.default_rng(4)
    target = (rng.random(n) < 1 / (1 + np.exp(-model.task @ model.agent[0]))).astype(float)
    prior = TargetPrior.of(model)
    estimates = np.array(
        [
            replay_agent(
                target,
                np.random.default_rng(seed).random(budget),
                prior.factors,
                prior.mean,
                prior.covariance,
                prior.logit,
                prior.spread,
                *astuple(settings),
            )
            for seed in range(3000)
        ]
    )
    # Not clipped, so that no bias can come from there.
    error = estimates.std() / np.sqrt(len(estimates))
    assert 0 < error < 0.01
    assert abs(estimates.mean() - target.mean()) < 4 * error


@each_schedule
def test_the_compiled_run_is_the_stepwise_run(settings: FaqSettings) -> None:
    n, budget = 50, 20
    model, prior = random_model(7, n, 3, seed=8), TargetPrior.of(random_model(7, n, 3, seed=8))
    for seed in range(10):
        target, uniforms = target_of(n, seed), np.random.default_rng(seed).random(budget)
        run = FaqRun(model, settings, uniforms)
        drive(run, target)
        whole = replay_agent(
            target,
            uniforms,
            prior.factors,
            prior.mean,
            prior.covariance,
            prior.logit,
            prior.spread,
            *astuple(settings),
        )
        assert whole == pytest.approx(np.mean(run.terms) / n, rel=1e-12)
        assert run.estimate() == pytest.approx(np.clip(whole, 0, 1), rel=1e-12)


def test_draws_follow_the_cumulative_probabilities() -> None:
    probability = np.random.default_rng(0).dirichlet(np.ones(9))
    probability[[0, 4, 8]] = 0
    probability /= probability.sum()
    for uniform in np.linspace(0, 1, 501)[:-1]:
        expected = np.searchsorted(np.cumsum(probability), uniform, side="right")
        assert draw_task(probability, uniform) == expected
    # Rounding may leave the sum below the largest random number: the last possible task then.
    assert draw_task(0.5 * probability, np.nextafter(1.0, 0.0)) == 7


@pytest.mark.parametrize("size", [30.0, 400.0, 3000.0])
def test_extreme_factors_give_probabilities(size: float) -> None:
    rng = np.random.default_rng(0)
    model = FactorModel(rng.normal(size=(5, 2)) + 1, size * rng.normal(size=(30, 2)), 1.0)
    for settings in SCHEDULES:
        run = FaqRun(model, settings, rng.random(12))
        for _ in range(12):
            (task,) = run.ask()
            assert np.isfinite(run.probability).all()
            assert run.probability.sum() == pytest.approx(1.0, abs=1e-12)
            run.tell(task, task % 2)
        assert 0 <= run.estimate() <= 1
        assert np.isfinite(run.covariance).all()


@pytest.mark.parametrize("budget", [1, 7, 30])
def test_the_method_asks_distinct_tasks_and_repeats_by_seed(budget: int) -> None:
    source, target = random_matrix(8, 30, seed=1), target_of(30)
    fitted = fit_faq(source, budget)
    again = fit_faq(source, budget)
    assert again.settings == fitted.settings
    orders = []
    for seed in (0, 1, 2):
        run = fitted.start(seed)
        asked = drive(run, target)
        assert len(asked) == len(set(asked)) == budget
        assert 0 <= run.estimate() <= 1
        same = again.start(seed)
        assert drive(same, target) == asked
        assert same.estimate() == run.estimate()
        # Outcomes that were not revealed change nothing.
        other = 1 - target
        other[asked] = target[asked]
        blind = fitted.start(seed)
        assert drive(blind, other) == asked
        assert blind.estimate() == run.estimate()
        orders.append(asked)
    assert orders[0] != orders[1] or orders[0] != orders[2]


def test_no_budget_gives_the_prior_prediction() -> None:
    fitted = fit_faq(random_matrix(6, 20, seed=2), 0)
    assert fitted.settings == DEFAULT_SETTINGS
    run = fitted.start(0)
    assert run.ask() == []
    eta = fitted.model.task @ fitted.model.agent.mean(axis=0)
    assert run.estimate() == pytest.approx((1 / (1 + np.exp(-eta))).mean())


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("fill", [0.0, 1.0, None])
def test_small_and_constant_sources_work(m: int, fill: float | None) -> None:
    source = random_matrix(m, 12, seed=m) if fill is None else matrix(np.full((m, 12), fill))
    fitted = fit_faq(source, 5)
    for target in (np.zeros(12), np.ones(12), target_of(12)):
        run = fitted.start(0)
        assert len(set(drive(run, target))) == 5
        assert 0 <= run.estimate() <= 1
        assert np.isfinite(run.terms).all()
    single = fit_faq(matrix(np.ones((m, 1))), 1).start(0)
    assert drive(single, np.zeros(1)) == [0]
    # One task left has probability one: the term is the outcome.
    assert single.estimate() == pytest.approx(0.0, abs=1e-12)


def test_held_out_errors_are_those_of_factors_without_the_agent() -> None:
    outcomes, budget = random_matrix(11, 40, seed=6).values, 6
    settings, seeds = SCHEDULES[:2], (3, 5)
    errors = held_out_errors(outcomes, budget, rank=2, penalty=1.0, settings=settings, seeds=seeds)
    assert errors.shape == (2, 11, 2)
    for rest, held_out in KFold(5, shuffle=True, random_state=0).split(outcomes):
        assert not set(rest) & set(held_out)
        model = fit_factors(outcomes[rest], rank=2, penalty=1.0)
        for agent in held_out:
            for k, seed in enumerate(seeds):
                uniforms = np.random.default_rng(seed).random((11, budget))[agent]
                for i, setting in enumerate(settings):
                    run = FaqRun(model, setting, uniforms)
                    drive(run, outcomes[agent])
                    expected = abs(run.estimate() - outcomes[agent].mean())
                    assert errors[i, agent, k] == pytest.approx(expected, abs=1e-10)


def test_the_kept_setting_is_the_best_finalist() -> None:
    source, budget = random_matrix(9, 40, seed=7), 8
    rank, penalty = choose_factors(source.values)
    seeds = (*SCREENING_SEEDS, *FINAL_SEEDS)
    errors = held_out_errors(
        source.values, budget, rank=rank, penalty=penalty, settings=SETTINGS, seeds=seeds
    )
    screening = errors[:, :, : len(SCREENING_SEEDS)].mean(axis=(1, 2))
    finalists = sorted(range(len(SETTINGS)), key=lambda i: screening[i])[:FINALISTS]
    best = min(finalists, key=lambda i: errors[i].mean())
    chosen = choose_settings(source.values, budget, rank=rank, penalty=penalty)
    assert chosen == SETTINGS[best]
    fitted = fit_faq(source, budget)
    assert (fitted.settings, fitted.model.rank, fitted.model.penalty) == (chosen, rank, penalty)


def test_misuse_is_refused() -> None:
    source = random_matrix(4, 10, seed=0)
    run = fit_faq(source, 3).start(0)
    with pytest.raises(DataError, match="is not one of the 0 tasks"):
        run.tell(0, 1)
    (task,) = run.ask()
    assert run.ask() == [task]
    with pytest.raises(DataError, match="must be 0 or 1, got 2"):
        run.tell(task, 2)
    run.tell(task, 1)
    with pytest.raises(DataError, match=f"task {task} is not one of"):
        run.tell(task, 1)
    with pytest.raises(DataError, match="missing outcomes"):
        fit_faq(random_matrix(4, 10, seed=0, missing=0.3), 3)
    with pytest.raises(DataError, match="budget must be from 0 to 10 tasks"):
        fit_faq(source, 11)


def test_name_and_seeds() -> None:
    assert (FAQ.name, FAQ.title, FAQ.seeds) == ("faq", "FAQ-port", 5)
    assert FAQ.fit is fit_faq
