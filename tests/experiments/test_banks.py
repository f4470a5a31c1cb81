"""Banks are found by name or path, checked against the catalogue, and described."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from hspr.experiments.banks import BANKS, describe_bank, load_bank
from hspr.experiments.simulate import simulate_bank
from hspr.models.errors import DataError
from hspr.models.responses import ResponseMatrix

PUBLIC = [name for name in BANKS if name != "simulated"]


def write_jsonl(path: Path, agents: int, tasks: int) -> Path:
    """Write a complete bank, but for its last outcome, which is missing."""
    lines = []
    for agent in range(agents):
        responses: dict[str, int | None] = {f"t{task}": (agent + task) % 2 for task in range(tasks)}
        if agent == agents - 1:
            responses[f"t{tasks - 1}"] = None
        lines.append(json.dumps({"subject_id": f"a{agent}", "responses": responses}) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def assert_refused(bank: object, *parts: str, missing: str = "refuse") -> None:
    with pytest.raises(DataError) as caught:
        load_bank(bank, missing=missing)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


def test_banks_are_the_simulated_and_four_public_ones() -> None:
    assert list(BANKS) == [
        "simulated",
        *(f"swebench-{x}" for x in ("verified", "pro", "lite", "full")),
    ]
    for name, bank in BANKS.items():
        assert bank.name == name
    for name in PUBLIC:
        assert BANKS[name].file is not None
        assert len(bytes.fromhex(BANKS[name].sha256 or "")) == 32
        repository, place = BANKS[name].source.split(" @ ")
        assert repository.count("/") == 1
        assert len(bytes.fromhex(place.split(" : ")[0])) == 20


def test_load_bank_default_is_the_simulated_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HSPR_DATA", raising=False)
    bank = load_bank()
    assert bank.name == "simulated"
    assert bank.values.shape == (BANKS["simulated"].agents, BANKS["simulated"].tasks)
    assert bank.values.tobytes() == simulate_bank().values.tobytes()


@pytest.mark.parametrize("as_text", [True, False])
def test_load_bank_reads_a_path(tmp_path: Path, as_text: bool) -> None:
    path = write_jsonl(tmp_path / "mine.v2.jsonl", 3, 4)
    bank = load_bank(str(path) if as_text else path)
    assert (bank.name, bank.values.shape) == ("mine.v2", (3, 4))


def test_load_bank_reads_a_bare_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_jsonl(tmp_path / "mine.jsonl", 3, 4)
    monkeypatch.chdir(tmp_path)
    assert load_bank("mine.jsonl").name == "mine"
    (tmp_path / "mine.jsonl").rename("mine")
    assert_refused("mine", "file 'mine'", "extension ''", ".jsonl")


def test_load_bank_expands_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    write_jsonl(tmp_path / "mine.jsonl", 3, 4)
    assert load_bank("~/mine.jsonl").name == "mine"
    monkeypatch.setenv("HSPR_DATA", "~")
    write_jsonl(tmp_path / str(BANKS["swebench-pro"].file), 14, 730)
    assert load_bank("swebench-pro").values.shape == (14, 730)


def test_load_bank_refuse_returns_the_missing_cells(tmp_path: Path) -> None:
    bank = load_bank(write_jsonl(tmp_path / "x.jsonl", 3, 4))
    assert bank.n_missing == 1
    assert np.isnan(bank.values[2, 3])
    with pytest.raises(DataError, match="lacks 1 of 12"):
        bank.require_complete()


@pytest.mark.parametrize(
    ("policy", "shape", "missing"),
    [("fail", (3, 4), 0), ("drop-task", (3, 3), 0), ("model", (3, 4), 1)],
)
def test_load_bank_applies_the_missing_policy(
    tmp_path: Path, policy: str, shape: tuple[int, int], missing: int
) -> None:
    bank = load_bank(write_jsonl(tmp_path / "x.jsonl", 3, 4), missing=policy)
    bank.require_complete()
    assert (bank.values.shape, bank.n_missing) == (shape, missing)


def test_load_bank_unknown_policy() -> None:
    assert_refused("simulated", "drop-task", "'ignore'", missing="ignore")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("swebench-por", "swebench-pro"),
        ("SWEBENCH_LITE", "swebench-lite"),
        ("sim", None),
        ("", None),
    ],
)
def test_load_bank_unknown_name(name: str, near: str | None) -> None:
    assert_refused(name, repr(name), *BANKS, *([f"did you mean {near!r}?"] if near else []))


@pytest.mark.parametrize("value", [None, 3, ["simulated"]])
def test_load_bank_neither_name_nor_path(value: object) -> None:
    assert_refused(value, type(value).__name__, *BANKS)


def test_load_bank_absent_file(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.csv", tmp_path / "absent"):
        assert_refused(str(path), str(path), "does not exist")
        assert_refused(path, str(path), "does not exist")
    assert_refused(tmp_path, str(tmp_path), "is a directory")
    assert_refused(Path("absent"), "'absent'", "does not exist")


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize("name", PUBLIC)
def test_load_bank_data_folder_not_set(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str | None
) -> None:
    monkeypatch.delenv("HSPR_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("HSPR_DATA", value)
    assert_refused(name, repr(name), str(BANKS[name].file), "export HSPR_DATA=")


@pytest.mark.parametrize("name", PUBLIC)
def test_load_bank_file_not_in_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HSPR_DATA", str(tmp_path))
    assert_refused(name, repr(name), str(tmp_path / str(BANKS[name].file)), "set HSPR_DATA")


def test_load_bank_catalogue_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSPR_DATA", str(tmp_path))
    write_jsonl(tmp_path / str(BANKS["swebench-pro"].file), 14, 730)
    bank = load_bank("swebench-pro")
    assert (bank.name, bank.values.shape, bank.n_missing) == ("swebench-pro", (14, 730), 1)


@pytest.mark.parametrize("shape", [(13, 730), (14, 729), (15, 730)])
def test_load_bank_catalogue_file_of_another_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]
) -> None:
    monkeypatch.setenv("HSPR_DATA", str(tmp_path))
    path = write_jsonl(tmp_path / str(BANKS["swebench-pro"].file), *shape)
    assert_refused(
        "swebench-pro", str(path), "14 agents x 730 tasks", f"got {shape[0]} x {shape[1]}"
    )


def test_describe_bank_counts_a_known_bank() -> None:
    bank = ResponseMatrix.from_arrays(
        [[1, 0, 0, 1, 0], [1, 0, 1, 1, 0], [1, 0, 1, 0, 0]],
        agents=["a", "b", "c"],
        tasks=["t1", "t2", "t3", "t4", "t5"],
        name="five",
    )
    assert describe_bank(bank) == {
        "name": "five",
        "agents": 3,
        "tasks": 5,
        "missing_cells": 0,
        "tasks_none_solved": 2,
        "tasks_all_solved": 1,
        "signatures": 4,
        "mean_score": pytest.approx((2 + 3 + 2) / 15),
        "min_score": 0.4,
        "max_score": 0.6,
    }


def test_describe_bank_counts_known_outcomes_only() -> None:
    nan = np.nan
    # An agent and a task without any outcome, and columns that differ in what is missing.
    bank = ResponseMatrix.from_arrays(
        [[1, nan, 0, 0, nan], [nan, 1, 0, nan, nan], [nan] * 5],
        agents=["a", "b", "c"],
        tasks=["t1", "t2", "t3", "t4", "t5"],
    )
    described = describe_bank(bank)
    assert described["missing_cells"] == 10
    assert described["tasks_none_solved"] == 2
    assert described["tasks_all_solved"] == 2
    assert described["signatures"] == 5
    assert described["mean_score"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert described["min_score"] == pytest.approx(1 / 3)
    assert described["max_score"] == 0.5


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_describe_bank_is_ready_for_json(value: float) -> None:
    bank = ResponseMatrix.from_arrays([[value]], agents=["a"], tasks=["t"])
    described = describe_bank(bank)
    assert json.loads(json.dumps(described, allow_nan=False)) == described
    score = None if np.isnan(value) else value
    assert [described[f"{kind}_score"] for kind in ("mean", "min", "max")] == [score] * 3


@pytest.fixture
def public_file(data_dir: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    """Return the file of a public bank and name its folder, or skip the test."""
    path = data_dir / str(BANKS[name].file)
    if not path.is_file():
        pytest.skip(f"the folder that HSPR_DATA names has no {path.name}")
    monkeypatch.setenv("HSPR_DATA", str(data_dir))
    return path


@pytest.mark.parametrize("name", PUBLIC)
def test_load_bank_public_bank_is_the_catalogues(public_file: Path, name: str) -> None:
    entry = BANKS[name]
    assert hashlib.sha256(public_file.read_bytes()).hexdigest() == entry.sha256
    bank = load_bank(name)
    assert (bank.name, bank.n_missing) == (name, 0)
    assert bank.values.shape == (entry.agents, entry.tasks)


# The counts were made without this package.
@pytest.mark.parametrize(
    ("name", "none_solved", "all_solved"), [("swebench-verified", 32, 0), ("swebench-pro", 250, 1)]
)
@pytest.mark.usefixtures("public_file")
def test_describe_bank_public_bank(name: str, none_solved: int, all_solved: int) -> None:
    described = describe_bank(load_bank(name))
    assert described["tasks_none_solved"] == none_solved
    assert described["tasks_all_solved"] == all_solved
