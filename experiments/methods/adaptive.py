"""Adaptive testing with item response theory: ATLAS-port and plain maximum information.

Legend of shapes: m source agents, N tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...models.responses import ResponseMatrix
from ..folds import agent_folds
from .adaptive_run import AdaptiveTest
from .base import Method, complete_outcomes
from .item_fit import fit_item_bank
from .item_prior import ItemPrior, difficulty_prior

ATLAS_CHOICES = 5
ATLAS_SEEDS = 5
ASYMPTOTE_COUNT = 20.0
LOG_SLOPE_SDS = (0.5, 1.0, 2.0)


def source_prior(source: ResponseMatrix, budget: int) -> ItemPrior:
    """Choose the item prior of both adaptive methods, on source agents alone.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        The source agents, no missing cell.
    budget : int
        Tasks B that a run may reveal.

    Returns
    -------
    ItemPrior
        log a ~ Normal(0, sd^2) with sd 0.5, 1 or 2; b ~ Normal with mean and sd estimated from the
        source agents (see `difficulty_prior`); c ~ Beta(1, 20) and d ~ Beta(20, 1), which matter to
        a 4PL only.

    Notes
    -----
    The sd of log a is that of the smallest mean absolute error of the 2PL test over source agents,
    each held out in one of four folds over them; the smaller sd on ties, and 0.5 for one agent. On
    ten agents the slopes are mostly prior, and no fixed sd suits both such a bank and a large one.
    """
    outcomes = complete_outcomes(source)
    mean, sd = difficulty_prior(outcomes)
    chosen = LOG_SLOPE_SDS[0]
    if len(outcomes) > 1:
        errors = [held_out_error(source, budget, candidate) for candidate in LOG_SLOPE_SDS]
        chosen = LOG_SLOPE_SDS[int(np.argmin(errors))]
    return ItemPrior(chosen, mean, sd, ASYMPTOTE_COUNT)


def held_out_error(source: ResponseMatrix, budget: int, log_slope_sd: float) -> float:
    """Return the mean absolute error of the 2PL test over held-out source agents.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        At least two source agents, no missing cell.
    budget : int
        Tasks B that a run may reveal.
    log_slope_sd : float
        Sd of log a.

    Returns
    -------
    float
        As a share.
    """
    errors = []
    for fold in agent_folds(source):
        outcomes = source.select(fold.source).values
        prior = ItemPrior(log_slope_sd, *difficulty_prior(outcomes))
        bank = fit_item_bank(outcomes, prior=prior, asymptotes=False)
        test = AdaptiveTest(bank, budget=budget, choices=1)
        for truth in source.select(fold.target).values:
            run = test.start(0)
            while tasks := run.ask():
                run.tell(tasks[0], int(truth[tasks[0]]))
            errors.append(abs(run.estimate() - truth.mean()))
    return float(np.mean(errors))


@dataclass(frozen=True)
class _Fit:
    """The fit of a method: which bank, with or without priors, and how many tasks to pick from."""

    asymptotes: bool
    priors: bool
    choices: int

    def __call__(self, source: ResponseMatrix, budget: int) -> AdaptiveTest:
        outcomes = complete_outcomes(source)
        prior = source_prior(source, budget) if self.priors else ItemPrior()
        bank = fit_item_bank(outcomes, prior=prior, asymptotes=self.asymptotes)
        return AdaptiveTest(bank, budget=budget, choices=self.choices)


ATLAS = Method(
    "atlas",
    "ATLAS-port",
    _Fit(asymptotes=True, priors=True, choices=ATLAS_CHOICES),
    seeds=ATLAS_SEEDS,
)
"""4PL bank with the priors of `source_prior`; a random one of the five most informative tasks."""

ATLAS_NO_PRIOR = Method(
    "atlas-no-priors",
    "ATLAS-port, no item priors",
    _Fit(asymptotes=True, priors=False, choices=ATLAS_CHOICES),
    seeds=ATLAS_SEEDS,
)
"""The same with a 4PL bank that only the box of `fit_item_bank` holds."""

ADAPTIVE_2PL = Method(
    "adaptive-2pl",
    "Adaptive testing (2PL)",
    _Fit(asymptotes=False, priors=True, choices=1),
    seeds=1,
)
"""2PL bank with the priors of `source_prior`; the most informative task each time."""
