"""RSL and Mid-Range + Ridge against scikit-learn called directly."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV

from hspr.experiments.methods.base import Method, MethodRun
from hspr.experiments.methods.ridge import MID_RANGE_RIDGE, RSL
from hspr.experiments.methods.sampling import MID_RANGE, UNIFORM
from hspr.models.errors import DataError
from hspr.tests.oracles_models import matrix, random_matrix

PAIRS = [(RSL, UNIFORM), (MID_RANGE_RIDGE, MID_RANGE)]
each_pair = pytest.mark.parametrize(("method", "raw"), PAIRS, ids=lambda method: method.name)
each_method = pytest.mark.parametrize(
    "method", [RSL, MID_RANGE_RIDGE], ids=lambda method: method.name
)


def drive(run: MethodRun, target: np.ndarray) -> list[int]:
    """Tell a run every outcome that it asks for; return the tasks in order."""
    asked = run.ask()
    for task in asked:
        run.tell(task, int(target[task]))
    assert run.ask() == []
    return asked


def direct_prediction(source: np.ndarray, tasks: list[int], target: np.ndarray) -> float:
    model = RidgeCV(alphas=(0.1, 1, 10)).fit(source[:, tasks], source.mean(axis=1))
    return float(model.predict(target[tasks][None])[0])


def leave_one_out_prediction(source: np.ndarray, tasks: list[int], target: np.ndarray) -> float:
    """Predict with the penalty of least leave-one-out error, each fold fitted on its own."""
    features, score = source[:, tasks], source.mean(axis=1)
    errors = {}
    for alpha in (0.1, 1.0, 10.0):
        errors[alpha] = 0.0
        for row in range(len(source)):
            rest = np.arange(len(source)) != row
            fold = Ridge(alpha=alpha).fit(features[rest], score[rest])
            errors[alpha] += (fold.predict(features[[row]])[0] - score[row]) ** 2
    best = min(errors, key=lambda alpha: errors[alpha])
    return float(Ridge(alpha=best).fit(features, score).predict(target[tasks][None])[0])


@each_pair
@pytest.mark.parametrize(("m", "budget"), [(2, 5), (3, 1), (12, 6), (9, 60)])
def test_estimate_is_the_prediction_of_scikit_learn(
    method: Method, raw: Method, m: int, budget: int
) -> None:
    bank = random_matrix(m + 1, 60, seed=m)
    source, target = bank.select(bank.agents[:-1]), bank.values[-1]
    fitted = method.fit(source, budget)
    for seed in range(2):
        run = fitted.start(seed)
        asked = drive(run, target)
        assert asked == raw.fit(source, budget).start(seed).ask()
        expected = direct_prediction(source.values, asked, target)
        assert run.estimate() == pytest.approx(np.clip(expected, 0, 1), abs=1e-10)
        if m > 2:
            slow = leave_one_out_prediction(source.values, asked, target)
            assert run.estimate() == pytest.approx(np.clip(slow, 0, 1), abs=1e-8)


@each_method
def test_estimate_depends_on_the_revealed_outcomes_alone(method: Method) -> None:
    source, target = random_matrix(10, 40, seed=4), random_matrix(1, 40, seed=5).values[0]
    fitted = method.fit(source, 7)
    run = fitted.start(2)
    asked = drive(run, target)
    other = 1 - target
    other[asked] = target[asked]
    blind, again, changed = fitted.start(2), method.fit(source, 7).start(2), fitted.start(2)
    drive(blind, other)
    drive(again, target)
    drive(changed, 1 - target)
    assert blind.estimate() == again.estimate() == run.estimate()
    assert changed.estimate() != run.estimate()


@each_method
def test_predictions_beyond_the_range_are_clipped(method: Method) -> None:
    # A target above all sources, and its mirror image below: the line runs past the end.
    beyond = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        source = (rng.random((6, 40)) < np.linspace(0.1, 0.9, 6)[:, None]).astype(float)
        for outcomes, target in ((source, np.ones(40)), (1 - source, np.zeros(40))):
            run = method.fit(matrix(outcomes), 15).start(0)
            raw = direct_prediction(outcomes, drive(run, target), target)
            assert run.estimate() == pytest.approx(np.clip(raw, 0, 1), abs=1e-10)
            if not 0 <= raw <= 1:
                assert run.estimate() == target[0]
                beyond += 1
    assert beyond >= 2


@each_method
def test_no_budget_gives_the_source_mean(method: Method) -> None:
    source = random_matrix(5, 20, seed=6)
    run = method.fit(source, 0).start(0)
    assert run.ask() == []
    assert run.estimate() == pytest.approx(source.values.mean())


@each_pair
def test_one_source_agent_gives_the_mean_of_the_outcomes(method: Method, raw: Method) -> None:
    source, target = random_matrix(1, 20, seed=7), random_matrix(1, 20, seed=8).values[0]
    run, plain = method.fit(source, 6).start(3), raw.fit(source, 6).start(3)
    drive(run, target)
    drive(plain, target)
    assert run.estimate() == plain.estimate()


@each_method
@pytest.mark.parametrize("fill", [0.0, 1.0])
def test_constant_sources_predict_their_score(method: Method, fill: float) -> None:
    for m in (2, 5):
        run = method.fit(matrix(np.full((m, 12), fill)), 4).start(0)
        drive(run, np.arange(12) % 2)
        assert run.estimate() == pytest.approx(fill, abs=1e-12)


@each_method
def test_bad_input_is_refused(method: Method) -> None:
    source = random_matrix(4, 10, seed=0)
    with pytest.raises(DataError, match="missing outcomes"):
        method.fit(random_matrix(4, 10, seed=0, missing=0.3), 3)
    with pytest.raises(DataError, match="budget must be from 0 to 10 tasks"):
        method.fit(source, 11)
    run = method.fit(source, 3).start(0)
    with pytest.raises(DataError, match="all 3 asked tasks, and 3 are missing"):
        run.estimate()
    with pytest.raises(DataError, match="is not one of the 3 tasks"):
        run.tell(-1, 0)


def test_names_and_seeds() -> None:
    assert (RSL.name, RSL.seeds) == ("rsl", 10)
    assert (MID_RANGE_RIDGE.name, MID_RANGE_RIDGE.seeds) == ("mid-range-ridge", 1)
