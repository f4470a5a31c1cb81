"""The factor model against numerical derivatives, scikit-learn, other starts and recomputation."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from hspr.experiments.methods import factor_model
from hspr.experiments.methods.factor_model import (
    PENALTIES,
    RANKS,
    FactorModel,
    choose_factors,
    fit_factors,
    penalised_loss,
)
from hspr.models.errors import SamplingError
from hspr.tests.oracles_models import random_matrix


def direct_loss(x: np.ndarray, outcomes: np.ndarray, rank: int, penalty: float) -> float:
    """Compute the negative penalised log likelihood cell by cell."""
    m, n = outcomes.shape
    agent, task = x[: m * rank].reshape(m, rank), x[m * rank :].reshape(n, rank)
    loss = penalty / 2 * float(x @ x)
    for s in range(m):
        for j in range(n):
            if not np.isnan(outcomes[s, j]):
                eta = float(agent[s] @ task[j])
                loss += np.logaddexp(0, eta) - outcomes[s, j] * eta
    return loss


def numerical_gradient(x: np.ndarray, *arguments: object) -> np.ndarray:
    gradient = np.empty_like(x)
    for i in range(len(x)):
        step = np.zeros_like(x)
        step[i] = 1e-5
        up, down = direct_loss(x + step, *arguments), direct_loss(x - step, *arguments)  # type: ignore[arg-type]
        gradient[i] = (up - down) / 2e-5
    return gradient


def flat(model: FactorModel) -> np.ndarray:
    return np.concatenate([model.agent.ravel(), model.task.ravel()])


def low_rank_bank(m: int, n: int, rank: int, seed: int, scale: float = 2.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    eta = scale * rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n))
    return (rng.random((m, n)) < 1 / (1 + np.exp(-eta))).astype(float)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_loss_and_gradient_are_those_of_the_formula(missing: float) -> None:
    outcomes = random_matrix(4, 6, seed=1, missing=missing).values
    rng = np.random.default_rng(0)
    agent, task = rng.normal(size=(4, 2)), rng.normal(size=(6, 2))
    x = np.concatenate([agent.ravel(), task.ravel()])
    loss, agent_gradient, task_gradient = penalised_loss(agent, task, outcomes, penalty=0.7)
    assert loss == pytest.approx(direct_loss(x, outcomes, 2, 0.7), rel=1e-12)
    gradient = np.concatenate([agent_gradient.ravel(), task_gradient.ravel()])
    assert gradient == pytest.approx(numerical_gradient(x, outcomes, 2, 0.7), abs=1e-7)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(("rank", "penalty"), [(1, 0.5), (2, 1.0), (3, 0.3)])
def test_gradient_vanishes_at_the_fit(rank: int, penalty: float, missing: float) -> None:
    outcomes = random_matrix(6, 12, seed=rank, missing=missing).values
    model = fit_factors(outcomes, rank=rank, penalty=penalty)
    assert (model.agent.shape, model.task.shape) == ((6, rank), (12, rank))
    assert (model.rank, model.penalty) == (rank, penalty)
    assert np.abs(model.task).max() > 0.1
    gradient = numerical_gradient(flat(model), outcomes, rank, penalty)
    assert np.abs(gradient).max() < 1e-5


def test_task_factors_are_logistic_regressions_on_the_agent_factors() -> None:
    outcomes = random_matrix(9, 20, seed=4).values
    model = fit_factors(outcomes, rank=2, penalty=0.8)
    checked = 0
    for j in range(20):
        if 0 < outcomes[:, j].sum() < 9:
            regression = LogisticRegression(C=1 / 0.8, fit_intercept=False, tol=1e-10)
            regression.fit(model.agent, outcomes[:, j])
            assert model.task[j] == pytest.approx(regression.coef_[0], abs=1e-4)
            checked += 1
    assert checked > 10


@pytest.mark.parametrize("penalty", [0.5, 2.0])
def test_no_other_start_does_better_where_the_rank_is_full(penalty: float) -> None:
    # At full rank the two-sided ridge is a convex nuclear-norm problem in the logits.
    outcomes = random_matrix(4, 15, seed=7).values
    model = fit_factors(outcomes, rank=4, penalty=penalty)
    loss = direct_loss(flat(model), outcomes, 4, penalty)
    rng = np.random.default_rng(1)
    for _ in range(4):
        begin = FactorModel(rng.normal(size=(4, 4)), rng.normal(size=(15, 4)), penalty)
        other = fit_factors(outcomes, rank=4, penalty=penalty, start=begin)
        assert direct_loss(flat(other), outcomes, 4, penalty) == pytest.approx(loss, rel=1e-6)
        assert other.agent @ other.task.T == pytest.approx(model.agent @ model.task.T, abs=2e-2)


def test_equal_columns_get_equal_factors_and_fits_repeat() -> None:
    outcomes = np.repeat(random_matrix(8, 5, seed=9).values, 4, axis=1)
    model = fit_factors(outcomes, rank=2, penalty=1.0)
    assert model.task == pytest.approx(np.repeat(model.task[::4], 4, axis=0), abs=1e-5)
    again = fit_factors(outcomes, rank=2, penalty=1.0)
    assert flat(again).tobytes() == flat(model).tobytes()


@pytest.mark.parametrize("fill", [0.0, 1.0])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 8), (2, 1), (5, 8)])
def test_constant_outcomes_are_predicted(m: int, n: int, fill: float) -> None:
    outcomes = np.full((m, n), fill)
    rank, penalty = choose_factors(outcomes)
    assert rank <= max(1, m - 1)
    model = fit_factors(outcomes, rank=rank, penalty=penalty)
    rate = 1 / (1 + np.exp(-model.agent @ model.task.T))
    assert (np.abs(rate - fill) <= 0.5).all()
    if m * n > 10:
        assert (np.abs(rate - fill) < 0.2).all()
    mean, covariance = model.target_prior()
    assert np.isfinite(mean).all()
    assert np.linalg.eigvalsh(covariance)[0] > 0


@pytest.mark.parametrize("truth", [1, 3])
def test_choice_finds_the_rank_of_a_strong_factor_model(truth: int) -> None:
    outcomes = low_rank_bank(50, 120, truth, seed=truth)
    rank, _ = choose_factors(outcomes)
    assert rank == truth


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_rank_is_capped_at_the_agents_less_one(m: int) -> None:
    outcomes = low_rank_bank(m, 60, 3, seed=5, scale=3.0)
    rank, penalty = choose_factors(outcomes)
    assert 1 <= rank <= max(1, m - 1)
    assert penalty in PENALTIES


def test_choice_has_the_best_likelihood_of_held_out_entries() -> None:
    outcomes = low_rank_bank(12, 40, 2, seed=3)
    fold = np.random.default_rng(0).permutation(12 * 40).reshape(12, 40) % 5
    best: dict[tuple[int, float], float] = {}
    for rank in RANKS:
        total = dict.fromkeys(PENALTIES, 0.0)
        for k in range(5):
            visible = np.where(fold == k, np.nan, outcomes)
            start = None
            for penalty in PENALTIES:
                start = fit_factors(visible, rank=rank, penalty=penalty, start=start)
                rate = 1 / (1 + np.exp(-start.agent @ start.task.T))
                likelihood = np.where(outcomes == 1, rate, 1 - rate)
                total[penalty] += np.log(likelihood[fold == k]).sum()
        penalty = max(total, key=lambda p: total[p])
        if best and total[penalty] <= max(best.values()):
            break
        best[rank, penalty] = total[penalty]
    assert choose_factors(outcomes) == list(best)[-1]


def test_prior_is_the_sample_mean_and_covariance() -> None:
    rng = np.random.default_rng(2)
    agent = rng.normal(size=(7, 3)) @ rng.normal(size=(3, 3))
    mean, covariance = FactorModel(agent, np.zeros((4, 3)), 1.0).target_prior()
    assert mean == pytest.approx(agent.sum(axis=0) / 7)
    centred = agent - agent.sum(axis=0) / 7
    assert covariance == pytest.approx(centred.T @ centred / 6, rel=1e-12)


def test_singular_prior_is_regularised() -> None:
    agent = np.random.default_rng(3).normal(size=(6, 1)) * np.array([1.0, 2.0])
    _, covariance = FactorModel(agent, np.zeros((4, 2)), 1.0).target_prior()
    sample = np.cov(agent, rowvar=False)
    added = 1e-6 * np.trace(sample) / 2
    assert covariance == pytest.approx(sample + added * np.eye(2), rel=1e-12)
    _, constant = FactorModel(np.ones((3, 2)), np.zeros((4, 2)), 1.0).target_prior()
    assert constant == pytest.approx(1e-6 * np.eye(2))


def test_prior_of_one_agent_is_that_of_the_penalty() -> None:
    mean, covariance = FactorModel(np.array([[1.0, 2.0]]), np.zeros((4, 2)), 4.0).target_prior()
    assert mean.tolist() == [1.0, 2.0]
    assert covariance == pytest.approx(np.eye(2) / 4)


def test_a_fit_that_does_not_converge_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factor_model, "_MAX_ITERATIONS", 2)
    with pytest.raises(SamplingError, match="did not converge in 2 iterations"):
        fit_factors(low_rank_bank(10, 30, 3, seed=0), rank=3, penalty=1.0)
