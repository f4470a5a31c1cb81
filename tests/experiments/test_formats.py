"""Files are read exactly, or refused with the file, the place and the value."""

import csv
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hspr.experiments.formats import (
    read_bank_file,
    read_example_table,
    read_jsonl,
    read_wide_csv,
)
from hspr.models.errors import DataError
from hspr.models.responses import ResponseMatrix

ODD_IDS = ["NA", "007", "1e5", " 1", "nan", "true", "naïve-模型", 'a "quoted", id', "two\nlines"]

ids = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
    .filter(str.strip)
    .filter(lambda text: len(text) < 40)
)


@st.composite
def matrices(draw: st.DrawFn) -> ResponseMatrix:
    """Draw a small matrix with arbitrary text ids and missing cells."""
    agents = draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    tasks = draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    cell = st.sampled_from([0.0, 1.0, np.nan])
    row = st.lists(cell, min_size=len(tasks), max_size=len(tasks))
    values = draw(st.lists(row, min_size=len(agents), max_size=len(agents)))
    return ResponseMatrix.from_arrays(values, agents=agents, tasks=tasks)


def public(folder: Path, file: str) -> Path:
    if not (folder / file).is_file():
        pytest.skip(f"the folder that HSPR_DATA names has no {file}")
    return folder / file


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_csv(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def assert_same(read: ResponseMatrix, wanted: ResponseMatrix) -> None:
    assert read.agents == wanted.agents
    assert read.tasks == wanted.tasks
    np.testing.assert_array_equal(read.values, wanted.values)


def assert_refused(reader: Callable[[Path], object], path: Path, *parts: str) -> None:
    """Assert a refusal on one line that names the file and each part."""
    with pytest.raises(DataError) as caught:
        reader(path)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 900
    assert message.count(str(path)) == 1
    for part in parts:
        assert part in message


# Wide CSV


def test_read_wide_csv_reads_agents_by_tasks(tmp_path: Path) -> None:
    path = write(tmp_path / "my.bank.csv", "agent,t1,t2,t3\nb,0,1,0.0\na,1.0,true,FALSE\n")
    bank = read_wide_csv(path)
    assert bank.agents == ["b", "a"]
    assert bank.tasks == ["t1", "t2", "t3"]
    assert bank.values.tolist() == [[0, 1, 0], [1, 1, 0]]
    assert bank.name == "my.bank"


@pytest.mark.parametrize("header", ["", "agent", "Unnamed: 0", "t1x", '"a,b"'])
def test_read_wide_csv_ignores_the_first_header(tmp_path: Path, header: str) -> None:
    assert read_wide_csv(write(tmp_path / "x.csv", f"{header},t1\na,1\n")).tasks == ["t1"]


@pytest.mark.parametrize("cell", ["", " ", "NA", "NaN", "nan", "null", "NULL"])
def test_read_wide_csv_missing_cell(tmp_path: Path, cell: str) -> None:
    bank = read_wide_csv(write(tmp_path / "x.csv", f"agent,t1,t2\na,{cell},1\n"))
    np.testing.assert_array_equal(bank.values, [[np.nan, 1]])


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfagent,t1\na,1\n",
        b"agent,t1\r\na,1\r\n",
        b"agent,t1\ra,1\r",
        b"agent,t1\na,1",
        b"agent,t1\na,1\n\n\r\n  \n",
        b'"agent","t1"\n"a","1"\n',
        b"agent,t1\na, 1 \n",
    ],
)
def test_read_wide_csv_accepts_variants_of_text(tmp_path: Path, content: bytes) -> None:
    bank = read_wide_csv(write(tmp_path / "x.csv", content))
    assert (bank.agents, bank.tasks, bank.values.tolist()) == (["a"], ["t1"], [[1.0]])


def test_read_wide_csv_keeps_ids_as_text(tmp_path: Path) -> None:
    rows = [["agent", *ODD_IDS]] + [[agent] + ["1"] * len(ODD_IDS) for agent in ODD_IDS]
    bank = read_wide_csv(write_csv(tmp_path / "x.csv", rows))
    assert bank.agents == ODD_IDS
    assert bank.tasks == ODD_IDS


@settings(deadline=None)
@given(matrix=matrices(), spelling=st.randoms(use_true_random=False))
def test_read_wide_csv_round_trip(
    tmp_path_factory: pytest.TempPathFactory, matrix: ResponseMatrix, spelling: Random
) -> None:
    spellings = {0.0: ["0", "0.0", "False"], 1.0: ["1", "1.0", "true"], None: ["", "NA", "null"]}
    rows = [["", *matrix.tasks]]
    for agent, values in zip(matrix.agents, matrix.values, strict=True):
        rows.append([agent, *(spelling.choice(spellings[None if v != v else v]) for v in values)])
    path = write_csv(tmp_path_factory.mktemp("csv") / "bank.csv", rows)
    assert_same(read_wide_csv(path), matrix)


def test_read_wide_csv_long_cell_leaves_the_field_limit(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    long_id = "x" * (limit + 1)
    assert read_wide_csv(write(tmp_path / "x.csv", f"agent,{long_id}\na,1\n")).tasks == [long_id]
    assert csv.field_size_limit() == limit
    assert_refused(read_wide_csv, write(tmp_path / "y.csv", f"agent,t\na,{long_id}\n"), "line 2")
    assert csv.field_size_limit() == limit


BAD_WIDE = {
    "two": ("agent,t1,t2\na,1,2\n", "line 2, agent 'a', task 't2'", "got '2'"),
    "half": ("agent,t1\na,0.5\n", "line 2, agent 'a', task 't1'", "got '0.5'"),
    "word": ("agent,t1\na,1\nb,yes\n", "line 3, agent 'b', task 't1'", "got 'yes'"),
    "huge cell": (f"agent,t1\na,{'9' * 5000}\n", "line 2, agent 'a', task 't1'", "got '999"),
    "line number": ('agent,t1\n"a\nb",1\nc,?\n', "line 4, agent 'c'", "got '?'"),
    "agent twice": ("agent,t1\na,1\nb,1\na,1\n", "line 4", "agent ids must be unique", "'a'"),
    "task twice": ("agent,t1,t2,t1\na,1,1,1\n", "column 4", "task ids must be unique", "'t1'"),
    "short row": ("agent,t1,t2\na,1,0\nb,1\n", "line 3", "3 cells", "found 2", "'b'"),
    "long row": ("agent,t1\na,1,0\n", "line 2", "2 cells", "found 3"),
    "header only": ("agent,t1\n", "no row after its header"),
    "no task": ("agent\na\n", "at least one task", "['agent']"),
    "semicolons": ("agent;t1\na;1\n", "at least one task", "agent;t1", "commas"),
    "blank agent": ("agent,t1\n,1\n", "line 2", "agent ids must be non-empty text", "''"),
    "blank row": ("agent,t1\na,1\n,\n", "line 3", "agent ids must be non-empty text", "''"),
    "blank task": ("agent,t1,\na,1,0\n", "column 3", "task ids must be non-empty text", "''"),
    "open quote": ('agent,t1\na,1\n"b,1\n', "line 3", "broken CSV"),
    "text after quote": ('agent,t1\n"a"b,1\n', "line 2", "broken CSV"),
    "empty": ("", "is empty"),
    "blank": ("\n \n", "is empty"),
    "only quotes": ('""\n', "only blank lines"),
    "NUL": ("agent,t1\na,\0\n", "NUL at byte 11"),
    "latin-1": ("agent,t1\né,1\n".encode("latin-1"), "UTF-8", r"b'\xe9' at byte 9"),
    "utf-16": ("agent,t1\na,1\n".encode("utf-16"), "UTF-16"),
}


@pytest.mark.parametrize(
    ("content", "parts"), [(c, p) for c, *p in BAD_WIDE.values()], ids=BAD_WIDE
)
def test_read_wide_csv_refuses(tmp_path: Path, content: str | bytes, parts: list[str]) -> None:
    path = write(tmp_path / "x.csv", content)
    assert_refused(read_wide_csv, path, *parts)
    assert_refused(read_bank_file, path, *parts)


@pytest.mark.parametrize("cut", range(1, len("agent,t1,t2\nfirst,1.0,true\n") - 1))
def test_read_wide_csv_truncated_file_never_changes_an_outcome(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "x.csv", "agent,t1,t2\nfirst,1.0,true\n"[:cut])
    try:
        bank = read_wide_csv(path)
    except DataError:
        return
    assert set(bank.values[~np.isnan(bank.values)]) == {1.0}


# JSON lines


def agent_line(agent: object, responses: object) -> str:
    return json.dumps({"subject_id": agent, "responses": responses}) + "\n"


def test_read_jsonl_reads_agents_by_tasks(tmp_path: Path) -> None:
    content = agent_line("b", {"t2": 0, "t1": True}) + agent_line("a", {"t3": 1.0, "t1": False})
    bank = read_jsonl(write(tmp_path / "run.responses.jsonl", content))
    assert bank.agents == ["b", "a"]
    assert bank.tasks == ["t2", "t1", "t3"]
    np.testing.assert_array_equal(bank.values, [[0, 1, np.nan], [np.nan, 0, 1]])
    assert bank.name == "run.responses"


@pytest.mark.parametrize("value", ["null", "NaN"])
def test_read_jsonl_missing_value(tmp_path: Path, value: str) -> None:
    line = '{"subject_id": "a", "responses": {"t1": VALUE, "t2": 1}, "extra": {"x": 2}}'
    bank = read_jsonl(write(tmp_path / "x.jsonl", line.replace("VALUE", value)))
    np.testing.assert_array_equal(bank.values, [[np.nan, 1]])


def test_read_jsonl_agent_without_responses_is_missing_throughout(tmp_path: Path) -> None:
    content = agent_line("a", {}) + agent_line("b", {"t1": 1})
    bank = read_jsonl(write(tmp_path / "x.jsonl", content))
    np.testing.assert_array_equal(bank.values, [[np.nan], [1]])


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n \r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_read_jsonl_accepts_variants_of_text(tmp_path: Path, start: str, end: str) -> None:
    content = start + agent_line("a", {"t1": 1}).replace("\n", "\r\n")
    content += agent_line("b", {"t1": 0}).strip() + end
    bank = read_jsonl(write(tmp_path / "x.jsonl", content))
    assert (bank.agents, bank.values.tolist()) == (["a", "b"], [[1], [0]])


@settings(deadline=None)
@given(matrix=matrices(), ensure_ascii=st.booleans(), data=st.data())
def test_read_jsonl_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    matrix: ResponseMatrix,
    ensure_ascii: bool,
    data: st.DataObject,
) -> None:
    lines = []
    for row, agent in enumerate(matrix.agents):
        responses: dict[str, object] = {}
        for task, value in zip(matrix.tasks, matrix.values[row], strict=True):
            if value != value:
                # The first line names every task, which fixes the order of the columns.
                kinds = ["null", "nan"] if row == 0 else ["null", "nan", "absent"]
                kind = data.draw(st.sampled_from(kinds))
                if kind != "absent":
                    responses[task] = None if kind == "null" else value
            else:
                responses[task] = data.draw(st.sampled_from([int(value), value, bool(value)]))
        line = {"subject_id": agent, "responses": responses}
        lines.append(json.dumps(line, ensure_ascii=ensure_ascii) + "\n")
    path = write(tmp_path_factory.mktemp("jsonl") / "bank.jsonl", "".join(lines))
    assert_same(read_jsonl(path), matrix)


GOOD = agent_line("a", {"t1": 1})
BAD_JSONL = {
    "two": (agent_line("a", {"t1": 2}), "line 1, agent 'a', task 't1'", "got 2"),
    "text": (GOOD + agent_line("b", {"t1": "1"}), "line 2, agent 'b', task 't1'", "got '1'"),
    "half": (agent_line("a", {"t1": 0.5}), "task 't1'", "got 0.5"),
    "infinity": (agent_line("a", {"t1": float("inf")}), "task 't1'", "got inf"),
    "list": (agent_line("a", {"t1": [1]}), "task 't1'", "got [1]"),
    "huge number": (agent_line("a", {"t1": 10**4000}), "task 't1'", "got 1000"),
    "agent twice": (GOOD + agent_line("b", {}) + GOOD, "line 3", "agent ids must be unique", "'a'"),
    "task twice": (
        GOOD + '{"subject_id": "b", "responses": {"t1": 1, "t2": 1, "t1": 1}}',
        "line 2",
        "keys must be unique",
        "'t1'",
    ),
    "key twice": ('{"subject_id": "a", "subject_id": "b"}', "line 1", "'subject_id' is repeated"),
    "broken": (GOOD + "{oops}\n" + GOOD, "line 2", "broken JSON", "column 2", "correct"),
    "truncated": (GOOD + GOOD[:-5], "line 2", "broken JSON", "truncated"),
    "two on a line": (GOOD.strip() + GOOD, "line 1", "broken JSON (Extra data"),
    "too many digits": ('{"a": ' + "1" * 5000 + "}\n", "line 1", "broken JSON", "4300"),
    "too deep": ("[" * 200_000 + "\n", "line 1", "broken JSON"),
    "not an object": ("[1]\n", "line 1", "subject_id", "got '[1]"),
    "no responses": ('{"subject_id": "a"}\n', "line 1", "responses"),
    "responses a list": (agent_line("a", [1, 0]), "line 1", "responses", "[1, 0]"),
    "no agent": ('{"responses": {"t1": 1}}\n', "line 1", "agent ids must be non-empty", "None"),
    "agent a number": (agent_line(7, {"t1": 1}), "line 1", "agent ids must be non-empty", "7"),
    "blank agent": (agent_line(" ", {"t1": 1}), "line 1", "agent ids must be non-empty", "' '"),
    "blank task": (agent_line("a", {"": 1}), "line 1", "task ids must be non-empty", "''"),
    "escaped NUL": (agent_line("a", {"t\0": 1}), "line 1", "task ids", r"'t\x00'"),
    "surrogate": (agent_line("a", {"\ud800": 1}), "line 1", "task id", r"'\ud800'"),
    "no response at all": (agent_line("a", {}), "no agent has a response"),
    "empty": ("", "is empty"),
    "NUL": (GOOD + "\0", f"NUL at byte {len(GOOD)}"),
    "not UTF-8": (GOOD.encode() + b"\xff", f"at byte {len(GOOD)}"),
}


@pytest.mark.parametrize(
    ("content", "parts"), [(c, p) for c, *p in BAD_JSONL.values()], ids=BAD_JSONL
)
def test_read_jsonl_refuses(tmp_path: Path, content: str | bytes, parts: list[str]) -> None:
    path = write(tmp_path / "x.jsonl", content)
    assert_refused(read_jsonl, path, *parts)
    assert_refused(read_bank_file, path, *parts)


# Example tables


def table(tmp_path: Path, rows: list[list[str]]) -> Path:
    header = ["", "example_id", "num_solved", "models", "tau"]
    body = [[str(index), *row, ""] for index, row in enumerate(rows)]
    return write_csv(tmp_path / "x.csv", [header, *body])


def printed(names: list[str]) -> str:
    with np.printoptions(threshold=sys.maxsize):
        return str(np.array(names, dtype=object))


def test_read_example_table_reads_solvers(tmp_path: Path) -> None:
    rows = [["t2", "2", "['b'\n 'a']"], ["t1", "0", "[]"], ["t3", "1", "['a']"]]
    bank = read_example_table(table(tmp_path, rows))
    assert bank.agents == ["a", "b"]
    assert bank.tasks == ["t2", "t1", "t3"]
    assert bank.values.tolist() == [[1, 0, 1], [1, 0, 0]]


def test_read_example_table_names_with_quotes_dots_and_brackets(tmp_path: Path) -> None:
    names = ["it's", 'say "x"', "both ' and \"", "wait...", "a] [b", "back\\slash", "tab\t", "模型"]
    bank = read_example_table(table(tmp_path, [["t", str(len(names)), printed(names)]]))
    assert bank.agents == sorted(names)


@settings(deadline=None)
@given(matrix=matrices())
def test_read_example_table_round_trip(
    tmp_path_factory: pytest.TempPathFactory, matrix: ResponseMatrix
) -> None:
    solved = matrix.values == 1
    rows = []
    for task, column in zip(matrix.tasks, solved.T, strict=True):
        names = list(itertools.compress(matrix.agents, column))
        rows.append([task, str(len(names)), printed(names)])
    path = table(tmp_path_factory.mktemp("table"), rows)
    present = sorted(itertools.compress(matrix.agents, solved.any(axis=1)))
    if not present:
        assert_refused(read_example_table, path, "no agent is named")
        return
    bank = read_example_table(path)
    assert bank.agents == present
    assert bank.tasks == matrix.tasks
    wanted = solved[[matrix.agents.index(agent) for agent in present]]
    np.testing.assert_array_equal(bank.values, wanted)


def test_read_example_table_truncated_printout(tmp_path: Path) -> None:
    names = [f"agent-{number}" for number in range(2000)]
    path = table(tmp_path, [["t", "2000", str(np.array(names))]])
    assert_refused(read_example_table, path, "line 2", "task 't'", "truncated", "...")


BAD_TABLE = {
    "count": (["t", "2", "['a']"], "num_solved must equal the 1 names", "got '2'"),
    "count text": (["t", "one", "['a']"], "got 'one'"),
    "count blank": (["t", "", "['a']"], "got ''"),
    "count sign": (["t", "+1", "['a']"], "got '+1'"),
    "name twice": (["t", "2", "['a' 'a']"], "agent ids must be unique", "'a'"),
    "blank name": (["t", "1", "['']"], "agent ids must be non-empty", "''"),
    "not quoted": (["t", "1", "[a]"], "quoted names", "'[a]'"),
    "no bracket": (["t", "1", "'a'"], "quoted names"),
    "cut": (["t", "2", "['a' 'b"], "quoted names"),
    "no space": (["t", "2", "['a''b']"], "quoted names"),
    "blank cell": (["t", "0", ""], "quoted names"),
    "task twice": (["first", "1", "['a']"], "task ids must be unique", "'first'"),
}


@pytest.mark.parametrize(("row", "parts"), [(r, p) for r, *p in BAD_TABLE.values()], ids=BAD_TABLE)
def test_read_example_table_refuses(tmp_path: Path, row: list[str], parts: list[str]) -> None:
    # The first row spans lines 2 and 3.
    path = table(tmp_path, [["first", "2", "['a'\n 'b']"], row])
    assert_refused(read_example_table, path, "line 4", *parts)
    assert_refused(read_bank_file, path, "line 4", *parts)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("example_id,models\nt,['a']\n", ["one column 'num_solved'", "got 0"]),
        ("example_id,num_solved,models,models\nt,0,[],[]\n", ["one column 'models'", "got 2"]),
        ("example_id,num_solved,models\n", ["no row after its header"]),
        ("example_id,num_solved,models\nt,0\n", ["line 2", "3 cells", "found 2"]),
        ("example_id,num_solved,models\nt,0,[]\n", ["no agent is named"]),
    ],
)
def test_read_example_table_refuses_file(tmp_path: Path, content: str, parts: list[str]) -> None:
    path = write(tmp_path / "x.csv", content)
    assert_refused(read_example_table, path, *parts)
    assert_refused(read_bank_file, path, *parts)


# Choice of the format


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", "agent,t1\na,1\n"),
        ("x.CSV", "\ufeffagent,t1\na,1\n"),
        ("x.jsonl", agent_line("a", {"t1": 1})),
        ("x.csv", "example_id,num_solved,models\nt1,1,['a']\n"),
    ],
)
def test_read_bank_file_chooses(tmp_path: Path, name: str, content: str) -> None:
    path = write(tmp_path / name, content)
    for given_path in (path, str(path)):
        bank = read_bank_file(given_path)
        assert (bank.agents, bank.tasks, bank.values.tolist()) == (["a"], ["t1"], [[1.0]])


@pytest.mark.parametrize("name", ["x.txt", "x", "x.parquet", "x.json"])
def test_read_bank_file_unknown_extension_lists_what_is_readable(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "agent,t1\na,1\n")
    assert_refused(read_bank_file, path, repr(path.suffix), ".csv", ".jsonl")


@pytest.mark.parametrize("reader", [read_wide_csv, read_jsonl, read_example_table, read_bank_file])
def test_readers_refuse_what_is_no_file(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    assert_refused(reader, tmp_path / "absent.csv", "does not exist")
    assert_refused(reader, tmp_path / "absent", "does not exist")
    assert_refused(reader, tmp_path, "is a directory")


@pytest.mark.parametrize("reader", [read_wide_csv, read_jsonl, read_example_table, read_bank_file])
def test_readers_refuse_unreadable_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: Callable[[Path], object]
) -> None:
    # Permissions do not stop every user, so the refusal of the system is put in its place.
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    path = write(tmp_path / "x.csv", "agent,t1\na,1\n")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert_refused(reader, path, "cannot be read", "Permission denied")


# Public banks


@pytest.mark.parametrize(
    ("file", "shape"),
    [
        ("swebench-verified.responses.jsonl", (134, 500)),
        ("swebench-pro.responses.jsonl", (14, 730)),
    ],
)
def test_read_jsonl_public_bank(data_dir: Path, file: str, shape: tuple[int, int]) -> None:
    path = public(data_dir, file)
    bank = read_bank_file(path)
    lines = pd.read_json(path, lines=True, dtype=False)
    assert bank.values.shape == shape
    assert bank.agents == lines["subject_id"].tolist()
    assert bank.tasks == list(lines["responses"][0])
    assert bank.values.sum(axis=1).tolist() == [sum(x.values()) for x in lines["responses"]]
    assert bank.n_missing == 0


def test_read_jsonl_pro_scores_agree_with_the_runs(data_dir: Path) -> None:
    bank = read_jsonl(public(data_dir, "swebench-pro.responses.jsonl"))
    runs = pd.read_csv(public(data_dir, "swebench-pro.long.csv"))
    solved = runs.groupby("metadata.model_name")["metadata.resolved"].sum()
    assert solved.to_dict() == dict(zip(bank.agents, bank.values.sum(axis=1), strict=True))


@pytest.mark.parametrize(
    ("file", "shape"),
    [
        ("swebench-lite.example-table.csv", (84, 300)),
        ("swebench-full.example-table.csv", (22, 2294)),
    ],
)
def test_read_example_table_public_bank(data_dir: Path, file: str, shape: tuple[int, int]) -> None:
    path = public(data_dir, file)
    bank = read_bank_file(path)
    rows = pd.read_csv(path)
    assert bank.values.shape == shape
    assert bank.tasks == rows["example_id"].tolist()
    assert bank.agents == sorted(bank.agents)
    assert bank.values.sum(axis=0).tolist() == rows["num_solved"].tolist()
    mentions = [
        rows["models"].str.contains(f"'{agent}'", regex=False).sum() for agent in bank.agents
    ]
    assert bank.values.sum(axis=1).tolist() == mentions
