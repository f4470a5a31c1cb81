"""A comparison of all methods on two tiny banks, with configurations given and not selected."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hspr.experiments.folds import agent_folds
from hspr.experiments.selection import Selection
from hspr.experiments.simulate import simulate_bank
from hspr.experiments.study import Study
from hspr.models.config import Config
from hspr.models.responses import ResponseMatrix

BANK_SEEDS = {"one": 4701, "two": 4702}
AGENTS = [
    "2024_claude3opus",
    "agent|gpt-4",
    "o1 and sonnet",
    "qwen",
    "агент é",
]
# Agents, tasks and folds.
SHAPES = {"one": (5, 30, 2), "two": (4, 20, 2)}
CONFIGS = (
    Config(rank=2, precision=1.0, kappa=1.0, calibration=0.5),
    Config(rank=0, precision=0.25, kappa=0.25, criterion="latent"),
)
MEAN_CALIBRATIONS = (0.0, 0.5)
# Few nodes, since nothing here is about accuracy.
NODES = 256

MakeStudy = Callable[..., Study]


def small_bank(name: str) -> ResponseMatrix:
    """Return one of the banks, with agents of several families."""
    agents, tasks, _ = SHAPES[name]
    drawn = simulate_bank(agents=agents, tasks=tasks, seed=BANK_SEEDS[name])
    return ResponseMatrix.from_arrays(
        drawn.values, agents=AGENTS[:agents], tasks=drawn.tasks, name=name
    )


def given_selection(index: int, bank: ResponseMatrix, source: Sequence[str]) -> Selection:
    """Return what a selection on a fold would, without making one."""
    grid = pd.DataFrame(
        {"stage": ["global", "median"], "mae": [9.0, 2.0 + index], "selected": [True, True]}
    )
    settings = {"bank": bank.name, "agents": len(source)}
    return Selection(CONFIGS[index], MEAN_CALIBRATIONS[index], grid, settings)


@pytest.fixture(scope="session")
def made_study() -> MakeStudy:
    """Return a function that makes a study of a bank with the given configurations."""

    def make(bank: ResponseMatrix | str, folder: Path, **settings: Any) -> Study:
        if isinstance(bank, str):
            bank = small_bank(bank)
        plan = settings.pop("plan", None) or agent_folds(bank, folds=SHAPES[bank.name][2])
        study = Study(bank, folder, plan=plan, nodes=NODES, selection_nodes=NODES, **settings)
        study.selections = {
            fold.index: given_selection(fold.index, bank, fold.source) for fold in plan
        }
        return study

    return make


@pytest.fixture(scope="session")
def study(made_study: MakeStudy, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Return the study of the first bank: 5 agents, 30 tasks, budget 3."""
    return made_study("one", tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="session")
def studies(
    study: Study, made_study: MakeStudy, tmp_path_factory: pytest.TempPathFactory
) -> list[Study]:
    """Return the studies of both banks; the second has 4 agents, 20 tasks, budget 2."""
    return [study, made_study("two", tmp_path_factory.mktemp("two"))]
