"""Adaptive runs on an item bank: ability by sequential EAP, queries by Fisher information.

Legend of shapes: N tasks.
"""

from __future__ import annotations

import numpy as np

from ...models.errors import DataError
from .item_bank import LOG_WEIGHTS, ItemBank, expected_ability


class AdaptiveTest:
    """An item bank fitted to source agents, and how the next task is picked from it.

    Parameters
    ----------
    bank : ItemBank
        The N items.
    budget : int
        Tasks B that a run may reveal, from 0 to N.
    choices : int
        The next task is a uniformly random one of this many most informative unqueried tasks; 1
        for the most informative one.

    Raises
    ------
    DataError
        If the budget is not from 0 to N, or `choices` is below 1.
    """

    def __init__(self, bank: ItemBank, *, budget: int, choices: int) -> None:
        n_tasks = len(bank.slope)
        if not 0 <= budget <= n_tasks:
            raise DataError(
                f"budget must be from 0 to {n_tasks} tasks, got {budget}; use budget_tasks to turn "
                "a share into a number"
            )
        if choices < 1:
            raise DataError(f"choices must be a whole number from 1, got {choices}; ATLAS has 5")
        self.bank = bank
        self.budget = budget
        self.choices = choices
        self.log_curves = bank.log_curves()

    def start(self, seed: int) -> AdaptiveRun:
        """Start a run on a target.

        Parameters
        ----------
        seed : int
            Seed of the random picks; it changes nothing if `choices` is 1.

        Returns
        -------
        AdaptiveRun
        """
        return AdaptiveRun(self, seed=seed)


class AdaptiveRun:
    """One target agent: ability by sequential EAP, queries by Fisher information.

    Parameters
    ----------
    test : AdaptiveTest
        The fitted test.
    seed : int
        Query seed.

    Notes
    -----
    After every outcome the ability is the posterior mean under a standard normal prior (expected a
    posteriori), on the quadrature grid of the fit. The score is the p-IRT estimator: observed
    successes plus the success probabilities of the other tasks at that ability, over N.
    """

    def __init__(self, test: AdaptiveTest, *, seed: int) -> None:
        self._test = test
        self._rng = np.random.default_rng(seed)
        self._log_posterior = LOG_WEIGHTS.copy()
        self._unqueried = np.ones(len(test.bank.slope), dtype=bool)
        self._queried = 0
        self._successes = 0
        self._pending: int | None = None
        self.ability = expected_ability(self._log_posterior)

    def ask(self) -> list[int]:
        """Return the next task, the same until its outcome is told; empty at the budget."""
        if self._pending is None:
            if self._queried == self._test.budget:
                return []
            information = self._test.bank.information(self.ability)
            best = most_informative(information, self._unqueried, self._test.choices)
            pick = int(self._rng.integers(len(best))) if self._test.choices > 1 else 0
            self._pending = int(best[pick])
        return [self._pending]

    def tell(self, task: int, outcome: int) -> None:
        """Update the ability with the outcome of the asked task.

        Raises
        ------
        DataError
            If the task is not the asked one, or the outcome is neither 0 nor 1.
        """
        if task != self._pending:
            raise DataError(
                f"task must be the asked one, {self._pending}, got {task}; tell the outcome of "
                "what ask() returned"
            )
        if outcome not in (0, 1):
            raise DataError(
                f"the outcome of task {task} must be 0 or 1, got {outcome!r}; recode it"
            )
        self._log_posterior += self._test.log_curves[int(outcome)][task]
        self.ability = expected_ability(self._log_posterior)
        self._unqueried[task] = False
        self._queried += 1
        self._successes += int(outcome)
        self._pending = None

    def estimate(self) -> float:
        """Return the p-IRT score."""
        rest = self._test.bank.probability(self.ability)[self._unqueried].sum()
        return float((self._successes + rest) / len(self._unqueried))


def most_informative(information: np.ndarray, unqueried: np.ndarray, count: int) -> np.ndarray:
    """Return the most informative unqueried tasks.

    Parameters
    ----------
    information : numpy.ndarray, shape (N,)
        Fisher information.
    unqueried : numpy.ndarray of bool, shape (N,)
        Which tasks may be returned; at least one.
    count : int
        How many to return, if there are as many.

    Returns
    -------
    numpy.ndarray of int, shape (min(count, unqueried),)
        Most informative first; equally informative ones in bank order.
    """
    tasks = np.flatnonzero(unqueried)
    value = information[tasks]
    if count == 1:
        return tasks[[value.argmax()]]
    if count < len(tasks):
        # Many tasks tie (same source outcomes), so the cut is made by value, not by partition.
        kept = value >= np.partition(value, -count)[-count]
        tasks, value = tasks[kept], value[kept]
    return tasks[np.argsort(-value, kind="stable")[:count]]
