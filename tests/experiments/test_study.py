"""A study records before it reads the truth, sees nothing that it must not, and repeats nothing."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hspr.experiments import controls, predictions, selection
from hspr.experiments import study as module
from hspr.experiments.folds import agent_folds
from hspr.experiments.methods import METHODS
from hspr.experiments.results import RESULTS
from hspr.experiments.selection import run_selection
from hspr.experiments.simulate import simulate_bank
from hspr.experiments.study import Study
from hspr.models.errors import DataError
from hspr.models.responses import ResponseMatrix

BANK_SEED = 4721
CONTROLS = ["hspr-no-groups", "hspr-matched", "hspr-mean", "hspr-uniform", "hspr-mid-range"]
EVERY = [*METHODS, "hspr", *CONTROLS]
# Made of other runs, whose queries they share.
ON_PATHS_OF_HSPR = ("hspr-matched", "hspr-mean")
MEASURED = ["seconds", "cpu_seconds"]
SHARES = (0.05, 0.1, 0.2)

MakeStudy = Callable[..., Study]


def turned(bank: ResponseMatrix, agent: str, tasks: Sequence[int]) -> ResponseMatrix:
    """Return the bank with some outcomes of one agent turned round."""
    outcomes = bank.outcomes.copy(deep=True)
    row = bank.agents.index(agent)
    outcomes[row, list(tasks)] = 1 - outcomes[row, list(tasks)]
    return ResponseMatrix(outcomes, name=bank.name)


def untimed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns=MEASURED, errors="ignore").reset_index(drop=True)


def blind(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what no unqueried outcome of a target may change."""
    return untimed(frame).drop(columns=["truth", "error"])


@pytest.mark.parametrize("method", EVERY)
def test_runs_never_see_an_unqueried_outcome_of_the_target(
    study: Study, made_study: MakeStudy, tmp_path: Path, method: str
) -> None:
    fold = study.plan[0]
    agent, *others = fold.target
    before = study.runs(method)
    seeds = range(2) if before["seed"].max() else range(1)
    paths = study.runs("hspr") if method in ON_PATHS_OF_HSPR else before
    queried = {
        task
        for seed in seeds
        for task in paths.query("agent == @agent and seed == @seed")["queried"].iloc[0]
    }
    hidden = sorted(set(range(30)) - queried)
    assert len(hidden) >= 30 - 3 * len(seeds)
    changed = made_study(turned(study.bank, agent, hidden), tmp_path, plan=[fold])
    changed.record([method])
    after = changed.runs(method)
    # The target itself under the seeds whose queries were left alone, and the others of its fold,
    # for which it is no source agent, under all.
    same = after["agent"].isin(others) | after["seed"].isin(seeds)
    was = before[before["agent"].isin(fold.target)].reset_index(drop=True)
    pd.testing.assert_frame_equal(blind(after[same]), blind(was[same]), check_exact=True)
    truth = after.loc[after["agent"] == agent, "truth"].iloc[0]
    assert truth != study.bank.values[study.bank.agents.index(agent)].mean()


def test_runs_do_see_queried_outcomes_and_source_agents(
    study: Study, made_study: MakeStudy, tmp_path: Path
) -> None:
    fold = study.plan[0]
    for agent in (fold.target[0], fold.source[0]):
        everything = made_study(turned(study.bank, agent, range(30)), tmp_path, plan=[fold])
        for method in ("uniform", "rsl", "hspr"):
            was, now = (s.runs(method) for s in (study, everything))
            was = was[was["agent"].isin(fold.target)]
            changed = was["estimate"].to_numpy() != now["estimate"].to_numpy()
            # The mean of uniform queries needs no source.
            expected = method != "uniform" or agent in fold.target
            assert changed.any() == expected, method


def test_sweep_never_sees_an_unqueried_outcome_of_the_target(
    study: Study, made_study: MakeStudy, tmp_path: Path
) -> None:
    fold = study.plan[1]
    agent = fold.target[0]
    longest = made_study(study.bank, tmp_path / "longest", plan=[fold], budget=max(SHARES))
    paths = longest.runs("hspr").query("agent == @agent and seed == 0")
    hidden = sorted(set(range(30)) - set(paths["queried"].iloc[0]))
    changed = made_study(turned(study.bank, agent, hidden), tmp_path / "changed", plan=[fold])
    before, after = (
        frame[(frame["agent"] == agent) & (frame["seed"] == 0)]
        for frame in (study.sweep(SHARES), changed.sweep(SHARES))
    )
    assert len(before) == len(SHARES)
    pd.testing.assert_frame_equal(blind(after), blind(before), check_exact=True)
    assert after["truth"].iloc[0] != before["truth"].iloc[0]


@pytest.fixture(scope="module")
def selected(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Return a study that selects its configurations itself: 2 folds of 2 source agents."""
    bank = simulate_bank(agents=4, tasks=12, seed=BANK_SEED, name="selected")
    return selecting(bank, tmp_path_factory.mktemp("selected"))


def selecting(bank: ResponseMatrix, folder: Path) -> Study:
    plan = agent_folds(bank, folds=2)
    return Study(bank, folder, budget=0.2, plan=plan, nodes=64, selection_nodes=64)


def no_job(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> None:
    """Let every attempt to run a job fail."""

    def run_jobs(_: object, jobs: Sequence[object], **__: object) -> list[object]:
        assert not jobs, f"{len(jobs)} jobs are done again"
        return []

    for one in modules:
        monkeypatch.setattr(one, "run_jobs", run_jobs)


def test_selections_are_those_of_the_source_agents(selected: Study, tmp_path: Path) -> None:
    assert list(selected.selections) == [0, 1]
    fold = selected.plan[0]
    alone = run_selection(selected.bank.select(fold.source), budget=0.2, nodes=64)
    found = selected.selections[0]
    assert found.summary() == alone.summary()
    assert len(found.grid) == 44 + 16 + 2
    assert selected.configs[0] == found.config
    assert found.settings["agents"] == len(fold.source)
    assert len(list((selected.folder / "selections").iterdir())) == 2


def test_selections_never_see_a_target(
    selected: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {index: s.summary() for index, s in selected.selections.items()}
    for fold in selected.plan:
        bank = selected.bank
        for agent in fold.target:
            bank = turned(bank, agent, range(12))
        with monkeypatch.context() as patch:
            # The paths of the unchanged bank serve it: all that determines them is the same.
            no_job(patch, selection)
            plan = [fold]
            same = Study(bank, selected.folder, budget=0.2, plan=plan, nodes=64, selection_nodes=64)
            assert same.selections[fold.index].summary() == expected[fold.index]


def test_record_does_not_need_the_truth(
    made_study: MakeStudy, studies: list[Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = studies[1]
    names = ["uniform", "rsl", "hspr", "hspr-matched", "hspr-mean", "hspr-no-groups"]
    recorded = made_study("two", tmp_path)

    def unreadable(*_: object) -> None:
        raise OSError("the truth cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(module, "with_truth", unreadable)
        recorded.record(names)
        with pytest.raises(OSError, match="the truth cannot be read"):
            recorded.runs("hspr")
    files = {file.name for file in (tmp_path / "predictions").iterdir()}
    # The mean decides at the end of HSPR's runs and needs none of its own.
    for name in set(names) - {"hspr-mean", "hspr-matched"}:
        assert sum(file.startswith(f"{name}-two-") for file in files) == 1, name
    assert len(files) == len(names) - 1
    before = {file: file.read_bytes() for file in (tmp_path / "predictions").iterdir()}
    undisturbed = {name: calm.runs(name) for name in names}
    no_job(monkeypatch, predictions, controls)
    for name, runs in undisturbed.items():
        pd.testing.assert_frame_equal(untimed(recorded.runs(name)), untimed(runs), check_exact=True)
    for table in ("table6", "table7"):
        pd.testing.assert_frame_equal(
            RESULTS[table]([recorded]).frame, RESULTS[table]([calm]).frame, check_exact=True
        )
    assert all(file.read_bytes() == content for file, content in before.items())


def test_finished_study_runs_no_job_again(
    study: Study, made_study: MakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {name: study.runs(name) for name in EVERY}
    swept = study.sweep(SHARES)
    no_job(monkeypatch, predictions, controls)
    again = made_study(study.bank, study.folder, plan=study.plan)
    for name, runs in first.items():
        # The times too, which are those of the first.
        pd.testing.assert_frame_equal(again.runs(name), runs, check_exact=True)
    pd.testing.assert_frame_equal(again.sweep(SHARES), swept, check_exact=True)


def test_another_configuration_runs_anew(
    study: Study, made_study: MakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.runs("hspr")
    other = made_study(study.bank, study.folder, plan=study.plan)
    other.selections = {index: study.selections[0] for index in study.selections}
    no_job(monkeypatch, predictions)
    with pytest.raises(AssertionError, match="jobs are done again"):
        other.runs("hspr")


def test_runs_have_every_agent_and_seed_once_with_the_true_score(study: Study) -> None:
    scores = dict(zip(study.bank.agents, study.bank.values.mean(axis=1), strict=True))
    fold_of = {agent: fold.index for fold in study.plan for agent in fold.target}
    for name in EVERY:
        runs = study.runs(name)
        seeds = runs["seed"].max() + 1
        assert list(zip(runs["agent"], runs["seed"], strict=True)) == [
            (agent, seed) for agent in study.bank.agents for seed in range(seeds)
        ], name
        assert runs["fold"].tolist() == runs["agent"].map(fold_of).tolist()
        assert runs["truth"].tolist() == runs["agent"].map(scores).tolist()
        assert (runs["error"] == runs["estimate"] - runs["truth"]).all()
        if "queried" in runs:
            assert {len(set(queried)) for queried in runs["queried"]} == {study.budget} == {3}


def test_mean_decides_at_the_end_of_the_same_paths(study: Study) -> None:
    runs, means = study.runs("hspr"), study.runs("hspr-mean")
    assert means["queried"].tolist() == runs["queried"].tolist()
    for row in means.to_dict("records"):
        calibration = study.selections[row["fold"]].mean_calibration
        expected = row["mean"] + calibration * (1 - 3 / 30) * row["mean_residual"]
        assert row["estimate"] == pytest.approx(min(1.0, max(0.0, expected)), rel=1e-12)
    assert (means["estimate"] != runs["estimate"]).any()


def test_at_keeps_all_but_the_budget(study: Study) -> None:
    other = study.at(0.2)
    assert (other.share, other.budget) == (0.2, 6)
    for name in ("bank", "plan", "nodes", "selection_nodes", "folder"):
        assert getattr(other, name) == getattr(study, name), name
    assert {len(queried) for queried in other.runs("uniform")["queried"]} == {6}
    assert {len(queried) for queried in study.runs("uniform")["queried"]} == {3}


def published(bank: ResponseMatrix, name: str, seeds: int = 2) -> pd.DataFrame:
    """Return made-up frozen predictions, agents in another order than the bank's."""
    return pd.DataFrame(
        [
            {"bank": name, "agent": agent, "budget": 0.1, "estimate": 0.1 * seed + place / 50,
             "seed": seed}
            for place, agent in reversed([*enumerate(bank.agents)])
            for seed in range(seeds)
        ]
    )  # fmt: skip


def test_published_predictions_are_taken_as_they_are(
    study: Study, made_study: MakeStudy, tmp_path: Path
) -> None:
    frozen = published(study.bank, "one")
    with_frozen = made_study(study.bank, tmp_path, plan=study.plan, frozen=frozen)
    assert with_frozen.method_names == [*METHODS, "pta-irt", "hspr"]
    assert study.method_names == [*METHODS, "hspr"]
    runs = with_frozen.runs("pta-irt")
    assert len(runs) == 10
    for row in runs.to_dict("records"):
        place = study.bank.agents.index(row["agent"])
        assert row["estimate"] == pytest.approx(0.1 * row["seed"] + place / 50)
        assert row["agent"] in study.plan[row["fold"]].target
        assert row["truth"] == study.bank.values[place].mean()
    with pytest.raises(DataError, match="there are no published predictions"):
        study.runs("pta-irt")


def test_study_takes_the_four_folds_of_the_paper_unless_told(tmp_path: Path) -> None:
    bank = simulate_bank(agents=9, tasks=30, seed=BANK_SEED)
    study = Study(bank, tmp_path / "new" / "folder")
    assert study.plan == agent_folds(bank, folds=4, seed=42)
    assert (study.share, study.budget, study.nodes, study.selection_nodes) == (0.1, 3, 8192, 2048)
    assert (tmp_path / "new" / "folder").is_dir()


@pytest.mark.parametrize(
    ("missing", "message"),
    [("refuse", "lacks 1 of"), ("model", "need complete outcomes, but bank 'simulated'")],
)
def test_study_refuses_missing_outcomes(tmp_path: Path, missing: str, message: str) -> None:
    drawn = simulate_bank(agents=4, tasks=12, seed=BANK_SEED)
    values = drawn.values.copy()
    values[1, 2] = np.nan
    bank = ResponseMatrix.from_arrays(
        values, agents=drawn.agents, tasks=drawn.tasks, name=drawn.name
    )
    bank = bank if missing == "refuse" else bank.with_missing(missing)
    with pytest.raises(DataError, match=message):
        Study(bank, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_study_refuses_unknown_methods(study: Study) -> None:
    with pytest.raises(DataError, match=r"method must be one of uniform, .*hspr, got 'random'"):
        study.runs("random")
