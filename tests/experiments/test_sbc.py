"""The production sampler is calibrated; broken ones are not; runs resume and do not depend on jobs.

Equality across workers and after a kill is exact.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from hspr.experiments.pit_picture import plot_pit
from hspr.experiments.sbc import ROWS_FILE, Calibration, reference_groups, run_sbc
from hspr.experiments.sbc_agents import SCORE, draw_agents
from hspr.inference import sobol
from hspr.inference.family import RateFamily
from hspr.inference.nodes import WeightedNodes, evaluate_nodes
from hspr.inference.proposal import place_nodes
from hspr.models.config import Config
from hspr.models.errors import DataError
from hspr.models.groups import TaskGroups

SEED = 5201
CONFIG = Config(rank=1, precision=4.0, kappa=1.0)
# Nine outcomes: the nodes are placed, placed anew after the eighth, and reweighted once more.
FAST: dict[str, Any] = {"budget": 9, "nodes": 512, "draws": 2048, "seed": SEED}
SIMULATIONS = 100
# A broken sampler is found out with fewer.
BROKEN = 50
FEW = 6

# Runs the same simulations in a process that kills itself after some.
KILLED = """
import os, signal, sys
from hspr.experiments import checkpoint
from hspr.models.config import Config
from hspr.experiments.sbc import run_sbc
from test_sbc import CONFIG, FAST, make_groups

checkpoint._SECONDS_BETWEEN_SAVES = 0
add = checkpoint.Checkpoint.add

def add_and_die(self, number, row):
    add(self, number, row)
    if len(self.rows) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

checkpoint.Checkpoint.add = add_and_die
run_sbc(make_groups(), CONFIG, simulations=6, output_dir=sys.argv[1], **FAST)
"""


def make_groups() -> TaskGroups:
    """Six groups of 1 to 6 tasks, whose tasks do not stand group by group."""
    rng = np.random.default_rng(SEED)
    size = np.array([1, 6, 3, 2, 4, 2])
    group_of_task = rng.permutation(np.repeat(np.arange(6), size))
    return TaskGroups(
        group_of_task=group_of_task,
        size=size,
        intercept=rng.normal(0, 1.2, 6),
        slope=rng.uniform(0.5, 1.5, 6),
        # Faint, so that the prior matters: where the outcomes say much, a posterior without it has
        # the coverage of a confidence interval and its PIT is uniform too.
        loading=rng.normal(0, 0.15, (6, 1)),
        tasks=tuple(f"task-{index}" for index in range(18)),
        bank="made-up",
    )


def calibrate(simulations: int = SIMULATIONS, **settings: Any) -> Calibration:
    return run_sbc(make_groups(), CONFIG, simulations=simulations, **(FAST | settings))


@pytest.fixture(scope="module")
def sound() -> Calibration:
    """Calibration of the sampler as it is."""
    return calibrate()


def without_prior(family: RateFamily, arrays: WeightedNodes) -> None:
    """Weight by the likelihood alone."""
    evaluate_nodes(family, arrays)
    arrays.log_weight[:] -= family.evaluate(arrays.z)[2]


def without_proposal(*arguments: Any) -> tuple[np.ndarray, np.ndarray]:
    """Forget where the nodes came from."""
    z, log_density = place_nodes(*arguments)
    return z, np.zeros_like(log_density)


def test_production_sampler_is_calibrated(sound: Calibration) -> None:
    summary = sound.summary()
    assert set(summary["quantities"]) == {"z[ability]", "z[factor 1]", SCORE}
    assert summary["simulations"] == SIMULATIONS
    assert summary["passed"]
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize(
    ("name", "broken"),
    [("evaluate_nodes", without_prior), ("place_nodes", without_proposal)],
    ids=["without-prior", "without-proposal"],
)
def test_broken_sampler_fails_the_same_check(
    monkeypatch: pytest.MonkeyPatch, name: str, broken: Callable[..., Any]
) -> None:
    monkeypatch.setattr(sobol, name, broken)
    summary = calibrate(BROKEN).summary()
    assert not summary["passed"]
    assert not summary["inside"]


def test_killed_run_resumes_with_identical_results(sound: Calibration, tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    file = tmp_path / ROWS_FILE
    assert len(json.loads(file.read_text(encoding="utf-8"))["rows"]) == 3
    resumed = calibrate(FEW, output_dir=tmp_path)
    pd.testing.assert_frame_equal(resumed.pit, sound.pit[:FEW], check_exact=True)
    pd.testing.assert_frame_equal(resumed.runs, sound.runs[:FEW], check_exact=True)
    assert len(json.loads(file.read_text(encoding="utf-8"))["rows"]) == FEW


def test_finished_simulations_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = calibrate(2, output_dir=tmp_path)
    monkeypatch.setattr(sobol, "place_nodes", lambda *_: pytest.fail("a simulation ran again"))
    again = calibrate(2, output_dir=tmp_path)
    pd.testing.assert_frame_equal(again.pit, first.pit, check_exact=True)
    with pytest.raises(DataError, match=r"was made with seed = 5201, not 7"):
        calibrate(2, output_dir=tmp_path, seed=7)
    with pytest.raises(DataError, match=r"was made with bank = made-up, not simulated-72"):
        run_sbc(reference_groups(), CONFIG, simulations=2, output_dir=tmp_path, **FAST)


def test_two_workers_give_what_one_gives(sound: Calibration) -> None:
    two = calibrate(FEW, n_jobs=2)
    pd.testing.assert_frame_equal(two.pit, sound.pit[:FEW], check_exact=True)
    pd.testing.assert_frame_equal(two.runs, sound.runs[:FEW], check_exact=True)


def test_agents_come_from_the_declared_model_in_the_order_of_the_tasks() -> None:
    groups, count = make_groups(), 3000
    z, outcomes = draw_agents(groups, CONFIG, count, seed=SEED)
    again, _ = draw_agents(groups, CONFIG, 5, seed=SEED)
    np.testing.assert_array_equal(again, z[:5])
    loading = np.column_stack([groups.slope, groups.loading])
    sd = [CONFIG.ability_precision**-0.5, CONFIG.precision**-0.5]
    np.testing.assert_allclose(z.std(axis=0), sd, rtol=4 / np.sqrt(2 * count))
    p = expit(groups.intercept + z @ loading.T)[:, groups.group_of_task]
    error = (outcomes - p).mean(axis=0) / np.sqrt((p * (1 - p)).mean(axis=0) / count)
    assert np.abs(error).max() < 4
    # Tasks of one group share a rate beyond its mean, others do not.
    same = groups.group_of_task[:, None] == groups.group_of_task
    correlation = np.cov((outcomes - p).T)
    off = ~np.eye(len(p.T), dtype=bool)
    assert correlation[same & off].mean() > 0.01 > 5 * abs(correlation[~same].mean())


def test_picture_shows_every_quantity_with_its_band(sound: Calibration) -> None:
    collection = plot_pit(sound)
    axes = [collection.viz["plot"][name].item() for name in sound.pit]
    assert [a.get_title().split(",")[0] for a in axes] == list(sound.pit)
    assert all(a.collections for a in axes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"simulations": 1}, "simulations must be a whole number from 2, got 1"),
        ({"simulations": 2.5}, "simulations must be a whole number from 2, got 2.5"),
        ({"draws": 0}, "draws must be a whole number from 1, got 0"),
        ({"seed": -1}, "seed must be a whole number from 0, got -1"),
        ({"nodes": 100}, "100"),
        ({"proposal": "cauchy"}, "proposal must be one of gaussian, student, got 'cauchy'"),
        ({"budget": 19}, "budget must be from 0 to 18 tasks, got 19"),
        ({"n_jobs": 0}, "n_jobs must be a whole number other than 0, got 0"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_written(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "made"
    with pytest.raises(DataError, match=message):
        calibrate(**(settings | {"output_dir": folder}))
    assert not folder.exists()
