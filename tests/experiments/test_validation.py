"""A checked evaluation, and the command that checks the public banks."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import hspr
from hspr.acquisition.evaluator import Evaluator
from hspr.experiments import validate_banks, validation
from hspr.experiments.validate_banks import Case, cases, main, markdown, run_case
from hspr.experiments.validation import validate_agent
from hspr.inference.compare import compare_posteriors
from hspr.inference.sobol import SEED
from hspr.inference.summaries import summarise
from hspr.models.errors import DataError
from hspr.tests.oracles_models import random_matrix

BANK = random_matrix(6, 40, seed=4803)
CONFIG = hspr.Config(rank=1, kappa=1.0)


@pytest.fixture
def nuts_replaced(monkeypatch):
    """A quick stand-in for NUTS: another importance sample of the same model."""
    seen = []

    def stand_in(model, **settings):
        seen.append(settings)
        return hspr.SobolSampler(model, seed=1).posterior(draws=4)

    monkeypatch.setattr(validation, "sample_nuts", stand_in)
    return seen


def test_error_is_the_scatter_of_evaluations_with_other_scrambles(nuts_replaced):
    result = validate_agent(
        BANK, "a2", CONFIG, budget=13, nodes=256, scrambles=5, form="full", draws=7, seed=3
    )
    evaluator = result.evaluation.evaluator
    assert len(evaluator.outcomes) == 13
    trees = []
    for number in range(5):
        told = Evaluator(evaluator.groups, CONFIG, budget=13, nodes=256, sobol_seed=SEED + number)
        for task, outcome in evaluator.outcomes.items():
            told.tell(task, outcome)
        trees.append(told.posterior)
    expected = compare_posteriors(trees, result.nuts, names=("sobol", "nuts"))
    np.testing.assert_allclose(
        result.comparison.table["mcse"], expected.table["mcse"], rtol=1e-9, atol=1e-15
    )
    np.testing.assert_array_equal(
        result.comparison.table["mean_sobol"], summarise(evaluator.posterior).rows["mean"]
    )
    assert nuts_replaced[0]["form"] == "full"
    assert nuts_replaced[0]["draws"] == 7
    assert nuts_replaced[0]["random_seed"] == 3


@pytest.mark.parametrize("budget", [0, 40])
def test_no_outcome_and_all_outcomes_can_be_checked(nuts_replaced, budget):
    result = validate_agent(BANK, "a2", CONFIG, budget=budget, nodes=256, scrambles=1)
    assert result.comparison.verdict in ("agree", "inconclusive")
    told = result.summary()
    assert told["n_observed"] == budget
    if budget == 40:
        assert told["score"]["difference_in_mcse"] == 0
        assert told["estimate"] == pytest.approx(told["truth"])


def test_summary_is_json_and_the_table_can_be_saved(nuts_replaced, tmp_path):
    result = validate_agent(BANK, "a1", CONFIG, budget=6, nodes=256, scrambles=1)
    told = result.summary()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["observed_successes"] == sum(result.evaluation.evaluator.outcomes.values())
    assert told["truth"] == pytest.approx(BANK.values[1].mean())
    with result.to_csv(tmp_path / "check.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(result.comparison.table)
    assert rows[0]["quantity"] == "S"
    assert float(rows[0]["mean_sobol"]) == pytest.approx(told["score"]["mean_sobol"])


@pytest.mark.parametrize("scrambles", [0, 2, 3, 4.0, True])
def test_too_few_scrambles_are_refused(scrambles):
    with pytest.raises(DataError, match="scrambles must be 1 or a whole number from 4"):
        validate_agent(BANK, "a1", CONFIG, budget=2, scrambles=scrambles)


def test_cases_are_the_median_and_the_best_agent():
    found = list(cases(["simulated"]))
    bank = found[0].bank
    scores = bank.values.mean(axis=1)
    assert [case.config.kappa for case in found] == [4.0, 1.0]
    assert all(case.config.rank == 2 for case in found)
    below = (scores < scores[bank.agents.index(found[0].agent)]).sum()
    assert abs(below - len(scores) // 2) <= 1
    assert scores[bank.agents.index(found[1].agent)] == scores.max()


def test_finished_runs_are_kept_and_the_table_printed(monkeypatch, tmp_path, capsys):
    row = {
        "bank": "b",
        "agent": "an|agent",
        "config": {"kappa": 4.0},
        "n_observed": 30,
        "n_tasks": 300,
        "groups": 120,
        "score": {
            "mean_sobol": 0.25,
            "mean_nuts": 0.2498,
            "difference": 0.0002,
            "mcse": 0.0001,
            "difference_in_mcse": 2.0,
            "sd_sobol": 0.02,
            "sd_nuts": 0.0201,
            "sd_ratio": 0.995,
        },
        "facts": {"nuts": {"r_hat": 1.0004, "divergences": 0}, "sobol": {"pareto_k": None}},
        "verdict": "agree",
        "seconds": 1.5,
    }
    done = []

    def run(case, **settings):
        done.append(case.agent)
        if len(done) == 2:
            raise KeyboardInterrupt
        return row

    monkeypatch.setattr(validate_banks, "run_case", run)
    arguments = ["simulated", "--output", str(tmp_path / "rows.json"), "--draws", "10"]
    with pytest.raises(KeyboardInterrupt):
        main(arguments)
    main(arguments)
    # The first run was not made again.
    assert len(done) == 3
    assert done[1] == done[2] != done[0]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert {line.count("|") - line.count("\\|") for line in lines} == {18}
    assert "| an\\|agent | 4 | 30 of 300 | 120 | 25.000 | 24.980 | +0.020 | 0.010 |" in lines[2]
    assert lines[2].endswith("| 1.0004 | 0 | none | agree |")
    with pytest.raises(SystemExit, match="was made with draws = 10, not 20"):
        main([*arguments[:-1], "20"])


def test_a_case_is_run_and_written(nuts_replaced):
    row = run_case(Case(BANK, "a3", CONFIG), draws=9, tune=5, chains=2, nodes=256, scrambles=1)
    assert (row["agent"], row["n_observed"], row["draws"]) == ("a3", 4, 9)
    assert row["seconds"] > 0
    row["facts"]["nuts"] = {"r_hat": 1.0, "divergences": 0}
    table = markdown([row])
    assert table.splitlines()[2].startswith("| bank | a3 | 1 | 4 of 40 |")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["swebench-lite", "swebench-pro"])
def test_public_banks_agree(name, data_dir):
    """One target of a real bank, within the bounds of docs/validation.md."""
    case = next(cases([name]))
    result = validate_agent(case.bank, case.agent, case.config, nuts_sampler="pymc", draws=3000)
    row = result.comparison.table.loc["S"]
    assert result.comparison.verdict == "agree", result.comparison.reasons
    assert abs(row["difference_in_mcse"]) < 4
    assert abs(row["difference"]) < 0.001
    assert abs(row["sd_ratio"] - 1) < 0.05
    assert result.comparison.facts["nuts"]["r_hat"] < 1.01
