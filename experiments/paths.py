"""Query paths of one held-out agent under several query seeds, sharing what they share.

The posterior depends on the groups and outcomes of the queries alone. Paths that differ in their
seeds therefore stay one path until the tasks that they draw from a group have different outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..acquisition.criteria import gain_of
from ..inference.decision import mean_and_residual
from ..inference.sobol import SobolSampler
from ..models.groups import TaskGroups

# In place of a query seed: always the first unqueried task of the group.
DETERMINISTIC = -1


@dataclass(frozen=True, eq=False)
class QueryPath:
    """One finished path.

    Attributes
    ----------
    seed : int
        Query seed, or `DETERMINISTIC`.
    tasks : tuple of int, length B
        Queried tasks in order, by position in the bank.
    mean : float
        Posterior mean of the score.
    mean_residual : float
        Observed minus expected successes by outcome, R (equation 15).
    sampler : SobolSampler
        The posterior at the end; paths that never parted share one.
    """

    seed: int
    tasks: tuple[int, ...]
    mean: float
    mean_residual: float
    sampler: SobolSampler


class _Walker:
    """The queries of one seed: which task of a group comes next."""

    def __init__(self, seed: int, members: list[list[int]]) -> None:
        self.seed = seed
        self.tasks: list[int] = []
        self._open = [list(tasks) for tasks in members]
        self._rng = None if seed == DETERMINISTIC else np.random.default_rng(seed)

    def draw(self, group: int) -> int:
        """Draw one of the group's unqueried tasks, as `Evaluator.ask` does."""
        tasks = self._open[group]
        place = 0 if self._rng is None else int(self._rng.integers(len(tasks)))
        self.tasks.append(tasks.pop(place))
        return self.tasks[-1]


@dataclass(frozen=True, eq=False)
class _Branch:
    sampler: SobolSampler
    walkers: list[_Walker]


def query_paths(
    groups: TaskGroups,
    sampler: SobolSampler,
    criterion: str,
    outcomes: np.ndarray,
    *,
    budget: int,
    seeds: Sequence[int],
) -> list[QueryPath]:
    """Walk the paths of several query seeds through one agent's outcomes.

    Parameters
    ----------
    groups : TaskGroups
        Groups fitted without the agent.
    sampler : SobolSampler
        Its posterior before the first query; it is left as it is.
    criterion : {"score", "latent"}
        Acquisition criterion.
    outcomes : numpy.ndarray of int, shape (N,)
        The agent's outcomes; only those of queried tasks are read.
    budget : int
        Queries B of each path, at most N.
    seeds : sequence of int
        Query seeds, `DETERMINISTIC` among them or not.

    Returns
    -------
    list of QueryPath
        In the order of `seeds`; each is what an `Evaluator` with that seed asks.
    """
    gain = gain_of(criterion)
    members = [tasks.tolist() for tasks in groups.members]
    walkers = [_Walker(seed, members) for seed in seeds]
    branches = [_Branch(sampler.copy(), walkers)]
    finished: dict[int, QueryPath] = {}
    while branches:
        branch = branches.pop()
        state = branch.sampler.state()
        while len(branch.walkers[0].tasks) < budget:
            group = int(np.argmax(gain(state)))
            parted: dict[int, list[_Walker]] = {}
            for walker in branch.walkers:
                parted.setdefault(int(outcomes[walker.draw(group)]), []).append(walker)
            kept, *others = parted
            for outcome in others:
                other = _Branch(branch.sampler.copy(), parted[outcome])
                other.sampler.update(group, outcome)
                branches.append(other)
            branch = replace(branch, walkers=parted[kept])
            branch.sampler.update(group, kept)
        mean, residual = mean_and_residual(state)
        for walker in branch.walkers:
            finished[walker.seed] = QueryPath(
                walker.seed, tuple(walker.tasks), mean, residual, branch.sampler
            )
    return [finished[seed] for seed in seeds]
