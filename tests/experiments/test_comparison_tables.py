"""Tables of errors against their definitions, from the recorded estimates and the matrices."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, wilcoxon

from hspr.experiments.comparison_tables import table1, table2, table5, table6
from hspr.experiments.methods import METHODS
from hspr.experiments.study import Study
from hspr.experiments.tables import TITLES

MakeStudy = Callable[..., Study]
ABLATIONS = [
    ("A", "hspr-no-groups"),
    ("B", "hspr-uniform"),
    ("B", "hspr-mid-range"),
    ("C", "hspr-mean"),
]


def estimates(study: Study, method: str) -> np.ndarray:
    """Return the recorded estimates, shape (m, seeds), in bank order."""
    runs = study.runs(method)
    by_agent = {
        agent: [
            runs["estimate"][(runs["agent"] == agent) & (runs["seed"] == seed)].item()
            for seed in range(runs["seed"].max() + 1)
        ]
        for agent in study.bank.agents
    }
    return np.array([by_agent[agent] for agent in study.bank.agents])


def truth(study: Study) -> np.ndarray:
    return study.bank.values.sum(axis=1) / study.bank.values.shape[1]


def errors(study: Study, method: str) -> np.ndarray:
    """Return each agent's absolute error in percentage points, averaged over seeds."""
    return 100 * np.abs(estimates(study, method) - truth(study)[:, None]).mean(axis=1)


def row_of(frame: pd.DataFrame, bank: str, method: str) -> dict:
    (row,) = frame[(frame["bank"] == bank) & (frame["method"] == TITLES[method])].to_dict("records")
    return row


def test_table1_pools_the_errors_of_every_method(studies: list[Study]) -> None:
    frame = table1(studies).frame
    names = [*METHODS, "hspr"]
    assert list(zip(frame["bank"], frame["method"], strict=True)) == [
        (bank, TITLES[name]) for bank, name in product(["one", "two", "macro"], names)
    ]
    for study, name in product(studies, names):
        made = estimates(study, name).T
        row = row_of(frame, study.bank.name, name)
        wrong = 100 * np.abs(made - truth(study))
        assert row["mae"] == pytest.approx(wrong.mean())
        assert row["max_error"] == pytest.approx(wrong.max(axis=1).mean())
        taus = [kendalltau(line, truth(study)).statistic for line in made if np.ptp(line) > 0]
        assert row["tau"] == pytest.approx(np.mean(taus))
        assert row["seeds"] == len(made)


def test_table1_macro_weighs_banks_the_same(studies: list[Study]) -> None:
    frame = table1(studies).frame
    for name in (*METHODS, "hspr"):
        first, second, macro = (row_of(frame, bank, name) for bank in ("one", "two", "macro"))
        for column in ("mae", "max_error", "tau"):
            assert macro[column] == pytest.approx((first[column] + second[column]) / 2)
    assert set(table1(studies[:1]).frame["bank"]) == {"one"}


def test_table2_differences_are_those_of_paired_agents(studies: list[Study]) -> None:
    frame = table2(studies).frame
    assert list(zip(frame["ablation"], frame["method"], frame["bank"], strict=True)) == [
        (part, TITLES[name], bank) for part, name in ABLATIONS for bank in ("one", "two", "macro")
    ]
    for _, name in ABLATIONS:
        differences = []
        for study in studies:
            row = row_of(frame, study.bank.name, name)
            differences.append(errors(study, name) - errors(study, "hspr"))
            assert row["mae"] == pytest.approx(errors(study, name).mean())
            assert row["mae_hspr"] == pytest.approx(errors(study, "hspr").mean())
            assert row["difference"] == pytest.approx(differences[-1].mean())
            assert row["low"] <= row["difference"] <= row["high"]
            assert differences[-1].min() <= row["low"] <= row["high"] <= differences[-1].max()
        macro = row_of(frame, "macro", name)
        assert macro["difference"] == pytest.approx(np.mean([d.mean() for d in differences]))
        assert macro["mae"] == pytest.approx(np.mean([errors(s, name).mean() for s in studies]))
        assert macro["mae_hspr"] == pytest.approx(
            np.mean([errors(s, "hspr").mean() for s in studies])
        )
        assert macro["low"] <= macro["difference"] <= macro["high"]


def bootstrap(differences: list[np.ndarray]) -> np.ndarray:
    """Resample the agents of every bank, another way round and with another seed."""
    rng = np.random.default_rng(4732)
    means = [
        [sum(d[rng.choice(len(d), len(d))]) / len(d) for d in differences] for _ in range(4000)
    ]
    return np.quantile(np.mean(means, axis=1), [0.025, 0.975])


def test_table2_intervals_are_percentiles_over_resampled_agents(studies: list[Study]) -> None:
    frame = table2(studies).frame
    differences = [errors(s, "hspr-no-groups") - errors(s, "hspr") for s in studies]
    for bank, parts in (("one", differences[:1]), ("two", differences[1:]), ("macro", differences)):
        row = row_of(frame, bank, "hspr-no-groups")
        spread = max(np.std(part) / np.sqrt(len(part)) for part in parts)
        # The Monte Carlo error of a quantile, at 4,000 resamples, is below a tenth of the spread.
        np.testing.assert_allclose([row["low"], row["high"]], bootstrap(parts), atol=0.25 * spread)
        assert row["high"] - row["low"] > 0.5 * spread


def stepped_down(p: list[float]) -> list[float]:
    """Adjust by Holm's definition: max over j <= i of (k - j + 1) p_(j), at most 1."""
    ranked = sorted(range(len(p)), key=p.__getitem__)
    adjusted = [0.0] * len(p)
    for place, index in enumerate(ranked):
        adjusted[index] = max(
            min(1.0, (len(p) - earlier) * p[ranked[earlier]]) for earlier in range(place + 1)
        )
    return adjusted


def test_table5_compares_hspr_with_every_other_method(studies: list[Study]) -> None:
    table = table5(studies)
    frame = table.frame
    banks = frame[frame["bank"] != "macro"].reset_index(drop=True)
    assert list(zip(banks["method"], banks["bank"], strict=True)) == [
        (TITLES[name], bank) for name in METHODS for bank in ("one", "two")
    ]
    for study, name in product(studies, METHODS):
        row = row_of(frame, study.bank.name, name)
        mine, its = errors(study, "hspr"), errors(study, name)
        assert (row["mae"], row["mae_other"]) == pytest.approx((mine.mean(), its.mean()))
        assert row["difference"] == pytest.approx((mine - its).mean())
        assert row["low"] <= row["difference"] <= row["high"]
        differences = np.round(mine - its, 9)
        expected = wilcoxon(differences[differences != 0]).pvalue
        assert row["p"] == pytest.approx(expected)
    # Over all rows of a bank and a method, those of both banks together.
    assert banks["p_holm"].tolist() == pytest.approx(stepped_down(banks["p"].tolist()))
    assert any(f"over all {2 * len(METHODS)} comparisons" in note for note in table.notes)


def test_table5_macro_rows_weigh_banks_the_same_and_have_no_test(studies: list[Study]) -> None:
    frame = table5(studies).frame
    macro = frame[frame["bank"] == "macro"]
    assert macro["method"].tolist() == [TITLES[name] for name in METHODS]
    assert macro[["p", "p_holm"]].isna().all(axis=None)
    for name in METHODS:
        row = row_of(frame, "macro", name)
        means = [(errors(s, "hspr").mean(), errors(s, name).mean()) for s in studies]
        assert (row["mae"], row["mae_other"]) == pytest.approx(tuple(np.mean(means, axis=0)))
        assert row["difference"] == pytest.approx(row["mae"] - row["mae_other"])
    assert "macro" not in set(table5(studies[:1]).frame["bank"])


def test_published_predictions_of_one_bank_are_compared_there(
    studies: list[Study], made_study: MakeStudy
) -> None:
    one, two = studies
    frozen = pd.DataFrame(
        {"bank": "two", "agent": two.bank.agents, "budget": 0.1, "estimate": 0.5, "seed": 0}
    )
    having = made_study(two.bank, two.folder, plan=two.plan, frozen=frozen)
    wrong = 100 * np.abs(0.5 - truth(two))
    for banks in ([one, having], [having, one]):
        for table in (table1(banks).frame, table5(banks).frame):
            (row,) = table[table["method"] == TITLES["pta-irt"]].to_dict("records")
            assert row["bank"] == "two"
            assert row["mae_other" if "p" in row else "mae"] == pytest.approx(wrong.mean())
            assert TITLES["uniform"] in set(table.loc[table["bank"] == "macro", "method"])


def test_table6_compares_matched_paths(studies: list[Study]) -> None:
    frame = table6(studies).frame
    assert frame["bank"].tolist() == ["one", "two"]
    for study, row in zip(studies, frame.to_dict("records"), strict=True):
        without, with_groups = errors(study, "hspr-matched"), errors(study, "hspr-mean")
        assert row["mae_without"] == pytest.approx(without.mean())
        assert row["mae_with"] == pytest.approx(with_groups.mean())
        assert row["gain"] == pytest.approx((without - with_groups).mean())
        assert row["low"] <= row["gain"] <= row["high"]
        counts = []
        for agent in study.bank.agents:
            (fold,) = [fold for fold in study.plan if agent in fold.target]
            columns = study.bank.select(fold.source).values
            counts.append(len({tuple(column) for column in columns.T}))
        assert row["groups"] == pytest.approx(np.mean(counts))
        assert row["tasks_per_group"] == pytest.approx(len(study.bank.tasks) / np.mean(counts))


def test_matched_runs_have_the_paths_of_hspr(study: Study, tmp_path: Path) -> None:
    matched, runs = study.runs("hspr-matched"), study.runs("hspr")
    for column in ("agent", "fold", "seed"):
        assert matched[column].tolist() == runs[column].tolist()
    # Equal queries have equal outcomes, and so one estimate.
    paths = pd.DataFrame({"agent": runs["agent"], "path": runs["queried"]})
    paths["estimate"] = matched["estimate"]
    assert (paths.groupby(["agent", "path"])["estimate"].nunique() == 1).all()
