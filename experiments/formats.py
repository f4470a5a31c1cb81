"""Readers from a file to a response matrix, one function a format.

Ids stay the text that the file holds ("NA", "007" and " 1" are themselves), and an outcome that
the file does not give stays missing. Whatever cannot be read exactly is refused with the file, the
place, the rule, the value and the remedy on one line. Files are UTF-8, with or without a byte
order mark; both kinds of line end are read and blank lines are skipped.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import reprlib
from functools import partial
from pathlib import Path

import numpy as np

from ..models.errors import DataError
from ..models.responses import ResponseMatrix

_CELLS = dict.fromkeys(("0", "0.0", "false"), 0.0)
_CELLS |= dict.fromkeys(("1", "1.0", "true"), 1.0)
_CELLS |= dict.fromkeys(("", "na", "nan", "null"), np.nan)

_TABLE_COLUMNS = ("example_id", "num_solved", "models")
# NumPy prints text as Python literals; only the escapes that repr() writes are taken for names.
_ESCAPE = r"\\(?:[\\'\"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4})"
_NAME = rf"'(?:[^'\\\r\n]|{_ESCAPE})*'|\"(?:[^\"\\\r\n]|{_ESCAPE})*\""
_FIND_NAMES = re.compile(_NAME)
_PRINTED_NAMES = re.compile(rf"\s*\[\s*(?:(?:{_NAME})(?:\s+(?:{_NAME}))*)?\s*\]\s*")

# Values in messages, shortened: a cell may hold a whole file.
_show = reprlib.Repr(maxstring=160, maxother=160, maxlong=160).repr


def read_bank_file(path: str | Path) -> ResponseMatrix:
    """Read a response matrix from a file, choosing the format by extension and header.

    Parameters
    ----------
    path : str or pathlib.Path
        ``.jsonl`` is read by :func:`read_jsonl`, a ``.csv`` file whose header has the columns
        ``example_id`` and ``models`` by :func:`read_example_table`, any other ``.csv`` file by
        :func:`read_wide_csv`.

    Returns
    -------
    ResponseMatrix, shape (m, N)
        Named after the file, without its extension.

    Raises
    ------
    DataError
        If the extension is unknown or the file breaks a rule of its format.
    """
    path = Path(path)
    _require_file(path)
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        return read_jsonl(path)
    if suffix == ".csv":
        _, header = _csv_records(path)[0]
        is_table = {"example_id", "models"} <= set(header)
        return read_example_table(path) if is_table else read_wide_csv(path)
    raise DataError(
        f"file {str(path)!r} has the extension {path.suffix!r}; readable are .csv (a wide table of "
        "agents by tasks, or an example table) and .jsonl (one agent a line); convert it"
    )


def read_wide_csv(path: str | Path) -> ResponseMatrix:
    """Read a wide CSV: one row an agent, one column a task.

    The first column holds the agent ids, whatever its header; the header row holds the task ids.
    A cell is 0, 1, 0.0, 1.0, true or false; an empty cell, NA, NaN or null is missing (upper or
    lower case alike).

    Parameters
    ----------
    path : str or pathlib.Path
        The file.

    Returns
    -------
    ResponseMatrix, shape (m, N)
        Agents and tasks in file order.

    Raises
    ------
    DataError
        If the file cannot be read, a row is ragged, an id is repeated or a cell is not binary.
    """
    path = Path(path)
    header, body = _csv_table(path)
    tasks: dict[str, int] = {}
    for column, task in enumerate(header[1:], start=2):
        _add_id(tasks, task, "task", f"file {str(path)!r}, header, column {column}")
    if not tasks:
        raise DataError(
            f"file {str(path)!r}: the header must name at least one task, got {_show(header)}; "
            "separate columns by commas: agent ids first, then one column a task"
        )
    agents: dict[str, int] = {}
    outcomes = np.empty((len(body), len(tasks)))
    for row, (line, cells) in enumerate(body):
        agent = _add_id(agents, cells[0], "agent", _at(path, line))
        for column, (task, cell) in enumerate(zip(tasks, cells[1:], strict=True)):
            value = _CELLS.get(cell.strip().lower())
            if value is None:
                raise DataError(
                    f"{_at(path, line)}, agent {_show(agent)}, task {_show(task)}: an outcome must "
                    f"be 0, 1, true, false or empty (missing), got {_show(cell)}; recode it (a "
                    "wide table has one row an agent and one column a task)"
                )
            outcomes[row, column] = value
    return ResponseMatrix.from_arrays(
        outcomes, agents=list(agents), tasks=list(tasks), name=path.stem
    )


def read_jsonl(path: str | Path) -> ResponseMatrix:
    """Read JSON lines in the layout of py-irt: one agent a line.

    A line is ``{"subject_id": agent, "responses": {task: outcome, ...}}``; further keys are not
    read. An outcome is 0, 1, true or false; null, NaN or no entry at all is missing.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.

    Returns
    -------
    ResponseMatrix, shape (m, N)
        Agents in file order, tasks in the order in which they first appear.

    Raises
    ------
    DataError
        If the file cannot be read, a line is not such an object, a key or an agent is repeated or
        an outcome is not binary.
    """
    path = Path(path)
    # Not splitlines(): JSON text may hold U+2028 and other characters that it takes for line ends.
    lines = _read_text(path).split("\n")
    agents: dict[str, int] = {}
    tasks: dict[str, int] = {}
    rows: list[dict[str, float]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        at = _at(path, number)
        # A complete file ends with a line end, so that the last piece is empty.
        subject, responses = _parse_agent(line, at, is_last=number == len(lines))
        agent = _add_id(agents, subject, "agent", at)
        row: dict[str, float] = {}
        for task, value in responses.items():
            if task not in tasks:
                _add_id(tasks, task, "task", at)
            row[task] = _json_outcome(value, f"{at}, agent {_show(agent)}, task {_show(task)}")
        rows.append(row)
    if not tasks:
        raise DataError(f"file {str(path)!r}: no agent has a response; fill in 'responses'")

    outcomes = np.full((len(agents), len(tasks)), np.nan)
    for index, row in enumerate(rows):
        outcomes[index, [tasks[task] for task in row]] = list(row.values())
    return ResponseMatrix.from_arrays(
        outcomes, agents=list(agents), tasks=list(tasks), name=path.stem
    )


def read_example_table(path: str | Path) -> ResponseMatrix:
    """Read an example table: one row a task, with the agents that solved it.

    Of the columns, ``example_id`` (task), ``num_solved`` (a count) and ``models`` (a printed NumPy
    array of quoted agent names) are read. An agent that solved nothing does not occur in such a
    table, and nothing is ever missing.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.

    Returns
    -------
    ResponseMatrix, shape (m, N)
        Agents sorted by name, tasks in file order.

    Raises
    ------
    DataError
        If the file cannot be read, a task or a name in a row is repeated, a printout is broken or
        truncated, or it does not hold ``num_solved`` names.
    """
    path = Path(path)
    header, body = _csv_table(path)
    for name in _TABLE_COLUMNS:
        if header.count(name) != 1:
            raise DataError(
                f"file {str(path)!r}: the header must have one column {name!r}, got "
                f"{header.count(name)} in {_show(header)}; an example table has the columns "
                f"{', '.join(_TABLE_COLUMNS)}"
            )
    columns = [header.index(name) for name in _TABLE_COLUMNS]
    tasks: dict[str, int] = {}
    solvers: list[list[str]] = []
    for line, cells in body:
        task, count, models = (cells[column] for column in columns)
        _add_id(tasks, task, "task", _at(path, line))
        at = f"{_at(path, line)}, task {_show(task)}"
        names = _parse_printed_names(models, at)
        if not (count.isascii() and count.isdigit() and int(count) == len(names)):
            raise DataError(
                f"{at}: num_solved must equal the {len(names)} names in models, got "
                f"{_show(count)}; export the table again"
            )
        solvers.append(names)

    agents = sorted(set().union(*solvers))
    if not agents:
        raise DataError(f"file {str(path)!r}: no task was solved, so no agent is named; add one")
    rows = {agent: row for row, agent in enumerate(agents)}
    outcomes = np.zeros((len(agents), len(tasks)))
    for column, names in enumerate(solvers):
        outcomes[[rows[name] for name in names], column] = 1.0
    return ResponseMatrix.from_arrays(outcomes, agents=agents, tasks=list(tasks), name=path.stem)


def _at(path: Path, line: int) -> str:
    return f"file {str(path)!r}, line {line}"


def _require_file(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"file {str(path)!r} is a directory; name a file in it")
    if not path.exists():
        raise DataError(f"file {str(path)!r} does not exist; check the path")


def _read_text(path: Path) -> str:
    _require_file(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"file {str(path)!r} cannot be read ({error.strerror}); check its permissions"
        ) from None
    if b"\0" in data:
        raise DataError(
            f"file {str(path)!r} must be text, got a NUL at byte {data.index(0)}; export it as "
            "UTF-8 text, not as UTF-16 or a spreadsheet, or fetch it again"
        )
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DataError(
            f"file {str(path)!r} must be UTF-8, got {data[error.start : error.end]!r} at byte "
            f"{error.start} ({error.reason}); save it as UTF-8"
        ) from None
    if not text.strip():
        raise DataError(f"file {str(path)!r} is empty; fetch or export it again")
    return text


def _csv_records(path: Path) -> list[tuple[int, list[str]]]:
    """Return the line on which each record starts, and its cells."""
    text = _read_text(path)
    records = []
    start = 1
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    # A printed array easily passes the limit of 131,072 characters, which is global to the module.
    limit = csv.field_size_limit(len(text))
    try:
        for cells in reader:
            if len(cells) > 1 or any(cell.strip() for cell in cells):
                records.append((start, cells))
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{_at(path, start)}: broken CSV ({error}); close the quotes or fetch the file again"
        ) from None
    finally:
        csv.field_size_limit(limit)
    if not records:
        raise DataError(f"file {str(path)!r} has only blank lines; fetch or export it again")
    return records


def _csv_table(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header and at least one further record, all as wide as the header."""
    (_, header), *body = _csv_records(path)
    for line, cells in body:
        if len(cells) != len(header):
            raise DataError(
                f"{_at(path, line)}: a row must have {len(header)} cells like the header, found "
                f"{len(cells)} (the first is {_show(cells[0])}); complete it or fetch it again"
            )
    if not body:
        raise DataError(f"file {str(path)!r} has no row after its header; add at least one")
    return header, body


def _add_id(seen: dict[str, int], value: object, kind: str, at: str) -> str:
    """Add an id with its number, unless it is repeated or cannot be stored everywhere."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise DataError(f"{at}: {kind} ids must be non-empty text, got {_show(value)}; name it")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise DataError(f"{at}: {kind} id {_show(value)} holds half a character; correct it")
    if value in seen:
        raise DataError(f"{at}: {kind} ids must be unique, {_show(value)} is repeated; remove one")
    seen[value] = len(seen)
    return value


def _parse_agent(line: str, at: str, *, is_last: bool) -> tuple[object, dict[str, object]]:
    """Parse one JSON line to an agent id, not checked yet, and its responses."""
    try:
        record = json.loads(line, object_pairs_hook=partial(_unique_keys, at=at))
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        remedy = "the file looks truncated, fetch it again" if is_last else "correct the line"
        raise DataError(
            f"{at}: broken JSON ({getattr(error, 'msg', error)}{column}); {remedy}"
        ) from None
    if not isinstance(record, dict) or not isinstance(record.get("responses"), dict):
        raise DataError(
            f'{at}: a line must be {{"subject_id": agent, "responses": {{task: outcome}}}}, got '
            f"{_show(line)}; convert it"
        )
    return record.get("subject_id"), record["responses"]


def _unique_keys(pairs: list[tuple[str, object]], *, at: str) -> dict[str, object]:
    record: dict[str, object] = {}
    for key, value in pairs:
        if key in record:
            raise DataError(f"{at}: JSON keys must be unique, {_show(key)} is repeated; remove one")
        record[key] = value
    return record


def _json_outcome(value: object, at: str) -> float:
    if value is None or value != value:
        return np.nan
    if value in (0, 1):
        return 1.0 if value else 0.0
    raise DataError(
        f"{at}: an outcome must be 0, 1, true, false or null (missing), got {_show(value)}; "
        "recode it"
    )


def _parse_printed_names(printed: str, at: str) -> list[str]:
    """Parse a printed NumPy array of quoted names."""
    if not _PRINTED_NAMES.fullmatch(printed):
        remedy = "export it again"
        if "..." in _FIND_NAMES.sub("", printed):
            remedy = "NumPy truncated it with '...', print it with a threshold of sys.maxsize"
        raise DataError(
            f"{at}: models must be a printed array of quoted names, got {_show(printed)}; {remedy}"
        )
    seen: dict[str, int] = {}
    for quoted in _FIND_NAMES.findall(printed):
        _add_id(seen, ast.literal_eval(quoted), "agent", at)
    return list(seen)
