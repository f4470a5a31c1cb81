"""The schedule of FAQ-port and how it is chosen on the source agents.

Legend of shapes: m source agents, N tasks, D factors, B tasks to reveal.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from sklearn.model_selection import KFold

from .factor_model import fit_factors
from .faq_kernels import TargetPrior, replay_agent


@dataclass(frozen=True)
class FaqSettings:
    """The schedule of the query probabilities; t counts the queries from 1.

    Attributes
    ----------
    beta0 : float
        Final tempering exponent: beta_t = beta0 min(1, t / (gamma B)).
    rho : float
        Share of the budget over which the active score fades out:
        alpha_t = max(0, 1 - t / (rho B)); 0 leaves it out.
    gamma : float
        Share of the budget over which the tempering fades in; 0 starts at beta0.
    tau : float
        Share of the uniform distribution in the query probabilities, above 0.
    """

    beta0: float
    rho: float
    gamma: float
    tau: float


SETTINGS = tuple(
    FaqSettings(*values)
    for values in itertools.product(
        (0.5, 1.0), (0.0, 0.25, 0.75), (0.0, 0.25, 0.75), (0.05, 0.25, 0.75)
    )
)
# Where one source agent leaves nobody to choose with: the middle of the grid.
DEFAULT_SETTINGS = FaqSettings(beta0=0.5, rho=0.25, gamma=0.25, tau=0.25)
TUNING_BLOCKS = 5
SCREENING_SEEDS = (0, 1)
FINALISTS = 6
FINAL_SEEDS = (2, 3, 4, 5, 6, 7)
_BLOCK_SEED = 0


def held_out_errors(
    outcomes: np.ndarray,
    budget: int,
    *,
    rank: int,
    penalty: float,
    settings: Sequence[FaqSettings],
    seeds: Sequence[int],
) -> np.ndarray:
    """Return the absolute errors of some settings on held-out source agents.

    Parameters
    ----------
    outcomes : numpy.ndarray, shape (m, N)
        Complete source outcomes of two agents or more.
    budget : int
        Tasks B to reveal, at least 1.
    rank : int
        Factors D, capped at the remaining agents less one.
    penalty : float
        Ridge penalty of the factor model.
    settings : sequence of FaqSettings
        What to compare; every setting meets the same random numbers.
    seeds : sequence of int
        One run of every agent each.

    Returns
    -------
    numpy.ndarray, shape (settings, m, seeds)
        As shares.

    Notes
    -----
    Agents are held out in at most five shuffled blocks (fixed seed), and the factors are fitted
    without the block: no agent's row enters the factors that it is judged with.
    """
    m = len(outcomes)
    truth = outcomes.mean(axis=1)
    uniforms = [np.random.default_rng(seed).random((m, budget)) for seed in seeds]
    errors = np.empty((len(settings), m, len(seeds)))
    blocks = KFold(min(TUNING_BLOCKS, m), shuffle=True, random_state=_BLOCK_SEED)
    for fitted, held_out in blocks.split(outcomes):
        capped = min(rank, max(1, len(fitted) - 1))
        prior = TargetPrior.of(fit_factors(outcomes[fitted], rank=capped, penalty=penalty))
        for i, setting in enumerate(settings):
            for agent, k in itertools.product(held_out, range(len(seeds))):
                estimate = replay_agent(
                    outcomes[agent],
                    uniforms[k][agent],
                    prior.factors,
                    prior.mean,
                    prior.covariance,
                    prior.logit,
                    prior.spread,
                    *astuple(setting),
                )
                errors[i, agent, k] = abs(np.clip(estimate, 0.0, 1.0) - truth[agent])
    return errors


def choose_settings(outcomes: np.ndarray, budget: int, *, rank: int, penalty: float) -> FaqSettings:
    """Choose the schedule by the mean absolute error over held-out source agents.

    Parameters
    ----------
    outcomes : numpy.ndarray, shape (m, N)
        Complete source outcomes.
    budget : int
        Tasks B to reveal.
    rank, penalty : int, float
        Of the factor model.

    Returns
    -------
    FaqSettings
        One of `SETTINGS`: all are run under two seeds, the best six under six more, and the best
        of these over all eight is kept (the first on ties). `DEFAULT_SETTINGS` if one source
        agent or no query leaves nothing to choose with.
    """
    if len(outcomes) < 2 or budget == 0:
        return DEFAULT_SETTINGS
    screening = held_out_errors(
        outcomes, budget, rank=rank, penalty=penalty, settings=SETTINGS, seeds=SCREENING_SEEDS
    )
    best = np.argsort(screening.mean(axis=(1, 2)), kind="stable")[:FINALISTS]
    finalists = sorted(int(i) for i in best)
    final = held_out_errors(
        outcomes,
        budget,
        rank=rank,
        penalty=penalty,
        settings=[SETTINGS[i] for i in finalists],
        seeds=FINAL_SEEDS,
    )
    errors = np.concatenate([screening[finalists], final], axis=2)
    return SETTINGS[finalists[int(errors.mean(axis=(1, 2)).argmin())]]
