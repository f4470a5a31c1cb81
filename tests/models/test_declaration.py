"""The declared model against scipy.stats, simulation and itself after `pymc.set_data`."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import expit

from hspr.models.config import Config
from hspr.models.declaration import build_model, expand_counts
from hspr.models.errors import DataError
from hspr.models.groups import TaskGroups, group_tasks
from hspr.models.items import fit_items
from hspr.tests.oracles_models import random_matrix

GROUP_SEED = 4401
DRAW_SEED = 4402
POINT_SEED = 4403


def make_groups(n_groups: int, n_factors: int, *, seed: int = GROUP_SEED) -> TaskGroups:
    """Draw groups of 1 to 4 tasks with moderate parameters."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 5, n_groups)
    return TaskGroups(
        group_of_task=np.repeat(np.arange(n_groups), size),
        size=size,
        intercept=rng.normal(0, 1, n_groups),
        slope=rng.uniform(0.5, 1.5, n_groups),
        loading=rng.normal(0, 0.5, (n_groups, n_factors)),
        tasks=tuple(f"t{i}" for i in range(size.sum())),
        bank="drawn",
    )


def make_counts(groups: TaskGroups, *, seed: int = GROUP_SEED) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    trials = rng.integers(0, groups.size + 1)
    return rng.integers(0, trials + 1), trials


def predictor(groups: TaskGroups, z: np.ndarray) -> np.ndarray:
    rank = len(z) - 1
    return groups.intercept + groups.slope * z[0] + groups.loading[:, :rank] @ z[1:]


def log_density(
    groups: TaskGroups,
    config: Config,
    counts: tuple[np.ndarray, np.ndarray],
    z: np.ndarray,
    q: np.ndarray,
) -> float:
    """Return the joint log density of z, q and the outcomes by scipy.stats."""
    factor_sd = config.precision**-0.5
    ability_sd = 2.0 if config.rank else factor_sd
    p = expit(predictor(groups, z))
    concentration = config.kappa / (p * (1 - p))
    successes, trials = counts
    return float(
        stats.norm(0, ability_sd).logpdf(z[0])
        + stats.norm(0, factor_sd).logpdf(z[1:]).sum()
        + stats.beta(concentration * p, concentration * (1 - p)).logpdf(q).sum()
        + (successes * np.log(q) + (trials - successes) * np.log1p(-q)).sum()
    )


def model_density(model: pm.Model, z: np.ndarray, q: np.ndarray) -> float:
    # The density of q itself, not of its logit.
    point = {"z": z, "q_logodds__": np.log(q) - np.log1p(-q)}
    return float(model.compile_logp(jacobian=False, mode="FAST_COMPILE")(point))


def random_point(n_groups: int, n_factors: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(POINT_SEED)
    return rng.normal(size=1 + n_factors), rng.uniform(0.05, 0.95, n_groups)


def test_expand_counts_writes_single_outcomes() -> None:
    index, outcomes = expand_counts(
        np.array([3, 1, 4, 2]), np.array([1, 0, 2, 0]), np.array([2, 0, 2, 2])
    )
    assert index.tolist() == [0, 0, 2, 2, 3, 3]
    assert outcomes.tolist() == [1, 0, 1, 1, 0, 0]
    assert index.dtype.kind == outcomes.dtype.kind == "i"


def test_expand_counts_of_nothing_is_empty() -> None:
    size = np.array([3, 1])
    for counts in ((None, None), (np.zeros(2, int), np.zeros(2, int))):
        index, outcomes = expand_counts(size, *counts)
        assert index.shape == outcomes.shape == (0,)
        assert index.dtype.kind == outcomes.dtype.kind == "i"


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_expand_counts_takes_any_integer_type(dtype: type) -> None:
    index, outcomes = expand_counts(
        np.array([2, 2]), np.array([0, 1], dtype), np.array([2, 1], dtype)
    )
    assert (index.tolist(), outcomes.tolist()) == ([0, 0, 1], [0, 0, 1])


@pytest.mark.parametrize(
    ("successes", "trials", "message"),
    [
        ([1, 0], None, "successes and trials go together"),
        (None, [1, 0], "successes and trials go together"),
        ([1.0, 0.0], [1, 1], r"successes must be whole numbers.*shape \(2,\), got float64"),
        ([1, 0], [1.0, 1.0], r"trials must be whole numbers.*got float64"),
        ([1], [1], r"expected shape \(2,\), got int64 of shape \(1,\)"),
        ([[1, 0]], [1, 0], r"got int64 of shape \(1, 2\)"),
        ([1, 2], [1, 1], "group 1 has successes 2, trials 1, size 2"),
        ([-1, 0], [1, 1], "group 0 has successes -1, trials 1, size 3"),
        ([0, 0], [0, 3], "group 1 has successes 0, trials 3, size 2"),
        ([0, -2], [0, -1], "group 1 has successes -2, trials -1"),
    ],
)
def test_expand_counts_refuses_impossible_counts(
    successes: list | None, trials: list | None, message: str
) -> None:
    counts = [None if values is None else np.array(values) for values in (successes, trials)]
    with pytest.raises(DataError, match=message):
        expand_counts(np.array([3, 2]), *counts)


@pytest.mark.parametrize(
    ("rank", "expected"), [(0, [0.4]), (1, [2.0, 0.4]), (3, [2.0, 0.4, 0.4, 0.4])]
)
def test_build_model_prior_sd_follows_the_rank(rank: int, expected: list[float]) -> None:
    model = build_model(make_groups(5, 3), Config(rank=rank, precision=6.25))
    assert model["prior_sd"].get_value() == pytest.approx(np.array(expected))
    assert list(model.coords["latent"]) == [
        "ability",
        *(f"factor {k + 1}" for k in range(rank)),
    ]


def test_build_model_lowers_the_rank_to_the_available_factors() -> None:
    groups = make_groups(5, 2)
    model = build_model(groups, Config(rank=8))
    assert list(model.coords["latent"]) == ["ability", "factor 1", "factor 2"]
    assert model["loading"].get_value().shape == (5, 3)
    # No factor is left, but the ability keeps the prior that goes with residual factors.
    alone = build_model(make_groups(5, 0), Config(rank=4, precision=9.0))
    assert alone["prior_sd"].get_value() == pytest.approx([2.0])


def test_build_model_of_real_groups_names_its_data() -> None:
    source = random_matrix(6, 20, seed=GROUP_SEED)
    groups = group_tasks(source, fit_items(source))
    counts = make_counts(groups)
    model = build_model(groups, Config(rank=2, kappa=0.5), successes=counts[0], trials=counts[1])
    data = {variable.name: variable.get_value() for variable in model.data_vars}
    index, outcomes = expand_counts(groups.size, *counts)
    expected = {
        "intercept": groups.intercept,
        "loading": np.column_stack([groups.slope, groups.loading[:, :2]]),
        "prior_sd": np.array([2.0, 0.5, 0.5]),
        "kappa": np.array(0.5),
        "group_size": groups.size,
        "group_of_outcome": index,
        "observed_outcome": outcomes,
    }
    assert set(data) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(data[name], values, err_msg=name)
    assert [rv.name for rv in model.free_RVs] == ["z", "q"]
    assert [rv.name for rv in model.observed_RVs] == ["outcome"]
    assert [variable.name for variable in model.deterministics] == ["p"]
    assert list(model.coords["group"]) == groups.labels


@pytest.mark.parametrize("kappa", [0.25, 4.0, 16.0, 100.0])
def test_build_model_draws_rates_with_the_stated_moments(kappa: float) -> None:
    kinds, draws = 6, 20_000
    few = make_groups(kinds, 1)
    # Many groups of each kind, so that one draw of the model is many of each rate.
    many = TaskGroups(
        group_of_task=np.arange(kinds * draws),
        size=np.ones(kinds * draws, dtype=int),
        intercept=np.tile(few.intercept, draws),
        slope=np.tile(few.slope, draws),
        loading=np.tile(few.loading, (draws, 1)),
        tasks=tuple(f"t{i}" for i in range(kinds * draws)),
        bank="drawn",
    )
    z = np.array([0.7, -0.4])
    p = expit(predictor(few, z))
    fixed = pm.do(build_model(many, Config(rank=1, kappa=kappa)), {"z": z})
    declared, q = (
        values.reshape(draws, kinds)
        for values in pm.draw([fixed["p"], fixed["q"]], random_seed=DRAW_SEED)
    )
    np.testing.assert_allclose(declared, np.broadcast_to(p, declared.shape), rtol=1e-12)
    variance = p * (1 - p) / (kappa / (p * (1 - p)) + 1)
    # Five standard errors of the mean; of the variance, with the kurtosis of the sample.
    assert (np.abs(q.mean(axis=0) - p) < 5 * np.sqrt(variance / draws)).all()
    spread = np.sqrt(((q - p) ** 2).var(axis=0) / draws)
    assert (np.abs(((q - p) ** 2).mean(axis=0) - variance) < 5 * spread).all()


def test_build_model_draws_the_latent_state_from_its_prior() -> None:
    model = build_model(make_groups(3, 2), Config(rank=2, precision=4.0))
    draws = pm.draw(model["z"], draws=1000, random_seed=DRAW_SEED)
    for column, sd in zip(draws.T, (2.0, 0.5, 0.5), strict=True):
        assert stats.kstest(column, stats.norm(0, sd).cdf).pvalue > 1e-3


def test_build_model_draws_outcomes_from_the_rates_of_their_groups() -> None:
    groups = make_groups(3, 0)
    trials = groups.size
    model = build_model(groups, Config(rank=0), successes=np.zeros_like(trials), trials=trials)
    rates = np.array([0.0, 1.0, 0.0])
    outcomes = pm.draw(pm.do(model, {"q": rates})["outcome"], draws=3, random_seed=DRAW_SEED)
    np.testing.assert_array_equal(outcomes, np.tile(np.repeat(rates, trials), (3, 1)))


@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize("kappa", [0.25, 4.0, 100])
def test_build_model_density_is_that_of_scipy(rank: int, kappa: float) -> None:
    groups, config = make_groups(6, 3), Config(rank=rank, precision=3.0, kappa=kappa)
    counts = make_counts(groups)
    model = build_model(groups, config, successes=counts[0], trials=counts[1])
    z, q = random_point(6, rank)
    expected = log_density(groups, config, counts, z, q)
    assert model_density(model, z, q) == pytest.approx(expected, rel=1e-9)


def test_build_model_density_without_outcomes_is_the_prior() -> None:
    groups, config = make_groups(4, 1), Config(rank=1)
    z, q = random_point(4, 1)
    nothing = np.zeros(4, dtype=int)
    expected = log_density(groups, config, (nothing, nothing), z, q)
    assert model_density(build_model(groups, config), z, q) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n_groups", "n_factors"), [(4, 1), (9, 3), (9, 0)])
def test_set_data_moves_the_model_to_another_fit(n_groups: int, n_factors: int) -> None:
    model = build_model(make_groups(6, 2), Config(rank=2))
    model_density(model, *random_point(6, 2))
    groups = make_groups(n_groups, n_factors, seed=GROUP_SEED + 1)
    config = Config(rank=n_factors, precision=2.0, kappa=0.7)
    counts = make_counts(groups)
    other = build_model(groups, config, successes=counts[0], trials=counts[1])
    with model:
        pm.set_data(
            {variable.name: variable.get_value() for variable in other.data_vars},
            coords={name: other.coords[name] for name in ("group", "latent")},
        )
    z, q = random_point(n_groups, n_factors)
    expected = log_density(groups, config, counts, z, q)
    assert model_density(model, z, q) == pytest.approx(expected, rel=1e-9)
    assert model_density(other, z, q) == pytest.approx(expected, rel=1e-9)
    np.testing.assert_array_equal(pm.draw(model["p"], random_seed=1).shape, (n_groups,))


def test_build_model_leaves_its_input_alone() -> None:
    groups = make_groups(4, 2)
    before = {name: np.copy(getattr(groups, name)) for name in ("intercept", "slope", "loading")}
    model = build_model(groups, Config(rank=1))
    with model:
        pm.set_data({"intercept": np.zeros(4)})
    for name, values in before.items():
        np.testing.assert_array_equal(getattr(groups, name), values)
