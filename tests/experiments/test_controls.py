"""Controls against the sampler itself, dense quadrature, and the runs whose paths they share."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from hspr.experiments.controls import budget_sweep, matched_paths
from hspr.experiments.folds import agent_folds
from hspr.experiments.selection import NO_GROUP_KAPPA
from hspr.experiments.simulate import simulate_bank
from hspr.experiments.study import Study
from hspr.inference.sobol import SobolSampler
from hspr.models.config import Config
from hspr.models.declaration import build_model
from hspr.models.groups import TaskGroups, group_tasks
from hspr.models.items import fit_items
from hspr.models.responses import ResponseMatrix

BANK_SEED = 4741
# More queries than lie between two refreshes of the proposal.
BANK = simulate_bank(agents=4, tasks=30, seed=BANK_SEED)
PLAN = agent_folds(BANK, folds=2)
NODES = 1024
BUDGET = 11

MakeStudy = Callable[..., Study]


def groups_of(bank: ResponseMatrix, source: tuple[str, ...]) -> TaskGroups:
    matrix = bank.select(source)
    return group_tasks(matrix, fit_items(matrix))


def random_runs() -> pd.DataFrame:
    """Return paths that nobody chose, one of them twice."""
    rng = np.random.default_rng(BANK_SEED)
    rows = []
    for agent in BANK.agents:
        paths = [tuple(map(int, rng.permutation(30)[:BUDGET])) for _ in range(2)]
        rows += [
            {"agent": agent, "seed": seed, "queried": path}
            for seed, path in enumerate([*paths, paths[0]])
        ]
    return pd.DataFrame(rows)


def matched(folder: Path, config: Config, calibration: float) -> pd.DataFrame:
    return matched_paths(
        BANK,
        random_runs(),
        plan=PLAN,
        configs=dict.fromkeys((0, 1), config),
        calibrations=dict.fromkeys((0, 1), calibration),
        nodes=NODES,
        output_dir=folder,
    )


@pytest.mark.parametrize("calibration", [0.0, 0.5])
def test_matched_paths_are_the_sampler_told_the_same_without_groups(
    tmp_path: Path, calibration: float
) -> None:
    config = Config(rank=2, precision=1.0, kappa=1.0, calibration=0.5)
    found = matched(tmp_path, config, calibration)
    paths = random_runs()
    assert found[["agent", "seed"]].equals(paths[["agent", "seed"]])
    for row, queried in zip(found.to_dict("records"), paths["queried"], strict=True):
        fold = PLAN[row["fold"]]
        assert row["agent"] in fold.target
        groups = groups_of(BANK, fold.source)
        model = build_model(groups, replace(config, kappa=NO_GROUP_KAPPA))
        sampler = SobolSampler(model, nodes=NODES)
        solved, tried = np.zeros(len(groups.size)), np.zeros(len(groups.size))
        for task in queried:
            group, outcome = (
                groups.group_of_task[task],
                int(BANK.outcomes.sel(agent=row["agent"])[task]),
            )
            sampler.update(group, outcome)
            solved[group] += outcome
            tried[group] += 1
        nodes = sampler.state()["importance"].to_dataset()
        weight = np.exp(nodes["log_weight"].values - nodes["log_weight"].values.max())
        rate = (weight / weight.sum()) @ nodes["mean_rate"].transpose("node", ...).values
        mean = (solved.sum() + rate @ (groups.size - tried)) / 30
        residual = (solved.sum() - tried @ rate) / BUDGET
        expected = mean + calibration * (1 - BUDGET / 30) * residual
        assert row["estimate"] == pytest.approx(min(1, max(0, expected)), rel=1e-9)


@pytest.mark.parametrize("precision", [0.25, 1.0])
def test_matched_paths_without_groups_are_a_logistic_model(
    tmp_path: Path, precision: float
) -> None:
    """At rank 0 the posterior is an integral over one ability, taken on a dense grid."""
    found = matched(tmp_path, Config(rank=0, precision=precision, kappa=0.25), 0.0)
    ability = np.linspace(-12, 12, 4001)
    for row, queried in zip(found.to_dict("records"), random_runs()["queried"], strict=True):
        groups = groups_of(BANK, PLAN[row["fold"]].source)
        y = BANK.outcomes.sel(agent=row["agent"]).values[list(queried)]
        rate = expit(groups.intercept + np.outer(ability, groups.slope))[:, groups.group_of_task]
        asked = rate[:, list(queried)]
        log_weight = np.log(np.where(y == 1, asked, 1 - asked)).sum(axis=1)
        log_weight -= precision * ability**2 / 2
        weight = np.exp(log_weight - log_weight.max())
        rest = np.setdiff1d(np.arange(30), queried)
        mean = (y.sum() + weight @ rate[:, rest].sum(axis=1) / weight.sum()) / 30
        assert row["estimate"] == pytest.approx(mean, abs=1e-3)


def test_matched_paths_take_equal_queries_for_equal(tmp_path: Path) -> None:
    found = matched(tmp_path, Config(rank=1), 0.5).pivot(
        index="agent", columns="seed", values="estimate"
    )
    assert (found[0] == found[2]).all()
    assert (found[0] != found[1]).any()


def sweep(folder: Path, budgets: list[int], seeds: list[int]) -> pd.DataFrame:
    return budget_sweep(
        BANK,
        plan=PLAN,
        configs={0: Config(rank=1, calibration=0.5), 1: Config(rank=0, precision=1.0)},
        budgets=budgets,
        seeds=seeds,
        nodes=64,
        output_dir=folder,
    )


def test_sweep_at_the_main_budget_is_the_main_run_exactly(study: Study) -> None:
    swept = study.sweep((0.05, 0.1, 0.15, 0.2))
    assert sorted(set(swept["budget"])) == [2, 3, 4, 6]
    main = swept[swept["budget"] == study.budget].reset_index(drop=True)
    runs = study.runs("hspr")
    for column in ("agent", "fold", "seed", "estimate", "truth"):
        assert main[column].tolist() == runs[column].tolist(), column


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_sweep_at_another_budget_is_the_run_at_it(
    study: Study, made_study: MakeStudy, tmp_path: Path, share: float
) -> None:
    fold = study.plan[0]
    alone = made_study(study.bank, tmp_path, plan=[fold], budget=share)
    runs = alone.runs("hspr")
    swept = study.sweep((0.05, 0.1, 0.15, 0.2))
    at = swept[(swept["budget"] == alone.budget) & swept["agent"].isin(fold.target)]
    assert at["estimate"].tolist() == runs["estimate"].tolist()


def test_sweep_has_a_row_for_each_target_seed_and_budget(tmp_path: Path) -> None:
    frame = sweep(tmp_path, [0, 1, 3, 30], [2, 0])
    rows = list(zip(frame["agent"], frame["seed"], frame["budget"], strict=True))
    assert rows == [
        (agent, seed, budget)
        for agent in BANK.agents
        for seed in (2, 0)
        for budget in (0, 1, 3, 30)
    ]
    truth = dict(zip(BANK.agents, BANK.values.mean(axis=1), strict=True))
    everything = frame[frame["budget"] == 30]
    assert everything["estimate"].tolist() == pytest.approx(everything["agent"].map(truth).tolist())
    nothing = frame[frame["budget"] == 0]
    assert (nothing.groupby("fold")["estimate"].nunique() == 1).all()


def test_sweep_takes_shares_that_are_one_number_of_tasks(tmp_path: Path) -> None:
    twice = sweep(tmp_path, [1, 1, 2, 2], [0])
    once = sweep(tmp_path, [1, 2], [0])
    pd.testing.assert_frame_equal(twice, once, check_exact=True)
