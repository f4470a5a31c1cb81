"""Finished rows survive, and are never mixed with those of other settings."""

import json
from pathlib import Path

import pytest

from hspr.experiments import checkpoint as module
from hspr.experiments.checkpoint import Checkpoint
from hspr.models.errors import DataError

SETTINGS = {"seed": 1, "banks": ["a", "b"], "name": "агент é"}


def test_rows_and_settings_come_back(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    with Checkpoint(file, SETTINGS) as first:
        first.add(10, {"x": 0.1})
        first.add(2, {"x": None, "y": [1, 2]})
    again = Checkpoint(file, SETTINGS)
    assert again.rows == {2: {"x": None, "y": [1, 2]}, 10: {"x": 0.1}}
    assert [*tmp_path.iterdir()] == [file]


def test_tuples_in_the_settings_are_the_lists_that_json_makes_of_them(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "rows.json", {"banks": ("a", "b")}).save()
    assert Checkpoint(tmp_path / "rows.json", {"banks": ["a", "b"]}).rows == {}


@pytest.mark.parametrize(
    "other", [SETTINGS | {"seed": 2}, SETTINGS | {"nodes": 8}, {"seed": 1, "banks": ["a", "b"]}]
)
def test_rows_of_other_settings_are_refused_and_left_alone(
    tmp_path: Path, other: dict[str, object]
) -> None:
    file = tmp_path / "rows.json"
    Checkpoint(file, SETTINGS).save()
    before = file.read_bytes()
    with pytest.raises(DataError, match=r"was made with .*; remove it or choose another folder"):
        Checkpoint(file, other)
    assert file.read_bytes() == before


def test_finished_rows_are_kept_after_an_error(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    with pytest.raises(KeyboardInterrupt), Checkpoint(file, SETTINGS) as rows:
        rows.add(0, {"x": 1})
        raise KeyboardInterrupt
    assert Checkpoint(file, SETTINGS).rows == {0: {"x": 1}}


def test_file_is_written_on_the_way_when_a_second_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.json"
    rows = Checkpoint(file, SETTINGS)
    rows.add(0, {"x": 1})
    assert not file.exists()
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_SAVES", 0.0)
    rows.add(1, {"x": 2})
    assert list(json.loads(file.read_text(encoding="utf-8"))["rows"]) == ["0", "1"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"rows": {}}', '{"settings": 1, "rows": {}}'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "rows.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="is not a file of finished rows"):
        Checkpoint(file, SETTINGS)
    assert file.read_text(encoding="utf-8") == content


def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot write"):
        Checkpoint(tmp_path / "nowhere" / "rows.json", SETTINGS)


def test_without_a_file_rows_stay_in_memory() -> None:
    with Checkpoint(None, SETTINGS) as rows:
        rows.add(3, {"x": 1})
    assert rows.rows == {3: {"x": 1}}
