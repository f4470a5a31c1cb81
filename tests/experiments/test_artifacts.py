"""Tables as files: complete, readable, and with what they were made from."""

import json
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from hspr.experiments.artifacts import markdown, provenance, write_table
from hspr.experiments.provenance import digest, versions
from hspr.experiments.study import Study
from hspr.experiments.tables import Table
from hspr.models.errors import DataError

MADE_FROM = {"command": "hspr reproduce table1 --bank 'a b'", "date": "é", "versions": versions()}
NAMES = ["a|b", "c#1, d", "$\\foo$", 'the "q"', "агент é", "NA?"]


@pytest.fixture(autouse=True)
def no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mpl.rcParams, "backend", "agg")


def table(name: str = "table9") -> Table:
    frame = pd.DataFrame(
        {
            "bank": "k",
            "agent": NAMES,
            "family": NAMES,
            "truth": np.linspace(0, 100, 6),
            "estimate": [1 / 3, np.nan, 2.0, -1e-9, 1e6, 5.0],
            "sd": [0.1, np.nan, 0.1, 0.1, 0.1, 0.1],
            "seeds": [1, 2, 3, 4, 5, 6],
        }
    )
    return Table(name, "Errors, all | methods", frame, ("First note.", "Second # note."))


@pytest.mark.parametrize("name", ["table9", "figure4"])
def test_csv_is_read_back_by_pandas(tmp_path: Path, name: str) -> None:
    made = table(name)
    written = write_table(made, tmp_path / "new", MADE_FROM)
    assert [file.name for file in written] == [f"{name}.csv", f"{name}.md", f"{name}.png"]
    assert sorted((tmp_path / "new").iterdir()) == sorted(written)
    back = pd.read_csv(written[0], comment="#")
    pd.testing.assert_frame_equal(back, made.frame, rtol=1e-15)
    head = [
        line[2:]
        for line in written[0].read_text(encoding="utf-8").splitlines()
        if line.startswith("# ")
    ]
    assert head[:3] == [made.title, *made.notes]
    assert json.loads(head[3]) == MADE_FROM
    assert len(head) == 4


def test_markdown_has_every_row_and_says_what_it_was_made_from(tmp_path: Path) -> None:
    made = table()
    lines = write_table(made, tmp_path, MADE_FROM)[1].read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# Errors, all | methods"
    rows = [line for line in lines if line.startswith("|")]
    assert rows[0] == "| bank | agent | family | truth | estimate | sd | seeds |"
    assert rows[1] == "|---|---|---|---:|---:|---:|---:|"
    assert len(rows) == 2 + len(made.frame)
    for row in rows:
        # A pipe in a name is no border.
        assert row.replace("\\|", "").count("|") == 8
    cells = [cell.strip() for cell in rows[2].replace("\\|", "/").split("|")]
    assert cells[1:-1] == ["k", "a/b", "a/b", "0.000", "0.333", "0.100", "1"]
    cells = [cell.strip() for cell in rows[3].split("|")]
    assert cells[1:-1] == ["k", "c#1, d", "c#1, d", "20.000", "", "", "2"]
    assert all(note in lines for note in made.notes)
    text = "\n".join(lines)
    assert json.loads(text.split("```json")[1].split("```")[0]) == MADE_FROM


def test_markdown_keeps_a_row_on_its_line() -> None:
    frame = pd.DataFrame({"agent": ["a\nb", None], "max_error": [1.0, 2.0]})
    lines = markdown(Table("t", "T", frame), {}).splitlines()
    assert lines[2:6] == [
        "| agent | max error |",
        "|---|---:|",
        "| a b | 1.000 |",
        "|  | 2.000 |",
    ]


@pytest.mark.parametrize("name", ["table9", "figure4"])
def test_picture_says_what_it_was_made_from(tmp_path: Path, name: str) -> None:
    file = write_table(table(name), tmp_path, MADE_FROM)[2]
    with Image.open(file) as image:
        assert image.text["Title"] == "Errors, all | methods"  # type: ignore[attr-defined]
        assert json.loads(image.text["Description"]) == MADE_FROM  # type: ignore[attr-defined]
        assert len(np.unique(np.asarray(image.convert("L")))) > 10
    assert plt.get_fignums() == []


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    first = write_table(table(), tmp_path, MADE_FROM)
    shorter = Table("table9", "T", table().frame.head(1))
    write_table(shorter, tmp_path, MADE_FROM)
    assert len(pd.read_csv(first[0], comment="#")) == 1
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DataError, match="cannot make the folder"):
        write_table(table(), tmp_path / "file", MADE_FROM)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("place", range(3))
def test_a_file_that_cannot_be_written_leaves_nothing_half_written(
    tmp_path: Path, place: int
) -> None:
    blocked = tmp_path / f"table9.{['csv', 'md', 'png'][place]}"
    blocked.mkdir()
    with pytest.raises(DataError, match=f"cannot write .*{blocked.name}"):
        write_table(table(), tmp_path, MADE_FROM)
    # Those before it are whole, and there is no part of any other.
    assert len(list(tmp_path.iterdir())) == 1 + place
    if place > 0:
        assert len(pd.read_csv(tmp_path / "table9.csv", comment="#")) == len(NAMES)
    assert plt.get_fignums() == []


def test_a_picture_that_fails_is_closed_and_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    with pytest.raises(DataError, match="No space left on device"):
        write_table(table(), tmp_path, MADE_FROM)
    assert {path.name for path in tmp_path.iterdir()} == {"table9.csv", "table9.md"}
    assert plt.get_fignums() == []


def test_provenance_names_data_versions_and_settings(studies: list[Study]) -> None:
    made_from = provenance(studies, "hspr reproduce table3")
    assert json.loads(json.dumps(made_from, allow_nan=False)) == made_from
    assert made_from["command"] == "hspr reproduce table3"
    assert set(made_from["versions"]) >= {"hspr", "pymc", "numpy"}
    assert pd.Timestamp(made_from["date"]) <= pd.Timestamp.now("UTC").tz_localize(None)
    assert list(made_from["banks"]) == ["one", "two"]
    for study in studies:
        bank = made_from["banks"][study.bank.name]
        assert bank["sha256"] == digest(study.bank)
        assert (bank["agents"], bank["tasks"]) == study.bank.values.shape
        assert (bank["budget"], bank["folds"]) == (study.budget, len(study.plan))
        assert (bank["nodes"], bank["selection_nodes"]) == (256, 256)
