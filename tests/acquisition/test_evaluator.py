"""The ask/tell protocol, and one run against the algorithm written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hspr
from hspr.inference.decision import score_posterior
from hspr.inference.sobol import SobolSampler

NODES = 256


@pytest.fixture(scope="module")
def bank() -> hspr.ResponseMatrix:
    return hspr.simulate_bank(agents=8, tasks=40, seed=3)


@pytest.fixture(scope="module")
def held_out(bank):
    source, truth = bank.hold_out(bank.agents[2])
    return source, {task: int(truth.sel(task=task)) for task in bank.tasks}


def evaluator(source, **options) -> hspr.Evaluator:
    return hspr.Evaluator(source, hspr.Config(rank=2), **{"nodes": NODES, "budget": 10, **options})


def run(ev: hspr.Evaluator, outcomes: dict[str, int]) -> hspr.Evaluator:
    while (task := ev.ask()) is not None:
        ev.tell(task, outcomes[task])
    return ev


@pytest.mark.parametrize("criterion", ["score", "latent"])
def test_run_follows_algorithm_1(held_out, criterion):
    """Query by query: the best group, then a uniform pick, with posteriors built from scratch."""
    source, outcomes = held_out
    config = hspr.Config(rank=2, criterion=criterion)
    groups = hspr.group_tasks(source, hspr.fit_items(source))
    ev = run(hspr.Evaluator(source, config, budget=12, seed=5, nodes=NODES), outcomes)
    gain = hspr.score_gain if criterion == "score" else hspr.latent_gain

    rng, told = np.random.default_rng(5), []
    sampler = SobolSampler(hspr.build_model(groups, config), nodes=NODES)
    for step in range(12):
        # The first maximum, and the open tasks of its group in bank order.
        group = int(np.argmax(gain(sampler.state())))
        members = [
            task
            for task, g in zip(groups.tasks, groups.group_of_task, strict=True)
            if g == group and task not in told
        ]
        told.append(members[rng.integers(len(members))])
        sampler.update(group, outcomes[told[-1]])
        if step % 8 == 7:
            fresh = SobolSampler(
                hspr.build_model(
                    groups, config, successes=sampler.arrays.successes, trials=sampler.arrays.trials
                ),
                nodes=NODES,
            )
            np.testing.assert_array_equal(fresh.arrays.log_weight, sampler.arrays.log_weight)
    assert list(ev.outcomes) == told
    assert ev.score().estimate == score_posterior(sampler.state()).estimate


def test_ask_never_repeats_a_task_with_nothing_told(held_out):
    source, _ = held_out
    ev = evaluator(source, budget=40)
    asked = [ev.ask() for _ in range(40)]
    assert len(set(asked)) == 40 and None not in asked
    assert ev.ask() is None
    assert ev.pending == asked and ev.remaining == 0


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(moves=st.lists(st.tuples(st.sampled_from("akt"), st.integers(0, 39)), max_size=60))
def test_any_order_of_asking_and_telling(held_out, moves):
    """Ask, tell a pending or any other task: counts agree and nothing is asked twice."""
    source, outcomes = held_out
    ev, asked, told = evaluator(source, budget=15), [], set()
    for move, position in moves:
        if move == "a":
            task = ev.ask()
            assert (task is None) == (len(told | set(asked)) >= 15)
            if task is not None:
                assert task not in asked and task not in told
                asked.append(task)
        else:
            pool = ev.pending if move == "k" and ev.pending else list(outcomes)
            task = pool[position % len(pool)]
            ev.tell(task, outcomes[task])
            told.add(task)
    assert set(ev.outcomes) == told
    assert ev.sampler.arrays.trials.sum() == len(told)
    assert ev.sampler.arrays.successes.sum() == sum(outcomes[task] for task in told)
    assert ev.remaining == max(0, 15 - len(told | set(asked)))
    low, high = ev.score().interval(0.99)
    solved = sum(outcomes[task] for task in told)
    assert solved / 40 <= low <= high <= (solved + 40 - len(told)) / 40


def test_budget_zero_gives_the_prior(held_out):
    source, _ = held_out
    ev = evaluator(source, budget=0)
    assert ev.ask() is None
    score = ev.score()
    assert score.n_observed == 0 and 0 < score.estimate < 1 and score.sd > 0


def test_budget_of_all_tasks_gives_the_exact_score(held_out):
    source, outcomes = held_out
    ev = run(evaluator(source, budget=1.0), outcomes)
    exact = np.mean(list(outcomes.values()))
    score = ev.score()
    assert score.estimate == exact and score.interval(0.99) == (exact, exact)
    assert score.sd == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("value", [1, 1.0, True, np.int8(1), np.float64(1), np.bool_(True)])
def test_tell_takes_every_spelling_of_one(held_out, value):
    source, _ = held_out
    ev = evaluator(source)
    task = ev.ask()
    ev.tell(task, value)
    assert ev.outcomes == {task: 1}


def test_tell_is_idempotent_and_refuses_contradictions(held_out):
    source, _ = held_out
    ev = evaluator(source)
    task = ev.ask()
    ev.tell(task, 1)
    weight = ev.sampler.arrays.weight
    ev.tell(task, 1)
    np.testing.assert_array_equal(ev.sampler.arrays.weight, weight)
    assert ev.sampler.arrays.trials.sum() == 1
    with pytest.raises(hspr.DataError, match=f"outcome 0 of task '{task}' contradicts the 1"):
        ev.tell(task, 0)
    assert ev.outcomes == {task: 1}


@pytest.mark.parametrize("value", [float("nan"), 2, 0.5, -1, "1", None, [1], 1j])
def test_tell_refuses_other_outcomes(held_out, value):
    source, _ = held_out
    ev = evaluator(source)
    task = ev.ask()
    with pytest.raises(hspr.DataError, match=f"outcome of task '{task}' must be 0 or 1, got"):
        ev.tell(task, value)
    assert ev.outcomes == {} and ev.pending == [task]


def test_tell_refuses_an_unknown_task(held_out):
    source, _ = held_out
    ev = evaluator(source)
    with pytest.raises(hspr.DataError, match="task 'no-such' is not one of the 40 tasks"):
        ev.tell("no-such", 1)
    with pytest.raises(hspr.DataError, match="not one of the 40 tasks"):
        ev.tell(["a"], 1)


def test_equal_seed_gives_equal_bytes_and_another_seed_another_path(held_out):
    source, outcomes = held_out
    first, second = (run(evaluator(source, seed=1), outcomes) for _ in range(2))
    assert list(first.outcomes) == list(second.outcomes)
    assert first.score().draws.tobytes() == second.score().draws.tobytes()
    others = {tuple(run(evaluator(source, seed=seed), outcomes).outcomes) for seed in range(5)}
    assert len(others) > 1


def test_queries_do_not_move_the_draws(held_out):
    """Deciding in between changes neither later queries nor the final draws."""
    source, outcomes = held_out
    plain, looking = evaluator(source), evaluator(source)
    run(plain, outcomes)
    while (task := looking.ask()) is not None:
        looking.tell(task, outcomes[task])
        _ = looking.score(), looking.posterior
    assert list(plain.outcomes) == list(looking.outcomes)
    assert plain.score().draws.tobytes() == looking.score().draws.tobytes()


def test_permuting_tasks_and_agents_changes_no_estimate(bank, held_out):
    """Told the same outcomes, banks with rows and columns in another order agree."""
    source, outcomes = held_out
    rng = np.random.default_rng(11)
    rows, columns = rng.permutation(len(source.agents)), rng.permutation(len(source.tasks))
    shuffled = hspr.ResponseMatrix(source.outcomes[rows, columns], name=source.name)
    told = rng.choice(source.tasks, 13, replace=False)
    evaluators = [hspr.Evaluator(s, nodes=2048, budget=20) for s in (source, shuffled)]
    for ev in evaluators:
        for task in told:
            ev.tell(task, outcomes[task])
    first, second = (ev.score() for ev in evaluators)
    assert first.mean == pytest.approx(second.mean, abs=1e-9)
    assert first.sd == pytest.approx(second.sd, abs=1e-9)


# So few nodes do not follow a target that does the opposite of every source agent, and say so.
@pytest.mark.filterwarnings("ignore:the score posterior rests on:hspr.SamplingWarning")
@pytest.mark.parametrize("filling", [0.0, 1.0])
@pytest.mark.parametrize(("agents", "tasks"), [(1, 1), (1, 12), (3, 1), (4, 12)])
@pytest.mark.parametrize("outcome", [0, 1])
def test_degenerate_sources_and_targets(filling, agents, tasks, outcome):
    """All-fail and all-pass sources and targets, one agent, one task: finite, and exact at N."""
    source = hspr.ResponseMatrix.from_arrays(
        np.full((agents, tasks), filling),
        agents=[f"a{k}" for k in range(agents)],
        tasks=[f"t{k}" for k in range(tasks)],
    )
    ev = hspr.Evaluator(source, nodes=NODES, budget=1.0)
    while (task := ev.ask()) is not None:
        score = ev.score()
        assert np.isfinite([score.estimate, score.mean, score.sd, score.ess]).all()
        ev.tell(task, outcome)
    assert ev.score().estimate == outcome


def test_incomplete_source_is_refused_without_a_policy(bank):
    outcomes = bank.outcomes.copy()
    outcomes[1, 3] = np.nan
    with pytest.raises(hspr.DataError, match=r"lacks 1 of 320 outcomes .*missing='fail'"):
        hspr.Evaluator(hspr.ResponseMatrix(outcomes))
    ev = hspr.Evaluator(hspr.ResponseMatrix(outcomes).with_missing("model"), nodes=NODES, budget=2)
    assert ev.ask() in bank.tasks


def test_posterior_tells_what_was_asked_and_with_what(held_out):
    source, outcomes = held_out
    ev = run(evaluator(source), outcomes)
    tree = ev.posterior
    observed = tree["observed_data"]
    assert list(observed["queried_task"].values) == list(ev.outcomes)
    assert list(observed["outcome"].values) == list(ev.outcomes.values())
    assert observed["trials"].sum() == 10
    constant = tree["constant_data"]
    assert constant.attrs["kappa"] == 4.0 and constant.attrs["bank"] == source.name
    np.testing.assert_array_equal(constant["group_of_task"].values, ev.groups.group_of_task)
    assert list(constant["task"].values) == source.tasks


def test_score_warns_when_its_weights_are_too_uneven(groups_far_off):
    ev = hspr.Evaluator(groups_far_off, hspr.Config(rank=0, kappa=1.0), nodes=64, budget=32)
    for task in groups_far_off.tasks[:32]:
        ev.tell(task, 0)
    with pytest.warns(hspr.SamplingWarning, match=r"use proposal='student' or more nodes"):
        score = ev.score()
    assert not score.trusted
    robust = hspr.Evaluator(
        groups_far_off, hspr.Config(rank=0, kappa=1.0), nodes=1024, budget=32, proposal="student"
    )
    for task in groups_far_off.tasks[:32]:
        robust.tell(task, 0)
    assert robust.score().trusted


@pytest.fixture
def groups_far_off() -> hspr.TaskGroups:
    """Tasks that the model holds for certain, all of which will fail."""
    return hspr.TaskGroups(
        group_of_task=np.repeat(np.arange(3), 20),
        size=np.full(3, 20),
        intercept=np.array([20.0, 30.0, 40.0]),
        slope=np.array([1.0, 1.5, 0.8]),
        loading=np.empty((3, 0)),
        tasks=tuple(f"t{k}" for k in range(60)),
        bank="far off",
    )
