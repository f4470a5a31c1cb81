"""Frozen predictions of PTA-IRT: read from a file, never recomputed.

PTA-IRT needs the agents' trajectories, so a comparison takes its published estimates as they are.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pandas as pd

from ..acquisition.budget import budget_tasks
from ..models.errors import DataError
from ..models.responses import ResponseMatrix
from .folds import Fold
from .formats import _add_id, _at, _csv_table, _show
from .pta_irt import PTA_IRT_BANKS, data_folder, load_pta_irt, read_folds, read_json_object

FROZEN_COLUMNS = ("bank", "agent", "budget", "estimate")
FROZEN_FIELDS = ("pred_full", "pred_subset")
# Both are means of the same 0s and 1s.
_TRUTH_TOLERANCE = 1e-9
_BUDGETS = ("budget", "calib_frac")


def read_frozen(
    path: str | os.PathLike[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    bank: str | None = None,
    field: str = "pred_full",
) -> pd.DataFrame:
    """Read frozen predictions from a table or from PTA-IRT's own result file.

    Parameters
    ----------
    path : str or path-like
        ``.csv``: the columns bank, agent, budget, estimate in any order, one row a prediction.
        ``.json``: what PTA-IRT's ``run_pta.py`` writes for a bank.
    folder : str or path-like, default None
        PTA-IRT's data folder or the one that contains it; needed for ``.json``, whose results name
        no agent but follow the order of the fold files. Not used for ``.csv``.
    bank : {"lite", "verified", "full", "pro"}, default None
        Bank of a ``.json`` file; None takes the one that the file states under ``bench``. Not used
        for ``.csv``.
    field : {"pred_full", "pred_subset"}, default "pred_full"
        Which estimate a ``.json`` file is read for: the mean predicted probability over all tasks,
        or over the calibration tasks. PTA-IRT's own summary (``mae_mean``, ``oof_mae``) scores
        pred_subset against the full score. Not used for ``.csv``.

    Returns
    -------
    pandas.DataFrame
        Columns bank, agent, budget, estimate, seed. Budget is a share of the bank's tasks in (0, 1]
        (never a number of tasks: "1" is all of them), estimate a share in [0, 1]. Seed numbers
        several results of a fold from 0 in file order; it is 0 in a table.

    Raises
    ------
    DataError
        If the file breaks a rule, a prediction is repeated or absent, or the true scores in it are
        not those of the matrix.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return _read_table(path)
    if suffix != ".json":
        raise DataError(
            f"file {str(path)!r} has the extension {path.suffix!r}; frozen predictions are read "
            "from .csv (bank, agent, budget, estimate) or PTA-IRT's .json; convert it"
        )
    if field not in FROZEN_FIELDS:
        raise DataError(f"field must be one of {', '.join(FROZEN_FIELDS)}, got {field!r}")
    if folder is None:
        raise DataError(
            f"file {str(path)!r} names no agent: folder must be PTA-IRT's data folder, whose fold "
            "files give their order, got None; unpack data.zip"
        )
    return _read_result(path, folder, bank, field)


def frozen_estimates(
    frozen: pd.DataFrame, matrix: ResponseMatrix, *, bank: str, budget: int | float = 0.1
) -> np.ndarray:
    """Pick the predictions of a bank's agents at one budget.

    Parameters
    ----------
    frozen : pandas.DataFrame
        As `read_frozen` returns it.
    matrix : ResponseMatrix, shape (m, N)
        The bank whose agents are asked for; further agents in `frozen` are left out.
    bank : str
        Name of the bank in `frozen`.
    budget : int or float, default 0.1
        Tasks or share of tasks. Shares agree if they round to the same number of tasks: PTA-IRT
        writes 229/2294 for 0.1.

    Returns
    -------
    numpy.ndarray, shape (seeds, m)
        Estimated scores as shares, in bank order.

    Raises
    ------
    DataError
        If the bank or the budget is not among the predictions, or an agent has none or several.
    """
    rows = frozen[frozen["bank"] == bank]
    if rows.empty:
        raise DataError(
            f"the frozen predictions have no bank {bank!r}; name one of "
            f"{', '.join(sorted(set(frozen['bank'])))}"
        )
    n_tasks = len(matrix.tasks)
    wanted = budget_tasks(budget, n_tasks)
    tasks = [budget_tasks(float(share), n_tasks) for share in rows["budget"]]
    rows = rows[np.array(tasks) == wanted]
    if rows.empty:
        raise DataError(
            f"the frozen predictions of {bank!r} have no budget of {wanted} tasks; choose one of "
            f"{', '.join(map(str, sorted(set(tasks))))}"
        )
    twice = rows[rows.duplicated(["seed", "agent"])]
    if not twice.empty:
        raise DataError(
            f"agent {twice['agent'].iloc[0]!r} of {bank!r} must have one frozen prediction at "
            f"{wanted} tasks, got several shares that round to it; leave all but one out"
        )
    table = rows.pivot(index="seed", columns="agent", values="estimate")
    table = table.reindex(columns=matrix.agents)
    absent = table.columns[table.isna().any()]
    if len(absent):
        raise DataError(
            f"every agent of bank {matrix.name!r} must have a frozen prediction at {wanted} tasks, "
            f"{len(absent)} of {len(matrix.agents)} have none (first: {absent[0]!r}); add them "
            "(ids are matched exactly)"
        )
    return table.to_numpy(dtype=float)


def _read_table(path: Path) -> pd.DataFrame:
    header, body = _csv_table(path)
    if sorted(header) != sorted(FROZEN_COLUMNS):
        raise DataError(
            f"{_at(path, 1)}: the columns must be {', '.join(FROZEN_COLUMNS)}, each once, got "
            f"{_show(header)}; rename or remove columns"
        )
    line_of: dict[tuple[str, str, float], int] = {}
    rows = []
    for line, cells in body:
        at = _at(path, line)
        cell = dict(zip(header, cells, strict=True))
        bank, agent = (_add_id({}, cell[name], name, at) for name in FROZEN_COLUMNS[:2])
        budget, estimate = (
            _share(_number(cell[name]), name, at, shown=cell[name]) for name in FROZEN_COLUMNS[2:]
        )
        key = (bank, agent, budget)
        if key in line_of:
            raise DataError(
                f"{at}: bank, agent and budget must be unique, {_show(agent)} at {budget} is on "
                f"line {line_of[key]} too; remove one"
            )
        line_of[key] = line
        rows.append((*key, estimate, 0))
    return pd.DataFrame(rows, columns=[*FROZEN_COLUMNS, "seed"])


def _number(text: str) -> float:
    """Return a plain decimal number, else NaN."""
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan


def _share(value: object, what: str, at: str, *, shown: object = None) -> float:
    """Return an estimate in [0, 1] or a budget in (0, 1]."""
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= 1
        and (value > 0 or what not in _BUDGETS)
    ):
        return float(value)
    interval = "(0, 1]" if what in _BUDGETS else "[0, 1]"
    got = _show(value if shown is None else shown)
    raise DataError(
        f"{at}: {what} must be a share in {interval}, got {got}; divide per cent by 100, and a "
        "number of tasks by that of all tasks"
    )


def _read_result(
    path: Path, folder: str | os.PathLike[str], bank: str | None, field: str
) -> pd.DataFrame:
    at = f"file {str(path)!r}"
    content = read_json_object(path)
    stated = content.get("bench", bank)
    bank = stated if bank is None and isinstance(stated, str) else bank
    if bank not in PTA_IRT_BANKS or stated != bank:
        raise DataError(
            f"{at}: the bank must be one of {', '.join(PTA_IRT_BANKS)} and the one that the file "
            f"states as bench, got {bank!r} and bench {_show(content.get('bench'))}; correct it"
        )
    matrix, _ = load_pta_irt(folder, bank)
    folds = read_folds(data_folder(folder, bank) / "folds" / bank, matrix)
    by_number = {fold.index: fold for fold in folds}
    truth = dict(zip(matrix.agents, matrix.values.mean(axis=1).tolist(), strict=True))
    rows: list[tuple[str, str, float, float, int]] = []
    for place, entry in enumerate(_objects(content, "folds", at)):
        here = f"{at}, folds[{place}]"
        number = entry.get("fold")
        if type(number) is not int or number not in by_number:
            raise DataError(
                f"{here}: fold must be one of {sorted(by_number)}, each once, got {_show(number)}; "
                "take the result of these folds"
            )
        fold = by_number.pop(number)
        results = _objects(entry, "results", here)
        models = sorted({str(block.get("model")) for block in results})
        if len(models) > 1:
            raise DataError(
                f"{here}: several results of a fold must be runs of one model, got "
                f"{_show(models)}; keep one model in the file"
            )
        for seed, block in enumerate(results):
            where = f"{here}.results[{seed}]"
            for step, row in enumerate(_objects(block, "by_calib_frac", where)):
                spot = f"{where}.by_calib_frac[{step}]"
                budget = _share(row.get("calib_frac"), "calib_frac", spot)
                values = _estimates(row, field, fold, truth, spot)
                rows += [(bank, agent, budget, value, seed) for agent, value in values.items()]
    frame = pd.DataFrame(rows, columns=[*FROZEN_COLUMNS, "seed"])
    _require_every_agent(frame, matrix, at)
    return frame


def _estimates(
    row: dict[str, object], field: str, fold: Fold, truth: dict[str, float], at: str
) -> dict[str, float]:
    """Return the estimates of a fold's targets, whose true scores must be those of the matrix."""
    columns = []
    for key in ("true_full", field):
        values = row.get(key)
        if not isinstance(values, list) or len(values) != len(fold.target):
            got = len(values) if isinstance(values, list) else _show(values)
            raise DataError(
                f"{at}: {key} must list a score for each of the {len(fold.target)} test_models of "
                f"fold {fold.index}, got {got}; agents left out by PTA-IRT's summary filter cannot "
                "be told apart, use its published folds"
            )
        columns.append([_share(v, key, f"{at}, place {n}") for n, v in enumerate(values)])
    for agent, stated in zip(fold.target, columns[0], strict=True):
        if abs(stated - truth[agent]) > _TRUTH_TOLERANCE:
            raise DataError(
                f"{at}: true_full must be the agent's score in matrix.csv, got {stated} for "
                f"{_show(agent)}, whose score is {truth[agent]}; result and data are of different "
                "versions, fetch both again"
            )
    return dict(zip(fold.target, columns[1], strict=True))


def _require_every_agent(frame: pd.DataFrame, matrix: ResponseMatrix, at: str) -> None:
    """Check that every agent has one estimate at every budget of every seed."""
    twice = frame[frame.duplicated(["agent", "budget", "seed"])]
    if not twice.empty:
        raise DataError(
            f"{at}: calib_frac must be unique within a result, {twice['budget'].iloc[0]} is "
            f"repeated for {_show(twice['agent'].iloc[0])}; remove one"
        )
    for seed in range(int(frame["seed"].max()) + 1):
        for budget in sorted(set(frame["budget"])):
            held = frame[(frame["seed"] == seed) & (frame["budget"] == budget)]
            absent = set(matrix.agents) - set(held["agent"])
            if absent:
                raise DataError(
                    f"{at}: every fold must hold the same results and calib_frac, {budget} of "
                    f"result {seed} is absent for {len(absent)} of {len(matrix.agents)} agents "
                    f"(first: {_show(min(absent))}); complete the file"
                )


def _objects(content: dict[str, object], key: str, at: str) -> list[dict[str, object]]:
    value = content.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
        raise DataError(
            f"{at}: {key} must be a list of objects, got {_show(value)}; fetch the file again"
        )
    return value
