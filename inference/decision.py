"""The score posterior and its decision: median or mean, with calibration.

Legend of shapes: J nodes, G groups, D draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import xarray as xr

from ..models.errors import DataError
from .diagnostics import effective_sample_size, normalised_weights, pareto_k
from .kernels import conditional_variance, weighted_sums
from .predictive import draw_successes, stratified_nodes
from .trees import group_dataset

DRAWS = 131_072
DRAW_SEED = 20261005


@dataclass(frozen=True, eq=False)
class ScorePosterior:
    """Posterior of the full-benchmark score of one agent; every score is a share from 0 to 1.

    Attributes
    ----------
    estimate : float
        The decision: median or mean plus calibration, within [0, 1].
    median : float
        Median of the draws.
    mean, sd : float
        Posterior mean and standard deviation, from the weighted nodes (equations 21 and 22).
    observed_share : float
        Share of successes among the outcomes; NaN if there is none.
    n_observed, n_tasks : int
        Outcomes known, and tasks of the benchmark.
    mean_residual : float
        Observed minus expected successes by outcome, R (equation 15).
    ess, pareto_k : float
        Effective sample size of the importance weights and shape of their tail.
    draws : numpy.ndarray, shape (D,)
        Draws of the score, ascending.
    nodes : int
        Nodes J of the importance sampler.
    """

    estimate: float
    median: float
    mean: float
    sd: float
    observed_share: float
    n_observed: int
    n_tasks: int
    mean_residual: float
    ess: float
    pareto_k: float
    draws: np.ndarray = field(repr=False)
    nodes: int

    @property
    def trusted(self) -> bool:
        """Whether the importance weights are good enough for the figures to be trusted.

        False if fewer than a twentieth of the nodes count, or their tail is heavy (Pareto k above
        0.7) and fewer than half of them count. Take the Student-t proposal or more nodes then.
        """
        if self.n_observed == self.n_tasks:
            return True  # nothing is left to weight
        share = self.ess / self.nodes
        return share >= 0.05 and (self.pareto_k <= 0.7 or share >= 0.5)

    def interval(self, prob: float = 0.9) -> tuple[float, float]:
        """Return the equal-tailed credible interval of the score.

        Parameters
        ----------
        prob : float, default 0.9
            Posterior probability of the interval.

        Returns
        -------
        tuple of float
            Lower and upper end.

        Raises
        ------
        DataError
            If `prob` is not between 0 and 1.
        """
        if not 0 < prob < 1:
            raise DataError(f"prob must be between 0 and 1, got {prob!r}; try 0.9")
        low, high = np.quantile(self.draws, [(1 - prob) / 2, (1 + prob) / 2])
        return float(low), float(high)


class _State(NamedTuple):
    """What the decision reads of a tree, as arrays."""

    weight: np.ndarray
    mean_score: np.ndarray
    mean_rate: np.ndarray
    rate_alpha: np.ndarray
    rate_beta: np.ndarray
    successes: np.ndarray
    trials: np.ndarray
    size: np.ndarray


def score_posterior(
    tree: xr.DataTree,
    *,
    calibration: float = 0.0,
    decision: str = "median",
    draws: int = DRAWS,
    seed: int = DRAW_SEED,
) -> ScorePosterior:
    """Decide on the score from a posterior tree (section 3.5 of the paper).

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with the groups ``importance``, ``observed_data`` and ``constant_data``.
    calibration : float, default 0.0
        Share lambda of the mean residual, times the unobserved share, that is added (equation 16).
    decision : {"median", "mean"}, default "median"
        What is calibrated: the median of the draws (equation 14) or the posterior mean.
    draws : int, default 131072
        Number of predictive draws D.
    seed : int, default 20261005
        Seed of the draws; apart from the seed of the queries.

    Returns
    -------
    ScorePosterior

    Raises
    ------
    DataError
        If `decision` is unknown or `draws` is not positive.
    """
    if decision not in ("median", "mean"):
        raise DataError(f"decision must be 'median' or 'mean', got {decision!r}")
    if draws < 1:
        raise DataError(f"draws must be a whole number from 1, got {draws!r}")
    log_weight = group_dataset(tree, "importance")["log_weight"].values
    state = _read(tree, log_weight)
    unqueried = state.size - state.trials
    n_tasks, n_observed = int(state.size.sum()), int(state.trials.sum())
    mean, residual = _mean_and_residual(state)
    between = float(state.weight @ (state.mean_score - mean) ** 2)
    rates = (state.mean_rate, state.rate_alpha, state.rate_beta)
    within = float(state.weight @ conditional_variance(*rates, unqueried)) / n_tasks**2

    rng = np.random.default_rng(seed)
    node = stratified_nodes(state.weight, draws, rng)
    totals = draw_successes(node, *rates, unqueried, rng)
    scores = np.sort(state.successes.sum() + totals) / n_tasks
    median = float(np.median(scores))
    center = median if decision == "median" else mean
    return ScorePosterior(
        estimate=calibrated(center, calibration, residual, n_observed / n_tasks),
        median=median,
        mean=mean,
        sd=float(np.sqrt(between + within)),
        observed_share=float(state.successes.sum() / n_observed) if n_observed else float("nan"),
        n_observed=n_observed,
        n_tasks=n_tasks,
        mean_residual=residual,
        ess=effective_sample_size(state.weight),
        pareto_k=pareto_k(log_weight),
        draws=scores,
        nodes=len(log_weight),
    )


def calibrated(center: float, calibration: float, mean_residual: float, observed: float) -> float:
    """Return the calibrated decision (equation 16).

    Parameters
    ----------
    center : float
        Median or mean of the score, as a share.
    calibration : float
        Share lambda of the mean residual that is added.
    mean_residual : float
        Observed minus expected successes by outcome, R (equation 15).
    observed : float
        Share of the benchmark's tasks with an outcome, B / N.

    Returns
    -------
    float
        Within [0, 1].
    """
    return float(np.clip(center + calibration * (1 - observed) * mean_residual, 0, 1))


def mean_and_residual(tree: xr.DataTree) -> tuple[float, float]:
    """Return what the decision by the posterior mean needs, without any draw.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior, as `score_posterior` takes it.

    Returns
    -------
    mean : float
        Posterior mean of the score.
    mean_residual : float
        Observed minus expected successes by outcome, R (equation 15); 0 before any outcome.
    """
    log_weight = group_dataset(tree, "importance")["log_weight"].values
    return _mean_and_residual(_read(tree, log_weight))


def _mean_and_residual(state: _State) -> tuple[float, float]:
    mean = float(state.weight @ state.mean_score)
    observed = state.trials > 0
    if not observed.any():
        return mean, 0.0
    rate = weighted_sums(state.mean_rate[observed], state.weight[None])[:, 0]
    expected = state.trials[observed] @ rate
    return mean, float((state.successes.sum() - expected) / state.trials.sum())


def _read(tree: xr.DataTree, log_weight: np.ndarray) -> _State:
    importance, observed = (group_dataset(tree, name) for name in ("importance", "observed_data"))
    # Group-major again; no copy where the tree views the sampler's arrays.
    by_group = (
        np.ascontiguousarray(importance[name].values.T)
        for name in ("mean_rate", "rate_alpha", "rate_beta")
    )
    return _State(
        normalised_weights(log_weight),
        importance["mean_score"].values,
        *by_group,  # type: ignore[call-arg]
        observed["successes"].values,
        observed["trials"].values,
        group_dataset(tree, "constant_data")["group_size"].values,
    )
