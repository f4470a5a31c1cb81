"""HSPR among the compared methods is HSPR."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hspr.experiments.folds import agent_folds
from hspr.experiments.methods.hspr import hspr_method
from hspr.experiments.predictions import record_predictions
from hspr.experiments.replay import replay
from hspr.experiments.simulate import simulate_bank
from hspr.models.config import Config

BANK_SEED = 4751
BANK = simulate_bank(agents=4, tasks=24, seed=BANK_SEED)
PLAN = agent_folds(BANK, folds=2)
NODES = 64


@pytest.mark.parametrize(
    "config",
    [
        Config(rank=2, calibration=0.5),
        Config(rank=0, precision=0.25, kappa=0.25, criterion="latent", decision="mean"),
    ],
    ids=["score", "latent"],
)
def test_recorded_runs_are_those_of_a_replay(tmp_path: Path, config: Config) -> None:
    method = hspr_method(config, nodes=NODES)
    assert (method.name, method.title, method.seeds) == ("hspr", "HSPR", 5)
    method = replace(method, seeds=2)
    recorded = record_predictions(
        BANK, dict.fromkeys((0, 1), method), budget=5, plan=PLAN, settings={}, output_dir=tmp_path
    )
    replayed = replay(BANK, config, budget=5, seeds=range(2), folds=2, nodes=NODES).runs
    same = ["agent", "fold", "seed", "estimate", "median", "mean", "sd", "low", "high", "ess"]
    for column in [*same, "pareto_k", "trusted"]:
        assert recorded[column].tolist() == replayed[column].tolist(), column
    queried = [tuple(BANK.tasks[task] for task in tasks) for tasks in recorded["queried"]]
    assert queried == replayed["queried"].tolist()


def test_fit_reads_the_source_and_start_the_seed() -> None:
    fitted = hspr_method(Config(rank=1), nodes=NODES).fit(BANK.select(PLAN[0].source), 2)
    one, again = fitted.start(3), fitted.start(3)
    assert one.ask() == again.ask()
    asked = {fitted.start(seed).ask()[0] for seed in range(10)}
    groups = fitted.groups.group_of_task[list(asked)]  # type: ignore[attr-defined]
    assert len(set(groups)) == 1


def test_details_agree_with_the_estimate() -> None:
    run = hspr_method(Config(rank=1, calibration=0.5), nodes=NODES).fit(BANK, 2).start(0)
    while tasks := run.ask():
        run.tell(tasks[0], 1)
    found = run.details()  # type: ignore[attr-defined]
    assert found["estimate"] == run.estimate()
    decision = found["median"] + 0.5 * (1 - 2 / 24) * found["mean_residual"]
    assert found["estimate"] == pytest.approx(np.clip(decision, 0, 1))
    assert found["low"] <= found["median"] <= found["high"]
