"""Summaries of one posterior, with the Monte Carlo error that its kind of sampler has.

Weighted nodes are summarised as they are: rates and score enter through their exact conditional
means and variances at each node. Chains are summarised by ArviZ.

Legend of shapes: J nodes, K latent coordinates, G groups, C chains, D draws, M quantities.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.base import array_stats

from ..models.errors import DataError
from .decision import score_posterior
from .diagnostics import normalised_weights
from .kernels import conditional_variance
from .predictive import stratified_nodes
from .trees import group_dataset

SCORE = "S"
PROBS = (0.05, 0.5, 0.95)
# Repetitions below which their scatter says nothing about the Monte Carlo error.
MIN_REPEATS = 4
_DRAWS = 131_072
_SEED = 20261005
COLUMNS = ("mean", "sd", "q05", "q50", "q95", "mcse", "mcse_sd", "r_hat", "ess_bulk", "ess_tail")


@dataclass(frozen=True, eq=False)
class PosteriorSummary:
    """What a comparison needs of one posterior.

    Attributes
    ----------
    rows : pandas.DataFrame, shape (M, 10)
        One row a quantity: the score "S", each latent coordinate ("z[ability]"), the rate of each
        group with an outcome ("q[g3]"). Columns: mean, sd, q05, q50, q95, Monte Carlo standard
        errors of mean and sd (mcse, mcse_sd), and for chains r_hat, ess_bulk and ess_tail, which
        are NaN for weighted nodes and constants.
    latent : tuple of str
        The rows of the latent coordinates.
    facts : dict
        Kind ("weighted" or "chains") and diagnostics of the sampler.
    counts : tuple of numpy.ndarray of int, shape (G,) each
        Successes, trials and sizes of the groups.
    """

    rows: pd.DataFrame
    latent: tuple[str, ...]
    facts: dict[str, Any]
    counts: tuple[np.ndarray, np.ndarray, np.ndarray]

    @property
    def weighted(self) -> bool:
        """Whether this is a posterior of weighted nodes."""
        return bool(self.facts["kind"] == "weighted")


def summarise(posterior: xr.DataTree | Iterable[xr.DataTree]) -> PosteriorSummary:
    """Summarise score, latent coordinates and the rates of the observed groups.

    Parameters
    ----------
    posterior : xarray.DataTree or iterable of xarray.DataTree
        A tree of `SobolSampler`, `Evaluator` or `sample_nuts`. Of several, the first is summarised;
        the others are independent repetitions of it (other scrambles, other seeds), taken one at a
        time, and the scatter between all of them becomes the Monte Carlo error of the first.

    Returns
    -------
    PosteriorSummary

    Raises
    ------
    DataError
        If a tree is no posterior, or there are two or three.
    """
    trees: Iterator[xr.DataTree]
    trees = iter([posterior]) if isinstance(posterior, xr.DataTree) else iter(posterior)
    first = next(trees, None)
    if first is None:
        raise DataError("there is no posterior to compare; give a tree or some of them")
    summary = _summary(first)
    moments = [summary.rows[["mean", "sd"]]]
    moments += [_summary(tree, quantiles=False).rows[["mean", "sd"]] for tree in trees]
    repeats = len(moments)
    if repeats == 1:
        return summary
    if repeats < MIN_REPEATS:
        raise DataError(
            f"the scatter of {repeats} posteriors says nothing about their error; give one or at "
            f"least {MIN_REPEATS}"
        )
    if not all(frame.index.equals(summary.rows.index) for frame in moments):
        raise DataError("the repeated posteriors have other quantities; repeat the same one")
    scatter = np.std([frame.to_numpy() for frame in moments], axis=0, ddof=1)
    return replace(
        summary,
        rows=summary.rows.assign(mcse=scatter[:, 0], mcse_sd=scatter[:, 1]),
        facts=summary.facts | {"repeats": repeats},
    )


def _summary(tree: xr.DataTree, *, quantiles: bool = True) -> PosteriorSummary:
    if "importance" in tree.children:
        return _weighted_summary(tree, quantiles)
    if "sample_stats" in tree.children:
        return _chain_summary(tree)
    found = ", ".join(tree.children) or "none"
    raise DataError(
        f"the posterior has neither a group 'importance' nor 'sample_stats' (found: {found}); take "
        "the tree of a SobolSampler, an Evaluator or sample_nuts"
    )


def _weighted_summary(tree: xr.DataTree, quantiles: bool) -> PosteriorSummary:
    nodes = group_dataset(tree, "importance")
    names, counts = dict(nodes.attrs), _counts(tree)
    _, trials, size = counts
    weight = normalised_weights(nodes["log_weight"].values)
    z, mean_score = nodes[names["latent"]].values, nodes["mean_score"].values
    m = nodes["mean_rate"].values
    total = nodes["rate_alpha"].values + nodes["rate_beta"].values
    spread = m * (1 - m) / (total + 1)
    by_group = (
        np.ascontiguousarray(nodes[name].values.T)
        for name in ("mean_rate", "rate_alpha", "rate_beta")
    )
    within = conditional_variance(*by_group, size - trials) / size.sum() ** 2
    active = np.flatnonzero(trials)
    latent = _labels(nodes, names["latent"], z.shape[1])
    rates = _labels(nodes, names["rate"], len(size), names["group"])
    index = [SCORE, *latent, *(rates[g] for g in active)]
    center = np.column_stack([mean_score, z, m[:, active]])
    inner = np.column_stack([within, np.zeros_like(z), spread[:, active]])
    rows = pd.DataFrame(np.nan, index=pd.Index(index, name="quantity"), columns=list(COLUMNS))
    for column, values in _moments(weight, center, inner).items():
        rows[column] = values
    score = score_posterior(tree, draws=_DRAWS if quantiles else 1)
    if quantiles:
        rng = np.random.default_rng(_SEED)
        node = stratified_nodes(weight, _DRAWS, rng)
        draws = [score.draws, *z[node].T]
        levels = [np.quantile(x, PROBS) for x in draws]
        for g in active:
            alpha, beta = nodes["rate_alpha"].values[node, g], nodes["rate_beta"].values[node, g]
            levels.append(np.quantile(rng.beta(alpha, beta), PROBS))
        rows[["q05", "q50", "q95"]] = levels
    facts = {
        "kind": "weighted",
        "nodes": score.nodes,
        "ess": score.ess,
        "pareto_k": score.pareto_k,
        "trusted": score.trusted,
    }
    return PosteriorSummary(rows, tuple(latent), facts, counts)


def _moments(weight: np.ndarray, center: np.ndarray, inner: np.ndarray) -> dict[str, np.ndarray]:
    """Return mean, sd and their errors from conditional means and variances, shape (J, M)."""
    mean = weight @ center
    square = (center - mean) ** 2
    variance = weight @ (square + inner)
    sd = np.sqrt(variance)
    # A ratio estimate: the error of the normalised weights is in it, to first order.
    error = np.sqrt(weight**2 @ square)
    error_of_variance = np.sqrt(weight**2 @ (square + inner - variance) ** 2)
    twice = np.where(sd > 0, 2 * sd, np.inf)
    return {"mean": mean, "sd": sd, "mcse": error, "mcse_sd": error_of_variance / twice}


def _chain_summary(tree: xr.DataTree) -> PosteriorSummary:
    stats, samples = group_dataset(tree, "sample_stats"), group_dataset(tree, "posterior")
    names, counts = dict(stats.attrs), _counts(tree)
    if not {"latent", "rate", "group"} <= names.keys():
        raise DataError(
            "the posterior's group 'sample_stats' does not name latent vector and rates; take the "
            "tree of sample_nuts"
        )
    z, q = samples[names["latent"]].values, samples[names["rate"]].values
    active = np.flatnonzero(counts[1])
    latent = _labels(samples, names["latent"], z.shape[2])
    rates = _labels(samples, names["rate"], q.shape[2])
    score = group_dataset(tree, "posterior_predictive")["score"].values
    quantities = [score, *np.moveaxis(z, 2, 0), *np.moveaxis(q[..., active], 2, 0)]
    index = pd.Index([SCORE, *latent, *(rates[g] for g in active)], name="quantity")
    chain_rows = [_chain_row(x) for x in quantities]
    rows = pd.DataFrame(chain_rows, index=index, columns=list(COLUMNS), dtype=float)
    decisive = rows.loc[[SCORE, *latent]]
    facts = {
        "kind": "chains",
        "chains": score.shape[0],
        "draws": score.shape[1],
        "divergences": int(stats["diverging"].sum()),
        # Those of constants are left out; one chain has none.
        "r_hat": float(decisive["r_hat"].max()),
        "ess": float(decisive[["ess_bulk", "ess_tail"]].min().min()),
        **{name: names[name] for name in ("sampler", "form", "density_error") if name in names},
    }
    return PosteriorSummary(rows, tuple(latent), facts, counts)


def _chain_row(draws: np.ndarray) -> dict[str, float]:
    """Summarise one quantity, shape (C, D)."""
    values = dict(zip(("q05", "q50", "q95"), np.quantile(draws, PROBS), strict=True))
    row = {"mean": draws.mean(), "sd": draws.std(ddof=1), **values}
    if np.ptp(draws) == 0:
        return row | {"sd": 0.0, "mcse": 0.0, "mcse_sd": 0.0}
    axes = {"chain_axis": 0, "draw_axis": 1}
    return row | {
        "mcse": array_stats.mcse(draws, method="mean", **axes),
        "mcse_sd": array_stats.mcse(draws, method="sd", **axes),
        "r_hat": array_stats.rhat(draws, **axes),
        "ess_bulk": array_stats.ess(draws, method="bulk", **axes),
        "ess_tail": array_stats.ess(draws, method="tail", prob=(PROBS[0], PROBS[-1]), **axes),
    }


def _counts(tree: xr.DataTree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    observed = group_dataset(tree, "observed_data")
    size = group_dataset(tree, "constant_data")["group_size"].values
    return observed["successes"].values, observed["trials"].values, size


def _labels(dataset: xr.Dataset, name: str, length: int, dim: str | None = None) -> list[str]:
    """Return the names of a vector's entries, such as "z[ability]"."""
    dim = str(dataset[name].dims[-1]) if dim is None else dim
    labels = dataset[dim].values if dim in dataset.coords else range(length)
    return [f"{name}[{label}]" for label in labels]
