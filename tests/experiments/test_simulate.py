"""The simulated bank follows its generative story and its defaults look like a real bank."""

import re

import numpy as np
import pytest

from hspr.experiments.simulate import (
    ABILITY_SCALE,
    LOADING_SCALE,
    SLOPE_SIGMA,
    ZERO_LOGIT,
    draw_outcomes,
    simulate_bank,
)
from hspr.models.errors import DataError

SEED = 20_260_101


def sigmoid(eta: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-eta))


def shared_signature_rate(values: np.ndarray) -> float:
    _, inverse, counts = np.unique(values, axis=1, return_inverse=True, return_counts=True)
    return float((counts[inverse] > 1).mean())


def family_of(task: str) -> str:
    return task.rsplit("-task-", 1)[0]


def test_simulate_bank_is_complete_and_clearly_simulated() -> None:
    bank = simulate_bank()
    assert bank.values.shape == (40, 300)
    assert bank.n_missing == 0
    assert bank.name == "simulated"
    assert all(re.fullmatch(r"sim-agent-\d\d", agent) for agent in bank.agents)
    assert all(re.fullmatch(r"sim-family-\d{3}-task-\d{4}", task) for task in bank.tasks)
    assert (bank.agents[0], bank.agents[-1]) == ("sim-agent-01", "sim-agent-40")
    assert bank.tasks[0] == "sim-family-001-task-0001"
    assert bank.tasks[-1].endswith("-task-0300")


def test_simulate_bank_ids_sort_as_text_in_a_large_bank() -> None:
    bank = simulate_bank(agents=101, tasks=10_001, family_size=1.0)
    assert bank.agents == sorted(bank.agents)
    assert bank.tasks == sorted(bank.tasks)
    assert len({len(task) for task in bank.tasks}) == 1


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_simulate_bank_equal_seed_equal_bytes(seed: int) -> None:
    first, second = simulate_bank(seed=seed), simulate_bank(seed=seed)
    assert first.values.tobytes() == second.values.tobytes()
    assert (first.agents, first.tasks) == (second.agents, second.tasks)
    assert simulate_bank(seed=seed + 1).values.tobytes() != first.values.tobytes()


@pytest.mark.parametrize("seed", range(10))
def test_simulate_bank_defaults_look_like_a_bank(seed: int) -> None:
    values = simulate_bank(seed=seed).values
    scores = values.mean(axis=1)
    assert 0.2 <= shared_signature_rate(values) <= 0.6
    assert (values.sum(axis=0) == 0).mean() >= 0.05
    assert scores.min() < 0.25
    assert 0.5 < scores.max() < 0.85


@pytest.mark.parametrize("size", [1.0, 1.5, 3.0, 10.0])
def test_simulate_bank_family_size_is_the_mean(size: float) -> None:
    tasks = 20_000
    bank = simulate_bank(agents=1, tasks=tasks, family_size=size, seed=SEED)
    families = [family_of(task) for task in bank.tasks]
    assert families == sorted(families)
    count = len(set(families))
    # The sizes have variance size - 1, so their mean over the families has this standard error.
    error = np.sqrt((size - 1.0) / count)
    assert tasks / count == pytest.approx(size, abs=5.0 * error + size / count)


def test_simulate_bank_shared_signatures_lie_within_families() -> None:
    # Families differ in their columns almost surely when many agents answer.
    bank = simulate_bank(agents=500, tasks=200, zero_mass=0.0, kappa=1e-4, rank=4, seed=SEED)
    families = np.array([family_of(task) for task in bank.tasks])
    signatures: dict[bytes, str] = {}
    for column, family in zip(bank.values.T, families, strict=True):
        if 0.05 < column.mean() < 0.95:
            assert signatures.setdefault(column.tobytes(), family) == family
    assert len(signatures) < len(families)


def test_simulate_bank_large_kappa_makes_tasks_independent() -> None:
    few = shared_signature_rate(simulate_bank(zero_mass=0.0, kappa=1e6, seed=SEED).values)
    many = shared_signature_rate(simulate_bank(zero_mass=0.0, kappa=1e-6, seed=SEED).values)
    assert few < 0.2
    assert many > 0.8


@pytest.mark.parametrize("zero_mass", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("rank", [0, 3])
def test_simulate_bank_mean_outcome_agrees_with_the_story(zero_mass: float, rank: int) -> None:
    shape = (2.0, 1.0)
    outcomes = np.array(
        [
            simulate_bank(
                agents=40, tasks=400, zero_mass=zero_mass, shape=shape, rank=rank, seed=seed
            ).values.mean()
            for seed in range(60)
        ]
    )
    rng = np.random.default_rng(SEED)
    draws = 200_000
    rates = rng.beta(*shape, size=draws)
    intercept = np.where(rng.random(draws) < zero_mass, ZERO_LOGIT, np.log(rates / (1.0 - rates)))
    eta = intercept + np.exp(SLOPE_SIGMA * rng.normal(size=draws)) * ABILITY_SCALE * rng.normal(
        size=draws
    )
    for _ in range(rank):
        eta += LOADING_SCALE * rng.normal(size=draws) * rng.normal(size=draws)
    error = np.hypot(outcomes.std() / np.sqrt(outcomes.size), 0.5 / np.sqrt(draws))
    assert outcomes.mean() == pytest.approx(sigmoid(eta).mean(), abs=4.5 * error)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_simulate_bank_has_ability_and_rank_factors(rank: int) -> None:
    agents, tasks = 4000, 200
    bank = simulate_bank(
        agents=agents,
        tasks=tasks,
        zero_mass=0.0,
        shape=(50.0, 50.0),
        rank=rank,
        kappa=1e6,
        family_size=1.0,
        seed=SEED,
    )
    # Noise alone has eigenvalues up to the Marchenko-Pastur edge; a factor stands out by about
    # N * (LOADING_SCALE / 4) ** 2, four times as much.
    edge = 0.25 * (1.0 + np.sqrt(tasks / agents)) ** 2
    eigenvalues = np.linalg.eigvalsh(np.cov(bank.values.T))
    assert (eigenvalues > 1.3 * edge).sum() == 1 + rank


def test_simulate_bank_slopes_are_lognormal() -> None:
    tasks = 400
    bank = simulate_bank(
        agents=5000,
        tasks=tasks,
        zero_mass=0.0,
        shape=(1e6, 1e6),
        rank=0,
        kappa=1e6,
        family_size=1.0,
        seed=SEED,
    )
    # Every intercept is 0, so the covariance of a task with the score depends on its slope alone.
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    rates = sigmoid(np.outer(np.exp(SLOPE_SIGMA * nodes), ABILITY_SCALE * nodes))
    covariance = (rates - 0.5) @ (weights * (weights @ rates - 0.5))
    logs = np.log(covariance)
    wanted = np.sqrt(weights @ logs**2 - (weights @ logs) ** 2)

    total = bank.values.sum(axis=1, keepdims=True)
    rest = (total - bank.values) / (tasks - 1)
    found = ((bank.values - bank.values.mean(axis=0)) * (rest - rest.mean(axis=0))).mean(axis=0)
    assert np.log(found).std() == pytest.approx(wanted, rel=0.2)
    assert found.mean() == pytest.approx(weights @ covariance, rel=0.1)


@pytest.mark.parametrize("kappa", [0.01, 0.2, 5.0])
@pytest.mark.parametrize("eta", [-3.0, 0.0, 1.5])
def test_draw_outcomes_moments(eta: float, kappa: float) -> None:
    agents = 40_000
    families = np.array([0, 0, 1])
    values = draw_outcomes(
        np.full((agents, 2), eta), families, kappa=kappa, rng=np.random.default_rng(SEED)
    )
    assert values.shape == (agents, 3)
    assert set(np.unique(values)) <= {0.0, 1.0}
    p = float(sigmoid(np.array(eta)))
    variance = p * (1.0 - p)
    assert values.mean(axis=0) == pytest.approx([p] * 3, abs=5.0 * np.sqrt(variance / agents))
    # Two tasks of a family: correlation 1 / (1 + c), c = kappa / (p (1 - p)); of two: none.
    # A product of two centred outcomes is at most max(p, 1 - p) squared, which bounds its error.
    bound = 5.0 * max(p, 1.0 - p) * np.sqrt(variance / agents) / variance
    products = (values - p).T @ (values - p) / agents / variance
    assert products[0, 1] == pytest.approx(1.0 / (1.0 + kappa / variance), abs=bound)
    assert products[0, 2] == pytest.approx(0.0, abs=bound)
    assert products[1, 2] == pytest.approx(0.0, abs=bound)


@pytest.mark.parametrize("kappa", [1e-8, 1.0, 1e8])
def test_draw_outcomes_extreme_logits(kappa: float) -> None:
    eta = np.array([[-1e4, -40.0, 40.0, 1e4]])
    values = draw_outcomes(eta, np.arange(4), kappa=kappa, rng=np.random.default_rng(SEED))
    assert values.tolist() == [[0.0, 0.0, 1.0, 1.0]]


def test_draw_outcomes_leaves_its_input_alone() -> None:
    eta = np.array([[-50.0, 50.0]])
    draw_outcomes(eta, np.array([0, 1]), kappa=1.0, rng=np.random.default_rng(SEED))
    assert eta.tolist() == [[-50.0, 50.0]]


@pytest.mark.parametrize(
    "arguments",
    [
        {"agents": 1, "tasks": 1},
        {"agents": 1, "tasks": 50, "rank": 0},
        {"agents": 50, "tasks": 1, "rank": 9},
        {"zero_mass": 0.999},
        {"kappa": 1e-300},
        {"kappa": 1e300},
        {"family_size": 1e6},
        {"shape": (1e-3, 1e-3)},
        {"shape": (1e6, 1e6)},
        {"agents": np.int64(3), "kappa": 1, "seed": np.uint8(3)},
    ],
)
def test_simulate_bank_extreme_arguments(arguments: dict[str, object]) -> None:
    bank = simulate_bank(**arguments)  # type: ignore[arg-type]
    assert bank.n_missing == 0


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("agents", 0),
        ("agents", -1),
        ("agents", 2.0),
        ("agents", True),
        ("agents", "40"),
        ("tasks", 0),
        ("rank", -1),
        ("seed", -1),
        ("seed", None),
        ("zero_mass", 1.0),
        ("zero_mass", -0.1),
        ("zero_mass", float("nan")),
        ("zero_mass", "0.1"),
        ("kappa", 0.0),
        ("kappa", -1.0),
        ("kappa", float("inf")),
        ("kappa", True),
        ("family_size", 0.5),
        ("family_size", 2e6),
        ("shape", (1.0, 0.0)),
        ("shape", (1.0, float("nan"))),
        ("shape", (1.0,)),
        ("shape", (1.0, 2.0, 3.0)),
    ],
)
def test_simulate_bank_refuses(argument: str, value: object) -> None:
    with pytest.raises(DataError) as caught:
        simulate_bank(**{argument: value})  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{argument} must be ")
    shown = next((x for x in value if not x > 0), value) if isinstance(value, tuple) else value
    assert repr(shown) in message
