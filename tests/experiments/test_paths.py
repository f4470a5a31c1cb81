"""Paths that share what they share are those of one evaluator a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hspr.acquisition.criteria import gain_of
from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.paths import DETERMINISTIC, QueryPath, query_paths
from hspr.experiments.simulate import simulate_bank
from hspr.inference.decision import mean_and_residual
from hspr.inference.sobol import SobolSampler
from hspr.models.config import CRITERIA, Config
from hspr.models.declaration import build_model
from hspr.models.errors import DataError
from hspr.models.groups import TaskGroups, group_tasks
from hspr.models.items import fit_items
from hspr.models.responses import ResponseMatrix

BANK_SEED = 4901
# Four agents have few signatures, so that most tasks lie in large groups.
LARGE_GROUPS_SEED = 4902
GARBAGE_SEED = 4903

SMALL = simulate_bank(agents=6, tasks=24, seed=BANK_SEED)
LARGE_GROUPS = simulate_bank(agents=4, tasks=48, kappa=0.5, seed=LARGE_GROUPS_SEED)
NODES = 256
SEEDS = (4, 0, 1, 2, 3)


def without(bank: ResponseMatrix, agent: str) -> tuple[TaskGroups, np.ndarray]:
    source, row = bank.hold_out(agent)
    return group_tasks(source, fit_items(source)), row.values.astype(np.int64)


def sampler_of(groups: TaskGroups, config: Config, *, compact: bool = False) -> SobolSampler:
    return SobolSampler(build_model(groups, config), nodes=NODES, compact=compact)


def walked(
    groups: TaskGroups,
    config: Config,
    outcomes: np.ndarray,
    *,
    budget: int,
    seeds: Sequence[int],
    compact: bool = False,
) -> list[QueryPath]:
    sampler = sampler_of(groups, config, compact=compact)
    return query_paths(groups, sampler, config.criterion, outcomes, budget=budget, seeds=seeds)


def evaluated(
    groups: TaskGroups, config: Config, outcomes: np.ndarray, *, budget: int, seed: int
) -> Evaluator:
    """Ask and tell, one task after another."""
    position = {task: index for index, task in enumerate(groups.tasks)}
    evaluator = Evaluator(groups, config, budget=budget, seed=seed, nodes=NODES)
    while (task := evaluator.ask()) is not None:
        evaluator.tell(task, int(outcomes[position[task]]))
    return evaluator


def first_tasks(
    groups: TaskGroups, config: Config, outcomes: np.ndarray, *, budget: int
) -> tuple[list[int], SobolSampler, float]:
    """Query the first open task of the best group; also the smallest lead over the second best."""
    sampler, gain = sampler_of(groups, config), gain_of(config.criterion)
    queried: list[int] = []
    lead = np.inf
    for _ in range(budget):
        gains = gain(sampler.state())
        best = int(np.argmax(gains))
        second, first = np.sort(gains)[-2:]
        lead = min(lead, (first - second) / first)
        members = np.flatnonzero(groups.group_of_task == best)
        queried.append(next(int(task) for task in members if task not in queried))
        sampler.update(best, int(outcomes[queried[-1]]))
    return queried, sampler, lead


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(
    ("bank", "rank", "kappa", "budget"),
    [(SMALL, 2, 1.0, 10), (LARGE_GROUPS, 1, 0.25, 19), (LARGE_GROUPS, 0, 16.0, 48)],
    ids=["small", "large groups", "all tasks"],
)
def test_query_paths_are_what_an_evaluator_with_each_seed_asks(
    bank: ResponseMatrix, rank: int, kappa: float, budget: int, criterion: str
) -> None:
    groups, outcomes = without(bank, bank.agents[1])
    config = Config(rank=rank, precision=1.0, kappa=kappa, criterion=criterion)
    paths = walked(groups, config, outcomes, budget=budget, seeds=SEEDS)
    assert [path.seed for path in paths] == list(SEEDS)
    for path in paths:
        evaluator = evaluated(groups, config, outcomes, budget=budget, seed=path.seed)
        assert [groups.tasks[task] for task in path.tasks] == list(evaluator.outcomes)
        score = evaluator.score(warn=False)
        assert path.mean == pytest.approx(score.mean, abs=1e-10)
        assert path.mean_residual == pytest.approx(score.mean_residual, abs=1e-10)
        assert path.sampler.arrays.trials.tolist() == evaluator.sampler.arrays.trials.tolist()
        np.testing.assert_allclose(
            path.sampler.arrays.weight, evaluator.sampler.arrays.weight, rtol=0, atol=1e-10
        )
        if budget == len(outcomes):
            assert path.mean == pytest.approx(outcomes.mean(), abs=1e-12)


def test_query_paths_part_where_outcomes_differ_and_only_there() -> None:
    groups, outcomes = without(LARGE_GROUPS, LARGE_GROUPS.agents[1])
    config = Config(rank=1, precision=1.0, kappa=0.25)
    paths = walked(groups, config, outcomes, budget=6, seeds=range(12))
    told = [tuple((groups.group_of_task[t], outcomes[t]) for t in path.tasks) for path in paths]
    # The bank shows both: seeds that go together on different tasks, and seeds that part.
    assert 1 < len(set(told)) < len({path.tasks for path in paths})
    for path, history in zip(paths, told, strict=True):
        for other, other_history in zip(paths, told, strict=True):
            assert (path.sampler is other.sampler) == (history == other_history)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("bank", [SMALL, LARGE_GROUPS], ids=["small", "large groups"])
def test_query_paths_deterministic_takes_the_first_open_task(
    bank: ResponseMatrix, criterion: str
) -> None:
    groups, outcomes = without(bank, bank.agents[0])
    config = Config(rank=1, precision=1.0, kappa=0.25, criterion=criterion)
    expected, sampler, _ = first_tasks(groups, config, outcomes, budget=12)
    (path,) = walked(groups, config, outcomes, budget=12, seeds=[DETERMINISTIC])
    assert list(path.tasks) == expected
    assert (path.mean, path.mean_residual) == pytest.approx(
        mean_and_residual(sampler.state()), abs=1e-10
    )


def test_query_paths_of_many_seeds_are_those_of_each_alone() -> None:
    groups, outcomes = without(LARGE_GROUPS, LARGE_GROUPS.agents[2])
    config = Config(rank=1, precision=1.0, kappa=0.25)
    seeds = [3, DETERMINISTIC, 0]
    together = walked(groups, config, outcomes, budget=12, seeds=seeds)
    for path, seed in zip(together, seeds, strict=True):
        (alone,) = walked(groups, config, outcomes, budget=12, seeds=[seed])
        assert (path.seed, path.tasks) == (alone.seed, alone.tasks)
        assert path.mean == pytest.approx(alone.mean, abs=1e-12)
        assert path.mean_residual == pytest.approx(alone.mean_residual, abs=1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("bank", [SMALL, LARGE_GROUPS], ids=["small", "large groups"])
def test_query_paths_of_a_compact_sampler_are_the_same(
    bank: ResponseMatrix, criterion: str
) -> None:
    groups, outcomes = without(bank, bank.agents[0])
    config = Config(rank=1, precision=1.0, kappa=0.25, criterion=criterion)
    expected, sampler, lead = first_tasks(groups, config, outcomes, budget=12)
    # No near-tie that rounding to single precision could turn.
    assert lead > 1e-5
    (path,) = walked(groups, config, outcomes, budget=12, seeds=[DETERMINISTIC], compact=True)
    assert list(path.tasks) == expected
    assert (path.mean, path.mean_residual) == pytest.approx(
        mean_and_residual(sampler.state()), abs=1e-6
    )
    seeds = [0, 1, 2]
    compact = walked(groups, config, outcomes, budget=12, seeds=seeds, compact=True)
    full = walked(groups, config, outcomes, budget=12, seeds=seeds)
    for path, other in zip(compact, full, strict=True):
        assert path.tasks == other.tasks
        assert path.mean == pytest.approx(other.mean, abs=1e-6)


@pytest.mark.parametrize("compact", [False, True])
def test_query_paths_leave_the_sampler_as_it_is(compact: bool) -> None:
    groups, outcomes = without(SMALL, SMALL.agents[0])
    sampler = sampler_of(groups, Config(rank=1), compact=compact)
    before = sampler.copy().arrays
    first = query_paths(groups, sampler, "score", outcomes, budget=9, seeds=[0, DETERMINISTIC])
    for name in ("trials", "successes", "z", "log_weight", "mean_score", "mean_rate", "rate_alpha"):
        np.testing.assert_array_equal(getattr(sampler.arrays, name), getattr(before, name))
    again = query_paths(groups, sampler, "score", outcomes, budget=9, seeds=[0, DETERMINISTIC])
    assert [(p.tasks, p.mean) for p in first] == [(p.tasks, p.mean) for p in again]


def test_query_paths_read_queried_outcomes_alone() -> None:
    groups, outcomes = without(LARGE_GROUPS, LARGE_GROUPS.agents[3])
    config = Config(rank=1, precision=1.0, kappa=0.25)
    seeds = [0, 1, DETERMINISTIC]
    before = walked(groups, config, outcomes, budget=8, seeds=seeds)
    hidden = np.setdiff1d(np.arange(48), [task for path in before for task in path.tasks])
    assert len(hidden) > 20
    changed = outcomes.copy()
    changed[hidden] = np.random.default_rng(GARBAGE_SEED).integers(2, 99, len(hidden))
    after = walked(groups, config, changed, budget=8, seeds=seeds)
    for path, other in zip(before, after, strict=True):
        assert (path.tasks, path.mean, path.mean_residual) == (
            other.tasks,
            other.mean,
            other.mean_residual,
        )
    # A queried one matters.
    changed = outcomes.copy()
    changed[before[0].tasks[0]] = 1 - changed[before[0].tasks[0]]
    moved = walked(groups, config, changed, budget=8, seeds=[0])[0]
    assert moved.tasks[0] == before[0].tasks[0]
    assert moved.mean != before[0].mean


def test_query_paths_of_no_query_are_the_prior() -> None:
    groups, outcomes = without(SMALL, SMALL.agents[0])
    config = Config(rank=1)
    paths = walked(groups, config, outcomes, budget=0, seeds=[0, DETERMINISTIC])
    prior = sampler_of(groups, config).arrays
    for path in paths:
        assert (path.tasks, path.mean_residual) == ((), 0.0)
        assert path.mean == pytest.approx(float(prior.weight @ prior.mean_score), abs=1e-12)


def test_query_paths_refuse_an_unknown_criterion() -> None:
    groups, outcomes = without(SMALL, SMALL.agents[0])
    sampler = sampler_of(groups, Config(rank=0))
    with pytest.raises(DataError, match="criterion must be one of score, latent, got 'entropy'"):
        query_paths(groups, sampler, "entropy", outcomes, budget=1, seeds=[0])
