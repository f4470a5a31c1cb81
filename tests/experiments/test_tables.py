"""Pooled errors against sums by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from hspr.experiments.methods import METHODS
from hspr.experiments.study import Study
from hspr.experiments.tables import TITLES, agent_errors, pooled

SEED = 4731


def test_pooled_pools_targets_within_a_seed_and_averages_over_seeds() -> None:
    rng = np.random.default_rng(SEED)
    estimate, truth = rng.random((3, 8)), rng.random(8)
    rows = [
        {"seed": seed, "estimate": estimate[seed, agent], "truth": truth[agent]}
        for agent in range(8)
        for seed in range(3)
    ]
    found = pooled(pd.DataFrame(rows))
    errors = 100 * abs(estimate - truth)
    assert found["mae"] == pytest.approx(errors.mean())
    assert found["max_error"] == pytest.approx(sum(max(row) for row in errors) / 3)
    # Not the largest of all, nor that of the averaged errors.
    assert errors.mean(axis=0).max() < found["max_error"] < errors.max()
    taus = [kendalltau(row, truth).statistic for row in estimate]
    assert found["tau"] == pytest.approx(np.mean(taus))
    assert found["seeds"] == 3


def test_pooled_averages_tau_where_it_is_defined() -> None:
    truth = [0.1, 0.5, 0.9]
    estimates = {0: [0.3, 0.3, 0.3], 1: [0.2, 0.1, 0.8]}
    runs = pd.DataFrame(
        [
            {"seed": seed, "estimate": value, "truth": true}
            for seed, values in estimates.items()
            for value, true in zip(values, truth, strict=True)
        ]
    )
    assert pooled(runs)["tau"] == pytest.approx(1 / 3)
    assert np.isnan(pooled(runs[runs["seed"] == 0])["tau"])


def test_agent_errors_average_over_seeds_in_bank_order() -> None:
    runs = pd.DataFrame(
        {"agent": ["b", "a", "b", "a"], "seed": [0, 0, 1, 1], "error": [-0.1, 0.2, 0.3, -0.6]}
    )
    made = SimpleNamespace(runs=lambda method: runs, bank=SimpleNamespace(agents=["a", "b"]))
    assert agent_errors(made, "any").tolist() == pytest.approx([0.4, 0.2])  # type: ignore[arg-type]


def test_every_method_has_a_title_of_its_own(study: Study) -> None:
    assert len(set(TITLES.values())) == len(TITLES)
    assert set(study.method_names) <= set(TITLES)
    assert all(TITLES[name] == method.title for name, method in METHODS.items())
