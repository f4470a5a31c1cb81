"""ArviZ reads an evaluation's posterior, also after it was saved and loaded by either engine.

Task ids are 130 characters long and agree in the first 120, agents have Unicode names, and options
that are not set stay away.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import arviz as az
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.files import load_tree, save_tree
from hspr.models.config import Config
from hspr.models.responses import ResponseMatrix
from hspr.tests.oracles_models import random_matrix

Engine = Literal["h5netcdf", "netcdf4"]
ENGINES: tuple[Engine, ...] = ("h5netcdf", "netcdf4")
AGENTS = ["агент é", "智能体 2", "وكيل", "🤖 four", "x/y", "plain"]
TASKS = [f"instance_élément-hq__{'x' * 99}{i:010d}" for i in range(20)]
BANK = ResponseMatrix.from_arrays(
    random_matrix(6, 20, seed=4806).values, agents=AGENTS, tasks=TASKS, name="банк"
)


@cache
def evaluated(queries: int, **settings: Any) -> xr.DataTree:
    source, outcomes = BANK.hold_out(AGENTS[1])
    evaluator = Evaluator(source, Config(rank=1), budget=queries, nodes=128, **settings)
    while (task := evaluator.ask()) is not None:
        evaluator.tell(task, int(outcomes.sel(task=task)))
    return evaluator.posterior


@pytest.fixture(autouse=True)
def no_window() -> Iterator[None]:
    with mpl.rc_context({"backend": "agg"}):
        yield
    plt.close("all")


@pytest.fixture(scope="module")
def posterior() -> xr.DataTree:
    return evaluated(8, agent=AGENTS[1])


@pytest.fixture(scope="module", params=["fresh", *ENGINES])
def tree(
    request: pytest.FixtureRequest,
    posterior: xr.DataTree,
    tmp_path_factory: pytest.TempPathFactory,
) -> xr.DataTree:
    """Return the posterior as it is, and as each engine writes and reads it."""
    if request.param == "fresh":
        return posterior
    engine = need(request.param)
    path = tmp_path_factory.mktemp("posterior") / f"{engine}.nc"
    posterior.to_netcdf(path, engine=engine)
    return loaded(path, engine)


def need(engine: Engine) -> Engine:
    if engine == "netcdf4":
        pytest.importorskip("netCDF4")
    return engine


def loaded(path: Path, engine: str) -> xr.DataTree:
    with az.from_netcdf(path, engine=engine) as opened:
        return opened.load()


def test_tasks_are_long_and_alike_at_the_start() -> None:
    assert {len(task) for task in TASKS} == {130}
    assert len({task[:120] for task in TASKS}) == 1


@pytest.mark.parametrize("queries", [0, 1, 20])
@pytest.mark.parametrize("writer", ENGINES)
@pytest.mark.parametrize("reader", ENGINES)
def test_nothing_is_lost(queries: int, writer: Engine, reader: Engine, tmp_path: Path) -> None:
    tree = evaluated(queries)
    tree.to_netcdf(tmp_path / "a.nc", engine=need(writer))
    xr.testing.assert_identical(loaded(tmp_path / "a.nc", need(reader)), tree)


def test_ids_names_and_settings_are_whole(tree: xr.DataTree) -> None:
    observed, constant = (tree[name].to_dataset() for name in ("observed_data", "constant_data"))
    assert set(observed["queried_task"].values) < set(TASKS)
    assert list(constant["task"].values) == TASKS
    assert constant.attrs["agent"] == AGENTS[1]
    assert constant.attrs["bank"] == "банк"
    assert {name: constant.attrs[name] for name in Config().to_dict()} == Config(rank=1).to_dict()


def test_an_option_that_is_none_is_left_out() -> None:
    assert "agent" not in evaluated(0)["constant_data"].attrs


def test_summary_describes_every_variable(tree: xr.DataTree) -> None:
    summary = az.summary(tree, ci_prob=0.9, ci_kind="eti", round_to="none")
    draws = tree["posterior"].to_dataset()
    assert len(summary) == sum(draws[name][0, 0].size for name in ("z", "p", "q"))
    assert summary["mean"]["z[ability]"] == pytest.approx(float(draws["z"][..., 0].mean()))
    predicted = az.summary(
        tree, group="posterior_predictive", var_names=["score", "outcome"], round_to="none"
    )
    assert len(predicted) == 9


def test_extract_gives_labelled_draws(tree: xr.DataTree) -> None:
    z = az.extract(tree, var_names="z", num_samples=100, random_seed=1)
    assert dict(z.sizes) == {"latent": 2, "sample": 100}
    outcome = az.extract(tree, group="posterior_predictive", var_names="outcome")
    assert dict(outcome.sizes) == {"query": 8, "sample": 2000}


PLOTS: dict[str, Callable[[xr.DataTree], Any]] = {
    "plot_forest": lambda tree: az.plot_forest(tree, var_names=["z", "q"], combined=True),
    "plot_dist": lambda tree: az.plot_dist(tree, var_names=["z"]),
    "plot_dist of the score": lambda tree: az.plot_dist(
        tree, group="posterior_predictive", var_names=["score"], kind="hist"
    ),
    "plot_dist of two": lambda tree: az.plot_dist(
        {"p": renamed(tree, "p"), "q": renamed(tree, "q")}, kind="ecdf"
    ),
    "plot_ppc_pava": lambda tree: az.plot_ppc_pava(tree, var_names="outcome"),
    "plot_ppc_interval": lambda tree: az.plot_ppc_interval(tree, var_names="outcome"),
}


def renamed(tree: xr.DataTree, name: str) -> xr.DataTree:
    rate = tree["posterior"].to_dataset()[[name]].isel(group=slice(4))
    return xr.DataTree.from_dict({"posterior": rate.rename({name: "rate"})})


@pytest.mark.parametrize("name", PLOTS)
def test_plots_draw(tree: xr.DataTree, name: str) -> None:
    before = tree.copy(deep=True)
    figure = PLOTS[name](tree).viz["figure"].item()
    assert figure.axes
    figure.canvas.draw()
    assert tree.identical(before)


# ArviZ recommends plot_ppc_pava for binary outcomes, and says so in these.
@pytest.mark.filterwarnings("ignore:Variables outcome in 'observed:UserWarning")
@pytest.mark.filterwarnings("ignore:Variables outcome in 'predictive:UserWarning")
@pytest.mark.filterwarnings("ignore:Found chain dimension to be longer than draw:UserWarning")
@pytest.mark.parametrize(
    "name", ["plot_ppc_dist", "plot_ppc_pit", "plot_ppc_rootogram", "plot_ppc_tstat"]
)
def test_other_predictive_checks_draw(tree: xr.DataTree, name: str) -> None:
    assert getattr(az, name)(tree, var_names="outcome").viz["figure"].item().axes


def test_save_tree_writes_attributes_that_netcdf_has_no_type_for(
    posterior: xr.DataTree, tmp_path: Path
) -> None:
    tree = posterior.copy(deep=True)
    told = {
        "limit": None,
        "resume": True,
        "options": {"seed": None, "имя": ["a", 1]},
        "seeds": (1, 2),
        "big": 2**80,
        "flag": np.bool_(False),
        "share": np.float64(0.5),
        "note": "",
    }
    tree.attrs.update(told)
    tree["constant_data"].attrs.update(told)
    tree["posterior"]["z"].attrs.update(told)
    before = tree.copy(deep=True)
    back = load_tree(save_tree(tree, tmp_path / "a.nc"))
    assert tree.identical(before)
    for attributes in (back.attrs, back["constant_data"].attrs, back["posterior"]["z"].attrs):
        assert "limit" not in attributes
        assert {name: json.loads(attributes[name]) for name in ("resume", "flag")} == {
            "resume": True,
            "flag": False,
        }
        assert json.loads(attributes["options"]) == told["options"]
        assert json.loads(attributes["seeds"]) == [1, 2]
        assert json.loads(attributes["big"]) == 2**80
        assert (attributes["share"], attributes["note"]) == (0.5, "")
