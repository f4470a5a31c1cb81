"""PTA-IRT's folder is read exactly, or refused with the file, the rule and the value."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hspr.experiments.pta_irt import PTA_IRT_BANKS, load_pta_irt
from hspr.models.errors import DataError

AGENTS = ["20240402_sweagent_gpt4", "NA", "007", "naïve-模型", "e"]
TASKS = ["django__django-1", "x__y-2", "1e5"]
OUTCOMES = np.array([[0, 1, 0], [1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 0, 1]])
# Targets in another order than the bank's, and the files in another order than their numbers.
TARGETS = {"fold_a.json": (1, [3, 0]), "fold_b.json": (0, [2]), "fold_c.json": (2, [4, 1])}


def models(rows: list[int]) -> list[dict]:
    return [{"folder": AGENTS[row], "name": f"Agent {row}"} for row in rows]


def write_folder(root: Path, bank: str = "lite") -> Path:
    """Write a bank as PTA-IRT does and return the folder with data/ in it."""
    data = root / "data"
    summary, folds = data / PTA_IRT_BANKS[bank], data / "folds" / bank
    summary.mkdir(parents=True)
    folds.mkdir(parents=True)
    pd.DataFrame(OUTCOMES.astype(float)).to_csv(summary / "matrix.csv", header=False, index=False)
    metadata = {
        "encoder": "x",
        "n_agents": 5,
        "n_items": 3,
        "instance_ids": TASKS,
        "agents": models([0, 1, 2, 3, 4]),
    }
    dump(summary / "metadata.json", metadata)
    for name, (number, targets) in TARGETS.items():
        sources = [row for row in (4, 3, 2, 1, 0) if row not in targets]
        fold = {
            "fold": number,
            "train_models": models(sources),
            "test_models": models(targets),
        }
        dump(folds / name, fold)
    return root


def dump(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change a JSON file in place."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    dump(path, value)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "PTA-IRT")


@pytest.mark.parametrize("bank", PTA_IRT_BANKS)
def test_load_reads_matrix_and_folds(tmp_path: Path, bank: str) -> None:
    root = write_folder(tmp_path, bank)
    matrix, folds = load_pta_irt(root, bank)
    assert matrix.name == f"pta-irt:{bank}"
    assert (matrix.agents, matrix.tasks) == (AGENTS, TASKS)
    np.testing.assert_array_equal(matrix.values, OUTCOMES)
    assert [fold.index for fold in folds] == [0, 1, 2]
    by_number = {number: set(rows) for number, rows in TARGETS.values()}
    for fold in folds:
        rows = by_number[fold.index]
        assert fold.target == tuple(a for i, a in enumerate(AGENTS) if i in rows)
        assert fold.source == tuple(a for i, a in enumerate(AGENTS) if i not in rows)


def test_load_takes_the_data_folder_itself(root: Path) -> None:
    one, other = load_pta_irt(root, "lite"), load_pta_irt(str(root / "data"), "lite")
    assert one[1] == other[1]
    assert one[0].outcomes.identical(other[0].outcomes)


def test_load_reads_whole_numbers_other_line_ends_and_byte_order_marks(root: Path) -> None:
    expected, folds = load_pta_irt(root, "lite")
    for path in (root / "data").rglob("*.*"):
        text = path.read_text(encoding="utf-8").replace(".0", "").replace("\n", "\r\n")
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    matrix, again = load_pta_irt(root, "lite")
    assert matrix.outcomes.identical(expected.outcomes)
    assert again == folds


def refused(root: Path, *parts: str, bank: str = "lite") -> None:
    with pytest.raises(DataError) as caught:
        load_pta_irt(root, bank)
    message = str(caught.value)
    assert "\n" not in message
    assert ";" in message  # what to do follows
    for part in parts:
        assert part in message


def test_an_unknown_bank_is_refused(root: Path) -> None:
    with pytest.raises(DataError, match="one of lite, verified, full, pro, got 'swe'"):
        load_pta_irt(root, "swe")


def test_an_absent_bank_is_refused(root: Path) -> None:
    refused(root, str(root), "'swe_test_summary' nor 'data/swe_test_summary'", bank="full")
    refused(root / "nowhere", "unpack data.zip")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t1,t2,t3\n0,1,0\n", ["line 1, task 'django__django-1'", "0 or 1, got 't1'", "header"]),
        ("0,1,0\n1,,1\n", ["line 2, task 'x__y-2'", "got ''"]),
        ("0,1,0\n1,0.5,1\n", ["line 2", "got '0.5'"]),
        ("0,1,0\n1,1,nan\n", ["line 2, task '1e5'", "got 'nan'"]),
        ("0,1,0\n1,1\n", ["line 2", "each of the 3 tasks", "got 2"]),
        ("0,1,0,1\n", ["line 1", "each of the 3 tasks", "got 4"]),
        ("0,1,0\n" * 4, ["each of the 5 agents", "got 4"]),
        ("0,1,0\n" * 6, ["each of the 5 agents", "got 6"]),
        ("", ["is empty"]),
    ],
)
def test_a_wrong_matrix_is_refused(root: Path, text: str, parts: list[str]) -> None:
    path = root / "data" / "swe_lite_summary" / "matrix.csv"
    path.write_text(text)
    refused(root, repr(str(path)), *parts)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda m: m.pop("instance_ids"), ["instance_ids must be a list", "got None"]),
        (lambda m: m.update(instance_ids=[]), ["instance_ids must be a list", "got []"]),
        (lambda m: m["instance_ids"].append("1e5"), ["instance_ids[3]", "'1e5' is repeated"]),
        (lambda m: m.update(instance_ids=["a", 7, "c"]), ["instance_ids[1]", "got 7"]),
        (lambda m: m.update(n_items=4), ["n_items must equal the 3 ids", "got 4"]),
        (lambda m: m.update(n_agents=4), ["n_agents must equal the 5 ids", "got 4"]),
        (lambda m: m.update(agents={"a": 1}), ["agents must be a list"]),
        (lambda m: m["agents"][1].pop("folder"), ["agents[1]", "an object with 'folder'"]),
        (lambda m: m["agents"].__setitem__(2, "x"), ["agents[2]", "got 'x'"]),
        (lambda m: m["agents"][4].update(folder="NA"), ["agents[4]", "'NA' is repeated"]),
    ],
)
def test_wrong_metadata_are_refused(root: Path, change: Callable, parts: list[str]) -> None:
    path = root / "data" / "swe_lite_summary" / "metadata.json"
    edit(path, change)
    refused(root, repr(str(path)), *parts)


@pytest.mark.parametrize("text", ["[1]", "{", '{"agents": [], "agents": []}', '"x"'])
def test_metadata_that_are_no_object_are_refused(root: Path, text: str) -> None:
    path = root / "data" / "swe_lite_summary" / "metadata.json"
    path.write_text(text)
    refused(root, repr(str(path)))


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda f: f.update(fold=1), ["number of a fold must be its own, got 1 again"]),
        (lambda f: f.update(fold="0"), ["fold must be a whole number from 0, got '0'"]),
        (lambda f: f.update(fold=True), ["fold must be a whole number from 0, got True"]),
        (lambda f: f.update(fold=-1), ["fold must be a whole number from 0, got -1"]),
        (lambda f: f.pop("fold"), ["fold must be a whole number from 0, got None"]),
        (lambda f: f.pop("test_models"), ["test_models must be a list"]),
        (lambda f: f.update(train_models=[]), ["train_models must be a list", "got []"]),
        (
            lambda f: f["test_models"].append({"folder": "na"}),
            ["test_models: every agent must be one of metadata.json, 'na' is not"],
        ),
        (
            lambda f: f["train_models"].append({"folder": "E"}),
            ["train_models: every agent must be one of metadata.json, 'E' is not"],
        ),
        (
            lambda f: f["train_models"].append({"folder": "007"}),
            ["no agent may be in train_models and test_models, '007'"],
        ),
        (lambda f: f["test_models"].append({"folder": "007"}), ["'007' is repeated"]),
        (
            lambda f: (
                f["test_models"].append({"folder": "naïve-模型"}),
                f["train_models"].remove({"folder": "naïve-模型", "name": "Agent 3"}),
            ),
            ["every agent must be a target once, 'naïve-模型' is one in 'fold_a.json' too"],
        ),
    ],
)
def test_a_wrong_fold_is_refused(root: Path, change: Callable, parts: list[str]) -> None:
    path = root / "data" / "folds" / "lite" / "fold_b.json"
    edit(path, change)
    refused(root, repr(str(path)), *parts)


def test_an_absent_fold_is_refused(root: Path) -> None:
    folder = root / "data" / "folds" / "lite"
    (folder / "fold_c.json").unlink()
    refused(root, repr(str(folder)), "2 of 5 are in no fold's test_models (first: 'NA')")
    for path in folder.iterdir():
        path.unlink()
    refused(root, repr(str(folder)), "must hold fold_*.json, found none")
