"""The item fit: a regularised logistic item model of the source agents, and residual factors.

Legend of shapes: m source agents, N tasks, K residual factors (at most eight).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.special import expit, logit

from .errors import DataError
from .responses import ResponseMatrix
from .zero_inflated import ZeroInflatedBeta, fit_zero_inflated_beta

MAX_FACTORS = 8
_NEWTON_UPDATES = 16
_MAX_UPDATE = 0.5
_INTERCEPT_PRECISION = 1.0
_SLOPE_PRECISION = 2.0
_INTERCEPT_RANGE = (-10.0, 10.0)
_SLOPE_RANGE = (0.05, 5.0)
_RATE_RANGE = (1e-4, 1 - 1e-4)
_ABILITY_SD_FLOOR = 0.25
_VARIANCE_FLOOR = 0.08


@dataclass(frozen=True, eq=False)
class ItemFit:
    """Item parameters fitted to a source matrix.

    Attributes
    ----------
    intercept, slope : numpy.ndarray, shape (N,)
        b and a of logit p = b + a * theta.
    loading : numpy.ndarray, shape (N, K)
        Scaled residual directions v (equation 19).
    ability : numpy.ndarray, shape (m,)
        Standardised abilities theta of the source agents.
    initial_rate : numpy.ndarray, shape (N,)
        Success rates under the fitted prior, which start and regularise the intercepts.
    rate_prior : ZeroInflatedBeta
        The fitted prior of the tasks' success rates.
    tasks, agents : tuple of str
        Ids in the order of the arrays.
    """

    intercept: np.ndarray
    slope: np.ndarray
    loading: np.ndarray
    ability: np.ndarray
    initial_rate: np.ndarray
    rate_prior: ZeroInflatedBeta
    tasks: tuple[str, ...]
    agents: tuple[str, ...]

    def to_dataset(self) -> xr.Dataset:
        """Return the parameters as a labelled dataset.

        Returns
        -------
        xarray.Dataset
            Variables over the dimensions ``task``, ``factor`` and ``agent``.
        """
        return xr.Dataset(
            {
                "intercept": ("task", self.intercept),
                "slope": ("task", self.slope),
                "initial_rate": ("task", self.initial_rate),
                "loading": (("task", "factor"), self.loading),
                "ability": ("agent", self.ability),
            },
            coords={
                "task": np.array(self.tasks, dtype=object),
                "agent": np.array(self.agents, dtype=object),
                "factor": np.arange(1, self.loading.shape[1] + 1),
            },
            attrs={
                "zero_mass": self.rate_prior.zero_mass,
                "beta_a": self.rate_prior.a,
                "beta_b": self.rate_prior.b,
            },
        )


def fit_items(source: ResponseMatrix) -> ItemFit:
    """Fit intercepts, slopes and residual loadings to the source agents.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        Source agents only: hold the target out before. Missing cells need the policy "model"
        (they are masked out of every sum) or another one applied before.

    Returns
    -------
    ItemFit

    Raises
    ------
    DataError
        If outcomes are missing and no policy was applied, or every outcome is missing.

    Notes
    -----
    Sections 3.2 and A of the paper. Every sum runs over known cells, and an agent without any has
    ability 0 and no influence.
    """
    source.require_complete()
    known = ~np.isnan(source.values)
    if not known.any():
        raise DataError(
            f"all {known.size} outcomes of bank {source.name!r} are missing; there is nothing to "
            "fit, add outcomes"
        )
    outcomes = np.where(known, source.values, 0.0)
    successes = outcomes.sum(axis=0).astype(int)
    trials = known.sum(axis=0)
    rate_prior = fit_zero_inflated_beta(successes, trials)
    rate = np.clip(rate_prior.posterior_mean(successes, trials), *_RATE_RANGE)
    ability = _standardised_ability(outcomes, known)
    intercept, slope = _newton(outcomes, known, ability, logit(rate))
    return ItemFit(
        intercept=intercept,
        slope=slope,
        loading=_residual_loading(outcomes, known, ability, intercept, slope),
        ability=ability,
        initial_rate=rate,
        rate_prior=rate_prior,
        tasks=tuple(source.tasks),
        agents=tuple(source.agents),
    )


def _standardised_ability(outcomes: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return standardised logits of the Jeffreys-smoothed scores, shape (m,)."""
    raw = logit((outcomes.sum(axis=1) + 0.5) / (known.sum(axis=1) + 1.0))
    seen = known.any(axis=1)
    standard = (raw - raw[seen].mean()) / max(raw[seen].std(), _ABILITY_SD_FLOOR)
    return np.where(seen, standard, 0.0)


def _newton(
    outcomes: np.ndarray, known: np.ndarray, ability: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Run the damped Newton updates of (intercept, slope), all tasks at once."""
    intercept, slope = np.clip(start, *_INTERCEPT_RANGE), np.ones_like(start)
    theta = ability[:, None]
    for _ in range(_NEWTON_UPDATES):
        p = expit(intercept + theta * slope)
        residual = known * (outcomes - p)
        weight = known * p * (1 - p)
        gradient_b = residual.sum(axis=0) - _INTERCEPT_PRECISION * (intercept - start)
        gradient_a = (theta * residual).sum(axis=0) - _SLOPE_PRECISION * (slope - 1)
        h_bb = weight.sum(axis=0) + _INTERCEPT_PRECISION
        h_ab = (theta * weight).sum(axis=0)
        h_aa = (theta**2 * weight).sum(axis=0) + _SLOPE_PRECISION
        determinant = h_bb * h_aa - h_ab**2
        step_b = (h_aa * gradient_b - h_ab * gradient_a) / determinant
        step_a = (h_bb * gradient_a - h_ab * gradient_b) / determinant
        intercept = np.clip(
            intercept + np.clip(step_b, -_MAX_UPDATE, _MAX_UPDATE), *_INTERCEPT_RANGE
        )
        slope = np.clip(slope + np.clip(step_a, -_MAX_UPDATE, _MAX_UPDATE), *_SLOPE_RANGE)
    return intercept, slope


def _residual_loading(
    outcomes: np.ndarray,
    known: np.ndarray,
    ability: np.ndarray,
    intercept: np.ndarray,
    slope: np.ndarray,
) -> np.ndarray:
    """Return the scaled right singular vectors of the centred residuals (equation 19)."""
    m = int(known.any(axis=1).sum())
    p = expit(intercept + ability[:, None] * slope)
    trials = np.maximum(known.sum(axis=0), 1)
    residual = known * (outcomes - p)
    residual = known * (residual - residual.sum(axis=0) / trials)
    _, singular, right = np.linalg.svd(residual, full_matrices=False)
    # Centring takes one dimension: m agents span at most m - 1 directions.
    rank = min(MAX_FACTORS, m - 1, len(singular))
    direction = right[:rank].T
    # The sign of a singular vector is arbitrary: make its largest entry positive.
    largest = np.abs(direction).argmax(axis=0)
    direction = direction * np.sign(direction[largest, np.arange(rank)])
    mean_variance = (known * p * (1 - p)).sum(axis=0) / trials
    scale = np.sqrt(max(1, m - 1)) * np.maximum(mean_variance, _VARIANCE_FLOOR)
    return direction * singular[:rank] / scale[:, None]
