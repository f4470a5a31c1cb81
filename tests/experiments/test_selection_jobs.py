"""One held-out agent: nothing is fitted to its row, and its errors are those of evaluators."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.paths import DETERMINISTIC, query_paths
from hspr.experiments.selection import NO_GROUP_KAPPA
from hspr.experiments.selection_jobs import (
    CALIBRATIONS,
    SEEDS,
    Job,
    Setting,
    run_job,
    without_agent,
)
from hspr.experiments.simulate import simulate_bank
from hspr.inference.sobol import SobolSampler
from hspr.models.config import Config
from hspr.models.declaration import build_model
from hspr.models.groups import TaskGroups, group_tasks
from hspr.models.items import fit_items
from hspr.models.responses import ResponseMatrix

BANK_SEED = 4911
HOLES_SEED = 4912

BANK = simulate_bank(agents=6, tasks=24, seed=BANK_SEED)
AGENT = BANK.agents[2]
NODES = 256
BUDGET = 4
GLOBAL = (Setting(1, 4.0, NO_GROUP_KAPPA, "score"), Setting(1, 4.0, NO_GROUP_KAPPA, "latent"))
HIERARCHICAL = (Setting(1, 4.0, 1.0, "latent"), Setting(1, 4.0, 4.0, "score"))


def job(bank: ResponseMatrix, stage: str, settings: tuple[Setting, ...], **changes: Any) -> Job:
    given: dict[str, Any] = {"agent": AGENT, "number": 7, "budget": BUDGET, "paths": None}
    return Job(source=bank, stage=stage, settings=settings, nodes=NODES, **(given | changes))


def row_of(job: Job) -> dict[str, Any]:
    number, row = run_job(job)
    assert (number, row["agent"]) == (job.number, job.agent)
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    return row


def with_row(bank: ResponseMatrix, agent: str, outcomes: np.ndarray) -> ResponseMatrix:
    values = bank.values.copy()
    values[bank.agents.index(agent)] = outcomes
    return ResponseMatrix.from_arrays(
        values, agents=bank.agents, tasks=bank.tasks, name=bank.name
    ).with_missing("model" if np.isnan(values).any() else "refuse")


def assert_same(first: TaskGroups, second: TaskGroups) -> None:
    for field in fields(TaskGroups):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name))


def holed() -> ResponseMatrix:
    values = BANK.values.copy()
    values[np.random.default_rng(HOLES_SEED).random(values.shape) < 0.2] = np.nan
    holes = ResponseMatrix.from_arrays(values, agents=BANK.agents, tasks=BANK.tasks)
    return holes.with_missing("model")


def ask_and_tell(
    groups: TaskGroups, outcomes: np.ndarray, setting: Setting, budget: int, seed: int
) -> Evaluator:
    evaluator = Evaluator(groups, Config(*setting), budget=budget, seed=seed, nodes=NODES)
    known = dict(zip(groups.tasks, outcomes.astype(int).tolist(), strict=True))
    while (task := evaluator.ask()) is not None:
        evaluator.tell(task, known[task])
    return evaluator


def absolute_errors(center: float, residual: float, budget: int, truth: np.ndarray) -> list[float]:
    left = 1 - budget / len(truth)
    return [
        abs(min(1.0, max(0.0, center + share * left * residual)) - truth.mean())
        for share in (0.0, 0.5)
    ]


def test_calibrations_and_seeds_are_the_papers() -> None:
    assert (CALIBRATIONS, SEEDS) == ((0.0, 0.5), (0, 1, 2))


def test_without_agent_fits_all_others() -> None:
    for agent in BANK.agents:
        groups, outcomes = without_agent(BANK, agent)
        rest = BANK.select(other for other in BANK.agents if other != agent)
        assert_same(groups, group_tasks(rest, fit_items(rest)))
        assert outcomes.tolist() == BANK.outcomes.sel(agent=agent).values.tolist()


def test_without_agent_never_reads_its_row() -> None:
    """Not even which tasks share a signature: removing a row may merge groups."""
    number = []
    for agent in BANK.agents:
        before, outcomes = without_agent(BANK, agent)
        after, turned = without_agent(with_row(BANK, agent, 1.0 - outcomes), agent)
        assert_same(before, after)
        assert (turned + outcomes).tolist() == [1] * 24
        number.append(len(before.size))
    # Some row would have split groups, had it stayed.
    assert len(group_tasks(BANK, fit_items(BANK)).size) > min(number)


def test_without_agent_under_model_keeps_the_tasks_that_it_has() -> None:
    bank = holed()
    for agent in bank.agents:
        groups, outcomes = without_agent(bank, agent)
        row = bank.outcomes.sel(agent=agent)
        known = [task for task in bank.tasks if not np.isnan(row.sel(task=task))]
        assert 12 < len(known) < 24
        assert list(groups.tasks) == known
        assert outcomes.tolist() == [int(row.sel(task=task)) for task in known]
        others = bank.outcomes.sel(agent=[a for a in bank.agents if a != agent], task=known)
        rest = ResponseMatrix(others, name=bank.name, missing="model")
        assert_same(groups, group_tasks(rest, fit_items(rest)))


@pytest.mark.parametrize(
    ("bank", "budget", "own"),
    [(BANK, BUDGET, BUDGET), (BANK, 0.25, 6), (holed(), 0.25, None), (holed(), 24, None)],
    ids=["complete", "share", "missing, share", "missing, all"],
)
def test_run_job_of_the_hierarchical_stage_is_what_evaluators_do(
    bank: ResponseMatrix, budget: int | float, own: int | None
) -> None:
    groups, outcomes = without_agent(bank, AGENT)
    if own is None:
        own = min(24, len(outcomes)) if isinstance(budget, int) else round(0.25 * len(outcomes))
    row = row_of(job(bank, "hierarchical", HIERARCHICAL, budget=budget))
    expected = [(setting, seed) for setting in HIERARCHICAL for seed in (0, 1, 2)]
    assert len(row["paths"]) == len(expected)
    for path, (setting, seed) in zip(row["paths"], expected, strict=True):
        evaluator = ask_and_tell(groups, outcomes, setting, own, seed)
        score = evaluator.score(warn=False)
        assert {name: path[name] for name in Setting._fields} == setting._asdict()
        assert path["seed"] == seed
        assert [groups.tasks[task] for task in path["tasks"]] == list(evaluator.outcomes)
        errors = absolute_errors(score.mean, score.mean_residual, own, outcomes)
        assert path["errors"] == pytest.approx(errors, abs=1e-6)


def test_run_job_of_the_global_stage_walks_the_first_open_tasks() -> None:
    groups, outcomes = without_agent(BANK, AGENT)
    row = row_of(job(BANK, "global", GLOBAL))
    assert len(row["paths"]) == len(GLOBAL)
    for path, setting in zip(row["paths"], GLOBAL, strict=True):
        sampler = SobolSampler(build_model(groups, Config(*setting)), nodes=NODES)
        (walk,) = query_paths(
            groups, sampler, setting.criterion, outcomes, budget=BUDGET, seeds=[DETERMINISTIC]
        )
        assert {name: path[name] for name in Setting._fields} == setting._asdict()
        assert path["seed"] == DETERMINISTIC
        errors = absolute_errors(walk.mean, walk.mean_residual, BUDGET, outcomes)
        assert path["errors"] == pytest.approx(errors, abs=1e-6)


@pytest.mark.parametrize("budget", [BUDGET, 9])
def test_run_job_of_the_median_stage_is_the_evaluators_median(budget: int) -> None:
    """Also where the path is longer than what lies between two refreshes."""
    groups, outcomes = without_agent(BANK, AGENT)
    walked = row_of(job(BANK, "hierarchical", HIERARCHICAL, budget=budget))["paths"]
    setting = HIERARCHICAL[1]
    row = row_of(job(BANK, "median", (setting,), budget=budget, paths=walked))
    assert [path["seed"] for path in row["paths"]] == [0, 1, 2]
    for path in row["paths"]:
        score = ask_and_tell(groups, outcomes, setting, budget, path["seed"]).score(warn=False)
        errors = absolute_errors(score.median, score.mean_residual, budget, outcomes)
        assert path["errors"] == pytest.approx(errors, abs=1e-12)
        assert {name: path[name] for name in Setting._fields} == setting._asdict()


@pytest.mark.parametrize("stage", ["global", "hierarchical", "median"])
def test_run_job_reads_nothing_but_queried_outcomes_and_the_true_score(stage: str) -> None:
    """Two unqueried outcomes change places: the truth stays, and so must every error."""
    groups, outcomes = without_agent(BANK, AGENT)
    walked = row_of(job(BANK, "hierarchical", HIERARCHICAL))["paths"]
    settings = {
        "global": GLOBAL[:1],
        "hierarchical": HIERARCHICAL,
        "median": HIERARCHICAL[1:],
    }[stage]
    sampler = SobolSampler(build_model(groups, Config(*GLOBAL[0])), nodes=NODES)
    first = query_paths(groups, sampler, "score", outcomes, budget=BUDGET, seeds=[DETERMINISTIC])
    queried = (
        set(first[0].tasks)
        if stage == "global"
        else {task for path in walked for task in path["tasks"]}
    )
    hidden = sorted(set(range(24)) - queried)
    wins, losses = ([task for task in hidden if outcomes[task] == y] for y in (1, 0))
    swapped = outcomes.astype(float)
    pairs = min(len(wins), len(losses))
    assert pairs > 0
    swapped[wins[:pairs]], swapped[losses[:pairs]] = 0.0, 1.0
    paths = walked if stage == "median" else None
    before = row_of(job(BANK, stage, settings, paths=paths))
    assert row_of(job(with_row(BANK, AGENT, swapped), stage, settings, paths=paths)) == before
    # A queried outcome does matter.
    turned = outcomes.astype(float)
    turned[sorted(queried)] = 1 - turned[sorted(queried)]
    assert row_of(job(with_row(BANK, AGENT, turned), stage, settings, paths=paths)) != before


def test_run_job_shows_truth_in_the_errors_alone() -> None:
    """With all unqueried outcomes turned round, estimates and queries stay, errors move."""
    _, outcomes = without_agent(BANK, AGENT)
    before = row_of(job(BANK, "hierarchical", HIERARCHICAL))
    queried = sorted({task for path in before["paths"] for task in path["tasks"]})
    turned = 1.0 - outcomes
    turned[queried] = outcomes[queried]
    after = row_of(job(with_row(BANK, AGENT, turned), "hierarchical", HIERARCHICAL))
    assert turned.mean() != outcomes.mean()
    for path, other in zip(before["paths"], after["paths"], strict=True):
        assert path["tasks"] == other["tasks"]
        for error, moved in zip(path["errors"], other["errors"], strict=True):
            # |estimate - truth|: one of the two signs gives an estimate that both share.
            estimates = {round(outcomes.mean() + sign * error, 9) for sign in (-1, 1)}
            assert estimates & {round(turned.mean() + sign * moved, 9) for sign in (-1, 1)}


def test_run_job_does_not_depend_on_what_else_the_job_holds() -> None:
    whole = row_of(job(BANK, "hierarchical", HIERARCHICAL))["paths"]
    for setting in HIERARCHICAL:
        alone = row_of(job(BANK, "hierarchical", (setting,)))["paths"]
        assert alone == [path for path in whole if path["kappa"] == setting.kappa]
    given = job(BANK, "hierarchical", HIERARCHICAL[:1])
    assert run_job(replace(given, number=3)) == (3, row_of(given))
