"""Source-only selection against a plain re-implementation; leaks, interruptions, errors."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_expit

from hspr.acquisition.criteria import latent_gain, score_gain
from hspr.experiments import selection as module
from hspr.experiments import selection_jobs
from hspr.experiments.selection import (
    KAPPAS,
    NO_GROUP_KAPPA,
    PRIORS,
    Selection,
    _choose,
    run_selection,
    select_config,
)
from hspr.experiments.selection_jobs import SEEDS, Job, Setting
from hspr.experiments.simulate import simulate_bank
from hspr.inference.decision import score_posterior
from hspr.inference.sobol import SobolSampler
from hspr.models.config import Config
from hspr.models.declaration import build_model
from hspr.models.errors import DataError
from hspr.models.groups import TaskGroups, group_tasks
from hspr.models.items import fit_items
from hspr.models.responses import ResponseMatrix

BANK_SEED = 4928
TARGETS_SEED = 4922
HOLES_SEED = 4923
KILL_SEED = 4924
KILLS = 3

ALL = simulate_bank(agents=9, tasks=24, seed=BANK_SEED)
BANK, TARGETS = ALL.select(ALL.agents[:6]), ALL.agents[6:]
NODES = 256
BUDGET = 4
FAST: dict[str, Any] = {"budget": BUDGET, "nodes": NODES}
JOBS = 3 * 6


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "paths" / "of selections"


@pytest.fixture(scope="module")
def selection(cache: Path) -> Selection:
    return run_selection(BANK, **FAST, cache_dir=cache)


@pytest.fixture
def finished(selection: Selection, cache: Path, tmp_path: Path) -> Path:
    """A folder of its own with all rows of the selection."""
    (file,) = cache.iterdir()
    (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def keep_rows(folder: Path, keep: Callable[[int], bool]) -> int:
    """Drop finished rows from the file, as if an interruption had come before them."""
    (file,) = folder.iterdir()
    content = json.loads(file.read_text(encoding="utf-8"))
    content["rows"] = {n: row for n, row in content["rows"].items() if keep(int(n))}
    file.write_text(json.dumps(content), encoding="utf-8")
    return len(content["rows"])


def counted(monkeypatch: pytest.MonkeyPatch, *, interrupt_at: int | None = None) -> list[Job]:
    """Record the jobs that run; the one of the given number is interrupted instead."""
    run: list[Job] = []

    def run_job(job: Job) -> tuple[int, dict[str, Any]]:
        if len(run) == interrupt_at:
            raise KeyboardInterrupt
        run.append(job)
        return selection_jobs.run_job(job)

    monkeypatch.setattr(module, "run_job", run_job)
    return run


# The plain re-implementation: section 1 of the method, setting by setting, without sharing.


def calibrated(center: float, residual: float, outcomes: np.ndarray) -> list[float]:
    """Absolute errors in percentage points, without and with half of the residual."""
    left = 1 - BUDGET / len(outcomes)
    estimates = [center + share * left * residual for share in (0.0, 0.5)]
    return [100 * abs(min(max(value, 0.0), 1.0) - outcomes.mean()) for value in estimates]


def choose(errors: dict[tuple[Any, ...], np.ndarray]) -> tuple[Any, ...]:
    """Least mean error, then least maximum over agents, then the first; arrays (m, seeds)."""
    best: tuple[Any, ...] | None = None
    least = (np.inf, np.inf)
    for key, values in errors.items():
        found = (round(values.mean(), 9), round(values.mean(axis=1).max(), 9))
        if found < least:
            best, least = key, found
    assert best is not None
    return best


class Plain:
    """The three stages, one run after another."""

    def __init__(self, source: ResponseMatrix) -> None:
        self.folds: list[tuple[TaskGroups, np.ndarray]] = []
        for agent in source.agents:
            rest = source.select(other for other in source.agents if other != agent)
            outcomes = source.outcomes.sel(agent=agent).values.astype(int)
            self.folds.append((group_tasks(rest, fit_items(rest)), outcomes))
        self.errors: dict[str, dict[tuple[Any, ...], np.ndarray]] = {}
        self.smallest_lead = np.inf

    def run(self) -> tuple[Config, float]:
        priors = [(r, g) for r in (1, 2, 4) for g in (1, 4, 8)] + [(0, 0.25), (0, 1)]
        found = self.errors["global"] = {}
        for rank, precision in priors:
            means, _ = self.stage(rank, precision, NO_GROUP_KAPPA, seeds=(None,))
            found |= {(rank, precision, None, *place): error for place, error in means.items()}
        rank, precision, *_ = choose(found)

        found, medians = {}, {}
        for kappa in (0.25, 1, 4, 16):
            means, samplers = self.stage(rank, precision, kappa, seeds=(0, 1, 2))
            for (criterion, calibration), error in means.items():
                found[rank, precision, kappa, criterion, calibration] = error
                medians[kappa, criterion] = samplers[criterion]
        self.errors["hierarchical"] = found
        _, _, kappa, criterion, mean_calibration = choose(found)

        found = self.errors["median"] = {}
        for position, calibration in enumerate((0.0, 0.5)):
            errors = []
            for finals, (_, outcomes) in zip(medians[kappa, criterion], self.folds, strict=True):
                scores = [score_posterior(sampler.state()) for sampler in finals]
                pairs = [calibrated(s.median, s.mean_residual, outcomes) for s in scores]
                errors.append([pair[position] for pair in pairs])
            found[rank, precision, kappa, criterion, calibration] = np.array(errors)
        return Config(*choose(found)), mean_calibration

    def stage(
        self, rank: int, precision: float, kappa: float, seeds: tuple[int | None, ...]
    ) -> tuple[dict[tuple[str, float], np.ndarray], dict[str, list[list[SobolSampler]]]]:
        """Errors (m, seeds) by criterion and calibration, and the samplers at the end."""
        starts = [
            SobolSampler(build_model(groups, Config(rank, precision, kappa)), nodes=NODES)
            for groups, _ in self.folds
        ]
        errors, samplers = {}, {}
        for criterion in ("score", "latent"):
            samplers[criterion] = [
                [self.walk(*fold, start.copy(), criterion, seed) for seed in seeds]
                for start, fold in zip(starts, self.folds, strict=True)
            ]
            pairs = [
                [self.mean_errors(sampler, outcomes) for sampler in row]
                for row, (_, outcomes) in zip(samplers[criterion], self.folds, strict=True)
            ]
            for position, calibration in enumerate((0.0, 0.5)):
                values = [[pair[position] for pair in row] for row in pairs]
                errors[criterion, calibration] = np.array(values)
        return errors, samplers

    def walk(
        self,
        groups: TaskGroups,
        outcomes: np.ndarray,
        sampler: SobolSampler,
        criterion: str,
        seed: int | None,
    ) -> SobolSampler:
        """Query the best group's first open task, or with a seed one of its open tasks."""
        gain = {"score": score_gain, "latent": latent_gain}[criterion]
        rng = None if seed is None else np.random.default_rng(seed)
        left = list(range(len(outcomes)))
        for _ in range(BUDGET):
            gains = gain(sampler.state())
            best = int(np.argmax(gains))
            second, first = np.sort(gains)[-2:]
            self.smallest_lead = min(self.smallest_lead, (first - second) / first)
            offered = [task for task in left if groups.group_of_task[task] == best]
            task = offered[0 if rng is None else rng.integers(len(offered))]
            left.remove(task)
            sampler.update(best, int(outcomes[task]))
        return sampler

    def mean_errors(self, sampler: SobolSampler, outcomes: np.ndarray) -> list[float]:
        arrays = sampler.arrays
        expected = arrays.trials @ (arrays.mean_rate @ arrays.weight)
        residual = (arrays.successes.sum() - expected) / BUDGET
        return calibrated(arrays.weight @ arrays.mean_score, residual, outcomes)


def test_run_selection_equals_a_plain_implementation(selection: Selection) -> None:
    plain = Plain(BANK)
    config, mean_calibration = plain.run()
    # Rounding cannot turn any query: the selection's samplers are compact.
    assert plain.smallest_lead > 1e-5
    assert selection.config == config
    assert selection.config.decision == "median"
    assert selection.mean_calibration == mean_calibration
    rows = selection.grid.to_dict("records")
    expected = [(stage, *place) for stage, found in plain.errors.items() for place in found]
    names = ("stage", "rank", "precision", "kappa", "criterion", "calibration")
    for row, place in zip(rows, expected, strict=True):
        assert tuple(row[name] for name in names) == place
        errors = plain.errors[place[0]][place[1:]]
        assert row["mae"] == pytest.approx(errors.mean(), abs=1e-4)
        assert row["max_error"] == pytest.approx(errors.mean(axis=1).max(), abs=1e-4)


def test_grid_is_44_16_and_2_settings_in_order_with_one_winner_a_stage(
    selection: Selection,
) -> None:
    grid = selection.grid
    counts = grid.groupby("stage", sort=False)["selected"].agg(["size", "sum"])
    assert counts.to_dict("index") == {
        "global": {"size": 44, "sum": 1},
        "hierarchical": {"size": 16, "sum": 1},
        "median": {"size": 2, "sum": 1},
    }
    assert len(PRIORS) == 11 and KAPPAS == (0.25, 1.0, 4.0, 16.0) and SEEDS == (0, 1, 2)
    first, second, third = (part for _, part in grid.groupby("stage", sort=False))
    priors = list(zip(first["rank"], first["precision"], strict=True))[::4]
    ranks = [(r, g) for r in (1, 2, 4) for g in (1.0, 4.0, 8.0)]
    assert priors == [*ranks, (0, 0.25), (0, 1.0)]
    pairs = [("score", 0.0), ("score", 0.5), ("latent", 0.0), ("latent", 0.5)]
    for part, repeats in ((first, 11), (second, 4)):
        assert list(zip(part["criterion"], part["calibration"], strict=True)) == pairs * repeats
    assert first["kappa"].isna().all()
    assert second["kappa"].tolist() == [kappa for kappa in KAPPAS for _ in pairs]
    assert third["calibration"].tolist() == [0.0, 0.5]
    # Each stage starts from what the one before has kept.
    kept, path = (part[part["selected"]].iloc[0] for part in (first, second))
    assert second[["rank", "precision"]].drop_duplicates().values.tolist() == [
        [kept["rank"], kept["precision"]]
    ]
    same = ["rank", "precision", "kappa", "criterion"]
    assert (third[same] == path[same]).all(axis=None)
    winner = third[third["selected"]].iloc[0]
    assert selection.config == Config(*winner[[*same, "calibration"]])
    assert selection.mean_calibration == path["calibration"]


SETTINGS = (Setting(1, 1.0, 4.0, "score"), Setting(2, 1.0, 4.0, "latent"))


def made_rows(errors: dict[int, list[list[list[float]]]]) -> list[dict[str, Any]]:
    """Rows of agents from errors by setting: agent, seed, calibration."""
    agents = len(errors[0])
    return [
        {
            "agent": f"a{agent}",
            "paths": [
                {**SETTINGS[which]._asdict(), "seed": seed, "errors": pair}
                for which, by_agent in errors.items()
                for seed, pair in enumerate(by_agent[agent])
            ],
        }
        for agent in range(agents)
    ]


@pytest.mark.parametrize(
    ("errors", "winner", "calibration"),
    [
        # The least mean, whatever the maximum.
        ({0: [[[0.2, 0.9]], [[0.2, 0.9]]], 1: [[[0.0, 0.9]], [[0.39, 0.9]]]}, 1, 0.0),
        # Equal means: the smaller maximum, also of a later setting.
        ({0: [[[0.1, 0.9]], [[0.3, 0.9]]], 1: [[[0.9, 0.2]], [[0.9, 0.2]]]}, 1, 0.5),
        # All equal: the first.
        ({0: [[[0.9, 0.2]], [[0.9, 0.3]]], 1: [[[0.3, 0.2]], [[0.2, 0.3]]]}, 0, 0.5),
        # The maximum is one over agents of the average over seeds, not over single runs.
        (
            {
                0: [[[0.2, 0.9], [0.2, 0.9]], [[0.1, 0.9], [0.1, 0.9]]],
                1: [[[0.4, 0.9], [-0.1, 0.9]], [[0.15, 0.9], [0.15, 0.9]]],
            },
            1,
            0.0,
        ),
        # Ties despite rounding: 0.1 + 0.2 is not 0.3 in binary.
        ({0: [[[0.1 + 0.2, 0.9]], [[0.3, 0.9]]], 1: [[[0.3, 0.9]], [[0.3, 0.9]]]}, 0, 0.0),
    ],
    ids=["mean", "maximum", "first", "averaged seeds", "rounding"],
)
def test_choose_breaks_ties_as_stated(
    errors: dict[int, list[list[list[float]]]], winner: int, calibration: float
) -> None:
    stage = _choose("hierarchical", SETTINGS, made_rows(errors))
    assert (stage.winner, stage.calibration) == (SETTINGS[winner], calibration)
    assert stage.grid["selected"].tolist() == [
        (which, share) == (winner, calibration) for which in (0, 1) for share in (0.0, 0.5)
    ]
    means = [
        100 * np.mean([path[i] for agent in errors[which] for path in agent])
        for which in (0, 1)
        for i in (0, 1)
    ]
    assert stage.grid["mae"].tolist() == pytest.approx(means)


@pytest.mark.parametrize("rank", [0, 2])
def test_no_group_kappa_is_the_model_without_group_uncertainty(rank: int) -> None:
    """Weights from the Bernoulli likelihood of the logits, at the sampler's own nodes."""
    groups = group_tasks(BANK, fit_items(BANK))
    trials = groups.size.copy()
    successes = trials // 2
    trials[::3] = successes[::3] = 0
    config = Config(rank, 1.0, NO_GROUP_KAPPA)
    model = build_model(groups, config, successes=successes, trials=trials)
    sampler = SobolSampler(model, nodes=NODES)
    arrays, proposal = sampler.arrays, sampler.proposal
    loading = np.column_stack([groups.slope, groups.loading[:, :rank]])
    eta = groups.intercept + arrays.z @ loading.T
    precision = np.array([0.25, 1.0, 1.0])[: 1 + rank] if rank else np.array([1.0])
    away = np.linalg.solve(proposal.factor, (arrays.z - proposal.center).T)
    log_weight = (
        log_expit(eta) @ successes
        + log_expit(-eta) @ (trials - successes)
        - 0.5 * arrays.z**2 @ precision
        + 0.5 * (away**2).sum(axis=0)
    )
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    np.testing.assert_allclose(arrays.weight, weight, rtol=1e-8)
    p = 1 / (1 + np.exp(-eta))
    mean_score = (successes.sum() + p @ (groups.size - trials)) / 24
    np.testing.assert_allclose(arrays.mean_score, mean_score, atol=1e-6)


def test_select_config_is_the_selected_one(selection: Selection, finished: Path) -> None:
    assert select_config(BANK, **FAST, cache_dir=finished) == selection.config


def test_summary_is_json_with_settings_config_and_grid(selection: Selection) -> None:
    summary = selection.summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert (summary["bank"], summary["agents"], summary["tasks"]) == (BANK.name, 6, 24)
    assert (summary["budget"], summary["nodes"], summary["seeds"]) == (BUDGET, NODES, [0, 1, 2])
    assert summary["config"] == selection.config.to_dict()
    assert len(summary["grid"]) == 62
    assert {row["kappa"] for row in summary["grid"][:44]} == {None}


def test_run_selection_leaves_its_input_alone(selection: Selection) -> None:
    fresh = simulate_bank(agents=9, tasks=24, seed=BANK_SEED)
    np.testing.assert_array_equal(BANK.values, fresh.select(fresh.agents[:6]).values)


def test_rows_of_targets_change_nothing(
    selection: Selection, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has to be computed anew, and the digest says that nothing of the source differs."""
    values = ALL.values.copy()
    values[6:] = np.random.default_rng(TARGETS_SEED).integers(0, 2, values[6:].shape)
    changed = ResponseMatrix.from_arrays(
        values, agents=ALL.agents, tasks=ALL.tasks, name=ALL.name
    ).select(ALL.agents[:6])
    jobs = counted(monkeypatch)
    again = run_selection(changed, **FAST, cache_dir=finished)
    assert jobs == []
    assert again.summary() == selection.summary()
    assert again.settings["source"] == selection.settings["source"]


def test_a_complete_cache_is_not_computed_again(
    selection: Selection, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = counted(monkeypatch)
    again = run_selection(BANK, **FAST, cache_dir=finished)
    assert jobs == []
    assert again.summary() == selection.summary()
    pd.testing.assert_frame_equal(again.grid, selection.grid, check_exact=True)


@pytest.mark.parametrize("lost", [{3}, {8, 11}, {14}, {0, 7, 17}], ids=str)
def test_only_missing_rows_are_computed(
    lost: set[int], selection: Selection, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_rows(finished, lambda number: number not in lost)
    jobs = counted(monkeypatch)
    again = run_selection(BANK, **FAST, cache_dir=finished)
    assert {job.number for job in jobs} == lost
    assert len(jobs) == len(lost)
    assert {(job.stage, job.agent) for job in jobs} == {
        (("global", "hierarchical", "median")[number // 6], BANK.agents[number % 6])
        for number in lost
    }
    assert again.summary() == selection.summary()


def test_an_interrupted_selection_keeps_what_it_has(
    selection: Selection, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_rows(finished, lambda number: number < 9)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        counted(patched, interrupt_at=2)
        run_selection(BANK, **FAST, cache_dir=finished)
    assert keep_rows(finished, lambda number: True) == 11
    jobs = counted(monkeypatch)
    again = run_selection(BANK, **FAST, cache_dir=finished)
    assert [job.number for job in jobs] == list(range(11, JOBS))
    assert again.summary() == selection.summary()


@pytest.mark.parametrize(
    "change",
    [{"budget": BUDGET + 1}, {"nodes": 512}, {"budget": BUDGET / 24}, {"source": "cell"}],
    ids=["budget", "nodes", "share", "outcome"],
)
def test_paths_of_other_settings_are_not_taken(
    change: dict[str, Any], finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, (old,) = BANK, finished.iterdir()
    before = old.read_bytes()
    settings = FAST | {name: value for name, value in change.items() if name != "source"}
    if "source" in change:
        values = BANK.values.copy()
        values[5, 23] = 1 - values[5, 23]
        bank = ResponseMatrix.from_arrays(
            values, agents=BANK.agents, tasks=BANK.tasks, name=BANK.name
        )
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        counted(patched, interrupt_at=0)
        run_selection(bank, **settings, cache_dir=finished)
    assert old.read_bytes() == before
    assert len([*finished.iterdir()]) == 2


@pytest.mark.slow
def test_run_selection_does_not_depend_on_the_number_of_workers(selection: Selection) -> None:
    parallel = run_selection(BANK, **FAST, n_jobs=2)
    pd.testing.assert_frame_equal(parallel.grid, selection.grid, check_exact=True)
    assert parallel.summary() == selection.summary()


SCRIPT = f"""
import json, sys
from hspr.experiments import checkpoint
from hspr.experiments.selection import run_selection
from hspr.experiments.simulate import simulate_bank
checkpoint._SECONDS_BETWEEN_SAVES = 0.2
bank = simulate_bank(agents=9, tasks=24, seed={BANK_SEED})
print("started", flush=True)
found = run_selection(bank.select(bank.agents[:6]), budget={BUDGET}, nodes={NODES},
                      cache_dir=sys.argv[1])
print(json.dumps(found.summary()))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_selection_ends_with_the_same_numbers(
    selection: Selection, tmp_path: Path
) -> None:
    moments = random.Random(KILL_SEED)
    finished = []
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            time.sleep(moments.uniform(0.3, 3.0))
        finally:
            process.kill()
            process.communicate()
        rows = [len(json.loads(file.read_text())["rows"]) for file in tmp_path.glob("*.json")]
        finished.append(sum(rows))
    # What was finished stays finished, and the kills came before the end.
    assert finished == sorted(finished)
    assert 0 < finished[-1] < JOBS, finished
    last = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert json.loads(last.stdout.splitlines()[-1]) == selection.summary()


def holed() -> ResponseMatrix:
    values = BANK.values[:3].copy()
    values[np.random.default_rng(HOLES_SEED).random(values.shape) < 0.15] = np.nan
    return ResponseMatrix.from_arrays(values, agents=BANK.agents[:3], tasks=BANK.tasks)


def test_run_selection_under_model_walks_the_tasks_that_an_agent_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The smallest grid that has every stage: this is about tasks, not about settings.
    monkeypatch.setattr(module, "PRIORS", ((1, 4.0),))
    monkeypatch.setattr(module, "KAPPAS", (1.0,))
    bank = holed().with_missing("model")
    found = run_selection(bank, budget=0.25, nodes=NODES, cache_dir=tmp_path)
    assert (found.config.rank, found.config.precision, found.config.kappa) == (1, 4.0, 1.0)
    assert (found.settings["missing"], found.settings["share"]) == ("model", 0.25)
    (file,) = tmp_path.iterdir()
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    for number, agent in enumerate(bank.agents):
        known = int(bank.outcomes.sel(agent=agent).notnull().sum())
        assert known < 24
        for path in rows[str(3 + number)]["paths"]:
            assert len(set(path["tasks"])) == len(path["tasks"]) == round(0.25 * known)
            assert set(path["tasks"]) <= set(range(known))
    assert found.grid["mae"].notna().all()


def test_run_selection_refuses_missing_outcomes_without_a_policy() -> None:
    with pytest.raises(DataError, match=r"lacks \d+ of 72 outcomes"):
        run_selection(holed(), **FAST)


def test_run_selection_refuses_an_agent_without_outcomes() -> None:
    values = BANK.values.copy()
    values[4] = np.nan
    bank = ResponseMatrix.from_arrays(values, agents=BANK.agents, tasks=BANK.tasks)
    with pytest.raises(
        DataError, match=f"source agent '{BANK.agents[4]}' has no outcome; leave it out"
    ):
        run_selection(bank.with_missing("model"), **FAST)


def test_run_selection_refuses_one_source_agent() -> None:
    with pytest.raises(DataError, match=f"has only '{BANK.agents[0]}'; add source agents"):
        run_selection(BANK.select(BANK.agents[:1]), **FAST)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": -1}, "budget must be from 0 to 24 tasks, got -1"),
        ({"budget": 25}, "budget must be from 0 to 24 tasks, got 25"),
        ({"budget": 1.5}, "budget as a share must be from 0.0 to 1.0, got 1.5"),
        ({"budget": "10%"}, "budget must be a number, got '10%'"),
        ({"nodes": 1000}, "nodes must be a power of two"),
        ({"n_jobs": 0}, "n_jobs must be a whole number other than 0, got 0"),
        ({"n_jobs": 1.5}, "n_jobs must be a whole number other than 0, got 1.5"),
    ],
)
def test_run_selection_refuses_bad_settings(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        run_selection(BANK, **(FAST | {"cache_dir": tmp_path / "made"} | settings))


def test_run_selection_refuses_a_cache_that_is_no_folder_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = counted(monkeypatch)
    file = tmp_path / "file"
    file.write_text("taken")
    for place in (file, file / "below"):
        with pytest.raises(DataError, match="cannot make the folder"):
            run_selection(BANK, **FAST, cache_dir=place)
    assert jobs == []
    assert file.read_text() == "taken"


def test_run_selection_refuses_a_cache_of_something_else(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = counted(monkeypatch)
    (file,) = finished.iterdir()
    content = json.loads(file.read_text(encoding="utf-8"))
    content["settings"]["nodes"] = 1
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match="was made with nodes = 1, not 256; remove it"):
        run_selection(BANK, **FAST, cache_dir=finished)
    assert jobs == []
