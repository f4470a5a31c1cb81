"""Numerical accuracy of the production posterior on replayed histories (appendix E of the paper).

A few agents are held out and evaluated; then the outcomes that each evaluation ended with are told
again to samplers with more nodes and with other scrambles, and its posterior is drawn from again.

Legend of shapes: D draws, G groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from ..inference.decision import DRAWS, ScorePosterior, score_posterior
from ..inference.proposal import PROPOSALS
from ..inference.sobol import NODES, SEED, SobolSampler
from ..models.config import Config
from ..models.errors import DataError
from ..models.responses import ResponseMatrix
from .evaluation import evaluate_agent, retell
from .parallel import run_jobs

TOLERANCE = 0.0005
MORE_NODES = 4
MAX_MCSE = 6.0
SCRAMBLES = 8
TARGETS = 2
_PROB = 0.95


@dataclass(frozen=True, eq=False)
class Numerics:
    """The checks and what they were made with.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a target and check: agent, check, value, limit, unit ("share" of the benchmark,
        "MCSE" or "1/N"), passed. A check is passed if its value is at most its limit.
    targets : pandas.DataFrame
        One row a target: agent, n_tasks, n_observed, groups, mean, median, sd, ess, pareto_k (None
        if it is not finite), trusted.
    settings : dict
        Bank, budget, configuration, seeds and sizes.
    """

    table: pd.DataFrame
    targets: pd.DataFrame
    settings: dict[str, Any]

    @property
    def passed(self) -> bool:
        """Whether all checks are passed."""
        return bool(self.table["passed"].all())

    def summary(self) -> dict[str, Any]:
        """Return settings, targets and checks, ready for JSON.

        Returns
        -------
        dict
            Scores and their differences are shares from 0 to 1.
        """
        return {
            **self.settings,
            "targets": self.targets.to_dict(orient="records"),
            "checks": self.table.to_dict(orient="records"),
            "passed": self.passed,
        }


@dataclass(frozen=True, eq=False)
class _Job:
    """One target and all that its checks need."""

    bank: ResponseMatrix
    agent: str
    config: Config
    budget: int | float
    seed: int
    nodes: int
    draws: int
    scrambles: int


def check_numerics(
    bank: ResponseMatrix,
    config: Config | None = None,
    *,
    targets: int = TARGETS,
    budget: int | float = 0.1,
    seed: int = 0,
    nodes: int = NODES,
    draws: int = DRAWS,
    scrambles: int = SCRAMBLES,
    n_jobs: int = 1,
    progress: bool = False,
) -> Numerics:
    """Evaluate some agents and check how accurate their score posteriors are.

    By target: score mean and median with the nodes against four times as many, and with the draws
    against half as many (tolerance 0.0005); the sample mean of the draws within six Monte Carlo
    standard errors of the analytic mean; the binomial order-statistic 95 % interval of the median
    within 1/N; and by proposal the standard deviation of the score mean over independent scrambles,
    and the distance between both proposals' averages (tolerance 0.0005 again).

    Parameters
    ----------
    bank : ResponseMatrix, shape (m, N)
        The archive; for each target the m - 1 other agents are the source.
    config : Config, default Config()
        Model and criterion.
    targets : int, default 2
        Number of targets, at evenly spaced ranks of the true score: for 2, the quartiles.
    budget : int or float, default 0.1
        Tasks to run: a whole number, or a share as a float.
    seed : int, default 0
        Query seed.
    nodes : int, default 8192
        Nodes of the importance sampler, a power of two.
    draws : int, default 131072
        Draws of the score.
    scrambles : int, default 8
        Independent scrambles by proposal, the production one among them.
    n_jobs : int, default 1
        Parallel workers, as joblib counts them; the results do not depend on them.
    progress : bool, default False
        Whether to show a progress bar on stderr, if that is a terminal.

    Returns
    -------
    Numerics

    Raises
    ------
    DataError
        If the bank is incomplete without a policy, or a setting is out of its range.
    """
    config = Config() if config is None else config
    agents = len(bank.agents)
    for name, value, low, high in (
        ("targets", targets, 1, agents),
        ("draws", draws, 12, None),
        ("scrambles", scrambles, 2, None),
    ):
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or value < low or (high is not None and value > high):
            rule = f"from {low}" if high is None else f"from {low} to {high}"
            raise DataError(f"{name} must be a whole number {rule}, got {value!r}; try {low}")
    bank.require_complete()
    order = np.argsort(np.nanmean(bank.values, axis=1), kind="stable")
    chosen = [bank.agents[order[(2 * k + 1) * agents // (2 * targets)]] for k in range(targets)]
    jobs = [_Job(bank, agent, config, budget, seed, nodes, draws, scrambles) for agent in chosen]
    done = run_jobs(
        _check_target, jobs, n_jobs=n_jobs, description=f"check {bank.name}", progress=progress
    )
    results = sorted(done, key=lambda result: chosen.index(result[0]["agent"]))
    settings = {
        "bank": bank.name,
        "missing": bank.missing,
        "config": config.to_dict(),
        "budget": results[0][0]["n_observed"],
        "seed": seed,
        "nodes": nodes,
        "draws": draws,
        "scrambles": scrambles,
        "tolerance": TOLERANCE,
    }
    return Numerics(
        pd.DataFrame([row for _, rows in results for row in rows]),
        pd.DataFrame([facts for facts, _ in results]),
        settings,
    )


def median_interval(draws: np.ndarray, *, prob: float = _PROB) -> tuple[float, float]:
    """Return the binomial order-statistic interval of the median that draws estimate.

    Parameters
    ----------
    draws : numpy.ndarray, shape (D,)
        Independent draws, ascending.
    prob : float, default 0.95
        Least probability that the interval holds the median of their distribution.

    Returns
    -------
    tuple of float
        Two of the draws.

    Raises
    ------
    DataError
        If there are too few draws for such an interval.
    """
    count, tail = len(draws), (1 - prob) / 2
    # The low-th draw exceeds the median with probability P(Binomial(D, 1/2) < low) <= tail.
    low, high = int(binom.ppf(tail, count, 0.5)), int(binom.ppf(1 - tail, count, 0.5)) + 1
    if low < 1 or high > count:
        raise DataError(
            f"draws must be enough for an interval of probability {prob}, got {count}; draw more"
        )
    return float(draws[low - 1]), float(draws[high - 1])


def score_checks(
    score: ScorePosterior, finer: ScorePosterior, fewer: ScorePosterior
) -> Iterator[dict[str, Any]]:
    """Yield the checks of one score posterior against others of the same outcomes.

    Parameters
    ----------
    score : ScorePosterior
        The posterior to check.
    finer : ScorePosterior
        The one of more nodes.
    fewer : ScorePosterior
        The one of fewer draws.

    Yields
    ------
    dict
        check, value, limit, unit and passed.
    """
    sample_mean = float(score.draws.mean())
    error = float(score.draws.std(ddof=1)) / np.sqrt(len(score.draws))
    distance = abs(sample_mean - score.mean)
    low, high = median_interval(score.draws)
    nodes = f"{score.nodes} against {finer.nodes} nodes"
    draws = f"{len(score.draws)} against {len(fewer.draws)} draws"
    yield _check(f"mean, {nodes}", abs(score.mean - finer.mean))
    yield _check(f"median, {nodes}", abs(score.median - finer.median))
    yield _check(f"mean, {draws}", abs(sample_mean - float(fewer.draws.mean())))
    yield _check(f"median, {draws}", abs(score.median - fewer.median))
    # Without any spread rounding is all that is left.
    in_errors = distance / error if error > 0 else (0.0 if distance < 1e-12 else np.inf)
    yield _check("sample mean against analytic mean", float(in_errors), MAX_MCSE, "MCSE")
    yield _check("95 % interval of the median", (high - low) * score.n_tasks, 1.0, "1/N")


def _check_target(job: _Job) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Evaluate one target; return facts about it and its checks."""
    evaluation = evaluate_agent(
        job.bank, job.agent, job.config, budget=job.budget, seed=job.seed, nodes=job.nodes
    )
    evaluator = evaluation.evaluator
    state = evaluator.sampler.state()
    score = score_posterior(state, draws=job.draws)
    fewer = score_posterior(state, draws=job.draws // 2)
    finer = retell(evaluator, nodes=MORE_NODES * job.nodes)
    checks = list(score_checks(score, score_posterior(finer.state(), draws=job.draws), fewer))
    del finer
    averages = []
    for proposal in PROPOSALS:
        means = [
            _mean(retell(evaluator, nodes=job.nodes, sobol_seed=SEED + k, proposal=proposal))
            for k in range(job.scrambles)
        ]
        averages.append(float(np.mean(means)))
        checks.append(_check(f"sd over scrambles, {proposal}", float(np.std(means, ddof=1))))
    checks.append(_check("gaussian against student", abs(averages[0] - averages[1])))
    facts = {
        "agent": job.agent,
        "n_tasks": score.n_tasks,
        "n_observed": score.n_observed,
        "groups": len(evaluator.groups.size),
        "mean": score.mean,
        "median": score.median,
        "sd": score.sd,
        "ess": score.ess,
        "pareto_k": score.pareto_k if np.isfinite(score.pareto_k) else None,
        "trusted": score.trusted,
    }
    return facts, [{"agent": job.agent} | check for check in checks]


def _mean(sampler: SobolSampler) -> float:
    return float(sampler.arrays.weight @ sampler.arrays.mean_score)


def _check(
    name: str, value: float, limit: float = TOLERANCE, unit: str = "share"
) -> dict[str, Any]:
    # Rounding must not decide on a median that moved by exactly the limit.
    passed = bool(value <= limit * (1 + 1e-9))
    return {"check": name, "value": float(value), "limit": limit, "unit": unit, "passed": passed}
