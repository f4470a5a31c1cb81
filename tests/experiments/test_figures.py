"""The numbers of figures 3 and 4 against the runs that they are made of."""

import numpy as np
import pytest

from hspr.experiments import figures as module
from hspr.experiments.families import model_family
from hspr.experiments.figures import SHARES, SWEEP_METHODS, figure3, figure4
from hspr.experiments.methods import METHODS
from hspr.experiments.study import Study
from hspr.experiments.tables import TITLES

CHEAP = ("uniform", "mid-range")


@pytest.fixture
def few_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the peers that take long; they run as the others do."""
    monkeypatch.setattr(module, "SWEEP_METHODS", CHEAP)


def test_sweep_has_the_shares_of_the_paper_and_known_peers() -> None:
    assert SHARES == (0.05, 0.1, 0.15, 0.2)
    assert set(SWEEP_METHODS) <= set(METHODS)


def test_figure3_has_every_method_at_every_budget(studies: list[Study], few_peers: None) -> None:
    frame = figure3(studies).frame
    names = [TITLES[name] for name in ("hspr", *CHEAP)]
    by_bank = frame.groupby("bank", sort=False)
    assert list(by_bank.groups) == ["one", "two", "macro"]
    for bank, part in by_bank:
        found = list(zip(part["share"].round(9), part["method"], strict=True))
        expected = [(100 * share, name) for share in SHARES for name in names]
        assert sorted(found) == sorted((round(share, 9), name) for share, name in expected), bank
    tasks = {"one": {5: 2, 10: 3, 15: 4, 20: 6}, "two": {5: 1, 10: 2, 15: 3, 20: 4}}
    for bank, budgets in tasks.items():
        part = by_bank.get_group(bank)
        assert dict(zip(part["share"].round(9), part["budget"], strict=True)) == budgets


def test_figure3_at_the_main_budget_is_the_main_run(studies: list[Study], few_peers: None) -> None:
    frame = figure3(studies).frame
    for study in studies:
        part = frame[(frame["bank"] == study.bank.name) & np.isclose(frame["share"], 10)]
        for row in part.to_dict("records"):
            (name,) = [name for name, title in TITLES.items() if title == row["method"]]
            wrong = 100 * study.runs(name)["error"].abs()
            assert row["mae"] == pytest.approx(wrong.mean())
            largest = wrong.groupby(study.runs(name)["seed"]).max()
            assert row["max_error"] == pytest.approx(largest.mean())


def test_figure3_fits_peers_at_each_budget_and_follows_hspr(study: Study, few_peers: None) -> None:
    frame = figure3([study]).frame
    assert "macro" not in set(frame["bank"])
    swept = study.sweep(SHARES)
    for share in SHARES:
        rows = frame[np.isclose(frame["share"], 100 * share)].set_index("method")
        mid_range = []
        for fold in study.plan:
            solved = study.bank.select(fold.source).values.sum(axis=0)
            order = np.argsort(abs(2 * solved - len(fold.source)), kind="stable")
            queried = order[: rows["budget"].iloc[0]]
            for agent in fold.target:
                outcomes = study.bank.outcomes.sel(agent=agent).values
                mid_range.append(abs(outcomes[queried].mean() - outcomes.mean()))
        assert rows["mae"]["Mid-Range"] == pytest.approx(100 * np.mean(mid_range))
        errors = swept.loc[swept["budget"] == rows["budget"].iloc[0], "error"]
        assert rows["mae"]["HSPR"] == pytest.approx(100 * errors.abs().mean())


def test_figure3_macro_weighs_banks_the_same(studies: list[Study], few_peers: None) -> None:
    frame = figure3(studies).frame
    frame["share"] = frame["share"].round(9)
    cells = frame.set_index(["bank", "method", "share"])[["mae", "max_error"]]
    mean = (cells.loc["one"] + cells.loc["two"]) / 2
    difference = (cells.loc["macro"] - mean).abs()
    assert len(difference) == len(SHARES) * 3
    assert difference.to_numpy().max() < 1e-9


def test_figure4_has_a_row_for_each_agent(studies: list[Study]) -> None:
    rows = figure4(studies).frame.to_dict("records")
    expected = [(study, agent) for study in studies for agent in study.bank.agents]
    assert [(row["bank"], row["agent"]) for row in rows] == [
        (study.bank.name, agent) for study, agent in expected
    ]
    for row, (study, agent) in zip(rows, expected, strict=True):
        runs = study.runs("hspr")
        made = 100 * runs.loc[runs["agent"] == agent, "estimate"].to_numpy()
        truth = 100 * study.bank.outcomes.sel(agent=agent).values.mean()
        assert len(made) == 5
        assert row["truth"] == pytest.approx(truth)
        assert row["estimate"] == pytest.approx(made.sum() / 5)
        spread = np.sqrt(((made - made.sum() / 5) ** 2).sum() / 4)
        assert row["sd"] == pytest.approx(spread)
        assert row["error"] == pytest.approx(abs(made - truth).sum() / 5)
        assert row["family"] == model_family(agent)
    families = {row["agent"]: row["family"] for row in rows}
    assert families["2024_claude3opus"] == "Claude"
    assert families["o1 and sonnet"] == "Mixed"
    assert families["агент é"] == "Unspecified"
