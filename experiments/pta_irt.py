"""PTA-IRT's folder: the response matrices and folds of the paper's experiments.

PTA-IRT (Duan et al. 2026; DeepSoftwareAnalytics/PTA-IRT on GitHub) publishes its data as
``data.zip``. Unpacked into ``data/``, a bank is the folder ``swe_*_summary`` with ``matrix.csv``
and ``metadata.json``, and the files ``folds/<bank>/fold_*.json``. Ids are matched exactly.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import numpy as np

from ..models.errors import DataError
from ..models.responses import ResponseMatrix
from .folds import Fold
from .formats import _add_id, _at, _csv_records, _read_text, _show, _unique_keys

PTA_IRT_BANKS: dict[str, str] = {
    "lite": "swe_lite_summary",
    "verified": "swe_verified_summary",
    "full": "swe_test_summary",
    "pro": "swe_pro_summary",
}
"""The banks of PTA-IRT and the folder of each."""

# Missing results are already failures in these matrices, so a cell is never empty.
_CELLS = {"0": 0.0, "0.0": 0.0, "1": 1.0, "1.0": 1.0}


def load_pta_irt(folder: str | os.PathLike[str], bank: str) -> tuple[ResponseMatrix, list[Fold]]:
    """Load a bank of PTA-IRT with its published folds.

    Parameters
    ----------
    folder : str or path-like
        The folder ``data``, or the one that contains it.
    bank : {"lite", "verified", "full", "pro"}
        The bank; "full" is the folder ``swe_test_summary``.

    Returns
    -------
    matrix : ResponseMatrix, shape (m, N)
        Named ``pta-irt:<bank>``, in the order of the metadata.
    folds : list of Fold
        Sorted by the number that their files give; agents on either side in bank order.

    Raises
    ------
    DataError
        If the bank is unknown, a file is absent or broken, the matrix and its metadata disagree, an
        agent of a fold is unknown, repeated or on both sides, or an agent is not a target exactly
        once.
    """
    data = data_folder(folder, bank)
    matrix = _read_matrix(data / PTA_IRT_BANKS[bank], f"pta-irt:{bank}")
    row = {agent: number for number, agent in enumerate(matrix.agents)}
    return matrix, [
        Fold(
            fold.index,
            tuple(sorted(fold.source, key=row.__getitem__)),
            tuple(sorted(fold.target, key=row.__getitem__)),
        )
        for fold in read_folds(data / "folds" / bank, matrix)
    ]


def data_folder(folder: str | os.PathLike[str], bank: str) -> Path:
    """Return the folder ``data`` of PTA-IRT that holds a bank.

    Parameters
    ----------
    folder : str or path-like
        That folder, or the one that contains it.
    bank : {"lite", "verified", "full", "pro"}
        The bank.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    DataError
        If the bank is unknown, or neither folder holds it.
    """
    if bank not in PTA_IRT_BANKS:
        raise DataError(
            f"the bank of PTA-IRT must be one of {', '.join(PTA_IRT_BANKS)}, got {bank!r}"
        )
    name = PTA_IRT_BANKS[bank]
    folder = Path(folder).expanduser()
    for data in (folder / "data", folder):
        if (data / name).is_dir():
            return data
    raise DataError(
        f"folder {str(folder)!r} must be PTA-IRT's data folder or contain it, but neither "
        f"{name!r} nor 'data/{name}' is in it; unpack data.zip into {str(folder / 'data')!r}"
    )


def read_folds(folder: str | os.PathLike[str], matrix: ResponseMatrix) -> list[Fold]:
    """Read the fold files of a bank; agents stay in the order of the files.

    Parameters
    ----------
    folder : str or path-like
        The folder with ``fold_*.json``.
    matrix : ResponseMatrix, shape (m, N)
        The bank.

    Returns
    -------
    list of Fold
        Sorted by number. The order of its targets is the one that PTA-IRT's results follow.

    Raises
    ------
    DataError
        If there is no fold file, one is broken, or the folds do not take every agent as a target
        exactly once and apart from their sources.
    """
    folder = Path(folder)
    paths = sorted(folder.glob("fold_*.json"))
    if not paths:
        raise DataError(
            f"folder {str(folder)!r} must hold fold_*.json, found none; unpack it again"
        )
    known = set(matrix.agents)
    folds: dict[int, Fold] = {}
    fold_of: dict[str, Path] = {}
    for path in paths:
        fold = _read_fold(path, known)
        if fold.index in folds:
            raise DataError(
                f"file {str(path)!r}: the number of a fold must be its own, got {fold.index} "
                "again; remove the copy"
            )
        folds[fold.index] = fold
        for agent in fold.target:
            if agent in fold_of:
                raise DataError(
                    f"file {str(path)!r}, test_models: every agent must be a target once, "
                    f"{_show(agent)} is one in {fold_of[agent].name!r} too; remove one of them"
                )
            fold_of[agent] = path
    absent = [agent for agent in matrix.agents if agent not in fold_of]
    if absent:
        raise DataError(
            f"folder {str(folder)!r}: every agent must be a target once, {len(absent)} of "
            f"{len(known)} are in no fold's test_models (first: {_show(absent[0])}); fetch all "
            "fold files"
        )
    return [folds[number] for number in sorted(folds)]


def read_json_object(path: Path) -> dict[str, object]:
    """Read a JSON file that holds an object without repeated keys.

    Parameters
    ----------
    path : pathlib.Path
        The file; a byte order mark is skipped.

    Returns
    -------
    dict

    Raises
    ------
    DataError
        If the file cannot be read, is not JSON, repeats a key or holds something else.
    """
    at = f"file {str(path)!r}"
    try:
        value = json.loads(_read_text(path), object_pairs_hook=partial(_unique_keys, at=at))
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        raise DataError(f"{at}: broken JSON ({error}); fetch it again") from None
    if not isinstance(value, dict):
        raise DataError(f"{at} must hold a JSON object, got {_show(value)}; name the right file")
    return value


def _read_matrix(folder: Path, name: str) -> ResponseMatrix:
    """Read matrix.csv with the ids of metadata.json."""
    described = folder / "metadata.json"
    at = f"file {str(described)!r}"
    metadata = read_json_object(described)
    tasks: dict[str, int] = {}
    for number, task in enumerate(_items(metadata, "instance_ids", at)):
        _add_id(tasks, task, "task", f"{at}, instance_ids[{number}]")
    agents = _folders(metadata, "agents", at)
    for key, ids in (("n_agents", agents), ("n_items", tasks)):
        if key in metadata and metadata[key] != len(ids):
            raise DataError(
                f"{at}: {key} must equal the {len(ids)} ids listed, got {_show(metadata[key])}; "
                "fetch it again"
            )
    path = folder / "matrix.csv"
    records = _csv_records(path)
    outcomes = np.array([_outcomes(cells, _at(path, line), tasks) for line, cells in records])
    if len(records) != len(agents):
        raise DataError(
            f"file {str(path)!r} must have a row for each of the {len(agents)} agents of "
            f"metadata.json, got {len(records)}; fetch both again"
        )
    return ResponseMatrix.from_arrays(outcomes, agents=agents, tasks=list(tasks), name=name)


def _outcomes(cells: list[str], at: str, tasks: dict[str, int]) -> list[float]:
    if len(cells) != len(tasks):
        raise DataError(
            f"{at}: a row must have a cell for each of the {len(tasks)} tasks of metadata.json, "
            f"got {len(cells)}; fetch both again"
        )
    for task, cell in zip(tasks, cells, strict=True):
        if cell.strip() not in _CELLS:
            raise DataError(
                f"{at}, task {_show(task)}: an outcome must be 0 or 1, got {_show(cell)}; recode "
                "it (the table has neither a header nor ids)"
            )
    return [_CELLS[cell.strip()] for cell in cells]


def _read_fold(path: Path, known: set[str]) -> Fold:
    at = f"file {str(path)!r}"
    content = read_json_object(path)
    number = content.get("fold")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise DataError(
            f"{at}: fold must be a whole number from 0, got {_show(number)}; number the fold"
        )
    source, target = (_folders(content, key, at) for key in ("train_models", "test_models"))
    for key, agents in (("train_models", source), ("test_models", target)):
        for agent in agents:
            if agent not in known:
                raise DataError(
                    f"{at}, {key}: every agent must be one of metadata.json, {_show(agent)} is "
                    "not; correct the id or fetch both again"
                )
    shared = set(source).intersection(target)
    if shared:
        raise DataError(
            f"{at}: no agent may be in train_models and test_models, {_show(min(shared))} is in "
            "both; remove it from one"
        )
    return Fold(number, tuple(source), tuple(target))


def _items(content: dict[str, object], key: str, at: str) -> list[object]:
    value = content.get(key)
    if not isinstance(value, list) or not value:
        raise DataError(
            f"{at}: {key} must be a list with at least one entry, got {_show(value)}; fetch it "
            "again"
        )
    return value


def _folders(content: dict[str, object], key: str, at: str) -> list[str]:
    """Return the unique texts under "folder" of a list of objects."""
    agents: dict[str, int] = {}
    for number, entry in enumerate(_items(content, key, at)):
        if not isinstance(entry, dict) or "folder" not in entry:
            raise DataError(
                f"{at}, {key}[{number}]: an agent must be an object with 'folder', got "
                f"{_show(entry)}; fetch it again"
            )
        _add_id(agents, entry["folder"], "agent", f"{at}, {key}[{number}]")
    return list(agents)
