"""The report of an evaluation: its numbers, and one HTML page that needs nothing but itself."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import xarray as xr

from .. import __version__
from ..inference.nuts import sample_nuts
from ..inference.sobol import SEED, SobolSampler
from ..inference.trees import group_dataset
from .evaluation import Evaluation
from .files import require_writable, written_whole
from .html import figure, page
from .pictures import (
    plot_latent,
    plot_overlay,
    plot_path,
    plot_rates,
    plot_score,
    plot_weights,
    svg_text,
)
from .report_sections import (
    Figures,
    diagnostics_section,
    header,
    latent_section,
    score_section,
)
from .report_tables import guide_section, settings_section, tasks_section
from .score_path import score_path

INTERVAL_KIND = "equal-tailed credible interval of the model's posterior"
_PACKAGES = ("numpy", "scipy", "numba", "pytensor", "pymc", "xarray", "arviz", "matplotlib")
# Small enough for the words to stay readable where a phone shrinks the picture.
_SIZE = (5.4, 3.4)
_MAIN, _SECOND = "these nodes", "independent nodes"


def report_numbers(evaluation: Evaluation, *, prob: float = 0.9) -> dict[str, Any]:
    """Return the numbers of a report, ready for JSON.

    Parameters
    ----------
    evaluation : Evaluation
        The evaluation.
    prob : float, default 0.9
        Probability of the interval.

    Returns
    -------
    dict
        Scores are shares from 0 to 1; what is unknown, or not finite, is None.
    """
    evaluator, score, truth = evaluation.evaluator, evaluation.score, evaluation.truth
    low, high = score.interval(prob)
    return {
        "bank": evaluator.groups.bank,
        "agent": evaluation.agent,
        "source_agents": evaluation.source_agents,
        "tasks": score.n_tasks,
        "bank_tasks": evaluation.bank_tasks,
        "groups": len(evaluator.groups.size),
        "missing": evaluation.missing,
        "budget": evaluator.budget,
        "queried": score.n_observed,
        "estimate": score.estimate,
        "interval": [low, high],
        "interval_prob": prob,
        "interval_kind": INTERVAL_KIND,
        "median": score.median,
        "mean": score.mean,
        "sd": score.sd,
        "observed_share": score.observed_share if score.n_observed else None,
        "truth": truth,
        "error": None if truth is None else score.estimate - truth,
        "truth_inside": None if truth is None else low <= truth <= high,
        "trusted": score.trusted,
        "nodes": score.nodes,
        "ess": score.ess,
        "pareto_k": score.pareto_k if math.isfinite(score.pareto_k) else None,
        "max_weight": float(evaluator.sampler.arrays.weight.max()),
        "config": evaluator.config.to_dict(),
        "proposal": evaluator.sampler.proposal.kind,
        "query_seed": evaluator.seed,
        "sobol_seed": evaluator.sampler.seed,
        "versions": {
            "hspr": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in _PACKAGES},
        },
    }


def report_page(
    evaluation: Evaluation,
    *,
    prob: float = 0.9,
    others: Mapping[str, xr.DataTree] | None = None,
    progress: bool = False,
) -> str:
    """Return the report of an evaluation as an HTML page.

    Parameters
    ----------
    evaluation : Evaluation
        The evaluation.
    prob : float, default 0.9
        Probability of the intervals.
    others : mapping of str to xarray.DataTree, default None
        More posteriors of the same evaluation by label, such as one of NUTS, to draw over it.
    progress : bool, default False
        Whether to show a progress bar, on stderr and only if that is a terminal.

    Returns
    -------
    str
        A page that requests nothing: pictures are inline SVG, ids are escaped. Equal evaluations
        give equal pages.

    Raises
    ------
    DataError
        If `prob` is not between 0 and 1, or another posterior has other variables.
    """
    numbers = report_numbers(evaluation, prob=prob)
    numbers["pareto_k"] = evaluation.score.pareto_k  # the page says which infinity it is
    path = score_path(evaluation.evaluator, prob=prob, progress=progress)
    sampler, second = _independent(evaluation)
    means = {_SECOND: float(sampler.arrays.weight @ sampler.arrays.mean_score)}
    for label, tree in (others or {}).items():
        means[label] = float(group_dataset(tree, "posterior_predictive")["score"].mean())
    figures = _figures(evaluation, path, prob=prob, others={_SECOND: second, **(others or {})})
    body = "\n".join(
        [
            header(numbers),
            "<main>",
            score_section(numbers, figures),
            latent_section(numbers, figures),
            diagnostics_section(numbers, means, figures),
            tasks_section(numbers, path, evaluation.evaluator.groups),
            settings_section(numbers),
            guide_section(numbers),
            "</main>",
        ]
    )
    return page(f"{numbers['agent']} on {numbers['bank']}: score report", body)


def write_report(
    evaluation: Evaluation,
    path: str | os.PathLike[str],
    *,
    prob: float = 0.9,
    others: Mapping[str, xr.DataTree] | None = None,
    progress: bool = False,
) -> Path:
    """Write the report of an evaluation, whole.

    Parameters
    ----------
    evaluation : Evaluation
        The evaluation.
    path : str or path-like
        Target file.
    prob, others, progress
        As `report_page` takes them.

    Returns
    -------
    pathlib.Path
        The target.

    Raises
    ------
    DataError
        If the file cannot be written, or a setting is outside its range.
    """
    require_writable(path)
    text = report_page(evaluation, prob=prob, others=others, progress=progress)
    with written_whole(path) as part:
        # An id may hold half of a surrogate pair, which is no character of any encoding.
        part.write_text(text, encoding="utf-8", errors="xmlcharrefreplace", newline="\n")
    return Path(path)


def nuts_posterior(evaluation: Evaluation) -> xr.DataTree:
    """Sample the posterior of an evaluation by NUTS, to draw over the report's own.

    Parameters
    ----------
    evaluation : Evaluation
        The evaluation.

    Returns
    -------
    xarray.DataTree
        Four chains of 1,000 draws; equal evaluations give equal draws.
    """
    return sample_nuts(evaluation.evaluator.model, random_seed=SEED)


def _independent(evaluation: Evaluation) -> tuple[SobolSampler, xr.DataTree]:
    """Compute the same posterior from nodes of another scramble."""
    first = evaluation.evaluator.sampler
    sampler = SobolSampler(
        evaluation.evaluator.model,
        nodes=len(first.arrays.log_weight),
        seed=first.seed + 1,
        proposal=first.proposal.kind,
    )
    return sampler, sampler.posterior()


def _figures(
    evaluation: Evaluation,
    path: pd.DataFrame,
    *,
    prob: float,
    others: Mapping[str, xr.DataTree],
) -> Figures:
    """Draw every picture in Matplotlib's own style, whatever the user's is."""
    evaluator, score, truth = evaluation.evaluator, evaluation.score, evaluation.truth
    tree = evaluator.posterior
    latent = str(tree["importance"].attrs["latent"])
    figures: Figures = {}

    def keep(key: str, collection: Any) -> None:
        svg = svg_text(collection)
        figures[key] = lambda alt, caption: figure(svg, key=key, alt=alt, caption=caption)
        plt.close(collection.viz["figure"].item())

    with mpl.style.context("default", after_reset=True), mpl.rc_context({"text.parse_math": False}):
        keep("score", plot_score(tree, score, truth=truth, prob=prob, figsize=_SIZE))
        if score.n_observed:
            keep("path", plot_path(path, truth=truth, prob=prob, figsize=_SIZE))
        coordinates = tree["posterior"][latent].shape[-1]
        keep("latent", plot_latent(tree, prob=prob, figsize=(5.4, 1.2 + 0.32 * coordinates)))
        observed = min(18, int((evaluator.sampler.arrays.trials > 0).sum()))
        if observed:
            keep("rates", plot_rates(tree, prob=prob, figsize=(5.4, 1.6 + 0.32 * observed)))
        keep("weights", plot_weights(tree, figsize=_SIZE))
        rows = math.ceil((coordinates + 1) / 3)
        keep(
            "overlay",
            plot_overlay(
                {_MAIN: tree, **others},
                var_names=(latent, "score"),
                figsize=(5.4, 1.9 * rows + 0.4),
            ),
        )
    return figures
