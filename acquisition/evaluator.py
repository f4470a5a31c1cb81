"""The ask/tell evaluator of one target agent (algorithm 1 of the paper)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from ..inference.decision import ScorePosterior, score_posterior
from ..inference.sobol import NODES, SEED, SobolSampler
from ..inference.trees import add_outcomes, plain_attributes
from ..models.config import Config
from ..models.declaration import build_model
from ..models.errors import DataError, SamplingWarning
from ..models.groups import TaskGroups, group_tasks
from ..models.items import fit_items
from ..models.responses import ResponseMatrix
from .budget import budget_tasks
from .criteria import gain_of


class Evaluator:
    """Choose tasks one after another, take their outcomes, estimate the full score.

    Parameters
    ----------
    source : ResponseMatrix or TaskGroups
        The source agents' outcomes, without the target; or groups already fitted to them, which
        many evaluations of one fold share.
    config : Config, default Config()
        Model, criterion and decision.
    budget : int or float, default 0.1
        Tasks to run: a whole number, or a share of the bank as a float.
    seed : int, default 0
        Seed of the choice among the tasks of a group.
    nodes : int, default 8192
        Nodes of the importance sampler, a power of two.
    sobol_seed : int, default 20261005
        Seed of the nodes' scramble.
    proposal : {"gaussian", "student"}, default "gaussian"
        Proposal of the importance sampler.
    agent : str, default None
        Name of the target, recorded in the posterior; None leaves it out.

    Raises
    ------
    DataError
        If the source is incomplete without a policy, or a setting is outside its range.

    Examples
    --------
    >>> ev = Evaluator(source, budget=30)  # doctest: +SKIP
    >>> while (task := ev.ask()) is not None:  # doctest: +SKIP
    ...     ev.tell(task, run_agent(task))
    >>> ev.score().estimate  # doctest: +SKIP
    """

    def __init__(
        self,
        source: ResponseMatrix | TaskGroups,
        config: Config | None = None,
        *,
        budget: int | float = 0.1,
        seed: int = 0,
        nodes: int = NODES,
        sobol_seed: int = SEED,
        proposal: str = "gaussian",
        agent: str | None = None,
    ) -> None:
        self.config = Config() if config is None else config
        self.groups = (
            source if isinstance(source, TaskGroups) else group_tasks(source, fit_items(source))
        )
        self.budget = budget_tasks(budget, len(self.groups.tasks))
        self.seed = seed
        self.agent = agent
        self.sampler = SobolSampler(
            build_model(self.groups, self.config), nodes=nodes, seed=sobol_seed, proposal=proposal
        )
        self.outcomes: dict[str, int] = {}
        self._pending: dict[str, None] = {}
        self._gain = gain_of(self.config.criterion)
        self._state = self.sampler.state()
        self._rng = np.random.default_rng(seed)
        self._group_of = self.groups.group_by_task
        self._members = self.groups.members

    @property
    def pending(self) -> list[str]:
        """Tasks asked for and not told yet, in the order of asking."""
        return list(self._pending)

    @property
    def remaining(self) -> int:
        """Tasks that may still be asked for."""
        return max(0, self.budget - len(self.outcomes) - len(self._pending))

    def ask(self) -> str | None:
        """Choose the next task to run.

        The group of largest gain (the first of equals), then one of its open tasks uniformly.

        Returns
        -------
        str or None
            A task that was neither asked for nor told before; None when the budget is spent.
        """
        if self.remaining == 0:
            return None
        taken = self.outcomes.keys() | self._pending.keys()
        gain = self._gain(self._state)
        # A group whose unqueried tasks are all running has nothing to offer.
        for task in self._pending:
            group = self._group_of[task]
            if not self._open_tasks(group, taken):
                gain[group] = -np.inf
        open_tasks = self._open_tasks(int(np.argmax(gain)), taken)
        task = open_tasks[self._rng.integers(len(open_tasks))]
        self._pending[task] = None
        return task

    def tell(self, task: str, outcome: int | bool | float) -> None:
        """Record the outcome of a task and condition the posterior on it.

        Parameters
        ----------
        task : str
            A task of the bank, asked for or not: a task that was run anyway is evidence too, and
            counts towards the budget.
        outcome : {0, 1}
            Whether the agent solved it. Told again, an equal value changes nothing.

        Raises
        ------
        DataError
            If the task is unknown, the outcome is neither 0 nor 1, or it contradicts an earlier
            one. Nothing is changed then.
        """
        if not isinstance(task, str) or task not in self._group_of:
            raise DataError(
                f"task {task!r} is not one of the {len(self._group_of)} tasks of bank "
                f"{self.groups.bank!r}; give an id exactly as the bank spells it"
            )
        value = _binary(task, outcome)
        if task in self.outcomes:
            if self.outcomes[task] != value:
                raise DataError(
                    f"outcome {value} of task {task!r} contradicts the {self.outcomes[task]} told "
                    "before; outcomes are final, start a new evaluation to replace one"
                )
            return
        self.outcomes[task] = value
        self._pending.pop(task, None)
        self.sampler.update(self._group_of[task], value)

    def score(self, *, warn: bool = True) -> ScorePosterior:
        """Estimate the full-benchmark score from the outcomes told so far.

        Parameters
        ----------
        warn : bool, default True
            Whether to warn of figures that cannot be trusted; the result says so in either case.

        Returns
        -------
        ScorePosterior
            With all tasks told, the exact score and no width.

        Warns
        -----
        SamplingWarning
            If the importance weights are too uneven for the figures to be trusted.
        """
        score = score_posterior(
            self._state,
            calibration=self.config.calibration,
            decision=self.config.decision,
        )
        if warn and not score.trusted:
            warnings.warn(
                f"the score posterior rests on {score.ess:.0f} effective of {score.nodes} nodes "
                f"(Pareto k {score.pareto_k:.2f}); use proposal='student' or more nodes",
                SamplingWarning,
                stacklevel=2,
            )
        return score

    @property
    def model(self) -> pm.Model:
        """The declared model with the outcomes told so far, for another sampler."""
        arrays = self.sampler.arrays
        return build_model(
            self.groups, self.config, successes=arrays.successes, trials=arrays.trials
        )

    @property
    def posterior(self) -> xr.DataTree:
        """The present posterior as a tree for ArviZ, with tasks, outcomes and settings.

        Beside the groups of `SobolSampler.posterior`, ``outcome`` over the dimension ``query``: in
        ``observed_data`` what was told, in order, and in ``posterior_predictive`` replicates of it,
        as ArviZ's predictive checks compare them.
        """
        tree = self.sampler.posterior()
        tasks = np.array(self.groups.tasks, dtype=object)
        add_outcomes(
            tree,
            tasks=list(self.outcomes),
            outcomes=list(self.outcomes.values()),
            groups=[self._group_of[task] for task in self.outcomes],
            seed=SEED,
        )
        tree["constant_data"]["group_of_task"] = xr.DataArray(
            self.groups.group_of_task, dims="task", coords={"task": tasks}
        )
        settings: dict[str, Any] = self.config.to_dict() | {
            "bank": self.groups.bank,
            "budget": self.budget,
            "query_seed": self.seed,
            "agent": self.agent,
        }
        tree["constant_data"].attrs.update(plain_attributes(settings))
        return tree

    def _open_tasks(self, group: int, taken: set[str]) -> list[str]:
        tasks = (self.groups.tasks[position] for position in self._members[group])
        return [task for task in tasks if task not in taken]


def _binary(task: str, outcome: object) -> int:
    if isinstance(outcome, np.generic):
        outcome = outcome.item()
    if not isinstance(outcome, int | float) or outcome not in (0, 1):
        raise DataError(
            f"outcome of task {task!r} must be 0 or 1, got {outcome!r}; a task that could not be "
            "run has no outcome: do not tell it"
        )
    return int(outcome)
