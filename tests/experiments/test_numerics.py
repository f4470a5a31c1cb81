"""The numerical checks compare like with like, and flag what is not accurate enough."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, quantile_test

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.evaluation import retell
from hspr.experiments.numerics import (
    MORE_NODES,
    TOLERANCE,
    check_numerics,
    median_interval,
    score_checks,
)
from hspr.experiments.simulate import simulate_bank
from hspr.inference.decision import ScorePosterior
from hspr.models.config import Config
from hspr.models.errors import DataError
from hspr.models.responses import ResponseMatrix

BANK_SEED = 5301
BANK = simulate_bank(agents=9, tasks=40, seed=BANK_SEED)
CONFIG = Config(rank=2)
N_TASKS = 500


@pytest.mark.parametrize("count", [6, 7, 20, 101, 4096, 131_072])
def test_median_interval_is_the_narrowest_symmetric_one_of_its_probability(count: int) -> None:
    ranks = np.arange(1.0, count + 1)
    low, high = (int(end) for end in median_interval(ranks))

    def covered(low: int, high: int) -> float:
        # The median lies between two order statistics if low to high - 1 draws lie below it.
        return float(binom.cdf(high - 1, count, 0.5) - binom.cdf(low - 1, count, 0.5))

    assert low + high == count + 1
    assert covered(low, high) >= 0.95 > covered(low + 1, high - 1)
    oracle = quantile_test(ranks, q=0, p=0.5).confidence_interval(0.95)
    assert (low, high) == (oracle.low, oracle.high)


def test_too_few_draws_for_an_interval_are_refused() -> None:
    with pytest.raises(DataError, match=r"draws must be enough .* got 5"):
        median_interval(np.arange(5.0))


@pytest.mark.parametrize("budget", [0, 7, 8, 19])
@pytest.mark.parametrize("proposal", ["gaussian", "student"])
def test_retold_outcomes_give_the_posterior_of_the_evaluation(budget: int, proposal: str) -> None:
    source, truth = BANK.hold_out(BANK.agents[0])
    evaluator = Evaluator(source, CONFIG, budget=budget, nodes=64, sobol_seed=7, proposal=proposal)
    while (task := evaluator.ask()) is not None:
        evaluator.tell(task, int(truth.sel(task=task)))
    told, again = (
        sampler.arrays
        for sampler in (
            evaluator.sampler,
            retell(evaluator, nodes=64, sobol_seed=7, proposal=proposal),
        )
    )
    for name in ("successes", "trials", "z", "log_weight", "mean_score", "rate_alpha"):
        np.testing.assert_array_equal(getattr(told, name), getattr(again, name))


def exact_score(**changes: Any) -> ScorePosterior:
    """Return a posterior whose draws have exactly its mean and median."""
    draws = np.sort(np.repeat(np.arange(240, 261) / N_TASKS, 500))
    values: dict[str, Any] = {
        "estimate": 0.5,
        "median": 0.5,
        "mean": 0.5,
        "sd": float(draws.std()),
        "observed_share": 0.5,
        "n_observed": 50,
        "n_tasks": N_TASKS,
        "mean_residual": 0.0,
        "ess": 4000.0,
        "pareto_k": 0.1,
        "draws": draws,
        "nodes": 8192,
    }
    return ScorePosterior(**(values | changes))


def failed(
    score: ScorePosterior, finer: ScorePosterior | None = None, fewer: ScorePosterior | None = None
) -> list[str]:
    checks = score_checks(score, finer or exact_score(), fewer or exact_score())
    return [check["check"].split(",")[0] for check in checks if not check["passed"]]


def test_equal_posteriors_pass_and_each_failing_case_is_flagged() -> None:
    score = exact_score()
    assert failed(score) == []
    off = TOLERANCE * 1.1
    assert failed(score, finer=exact_score(mean=0.5 + off)) == ["mean"]
    assert failed(score, finer=exact_score(mean=0.5 - TOLERANCE)) == []
    assert failed(score, finer=exact_score(median=0.5 - off)) == ["median"]
    assert failed(score, fewer=exact_score(median=0.5 + 1 / N_TASKS)) == ["median"]
    assert failed(score, fewer=exact_score(draws=score.draws + off)) == ["mean"]
    error = score.draws.std(ddof=1) / np.sqrt(len(score.draws))
    for errors, flagged in ((5.9, []), (6.1, ["sample mean against analytic mean"])):
        moved = replace(score, mean=0.5 + errors * error)
        assert failed(moved, finer=moved) == flagged
    # Two heaps with nothing between them: the median may be anywhere.
    heaps = exact_score(draws=np.repeat([0.4, 0.6], 5000))
    assert failed(heaps, fewer=heaps) == ["95 % interval of the median"]


def test_full_knowledge_has_no_error_to_speak_of() -> None:
    known = exact_score(draws=np.full(100, 0.5), sd=0.0, n_observed=N_TASKS)
    assert failed(known, finer=known, fewer=known) == []
    wrong = replace(known, mean=0.5001)
    assert failed(wrong, finer=wrong, fewer=known) == ["sample mean against analytic mean"]


def test_small_bank_is_checked() -> None:
    result = check_numerics(BANK, CONFIG, targets=2, budget=5, nodes=1024, draws=8192, scrambles=3)
    summary = result.summary()
    json.dumps(summary, allow_nan=False)
    assert summary["budget"] == 5
    assert summary["passed"] == result.passed == all(c["passed"] for c in summary["checks"])
    scores = dict(zip(BANK.agents, BANK.values.mean(axis=1), strict=True))
    low, high = (scores[target["agent"]] for target in summary["targets"])
    assert low <= np.median(list(scores.values())) <= high
    for target in summary["targets"]:
        checks = {c["check"]: c for c in summary["checks"] if c["agent"] == target["agent"]}
        assert len(checks) == 9
        # On so small a bank this many nodes leave next to no error.
        assert checks[f"mean, 1024 against {1024 * MORE_NODES} nodes"]["passed"]
        assert checks["sample mean against analytic mean"]["passed"]
        assert 0 < checks["sd over scrambles, gaussian"]["value"] < TOLERANCE


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"targets": 0}, "targets must be a whole number from 1 to 9, got 0"),
        ({"targets": 10}, "targets must be a whole number from 1 to 9, got 10"),
        ({"draws": 5}, "draws must be a whole number from 12, got 5"),
        ({"scrambles": 1}, "scrambles must be a whole number from 2, got 1"),
        ({"nodes": 100}, "100"),
        ({"budget": 41}, "budget must be from 0 to 40 tasks, got 41"),
        ({"n_jobs": 0}, "n_jobs must be a whole number other than 0"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_numerics(BANK, CONFIG, **settings)


def test_incomplete_bank_needs_a_policy() -> None:
    values = BANK.values.copy()
    values[0, 0] = np.nan
    holes = ResponseMatrix.from_arrays(values, agents=BANK.agents, tasks=BANK.tasks)
    with pytest.raises(DataError, match="missing"):
        check_numerics(holes, CONFIG)
