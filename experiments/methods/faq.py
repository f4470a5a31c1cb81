"""FAQ-port: factorized active querying without replacement, with its PAI estimator.

Legend of shapes: m source agents, N tasks, D factors, B tasks to reveal.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np
from scipy.special import expit

from ...acquisition.budget import budget_tasks
from ...models.responses import ResponseMatrix
from .base import Method, complete_outcomes
from .factor_model import FactorModel, choose_factors, fit_factors
from .faq_kernels import (
    TargetPrior,
    draw_task,
    query_probabilities,
    schedule,
    update_posterior,
)
from .faq_tuning import FaqSettings, choose_settings
from .sampling import check_told


class FaqRun:
    """One run of FAQ-port.

    Parameters
    ----------
    model : FactorModel
        Factors fitted to the source agents.
    settings : FaqSettings
        Schedule of the query probabilities.
    uniforms : numpy.ndarray, shape (B,)
        Random numbers from [0, 1), one a query.

    Attributes
    ----------
    mean, covariance : numpy.ndarray, shapes (D,) and (D, D)
        Posterior u and Sigma of the target's factors.
    rate, probability : numpy.ndarray, shape (N,)
        Predicted rates p and query probabilities q of the last asked task.
    terms : list of float
        phi_t of each told outcome, in tasks: unbiased for N times the score, given the past.
    """

    def __init__(self, model: FactorModel, settings: FaqSettings, uniforms: np.ndarray) -> None:
        prior = TargetPrior.of(model)
        self.mean, self.covariance = prior.mean.copy(), prior.covariance.copy()
        self._factors = prior.factors
        self._logit, self._spread = prior.logit.copy(), prior.spread.copy()
        n_tasks = prior.factors.shape[1]
        self.rate, self.probability = np.empty(n_tasks), np.empty(n_tasks)
        self._settings, self._uniforms = settings, uniforms
        self._queried = np.zeros(n_tasks, dtype=bool)
        self._pending: list[int] = []
        self.terms: list[float] = []
        self._known = self._remaining = 0.0

    def ask(self) -> list[int]:
        """Return the next task, alone in a list: the same one until it is told."""
        budget = len(self._uniforms)
        step = len(self.terms)
        if not self._pending and step < budget:
            beta0, rho, gamma, tau = astuple(self._settings)
            alpha, beta = schedule(step + 1, budget, rho, gamma, beta0)
            self._remaining = query_probabilities(
                self._logit,
                self._spread,
                self._factors,
                self.covariance,
                self._queried,
                alpha,
                beta,
                tau,
                self.rate,
                self.probability,
            )
            self._pending = [int(draw_task(self.probability, self._uniforms[step]))]
        return list(self._pending)

    def tell(self, task: int, outcome: int) -> None:
        """Take the outcome of the asked task.

        Parameters
        ----------
        task : int
            The task that `ask` returned.
        outcome : {0, 1}
            Whether the target solves it.

        Raises
        ------
        DataError
            If the task was not asked or is told already, or the outcome is neither 0 nor 1.
        """
        check_told(task, outcome, self._pending)
        rate = float(self.rate[task])
        correction = (outcome - rate) / float(self.probability[task])
        self.terms.append(self._known + self._remaining + correction)
        update_posterior(
            task,
            float(outcome),
            rate,
            self._factors,
            self.mean,
            self.covariance,
            self._logit,
            self._spread,
        )
        self._queried[task] = True
        self._known += outcome
        self._pending = []

    def estimate(self) -> float:
        """Return the mean of phi_t over the outcomes told so far, divided by N and clipped.

        Returns
        -------
        float
            From 0 to 1; before any outcome the mean rate at the prior mean of the factors. It
            is not exact at B = N, since the earlier phi_t stay in the mean.
        """
        if not self.terms:
            return float(expit(self._logit).mean())
        return float(np.clip(np.mean(self.terms) / len(self.rate), 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class FittedFaq:
    """FAQ-port fitted to the source agents of one fold.

    Attributes
    ----------
    model : FactorModel
        Factors fitted to all source agents.
    settings : FaqSettings
        Chosen on the source agents.
    budget : int
        Tasks B that a run reveals.
    """

    model: FactorModel
    settings: FaqSettings
    budget: int

    def start(self, seed: int) -> FaqRun:
        """Start a run; `seed` decides the random numbers of its queries."""
        return FaqRun(self.model, self.settings, np.random.default_rng(seed).random(self.budget))


def fit_faq(source: ResponseMatrix, budget: int) -> FittedFaq:
    """Fit the factor model and choose the schedule of FAQ-port.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        Complete source outcomes.
    budget : int
        Tasks B to reveal, from 0 to N.

    Returns
    -------
    FittedFaq

    Raises
    ------
    DataError
        If an outcome is missing or the budget is out of range.

    Notes
    -----
    Factorized active querying (Wu et al., 2026) in its variant without replacement; the coverage
    theorem of the original does not carry over to it. Rank and penalty come from
    `choose_factors`, the schedule from `choose_settings`: nothing of a target enters either.
    """
    outcomes = complete_outcomes(source)
    budget = budget_tasks(budget, outcomes.shape[1])
    rank, penalty = choose_factors(outcomes)
    settings = choose_settings(outcomes, budget, rank=rank, penalty=penalty)
    return FittedFaq(fit_factors(outcomes, rank=rank, penalty=penalty), settings, budget)


FAQ = Method("faq", "FAQ-port", fit_faq, seeds=5)
