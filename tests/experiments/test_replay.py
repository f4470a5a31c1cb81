"""Replay is exact where it must be, reproducible, and blind to what it must not see."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.folds import agent_folds
from hspr.experiments.replay import INTERVAL, Replay, replay
from hspr.experiments.simulate import simulate_bank
from hspr.models.config import Config
from hspr.models.errors import DataError
from hspr.models.responses import ResponseMatrix

BANK_SEED = 4601
MISSING_SEED = 4602

BANK = simulate_bank(agents=9, tasks=30, seed=BANK_SEED)
CONFIG = Config(rank=2, calibration=0.5)
BUDGET = 6
# Few nodes, since nothing here is about accuracy.
NODES = 256


def run(bank: ResponseMatrix = BANK, **settings: object) -> Replay:
    chosen = {"budget": BUDGET, "seeds": [0], "nodes": NODES} | settings
    return replay(bank, CONFIG, **chosen)  # type: ignore[arg-type]


def changed(bank: ResponseMatrix, cells: dict[str, Sequence[str]]) -> ResponseMatrix:
    """Return the bank with the outcomes of some tasks of some agents turned round."""
    outcomes = bank.outcomes.copy(deep=True)
    for agent, tasks in cells.items():
        place = {"agent": agent, "task": list(tasks)}
        outcomes.loc[place] = 1 - outcomes.loc[place]
    return ResponseMatrix(outcomes, name=bank.name, missing=bank.missing)


def holed(missing: float) -> ResponseMatrix:
    """Return the bank with some outcomes of every agent missing."""
    values = BANK.values.copy()
    values[np.random.default_rng(MISSING_SEED).random(values.shape) < missing] = np.nan
    holes = ResponseMatrix.from_arrays(values, agents=BANK.agents, tasks=BANK.tasks)
    return holes.with_missing("model")


def without_time(runs: pd.DataFrame) -> pd.DataFrame:
    return runs.drop(columns=["seconds", "cpu_seconds"])


def untouched(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what no unqueried outcome of the target may change."""
    return runs.drop(columns=["seconds", "cpu_seconds", "truth"])


@pytest.fixture(scope="module")
def full() -> Replay:
    return run(seeds=[0, 1])


def test_replay_runs_every_target_with_every_seed(full: Replay) -> None:
    runs = full.runs
    assert list(zip(runs["agent"], runs["seed"], strict=True)) == [
        (agent, seed) for agent in BANK.agents for seed in (0, 1)
    ]
    fold_of = {agent: fold.index for fold in agent_folds(BANK) for agent in fold.target}
    assert runs["fold"].tolist() == [fold_of[agent] for agent in runs["agent"]]
    truth = dict(zip(BANK.agents, BANK.values.mean(axis=1), strict=True))
    assert runs["truth"].tolist() == pytest.approx([truth[agent] for agent in runs["agent"]])


def test_replay_queries_distinct_tasks_of_the_bank(full: Replay) -> None:
    for queried in full.runs["queried"]:
        assert len(queried) == len(set(queried)) == BUDGET
        assert set(queried) <= set(BANK.tasks)
    assert full.runs["queried"].nunique() > 9


def test_replay_estimates_are_scores_within_their_interval(full: Replay) -> None:
    runs = full.runs
    assert runs["estimate"].between(0, 1).all()
    assert runs["median"].between(runs["low"], runs["high"]).all()
    assert (runs["sd"] > 0).all()
    assert (runs["ess"] <= NODES).all()


def test_replay_does_what_an_evaluator_on_the_fold_does(full: Replay) -> None:
    fold = agent_folds(BANK)[1]
    source = BANK.select(fold.source)
    for agent in fold.target:
        evaluator = Evaluator(source, CONFIG, budget=BUDGET, seed=1, nodes=NODES)
        while (task := evaluator.ask()) is not None:
            evaluator.tell(task, int(BANK.outcomes.sel(agent=agent, task=task)))
        score = evaluator.score()
        row = full.runs.query("agent == @agent and seed == 1").iloc[0]
        assert row["queried"] == tuple(evaluator.outcomes)
        names = ["estimate", "median", "mean", "sd", "ess", "pareto_k"]
        assert row[names].tolist() == [getattr(score, name) for name in names]
        assert (row["low"], row["high"]) == score.interval(INTERVAL)


def test_replay_does_not_depend_on_the_number_of_workers(full: Replay) -> None:
    parallel = run(seeds=[0, 1], n_jobs=2)
    pd.testing.assert_frame_equal(
        without_time(parallel.runs), without_time(full.runs), check_exact=True
    )
    assert parallel.settings == full.settings


def test_replay_of_some_targets_is_those_rows_of_the_full_one(full: Replay) -> None:
    targets = [BANK.agents[5], BANK.agents[2]]
    some = run(targets=targets)
    rows = full.runs[full.runs["agent"].isin(targets) & (full.runs["seed"] == 0)]
    pd.testing.assert_frame_equal(
        without_time(some.runs), without_time(rows.reset_index(drop=True)), check_exact=True
    )
    assert some.settings["agents"] == 9


def test_replay_never_reads_an_unqueried_outcome_of_the_target(full: Replay) -> None:
    for agent in BANK.agents[:3]:
        before = full.runs.query("agent == @agent and seed == 0").reset_index(drop=True)
        hidden = set(BANK.tasks) - set(before["queried"][0])
        after = run(changed(BANK, {agent: sorted(hidden)}), targets=[agent]).runs
        pd.testing.assert_frame_equal(untouched(after), untouched(before), check_exact=True)
        assert after["truth"][0] != before["truth"][0]


def test_replay_reads_the_queried_outcomes(full: Replay) -> None:
    agent = BANK.agents[0]
    before = full.runs.query("agent == @agent and seed == 0").iloc[0]
    first = before["queried"][0]
    after = run(changed(BANK, {agent: [first]}), targets=[agent]).runs.iloc[0]
    assert after["queried"][0] == first
    assert after["mean"] != before["mean"]


def test_replay_never_reads_another_target_of_the_fold(full: Replay) -> None:
    fold = agent_folds(BANK)[0]
    agent, *others = fold.target
    bank = changed(BANK, {other: BANK.tasks for other in others})
    after = run(bank, targets=[agent], seeds=[0, 1]).runs
    before = full.runs.query("agent == @agent").reset_index(drop=True)
    pd.testing.assert_frame_equal(without_time(after), without_time(before), check_exact=True)
    # A source agent does matter.
    moved = run(changed(BANK, {fold.source[0]: BANK.tasks}), targets=[agent], seeds=[0, 1]).runs
    assert moved["mean"].tolist() != before["mean"].tolist()


@pytest.mark.parametrize("budget", [30, 1.0])
def test_replay_of_all_tasks_is_exact(budget: int | float) -> None:
    targets = BANK.agents[:3]
    result = run(budget=budget, targets=targets)
    truth = BANK.values.mean(axis=1)[:3].tolist()
    for name in ("estimate", "median", "mean", "low", "high", "truth"):
        assert result.runs[name].tolist() == pytest.approx(truth, rel=1e-12), name
    assert result.runs["estimate"].tolist() == result.runs["truth"].tolist()
    assert (result.runs["high"] - result.runs["low"]).tolist() == [0, 0, 0]
    assert result.runs["sd"].tolist() == pytest.approx([0, 0, 0], abs=1e-9)
    assert {frozenset(queried) for queried in result.runs["queried"]} == {frozenset(BANK.tasks)}
    summary = result.summary()
    assert (summary["mae"], summary["max_error"], summary["width"]) == (0, 0, 0)
    assert (summary["tau"], summary["coverage"], summary["budget"]) == (1, 1, 30)


def test_replay_of_no_task_is_the_prior() -> None:
    result = run(budget=0, seeds=[0, 1])
    assert set(result.runs["queried"]) == {()}
    # The same for all targets of a fold, whatever the seed.
    assert (result.runs.groupby("fold")["estimate"].nunique() == 1).all()
    json.dumps(result.summary(), allow_nan=False)


def test_replay_of_two_agents_and_one_task() -> None:
    bank = ResponseMatrix.from_arrays([[1], [0]], agents=["a", "b"], tasks=["t"])
    assert run(bank, budget=1).runs["estimate"].tolist() == [1, 0]
    nothing = run(bank, budget=0.1)
    assert nothing.settings["budget"] == 0
    assert nothing.settings["folds"] == 2
    assert set(nothing.runs["queried"]) == {()}


def test_replay_under_model_evaluates_a_target_on_its_own_tasks() -> None:
    bank = holed(0.2)
    result = run(bank, budget=0.2)
    for row in result.runs.to_dict("records"):
        outcomes = bank.outcomes.sel(agent=row["agent"])
        known = {task for task in bank.tasks if not np.isnan(outcomes.sel(task=task))}
        assert len(known) < 30
        assert set(row["queried"]) <= known
        assert len(row["queried"]) == round(0.2 * len(known))
        assert row["truth"] == pytest.approx(float(outcomes.mean()))


def test_replay_under_model_lowers_a_number_of_tasks_to_those_of_the_target() -> None:
    bank = holed(0.2)
    result = run(bank, budget=30, targets=bank.agents[:2])
    assert result.settings["budget"] == 30
    for row in result.runs.to_dict("records"):
        known = bank.outcomes.sel(agent=row["agent"]).notnull()
        assert len(row["queried"]) == int(known.sum())
        assert row["estimate"] == row["low"] == row["high"] == row["truth"]


def test_replay_under_model_of_known_outcomes_is_as_without(full: Replay) -> None:
    modelled = run(BANK.with_missing("model"), seeds=[0, 1])
    pd.testing.assert_frame_equal(
        without_time(modelled.runs), without_time(full.runs), check_exact=True
    )
    assert modelled.settings["missing"] == "model"


def test_replay_under_model_refuses_a_target_without_outcomes() -> None:
    values = BANK.values.copy()
    values[4] = np.nan
    bank = ResponseMatrix.from_arrays(values, agents=BANK.agents, tasks=BANK.tasks)
    with pytest.raises(DataError, match=f"agent '{BANK.agents[4]}' of bank .* has no outcome"):
        run(bank.with_missing("model"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"targets": ["sim-agent-1"]}, "no agent 'sim-agent-1' among its 9; did you mean"),
        ({"targets": []}, "at least one is needed"),
        ({"targets": "sim-agent-01"}, "targets must be a list of agents, got 'sim-agent-01'"),
        ({"seeds": []}, r"seeds must be distinct whole numbers from 0, got \[\]"),
        ({"seeds": [1, 1]}, "seeds must be distinct"),
        ({"seeds": [-1]}, "seeds must be distinct"),
        ({"seeds": [0.5]}, r"got \[0.5\]"),
        ({"seeds": [True]}, r"got \[True\]"),
        ({"seeds": ["0"]}, r"got \['0'\]"),
        ({"seeds": "01"}, "got '01'"),
        ({"seeds": 5.0}, "got 5.0"),
        ({"budget": -1}, "budget must be from 0 to 30 tasks, got -1"),
        ({"budget": 31}, "budget must be from 0 to 30 tasks, got 31"),
        ({"budget": 1.5}, "budget as a share must be from 0.0 to 1.0, got 1.5"),
        ({"budget": float("nan")}, "budget as a share must be from 0.0 to 1.0, got nan"),
        ({"budget": "10%"}, "budget must be a number, got '10%'"),
        ({"nodes": 1000}, "nodes must be a power of two"),
        ({"folds": 1}, "folds must be a whole number from 2"),
        ({"fold_seed": -1}, "seed of the folds"),
        ({"n_jobs": 0}, "n_jobs must be a whole number other than 0, got 0"),
        ({"n_jobs": 1.5}, "n_jobs must be a whole number other than 0, got 1.5"),
    ],
)
def test_replay_refuses_bad_settings(settings: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        run(**settings)


def test_replay_refuses_missing_outcomes_without_a_policy() -> None:
    values = BANK.values.copy()
    values[1, 2] = np.nan
    bank = ResponseMatrix.from_arrays(values, agents=BANK.agents, tasks=BANK.tasks)
    with pytest.raises(DataError, match="lacks 1 of 270 outcomes"):
        run(bank)


def test_replay_refuses_a_bank_of_one_agent() -> None:
    with pytest.raises(DataError, match="has one agent, 'sim-agent-01'"):
        run(BANK.select(BANK.agents[:1]))


def test_replay_leaves_its_input_alone() -> None:
    before = BANK.values.copy()
    run(targets=BANK.agents[:1])
    np.testing.assert_array_equal(BANK.values, before)


def test_replay_shows_its_progress_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(targets=BANK.agents[:1], progress=True)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    run(targets=BANK.agents[:1], progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert f"replay {BANK.name}" in err


def test_summary_is_json_with_settings_and_metrics(full: Replay) -> None:
    summary = full.summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert (summary["bank"], summary["agents"], summary["tasks"]) == (BANK.name, 9, 30)
    assert (summary["budget"], summary["runs"], summary["seeds"]) == (BUDGET, 18, [0, 1])
    assert summary["config"] == CONFIG.to_dict()
    errors = 100 * (full.runs["estimate"] - full.runs["truth"]).abs()
    assert summary["mae"] == pytest.approx(errors.mean())
    assert summary["max_error"] == pytest.approx(errors.groupby(full.runs["seed"]).max().mean())
    assert summary["seconds_per_run"] > 0 and summary["cpu_seconds_per_run"] > 0


def test_to_csv_writes_every_run(full: Replay, tmp_path: Path) -> None:
    path = full.to_csv(tmp_path / "runs.csv")
    back = pd.read_csv(path, dtype={"agent": str})
    assert [tuple(json.loads(text)) for text in back["queried"]] == full.runs["queried"].tolist()
    pd.testing.assert_frame_equal(
        back.drop(columns="queried"), full.runs.drop(columns="queried"), rtol=1e-12
    )
    assert [file.name for file in tmp_path.iterdir()] == ["runs.csv"]
