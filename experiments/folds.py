"""Folds over agents: every agent is a target once, never beside its own source row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from sklearn.model_selection import KFold

from ..models.errors import DataError
from ..models.responses import ResponseMatrix

FOLDS = 4
FOLD_SEED = 42


@dataclass(frozen=True)
class Fold:
    """One split of a bank's agents.

    Attributes
    ----------
    index : int
        Number of the fold, from 0.
    source, target : tuple of str
        Agents on either side, in bank order.
    """

    index: int
    source: tuple[str, ...]
    target: tuple[str, ...]


def fold_of_target(plan: Sequence[Fold]) -> dict[str, int]:
    """Return the fold in which each agent is a target.

    Parameters
    ----------
    plan : sequence of Fold
        Folds over the agents.

    Returns
    -------
    dict of str to int
        Index of the fold by agent.
    """
    return {agent: fold.index for fold in plan for agent in fold.target}


def agent_folds(bank: ResponseMatrix, *, folds: int = FOLDS, seed: int = FOLD_SEED) -> list[Fold]:
    """Split a bank's agents into shuffled folds.

    Parameters
    ----------
    bank : ResponseMatrix, shape (m, N)
        The bank; the order of its agents matters.
    folds : int, default 4
        Number of folds; lowered to m if the bank has fewer agents.
    seed : int, default 42
        Seed of the shuffle.

    Returns
    -------
    list of Fold
        As scikit-learn's ``KFold(folds, shuffle=True, random_state=seed)`` splits the agents.

    Raises
    ------
    DataError
        If the bank has one agent, `folds` is not a whole number from 2, or `seed` not one from 0.
    """
    agents = bank.agents
    if not isinstance(folds, Integral) or folds < 2:
        raise DataError(f"folds must be a whole number from 2, got {folds!r}; the paper uses 4")
    if not isinstance(seed, Integral) or isinstance(seed, bool) or not 0 <= seed < 2**32:
        raise DataError(
            f"the seed of the folds must be a whole number from 0 to 2**32 - 1, got {seed!r}; "
            "the paper uses 42"
        )
    if len(agents) < 2:
        raise DataError(
            f"bank {bank.name!r} has one agent, {agents[0]!r}: a target needs at least one source "
            "agent beside it; add agents"
        )
    splitter = KFold(min(int(folds), len(agents)), shuffle=True, random_state=int(seed))
    return [
        Fold(
            index,
            tuple(agents[row] for row in source_rows),
            tuple(agents[row] for row in target_rows),
        )
        for index, (source_rows, target_rows) in enumerate(splitter.split(agents))
    ]
