"""The kernel of the declared rates computes what the graph says, and for no other model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import hspr
from hspr.inference.family import RateFamily, read_family
from hspr.inference.nodes import WeightedNodes, evaluate_nodes
from hspr.inference.sobol import SobolSampler
from hspr.models.errors import ModelError
from hspr.models.groups import TaskGroups

LATENT_SEED = 5021
ARRAYS = ("log_weight", "mean_score", "rate_alpha", "rate_beta", "mean_rate")


def with_counts(groups: TaskGroups, config: hspr.Config) -> pm.Model:
    trials = groups.size // 2
    return hspr.build_model(groups, config, successes=trials // 2, trials=trials)


def evaluated(family: RateFamily, size: np.ndarray, z: np.ndarray) -> WeightedNodes:
    arrays = WeightedNodes.empty(size, family.successes, family.trials, z)
    evaluate_nodes(family, arrays)
    return arrays


@pytest.mark.parametrize("nodes", [1, 7, 1024, 1500])
@pytest.mark.parametrize("kappa", [0.25, 16.0, 1e12])
@pytest.mark.parametrize("rank", [0, 2])
def test_kernel_computes_what_the_graph_says(
    groups: TaskGroups, rank: int, kappa: float, nodes: int
) -> None:
    """Also where nodes fill no block, or one and a part of another."""
    bank = replace(groups, intercept=np.linspace(-30, 30, len(groups.size)))
    family = read_family(with_counts(bank, hspr.Config(rank=rank, kappa=kappa)))
    assert family.logistic is not None
    z = 2 * np.random.default_rng(LATENT_SEED).normal(size=(nodes, 1 + rank))
    by_kernel = evaluated(family, groups.size, z)
    by_graph = evaluated(replace(family, logistic=None), groups.size, z)
    for name in ARRAYS:
        np.testing.assert_allclose(
            getattr(by_kernel, name), getattr(by_graph, name), rtol=1e-12, err_msg=name
        )


def test_kernel_and_graph_agree_where_rates_leave_the_doubles(groups: TaskGroups) -> None:
    extremes = [-800.0, -720.0, -708.5, -700.0, -300.0, 300.0, 700.0, 709.5, 720.0, 800.0]
    bank = replace(groups, intercept=np.array(extremes))
    family = read_family(hspr.build_model(bank, hspr.Config(rank=0)))
    z = np.linspace(-5, 5, 9)[:, None]
    by_kernel = evaluated(family, groups.size, z)
    by_graph = evaluated(replace(family, logistic=None), groups.size, z)
    for name in ARRAYS:
        assert np.isfinite(getattr(by_kernel, name)).all(), name
    for name in ("log_weight", "mean_score", "mean_rate"):
        np.testing.assert_allclose(
            getattr(by_kernel, name), getattr(by_graph, name), rtol=1e-12, atol=1e-300
        )


def test_samplers_on_kernel_and_graph_agree_after_updates(
    groups: TaskGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = hspr.build_model(groups, hspr.Config(rank=2, kappa=1.0))
    told = [(7, 1), (0, 0), (4, 1), (5, 0), (7, 0), (6, 1), (5, 1), (7, 0), (4, 0), (1, 1)]
    by_kernel = SobolSampler(model, nodes=256)
    monkeypatch.setattr(
        "hspr.inference.sobol.read_family",
        lambda model: replace(read_family(model), logistic=None),
    )
    by_graph = SobolSampler(model, nodes=256)
    assert by_graph.family.logistic is None and by_kernel.family.logistic is not None
    for group, outcome in told:
        for sampler in (by_kernel, by_graph):
            sampler.update(group, outcome)
    for name in ARRAYS:
        np.testing.assert_allclose(
            getattr(by_kernel.arrays, name), getattr(by_graph.arrays, name), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("kappa", [0.25, 1e12])
def test_linearise_equals_that_of_the_graph(groups: TaskGroups, kappa: float, rank: int) -> None:
    family = read_family(with_counts(groups, hspr.Config(rank=rank, kappa=kappa)))
    for z in 3 * np.random.default_rng(LATENT_SEED).normal(size=(10, 1 + rank)):
        by_kernel, by_graph = (f.linearise(z) for f in (family, replace(family, logistic=None)))
        for name, expected in by_graph._asdict().items():
            # The graph takes the predictor from a difference of logarithms.
            found = getattr(by_kernel, name)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_declared_rates_are_recognised_with_their_data(groups: TaskGroups) -> None:
    for rank in (0, 1, 2):
        rates = read_family(hspr.build_model(groups, hspr.Config(rank=rank, kappa=3.0))).logistic
        assert rates is not None
        np.testing.assert_array_equal(rates.intercept, groups.intercept)
        expected = np.column_stack([groups.slope, groups.loading[:, :rank]])
        np.testing.assert_array_equal(rates.loading, expected)
        assert rates.kappa == 3.0


def test_declared_rates_are_read_as_they_are_now(groups: TaskGroups) -> None:
    model = hspr.build_model(groups, hspr.Config(rank=1))
    early = read_family(model).logistic
    with model:
        pm.set_data({"kappa": 9.0, "intercept": groups.intercept + 1})
    late = read_family(model).logistic
    assert early is not None and late is not None
    assert (early.kappa, late.kappa) == (4.0, 9.0)
    np.testing.assert_array_equal(early.intercept, groups.intercept)
    np.testing.assert_array_equal(late.intercept, groups.intercept + 1)


def written(
    groups: TaskGroups,
    *,
    parameters: Callable[..., tuple[Any, Any]],
    names: tuple[str, str, str] = ("intercept", "loading", "kappa"),
    prior: Callable[[], Any] = lambda: pm.Normal("z", 0, 2, dims="latent"),
    kappa: Any = 2.0,
) -> pm.Model:
    """A model by hand; the declared one if nothing is changed."""
    trials = groups.size // 2
    index = np.repeat(np.arange(len(trials)), trials)
    coords = {"group": groups.labels, "latent": ["ability", "factor 1", "factor 2"]}
    with pm.Model(coords=coords) as model:
        loading = np.column_stack([groups.slope, groups.loading])
        values = (groups.intercept, loading, np.asarray(kappa, dtype=float))
        b, l, k = (pm.Data(*each) for each in zip(names, values, strict=True))  # noqa: E741
        z = prior()
        q = pm.Beta("q", *parameters(b, l, k, z), dims="group")
        pm.Bernoulli("y", q[index], observed=np.arange(len(index)) % 2)
        pm.Data("group_size", groups.size)
    return model


def as_declared(b: Any, l: Any, k: Any, z: Any) -> tuple[Any, Any]:  # noqa: E741
    eta = b + l @ z
    return k * (1 + pt.exp(eta)), k * (1 + pt.exp(-eta))


def in_eta(alpha: Callable[..., Any], beta: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    def parameters(b: Any, l: Any, k: Any, z: Any) -> tuple[Any, Any]:  # noqa: E741
        eta = b + l @ z
        return alpha(k, eta, z), beta(k, eta, z)

    return parameters


def up(k: Any, eta: Any, z: Any) -> Any:
    return k * (1 + pt.exp(eta))


def down(k: Any, eta: Any, z: Any) -> Any:
    return k * (1 + pt.exp(-eta))


@pytest.mark.parametrize("nu", [None, 4])
def test_declared_rates_are_recognised_under_any_prior(groups: TaskGroups, nu: int | None) -> None:
    def student() -> Any:
        return pm.StudentT("z", nu=nu, mu=0.3, sigma=1.5, dims="latent")

    priors: dict[str, Any] = {} if nu is None else {"prior": student}
    family = read_family(written(groups, parameters=as_declared, **priors))
    assert family.logistic is not None
    z = np.random.default_rng(LATENT_SEED).normal(size=(50, 3))
    by_kernel = evaluated(family, groups.size, z)
    by_graph = evaluated(replace(family, logistic=None), groups.size, z)
    np.testing.assert_allclose(by_kernel.log_weight, by_graph.log_weight, rtol=1e-12)


OTHERS: dict[str, dict[str, Any]] = {
    "another link": {
        "parameters": in_eta(
            lambda k, eta, z: k / pm.math.invprobit(-eta),
            lambda k, eta, z: k / pm.math.invprobit(eta),
        )
    },
    "constant concentration": {
        "parameters": in_eta(
            lambda k, eta, z: k * pm.math.sigmoid(eta), lambda k, eta, z: k * pm.math.sigmoid(-eta)
        )
    },
    "renamed data": {"parameters": as_declared, "names": ("b", "loading", "kappa")},
    "exchanged names": {"parameters": as_declared, "names": ("kappa", "loading", "intercept")},
    "extra term": {"parameters": in_eta(lambda k, eta, z: up(k, eta, z) + 0.5, down)},
    "extra term in the predictor": {
        "parameters": in_eta(
            lambda k, eta, z: up(k, eta + 0.1 * z[0] ** 2, z),
            lambda k, eta, z: down(k, eta + 0.1 * z[0] ** 2, z),
        )
    },
    "exchanged parameters": {"parameters": in_eta(down, up)},
    "another kappa on one side": {"parameters": in_eta(lambda k, eta, z: 2 * up(k, eta, z), down)},
    "strength by group": {"parameters": as_declared, "kappa": np.linspace(1, 3, 10)},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_models_go_through_their_graph(groups: TaskGroups, name: str) -> None:
    family = read_family(written(groups, **OTHERS[name]))
    assert family.logistic is None
    z = np.random.default_rng(LATENT_SEED).normal(size=(50, 3))
    arrays = evaluated(family, groups.size, z)
    assert np.isfinite(arrays.log_weight).all()
    assert (arrays.mean_rate > 0).all() and (arrays.mean_rate < 1).all()


@pytest.mark.parametrize(
    "values",
    [{"kappa": -1.0}, {"kappa": np.nan}, {"intercept": np.nan}, {"loading": np.nan}],
    ids=["negative kappa", "kappa", "intercept", "loading"],
)
def test_declared_rates_out_of_range_are_refused(groups: TaskGroups, values: dict) -> None:
    model = hspr.build_model(groups, hspr.Config(rank=1))
    with model:
        for name, value in values.items():
            present = np.array(model[name].get_value())
            present[...] = value
            pm.set_data({name: present})
    assert read_family(model).logistic is not None
    with pytest.raises(ModelError, match=r"at z = \["):
        SobolSampler(model, nodes=128)


@pytest.mark.parametrize("wrong", ["negative", "NaN"])
@pytest.mark.parametrize("which", [0, 1])
def test_other_rates_out_of_range_are_refused(groups: TaskGroups, which: int, wrong: str) -> None:
    """Beyond z = 1 one of the Beta parameters is negative or NaN: fine at the mode, not there."""

    def broken(k: Any, eta: Any, z: Any, whole: Callable[..., Any]) -> Any:
        fault = 1 - z[0] if wrong == "negative" else pt.sqrt(1 - z[0])
        return whole(k, eta, z) * fault

    sides = [up, down]
    whole = sides[which]
    sides[which] = lambda k, eta, z: broken(k, eta, z, whole)
    family = read_family(written(groups, parameters=in_eta(*sides)))
    inside, outside = np.zeros((5, 3)), np.zeros((5, 3))
    outside[3] = 1.5
    assert np.isfinite(evaluated(family, groups.size, inside).log_weight).all()
    with pytest.raises(ModelError, match=r"negative or NaN at z = \[1.5 1.5 1.5\]; check the link"):
        evaluated(family, groups.size, outside)
