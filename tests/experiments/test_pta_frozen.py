"""Frozen predictions, from tables and from results as PTA-IRT writes them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hspr.experiments.metrics import mean_absolute_error
from hspr.experiments.pta_frozen import frozen_estimates, read_frozen
from hspr.experiments.pta_irt import load_pta_irt
from hspr.models.errors import DataError
from hspr.tests.oracles_models import random_matrix

N_TASKS = 37
FRACTIONS = (0.05, 0.1)
FOLDS = {0: [4, 1], 1: [0, 5], 2: [3, 2]}
BANK = random_matrix(6, N_TASKS, seed=3)
TRUTH = BANK.values.mean(axis=1)
# By result (seed), budget, field and agent.
ESTIMATES = np.random.default_rng(8).uniform(0, 1, (2, 2, 2, 6))
FIELDS = ("pred_full", "pred_subset")


def counted(fraction: float) -> float:
    """Return the share that PTA-IRT writes: of the whole number of tasks."""
    return round(fraction * N_TASKS) / N_TASKS


def result(seeds: int) -> dict:
    """Build a result file's content."""
    folds = []
    for number, rows in FOLDS.items():
        blocks = []
        for seed in range(seeds):
            steps = []
            for step, fraction in enumerate(FRACTIONS):
                values = {f: ESTIMATES[seed, step, i, rows].tolist() for i, f in enumerate(FIELDS)}
                truth = {"true_full": TRUTH[rows].tolist(), "true_subset": [0.0] * len(rows)}
                steps.append({"calib_frac": counted(fraction), **values, **truth})
            blocks.append({"model": "Privileged", "by_calib_frac": steps})
        folds.append({"fold": number, "n_test": len(rows), "results": blocks})
    return {"bench": "pro", "folds": folds, "aggregated": []}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write the bank as PTA-IRT does."""
    summary, folds = tmp_path / "data" / "swe_pro_summary", tmp_path / "data" / "folds" / "pro"
    summary.mkdir(parents=True)
    folds.mkdir(parents=True)
    pd.DataFrame(BANK.values).to_csv(summary / "matrix.csv", header=False, index=False)
    agents = [{"folder": agent} for agent in BANK.agents]
    metadata = {"instance_ids": BANK.tasks, "agents": agents}
    (summary / "metadata.json").write_text(json.dumps(metadata))
    for number, rows in FOLDS.items():
        train = [agents[row] for row in range(6) if row not in rows]
        test = [agents[row] for row in rows]
        fold = {"fold": number, "train_models": train, "test_models": test}
        (folds / f"fold_{number}.json").write_text(json.dumps(fold))
    return tmp_path


def write_result(root: Path, seeds: int = 1, change: Callable[[Any], object] = len) -> Path:
    content = result(seeds)
    change(content)
    path = root / "result.json"
    path.write_text(json.dumps(content))
    return path


def refused(call: Callable[[], object], *parts: str) -> None:
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


# PTA-IRT's result file


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("field", FIELDS)
def test_a_result_gives_every_agent_its_own_estimate(root: Path, seeds: int, field: str) -> None:
    frozen = read_frozen(write_result(root, seeds), folder=root, field=field)
    assert list(frozen.columns) == ["bank", "agent", "budget", "estimate", "seed"]
    assert len(frozen) == seeds * len(FRACTIONS) * 6
    assert set(frozen["bank"]) == {"pro"}
    matrix, _ = load_pta_irt(root, "pro")
    for step, fraction in enumerate(FRACTIONS):
        assert counted(fraction) != fraction
        picked = frozen_estimates(frozen, matrix, bank="pro", budget=fraction)
        expected = ESTIMATES[:seeds, step, FIELDS.index(field)]
        np.testing.assert_array_equal(picked, expected)
        again = frozen_estimates(frozen, matrix, bank="pro", budget=round(fraction * N_TASKS))
        np.testing.assert_array_equal(again, expected)
        # The pooled error is the one of the file's own columns, fold by fold.
        own = [
            abs(np.subtract(row[field], row["true_full"]))
            for fold in result(seeds)["folds"]
            for row in [fold["results"][0]["by_calib_frac"][step]]
        ]
        assert mean_absolute_error(picked[0], TRUTH) == pytest.approx(100 * np.mean(own))


def test_the_bank_may_be_named_where_the_file_states_none(root: Path) -> None:
    stated = read_frozen(write_result(root), folder=root / "data", bank="pro")
    path = write_result(root, change=lambda r: r.pop("bench"))
    pd.testing.assert_frame_equal(read_frozen(path, folder=root, bank="pro"), stated)
    refused(lambda: read_frozen(path, folder=root), str(path), "the bank must be one of lite")


def test_another_bank_than_the_stated_one_is_refused(root: Path) -> None:
    path = write_result(root)
    refused(lambda: read_frozen(path, folder=root, bank="lite"), "got 'lite' and bench 'pro'")


def test_a_result_needs_the_folder_and_a_known_field(root: Path) -> None:
    path = write_result(root)
    refused(lambda: read_frozen(path), str(path), "folder must be PTA-IRT's data folder", "None")
    refused(lambda: read_frozen(path, folder=root, field="true_full"), "field", "'true_full'")


def first(content: dict) -> dict:
    return content["folds"][1]["results"][0]["by_calib_frac"][0]


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda r: r.pop("folds"), ["folds must be a list of objects, got None"]),
        (lambda r: r.update(folds=[]), ["folds must be a list of objects"]),
        (lambda r: r["folds"][2].pop("results"), ["folds[2]: results must be"]),
        (lambda r: r["folds"][2].update(fold=7), ["folds[2]: fold must be one of [2]", "got 7"]),
        (lambda r: r["folds"][2].update(fold=0), ["folds[2]", "each once, got 0"]),
        (lambda r: r["folds"][2].update(fold=True), ["folds[2]", "got True"]),
        (lambda r: r["folds"].pop(), ["2 of 6 agents", "'a2'"]),
        (lambda r: r["folds"][1]["results"].pop(), ["of result 1 is absent for 2 of 6"]),
        (
            lambda r: r["folds"][1]["results"][1].update(model="Other"),
            ["folds[1]: several results", "['Other', 'Privileged']"],
        ),
        (lambda r: first(r).update(calib_frac=0.2), ["absent for"]),
        (lambda r: first(r).update(calib_frac=counted(0.1)), ["calib_frac must be unique", "'a0'"]),
        (lambda r: first(r).update(calib_frac=0), ["calib_frac must be a share in (0, 1], got 0"]),
        (lambda r: first(r).update(calib_frac=4), ["calib_frac must be a share in (0, 1], got 4"]),
        (lambda r: first(r).pop("calib_frac"), ["calib_frac must be a share", "got None"]),
        (
            lambda r: first(r)["pred_full"].pop(),
            ["folds[1].results[0].by_calib_frac[0]: pred_full", "2 test_models of fold 1, got 1"],
        ),
        (lambda r: first(r).pop("pred_full"), ["pred_full must list a score", "got None"]),
        (lambda r: first(r).pop("true_full"), ["true_full must list a score", "got None"]),
        (
            lambda r: first(r)["pred_full"].__setitem__(1, 27.3),
            ["place 1: pred_full must be a share in [0, 1], got 27.3", "per cent"],
        ),
        (lambda r: first(r)["pred_full"].__setitem__(0, float("nan")), ["got nan"]),
        (lambda r: first(r)["pred_full"].__setitem__(0, True), ["got True"]),
        (lambda r: first(r)["pred_full"].__setitem__(0, "0.5"), ["got '0.5'"]),
        (lambda r: first(r)["pred_full"].__setitem__(0, None), ["got None"]),
        (
            lambda r: first(r)["true_full"].__setitem__(0, TRUTH[0] + (1 - 2 * TRUTH[0]) / N_TASKS),
            ["true_full must be the agent's score in matrix.csv", "'a0'", str(TRUTH[0])],
        ),
        # The order of the bank in place of the fold's.
        (
            lambda r: r["folds"][0]["results"][0]["by_calib_frac"][0]["true_full"].reverse(),
            ["'a4'"],
        ),
    ],
)
def test_a_wrong_result_is_refused(root: Path, change: Callable, parts: list[str]) -> None:
    path = write_result(root, 2, change)
    refused(lambda: read_frozen(path, folder=root), repr(str(path)), *parts)


# Tables

TABLE = (
    "bank,agent,budget,estimate\nlite,a0,0.1,0.25\nlite,NA,0.1,0\nlite,a0,0.2,1\npro,a0,1,5e-1\n"
)


def test_a_table_is_read_exactly(tmp_path: Path) -> None:
    path = tmp_path / "frozen.csv"
    path.write_text(TABLE)
    frozen = read_frozen(path)
    assert list(frozen.columns) == ["bank", "agent", "budget", "estimate", "seed"]
    assert frozen.to_numpy().tolist() == [
        ["lite", "a0", 0.1, 0.25, 0],
        ["lite", "NA", 0.1, 0.0, 0],
        ["lite", "a0", 0.2, 1.0, 0],
        ["pro", "a0", 1.0, 0.5, 0],
    ]


def test_a_table_may_have_a_mark_other_line_ends_and_another_order(tmp_path: Path) -> None:
    path, other = tmp_path / "frozen.csv", tmp_path / "other.CSV"
    path.write_text(TABLE)
    order = ["estimate", "bank", "budget", "agent"]
    table = pd.read_csv(path, dtype=str, keep_default_na=False)[order]
    text = table.to_csv(index=False, lineterminator="\r\n") + "\r\n"
    other.write_bytes(b"\xef\xbb\xbf" + text.encode())
    pd.testing.assert_frame_equal(read_frozen(other), read_frozen(path))


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (",estimate", ",score", ["line 1: the columns must be", "'score'"]),
        ("agent,", "bank,", ["line 1: the columns must be"]),
        ("0.2,1\n", "0.10,1\n", ["line 4", "'a0' at 0.1 is on line 2 too"]),
        ("0.2,1\n", "0.2,1.01\n", ["line 4: estimate must be a share in [0, 1], got '1.01'"]),
        ("0.2,1\n", "0.2,-0.1\n", ["line 4", "'-0.1'"]),
        ("0.2,1\n", "0.2,nan\n", ["line 4", "'nan'"]),
        ("0.2,1\n", "0.2,inf\n", ["line 4", "'inf'"]),
        ("0.2,1\n", "0.2,25%\n", ["line 4", "'25%'"]),
        ("0.2,1\n", "0.2,\n", ["line 4", "got ''"]),
        ("0.2,1\n", "0.2,0.0_1\n", ["line 4", "'0.0_1'"]),
        ("0.2,1\n", "0.2,0,1\n", ["line 4", "4 cells", "found 5"]),
        ("a0,1,", "a0,73,", ["line 5: budget must be a share in (0, 1], got '73'", "all tasks"]),
        ("a0,1,", "a0,0,", ["line 5: budget must be a share in (0, 1], got '0'"]),
        ("a0,1,", ",1,", ["line 5: agent ids must be non-empty"]),
        ("pro,", " ,", ["line 5: bank ids must be non-empty"]),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, old: str, new: str, parts: list[str]) -> None:
    assert old in TABLE
    path = tmp_path / "frozen.csv"
    path.write_text(TABLE.replace(old, new, 1))
    refused(lambda: read_frozen(path), repr(str(path)), *parts)


@pytest.mark.parametrize("columns", ["bank,agent,budget,estimate,seed", "bank,agent,estimate", "x"])
def test_a_table_with_other_columns_is_refused(tmp_path: Path, columns: str) -> None:
    path = tmp_path / "frozen.csv"
    row = ",".join(["0.5"] * len(columns.split(",")))
    path.write_text(f"{columns}\n{row}\n")
    refused(lambda: read_frozen(path), "line 1: the columns must be bank, agent, budget, estimate")


def test_other_files_are_refused(tmp_path: Path) -> None:
    refused(lambda: read_frozen(tmp_path / "frozen.xlsx"), "extension '.xlsx'")
    refused(lambda: read_frozen(tmp_path / "frozen.csv"), "does not exist")


def frame(*rows: tuple[str, float, float, int]) -> pd.DataFrame:
    table = pd.DataFrame(list(rows), columns=["agent", "budget", "estimate", "seed"])
    return table.assign(bank="x")


def test_frozen_estimates_follow_the_matrix() -> None:
    bank = random_matrix(2, 20, seed=1)
    rows = frame(("a1", 0.1, 0.4, 0), ("other", 0.1, 0.9, 0), ("a0", 0.11, 0.2, 0))
    assert frozen_estimates(rows, bank, bank="x").tolist() == [[0.2, 0.4]]


@pytest.mark.parametrize(
    ("rows", "bank", "budget", "message"),
    [
        ([("a0", 0.1, 0.2, 0)], "y", 0.1, "no bank 'y'; name one of x"),
        ([("a0", 0.1, 0.2, 0)], "x", 0.2, "no budget of 4 tasks; choose one of 2"),
        ([("a0", 0.1, 0.2, 0)], "x", 0.1, r"1 of 2 have none \(first: 'a1'\)"),
        ([("A1", 0.1, 0.2, 0), ("a0", 0.1, 0.2, 0)], "x", 2, r"1 of 2 have none \(first: 'a1'\)"),
        ([("a0", 0.1, 0.2, 0), ("a0", 0.11, 0.2, 0)], "x", 0.1, "'a0' of 'x' must have one"),
        ([("a0", 0.1, 0.2, 0), ("a1", 0.1, 0.2, 1)], "x", 0.1, "2 of 2 have none"),
    ],
)
def test_frozen_estimates_refuse_what_is_absent(
    rows: list, bank: str, budget: float, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        frozen_estimates(frame(*rows), random_matrix(2, 20, seed=1), bank=bank, budget=budget)
