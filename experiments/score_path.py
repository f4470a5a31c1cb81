"""The path of an evaluation: the score posterior after each query, recomputed from the outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..acquisition.evaluator import Evaluator
from ..inference.decision import DRAWS, ScorePosterior, score_posterior
from ..inference.sobol import SobolSampler
from ..models.declaration import build_model
from .progress import with_progress

STEP_DRAWS = 16_384


def score_path(
    evaluator: Evaluator,
    *,
    prob: float = 0.9,
    draws: int = STEP_DRAWS,
    progress: bool = False,
) -> pd.DataFrame:
    """Replay the outcomes that an evaluator was told and decide on the score after each.

    Parameters
    ----------
    evaluator : Evaluator
        An evaluation, finished or not; it is left as it is.
    prob : float, default 0.9
        Probability of the intervals.
    draws : int, default 16384
        Predictive draws a step. The last step takes the 131,072 of `Evaluator.score`, whose
        figures it repeats exactly.
    progress : bool, default False
        Whether to show a progress bar, on stderr and only if that is a terminal.

    Returns
    -------
    pandas.DataFrame, n + 1 rows
        Indexed by the number of outcomes ``query``, from 0: task, outcome and predicted (the
        probability of success just before it; all three are missing in row 0), estimate, median,
        mean, sd, low, high, ess, pareto_k, trusted. Scores are shares from 0 to 1.

    Raises
    ------
    DataError
        If `prob` is not between 0 and 1, or `draws` is not positive.
    """
    groups, config = evaluator.groups, evaluator.config
    told = evaluator.sampler
    sampler = SobolSampler(
        build_model(groups, config),
        nodes=len(told.arrays.log_weight),
        seed=told.seed,
        proposal=told.proposal.kind,
        refresh_every=told.refresh_every,
    )
    state = sampler.state()
    group_of = groups.group_by_task

    def row(query: int, **asked: Any) -> dict[str, Any]:
        score = score_posterior(
            state,
            calibration=config.calibration,
            decision=config.decision,
            draws=DRAWS if query == len(evaluator.outcomes) else draws,
        )
        return {"query": query, **asked, **_figures(score, prob)}

    rows = [row(0, task=None, outcome=None, predicted=np.nan)]
    steps = with_progress(
        list(evaluator.outcomes.items()), description="score after each query", progress=progress
    )
    for query, (task, outcome) in enumerate(steps, start=1):
        group = group_of[task]
        predicted = float(sampler.arrays.mean_rate[group] @ sampler.arrays.weight)
        sampler.update(group, outcome)
        rows.append(row(query, task=task, outcome=outcome, predicted=predicted))
    return pd.DataFrame(rows).astype({"outcome": "Int64"}).set_index("query")


def _figures(score: ScorePosterior, prob: float) -> dict[str, Any]:
    low, high = score.interval(prob)
    return {
        "estimate": score.estimate,
        "median": score.median,
        "mean": score.mean,
        "sd": score.sd,
        "low": low,
        "high": high,
        "ess": score.ess,
        "pareto_k": score.pareto_k,
        "trusted": score.trusted,
    }
