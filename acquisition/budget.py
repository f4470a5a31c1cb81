"""Budgets, given as a number of tasks or as a share of the bank."""

from __future__ import annotations

import math
from numbers import Integral, Real

from ..models.errors import DataError


def budget_tasks(budget: int | float, n_tasks: int) -> int:
    """Return a budget as a number of tasks.

    Parameters
    ----------
    budget : int or float
        A whole number of tasks from 0 to N, or a share from 0.0 to 1.0 given as a float: B =
        round(share * N). So 1 is one task and 1.0 is all of them.
    n_tasks : int
        Number of tasks N.

    Returns
    -------
    int
        B, from 0 to N.

    Raises
    ------
    DataError
        If the budget is negative, NaN, above N, or a float above 1.
    """
    remedy = f"give a number of tasks from 0 to {n_tasks} or a share such as 0.1"
    if isinstance(budget, bool) or not isinstance(budget, Real):
        raise DataError(f"budget must be a number, got {budget!r}; {remedy}")
    if isinstance(budget, Integral):
        if not 0 <= budget <= n_tasks:
            raise DataError(f"budget must be from 0 to {n_tasks} tasks, got {budget}; {remedy}")
        return int(budget)
    if not math.isfinite(budget) or not 0 <= budget <= 1:
        raise DataError(f"budget as a share must be from 0.0 to 1.0, got {budget}; {remedy}")
    return round(float(budget) * n_tasks)


def own_budget(budget: int | float, n_tasks: int) -> int:
    """Return a budget on the tasks that one agent has an outcome for.

    Parameters
    ----------
    budget : int or float
        As `budget_tasks` takes it, valid for the whole bank.
    n_tasks : int
        Tasks N' that the agent has an outcome for.

    Returns
    -------
    int
        A share is one of the agent's own tasks; a number is lowered to how many it has.
    """
    if isinstance(budget, Integral):
        return min(int(budget), n_tasks)
    return budget_tasks(budget, n_tasks)
