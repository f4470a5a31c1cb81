"""Predictions see asked outcomes only, are recorded before the truth, and are never redone."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hspr.experiments.folds import Fold, agent_folds
from hspr.experiments.methods import METHODS
from hspr.experiments.methods.base import FittedMethod, Method, MethodRun
from hspr.experiments.methods.hspr import hspr_method
from hspr.experiments.methods.static import static_method
from hspr.experiments.parallel import run_jobs
from hspr.experiments.predictions import record_predictions, reveal, with_truth
from hspr.experiments.simulate import simulate_bank
from hspr.models.config import Config
from hspr.models.errors import DataError
from hspr.models.responses import ResponseMatrix

BANK_SEED = 4711
BANK = simulate_bank(agents=6, tasks=24, seed=BANK_SEED)
PLAN = agent_folds(BANK, folds=2)
BUDGET = 4
CONFIG = Config(rank=1, calibration=0.5)
NODES = 64
EVERY = [
    *METHODS.values(),
    hspr_method(CONFIG, nodes=NODES),
    static_method(CONFIG, uniform=True, nodes=NODES),
    static_method(CONFIG, uniform=False, nodes=NODES),
]
# Regressions and FAQ's mean over the steps predict still when nothing is left to predict.
NEVER_EXACT = ("rsl", "mid-range-ridge", "faq")
MEASURED = ["seconds", "cpu_seconds"]


def record(
    method: Method,
    folder: Path,
    *,
    bank: ResponseMatrix = BANK,
    plan: Sequence[Fold] = PLAN,
    budget: int = BUDGET,
    **settings: Any,
) -> pd.DataFrame:
    methods = {fold.index: method for fold in plan}
    chosen: dict[str, Any] = {"settings": {"nodes": NODES}, "output_dir": folder} | settings
    return record_predictions(bank, methods, budget=budget, plan=plan, **chosen)


class Watched:
    """A run whose asked tasks are kept."""

    def __init__(self, run: MethodRun) -> None:
        self._run = run
        self.asked: set[int] = set()
        self.told: list[tuple[int, int]] = []

    def ask(self) -> list[int]:
        tasks = self._run.ask()
        self.asked |= set(tasks)
        return tasks

    def tell(self, task: int, outcome: int) -> None:
        self.told.append((task, outcome))
        self._run.tell(task, outcome)

    def estimate(self) -> float:
        return self._run.estimate()


@pytest.mark.parametrize("method", EVERY, ids=lambda method: method.name)
def test_reveal_opens_asked_outcomes_only(method: Method) -> None:
    truth = BANK.outcomes.sel(agent=PLAN[0].target[0]).values
    run = Watched(method.fit(BANK.select(PLAN[0].source), BUDGET).start(0))

    def outcome(task: int) -> float:
        assert task in run.asked, f"task {task} was opened without being asked"
        return truth[task]

    queried = reveal(run, outcome)
    assert run.told == [(task, int(truth[task])) for task in queried]
    assert len(queried) == len(set(queried)) == BUDGET
    assert 0 <= run.estimate() <= 1


@pytest.mark.parametrize("fit_each", [False, True])
def test_record_holds_what_runs_by_hand_say(tmp_path: Path, fit_each: bool) -> None:
    method = METHODS["stratified"]
    frame = record(method, tmp_path, fit_each=fit_each)
    expected = []
    fold_of = {agent: fold for fold in PLAN for agent in fold.target}
    for agent in BANK.agents:
        fold = fold_of[agent]
        fitted = method.fit(BANK.select(fold.source), BUDGET)
        for seed in range(method.seeds):
            run = fitted.start(seed)
            tasks = run.ask()
            for task in tasks:
                run.tell(task, int(BANK.outcomes.sel(agent=agent)[task]))
            expected.append((agent, fold.index, seed, run.estimate(), tuple(tasks)))
    columns = ["agent", "fold", "seed", "estimate", "queried"]
    assert list(frame[columns].itertuples(index=False, name=None)) == expected
    assert (frame[MEASURED] >= 0).all(axis=None)


@pytest.mark.parametrize(
    ("n_jobs", "fit_each"), [pytest.param(2, True, marks=pytest.mark.slow), (1, False)]
)
def test_record_does_not_depend_on_workers_or_on_who_fits(
    tmp_path: Path, n_jobs: int, fit_each: bool
) -> None:
    method = replace(hspr_method(CONFIG, nodes=NODES), seeds=2)
    one = record(method, tmp_path / "one", fit_each=True, n_jobs=1)
    other = record(method, tmp_path / "other", fit_each=fit_each, n_jobs=n_jobs)
    pd.testing.assert_frame_equal(
        other.drop(columns=MEASURED), one.drop(columns=MEASURED), check_exact=True
    )


def test_record_runs_each_fold_with_its_own_method(tmp_path: Path) -> None:
    rank_one, rank_zero = (
        replace(hspr_method(Config(rank=rank), nodes=NODES), seeds=1) for rank in (1, 0)
    )
    mixed = record_predictions(
        BANK, {0: rank_one, 1: rank_zero}, budget=BUDGET, plan=PLAN, settings={},
        output_dir=tmp_path / "mixed",
    )  # fmt: skip
    for index, method in enumerate((rank_one, rank_zero)):
        alone = record(method, tmp_path / str(index))
        for column in ("estimate", "mean", "queried"):
            mine, its = (f.loc[f["fold"] == index, column].tolist() for f in (mixed, alone))
            assert mine == its, column
        others = alone.loc[alone["fold"] != index, "mean"].tolist()
        assert others != mixed.loc[mixed["fold"] != index, "mean"].tolist()


@pytest.mark.parametrize("method", EVERY, ids=lambda method: method.name)
@pytest.mark.parametrize("budget", [0, 24])
def test_record_works_without_queries_and_is_exact_with_all(
    tmp_path: Path, method: Method, budget: int
) -> None:
    method = replace(method, seeds=1)
    frame = with_truth(record(method, tmp_path, budget=budget), BANK)
    assert {len(queried) for queried in frame["queried"]} == {budget}
    if not budget:
        # Nothing is known of a target, and all of a fold get the same.
        assert (frame.groupby("fold")["estimate"].nunique() == 1).all()
    elif method.name not in NEVER_EXACT:
        assert frame["error"].abs().max() <= 1e-12
    again = record(method, tmp_path, budget=budget)
    pd.testing.assert_frame_equal(again, frame[again.columns])


@pytest.mark.parametrize("method", ["uniform", "faq", "hspr"])
def test_recorded_files_hold_no_truth(tmp_path: Path, method: str) -> None:
    chosen = next(one for one in EVERY if one.name == method)
    frame = record(replace(chosen, seeds=1), tmp_path)
    assert not {"truth", "error"} & set(frame.columns)
    (file,) = tmp_path.iterdir()
    content = json.loads(file.read_text(encoding="utf-8"))
    assert set(content["settings"]) >= {"method", "matrix", "budget", "folds", "versions", "nodes"}
    assert [row["agent"] for row in content["rows"].values()] == frame["agent"].tolist()
    for row in content["rows"].values():
        assert set(row) == set(frame.columns) - {"fold"}
        assert len(row["queried"]) == BUDGET


class Interrupted:
    """A method that is fitted as another and stops the program at one of its runs."""

    def __init__(self, method: Method, at: int) -> None:
        self._method, self._at = method, at
        self.started: list[int] = []

    def __call__(self, source: ResponseMatrix, budget: int) -> FittedMethod:
        self._fitted = self._method.fit(source, budget)
        return self

    def start(self, seed: int) -> MethodRun:
        if len(self.started) == self._at:
            raise KeyboardInterrupt
        self.started.append(seed)
        return self._fitted.start(seed)


@pytest.mark.parametrize(("name", "at"), [("uniform", 30), ("uniform", 37), ("mid-range", 3)])
def test_interrupted_record_goes_on_where_it_stopped(tmp_path: Path, name: str, at: int) -> None:
    method = METHODS[name]
    whole = record(method, tmp_path / "whole")
    interrupted = Interrupted(method, at)
    with pytest.raises(KeyboardInterrupt):
        record(replace(method, fit=interrupted), tmp_path / "parts")
    assert len(interrupted.started) == at
    # A job is a fold here; what it had not finished is done again, no more.
    done = 3 * method.seeds
    counted = Interrupted(method, -1)
    resumed = record(replace(method, fit=counted), tmp_path / "parts")
    assert len(counted.started) == len(whole) - done
    pd.testing.assert_frame_equal(
        resumed.drop(columns=MEASURED), whole.drop(columns=MEASURED), check_exact=True
    )


def test_finished_record_fits_and_runs_nothing(tmp_path: Path) -> None:
    method = METHODS["stratified"]
    first = record(method, tmp_path)
    counted = Interrupted(method, 0)
    again = record(replace(method, fit=counted), tmp_path)
    # The times too: they are those of the first.
    pd.testing.assert_frame_equal(again, first, check_exact=True)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"budget": BUDGET + 1},
        {"plan": agent_folds(BANK, folds=3)},
        {"settings": {"nodes": 2 * NODES}},
        {"bank": ResponseMatrix(1 - BANK.outcomes, name=BANK.name)},
        {"bank": ResponseMatrix(BANK.outcomes, name="other")},
    ],
    ids=["budget", "plan", "settings", "outcomes", "name"],
)
def test_records_of_other_settings_are_other_files(tmp_path: Path, other: dict) -> None:
    record(METHODS["mid-range"], tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    record(METHODS["mid-range"], tmp_path, **other)
    assert len(list(tmp_path.iterdir())) == 2
    assert all(file.read_bytes() == content for file, content in before.items())


def test_with_truth_adds_the_full_scores() -> None:
    agents = [BANK.agents[4], BANK.agents[0]]
    predicted = pd.DataFrame({"agent": agents, "estimate": [0.5, 0.25]})
    frame = with_truth(predicted, BANK)
    scores = [sum(BANK.outcomes.sel(agent=agent).values.tolist()) / 24 for agent in agents]
    assert frame["truth"].tolist() == pytest.approx(scores, rel=1e-12)
    assert frame["error"].tolist() == pytest.approx([0.5 - scores[0], 0.25 - scores[1]])
    assert list(predicted.columns) == ["agent", "estimate"]


def test_with_truth_refuses_agents_without_one() -> None:
    with pytest.raises(DataError, match="hold agent 'x', which bank 'simulated' lacks"):
        with_truth(pd.DataFrame({"agent": [BANK.agents[0], "x"], "estimate": [0.5, 0.5]}), BANK)


def test_record_refuses_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DataError, match="cannot make the folder"):
        record(METHODS["uniform"], tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_record_names_method_and_bank_in_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles: list[tuple[str, bool]] = []

    def watched(*arguments: Any, description: str, progress: bool, **settings: Any) -> Any:
        titles.append((description, progress))
        return run_jobs(*arguments, description=description, progress=False, **settings)

    monkeypatch.setattr("hspr.experiments.predictions.run_jobs", watched)
    record(METHODS["mid-range"], tmp_path, progress=True)
    assert titles == [("Mid-Range on simulated", True)]


def test_outcomes_are_whole_numbers_when_told() -> None:
    run = Watched(METHODS["mid-range"].fit(BANK, 2).start(0))
    reveal(run, np.array([1.0] * 24).__getitem__)
    assert [type(outcome) for _, outcome in run.told] == [int, int]
