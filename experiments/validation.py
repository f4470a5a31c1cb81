"""One evaluation, checked: the production posterior against NUTS on the same outcomes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import xarray as xr
from rich.console import Console

from ..acquisition.evaluator import Evaluator
from ..inference.compare import Comparison, compare_posteriors
from ..inference.nuts import sample_nuts
from ..inference.sobol import NODES, SEED
from ..inference.summaries import MIN_REPEATS
from ..models.config import Config
from ..models.errors import DataError, SamplingWarning
from ..models.responses import ResponseMatrix
from .evaluation import Evaluation, evaluate_agent, retell
from .files import written_whole

SCRAMBLES = 8


@dataclass(frozen=True, eq=False)
class Validation:
    """A checked evaluation.

    Attributes
    ----------
    comparison : Comparison
        The importance sampler ("sobol") and NUTS ("nuts").
    evaluation : Evaluation
        The evaluation.
    settings : dict
        What evaluation and chains were run with.
    nuts : xarray.DataTree
        The posterior of NUTS.
    """

    comparison: Comparison
    evaluation: Evaluation
    settings: dict[str, Any]
    nuts: xr.DataTree

    def summary(self) -> dict[str, Any]:
        """Return settings, estimate, truth and comparison, ready for JSON.

        Returns
        -------
        dict
            Scores are shares from 0 to 1.
        """
        score = self.evaluation.score
        return {
            **self.settings,
            "n_tasks": score.n_tasks,
            "groups": len(self.evaluation.evaluator.groups.size),
            "n_observed": score.n_observed,
            "observed_successes": sum(self.evaluation.evaluator.outcomes.values()),
            "estimate": score.estimate,
            "truth": self.evaluation.truth,
            **self.comparison.summary(),
        }

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the comparison's table.

        Parameters
        ----------
        path : str or path-like
            Target file: one row a quantity; bank, agent and verdict are repeated in each.

        Returns
        -------
        pathlib.Path
            The target.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        table = self.comparison.table.reset_index()
        for name in ("agent", "bank"):
            table.insert(0, name, self.settings[name])
        with written_whole(path) as part:
            table.assign(verdict=self.comparison.verdict).to_csv(part, index=False)
        return Path(path)


def validate_agent(
    bank: ResponseMatrix,
    agent: str,
    config: Config | None = None,
    *,
    budget: int | float = 0.1,
    seed: int = 0,
    nodes: int = NODES,
    proposal: str = "gaussian",
    scrambles: int = SCRAMBLES,
    form: str = "marginal",
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    cores: int = 1,
    nuts_sampler: str | None = None,
    progress: bool = False,
) -> Validation:
    """Replay an evaluation of a held-out agent and compare its posterior with that of NUTS.

    Parameters
    ----------
    bank : ResponseMatrix, shape (m, N)
        The archive; the m - 1 other agents are the source.
    agent : str
        The target.
    config : Config, default Config()
        Model, criterion and decision.
    budget : int or float, default 0.1
        Tasks to run: a whole number, or a share as a float.
    seed : int, default 0
        Seed of the queries and of the chains.
    nodes, proposal
        As `Evaluator` takes them.
    scrambles : int, default 8
        Scrambles of the nodes, the production one included, whose scatter is the error of the
        importance sampler: with each of the others the outcomes are told once more, in the same
        order. With 1 the error comes from the weights instead, which overstate it.
    form, draws, tune, chains, cores, nuts_sampler
        As `sample_nuts` takes them.
    progress : bool, default False
        Whether to show on stderr, if that is a terminal, what is running.

    Returns
    -------
    Validation
        What the samplers would warn of is among the comparison's reasons.

    Raises
    ------
    DataError
        If the agent is unknown, the bank is incomplete without a policy, or a setting is outside
        its range.
    SamplingError
        If a sampler fails.
    """
    whole = isinstance(scrambles, Integral) and not isinstance(scrambles, bool)
    if not whole or (scrambles != 1 and scrambles < MIN_REPEATS):
        raise DataError(
            f"scrambles must be 1 or a whole number from {MIN_REPEATS}, got {scrambles!r}; try 8"
        )
    console = Console(stderr=True)
    show = progress and sys.stderr.isatty()
    evaluation = evaluate_agent(
        bank,
        agent,
        config,
        budget=budget,
        seed=seed,
        nodes=nodes,
        proposal=proposal,
        progress=progress,
    )
    evaluator = evaluation.evaluator
    with (
        console.status("sample with NUTS") if show else nullcontext(),
        # The comparison says what the chains warn of.
        warnings.catch_warnings(action="ignore", category=SamplingWarning),
    ):
        nuts = sample_nuts(
            evaluator.model,
            form=form,
            draws=draws,
            tune=tune,
            chains=chains,
            cores=cores,
            random_seed=seed,
            nuts_sampler=nuts_sampler,
        )
    with console.status("repeat with other scrambles") if show else nullcontext():
        comparison = compare_posteriors(
            _scrambled(evaluator, int(scrambles), nodes, proposal), nuts, names=("sobol", "nuts")
        )
    settings = {
        "bank": bank.name,
        "agent": agent,
        "budget": evaluator.budget,
        "seed": seed,
        "missing": bank.missing,
        "config": evaluator.config.to_dict(),
        "nodes": nodes,
        "proposal": proposal,
        "scrambles": int(scrambles),
        "form": form,
        "draws": draws,
        "tune": tune,
        "chains": chains,
    }
    return Validation(comparison, evaluation, settings, nuts)


def _scrambled(
    evaluator: Evaluator, scrambles: int, nodes: int, proposal: str
) -> Iterator[xr.DataTree]:
    """Yield the evaluation's posterior, then those of other scrambles told the same outcomes."""
    yield evaluator.posterior
    for number in range(1, scrambles):
        sampler = retell(evaluator, nodes=nodes, sobol_seed=SEED + number, proposal=proposal)
        yield sampler.posterior()
