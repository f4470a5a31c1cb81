"""The structure of the source outcomes, and what it means for a target (tables 3 and 7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..models.groups import group_tasks
from ..models.items import fit_items
from ..models.responses import ResponseMatrix
from .folds import Fold


def source_structure(bank: ResponseMatrix, plan: Sequence[Fold]) -> pd.DataFrame:
    """Describe the source of each target.

    Parameters
    ----------
    bank : ResponseMatrix, shape (m, N)
        The archive, complete.
    plan : sequence of Fold
        Folds over the agents.

    Returns
    -------
    pandas.DataFrame
        One row a target: agent, fold, groups (their number G), zero_share (share of the tasks that
        no source agent solved), zero_success (share of those that the target solves; NaN if there
        are none).
    """
    rows = []
    for fold in plan:
        source = bank.select(fold.source)
        groups = len(group_tasks(source, fit_items(source)).size)
        zero = _unsolved(source)
        for agent in fold.target:
            outcomes = bank.outcomes.sel(agent=agent).values
            rows.append(
                {
                    "agent": agent,
                    "fold": fold.index,
                    "groups": groups,
                    "zero_share": float(zero.mean()),
                    "zero_success": float(outcomes[zero].mean()) if zero.any() else np.nan,
                }
            )
    return pd.DataFrame(rows)


def zero_queries(bank: ResponseMatrix, plan: Sequence[Fold], runs: pd.DataFrame) -> float:
    """Return the share of the queries that went to tasks which no source agent solved.

    Parameters
    ----------
    bank : ResponseMatrix, shape (m, N)
        The archive.
    plan : sequence of Fold
        Folds over the agents.
    runs : pandas.DataFrame
        Runs with the columns agent, fold and queried.

    Returns
    -------
    float
        Mean over targets and seeds, which weigh the same.
    """
    zero = {fold.index: _unsolved(bank.select(fold.source)) for fold in plan}
    shares = [
        zero[fold][list(queried)].mean() if queried else 0.0
        for fold, queried in zip(runs["fold"], runs["queried"], strict=True)
    ]
    return float(np.mean(shares))


def _unsolved(source: ResponseMatrix) -> np.ndarray:
    """Return which tasks no source agent solved, shape (N,)."""
    return ~(source.values == 1).any(axis=0)
