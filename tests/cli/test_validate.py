"""The command that checks an evaluation against NUTS: its output, its files, its exit code."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from hspr.cli import main
from hspr.experiments import validation
from hspr.inference.nuts import sample_nuts
from hspr.tests.oracles_models import random_matrix

BANK = random_matrix(6, 40, seed=4801)
FAST = ("--budget", "10", "--rank", "1", "--nodes", "256", "--scrambles", "4")
CHAINS = ("--sampler", "pymc", "--draws", "150", "--tune", "150", "--chains", "4")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command in an empty folder beside a bank; return exit code, output and error."""
    folder = tmp_path / "here"
    folder.mkdir()
    with (tmp_path / "bank.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", *BANK.tasks])
        writer.writerows(
            [a, *map(int, row)] for a, row in zip(BANK.agents, BANK.values, strict=True)
        )
    monkeypatch.chdir(folder)

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hspr", "validate", "../bank.csv", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), *capsys.readouterr()

    return command


def test_both_posteriors_and_the_verdict_are_printed_and_saved(run: Run) -> None:
    code, out, err = run("--agent", "a2", *FAST, *CHAINS, "--output", "check.csv")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "target    a2 of bank, 40 tasks"
    assert "nuts      pymc, marginal form, 4 x 150 draws, 0 diverged" in out
    assert "sobol     256 nodes" in out
    assert "error from 4 scrambles" in out
    head = next(line for line in lines if line.startswith("quantity"))
    assert head.split() == ["quantity", "mean", "sd", "5", "%", "50", "%", "95", "%", "MCSE"]
    quantities = ["S (%)", "z[ability]", "z[factor 1]"]
    starts = [lines.index(head) + 1 + 3 * number for number in range(3)]
    for quantity, start in zip(quantities, starts, strict=True):
        assert lines[start].startswith(f"{quantity} ")
        assert " sobol " in lines[start]
        assert lines[start + 1].split()[0] == "nuts"
        assert lines[start + 2].split()[0] == "difference"
        assert lines[start + 2].endswith(" MCSE")
    assert any(line.startswith("verdict      ") for line in lines)
    assert "verdict      disagree" not in out
    assert lines[-1] == "saved        check.csv"
    with Path("check.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["quantity"] for row in rows[:3]] == ["S", "z[ability]", "z[factor 1]"]
    assert all(row["quantity"].startswith("q[") for row in rows[3:])
    assert {(row["bank"], row["agent"]) for row in rows} == {("bank", "a2")}
    assert f"{100 * float(rows[0]['mean_sobol']):.3f}" in lines[starts[0]]


def test_json_is_one_object_and_equal_seeds_give_it_again(run: Run) -> None:
    arguments = ("--agent", "a0", *FAST, *CHAINS, "--kappa", "1", "--seed", "3", "--json")
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    told = json.loads(out)
    assert (told["bank"], told["agent"], told["n_observed"]) == ("bank", "a0", 10)
    assert (told["config"]["kappa"], told["config"]["rank"], told["seed"]) == (1, 1, 3)
    assert told["truth"] == pytest.approx(BANK.values[0].mean())
    assert told["verdict"] in ("agree", "inconclusive")
    # A few hundred draws are too few for a verdict, and it says so.
    assert told["verdict"] == "agree" or told["reasons"]
    assert told["facts"]["nuts"]["divergences"] == 0
    assert told["facts"]["sobol"]["repeats"] == 4
    assert abs(told["score"]["difference_in_mcse"]) < 5
    assert list(Path().iterdir()) == []
    again = json.loads(run(*arguments)[1])
    assert again == told


def test_disagreement_ends_with_exit_code_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(model, **settings):
        pm.set_data({"prior_sd": np.array([0.05, 0.05])}, model=model)
        return sample_nuts(model, **settings | {"draws": 1000})

    monkeypatch.setattr(validation, "sample_nuts", wrong)
    code, out, err = run("--agent", "a2", *FAST, *CHAINS, "--json")
    assert (code, err) == (1, "")
    told = json.loads(out)
    assert told["verdict"] == "disagree"
    assert any("combined MCSE" in reason for reason in told["reasons"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "agent"),
        (("--agent", "a9"), "no agent 'a9'"),
        (("--agent", "a1", "--budget", "much"), "budget must be"),
        (("--agent", "a1", "--kappa", "0"), "kappa must be a positive number"),
        (("--agent", "a1", "--budget", "2", "--nodes", "100"), "nodes must be a power of two"),
        (("--agent", "a1", "--scrambles", "2"), "scrambles must be 1 or a whole number from 4"),
        (("--agent", "a1", *FAST, "--form", "half"), "form must be one of marginal, full"),
        (("--agent", "a1", *FAST, "--draws", "1"), "draws must be a whole number from 4"),
        (("--agent", "a1", *FAST, "--sampler", "stan"), "nuts_sampler must be None or one of"),
        (("--agent", "a1", "--output", "no/folder.csv"), "cannot write"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    run: Run, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("hspr: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert list(Path().iterdir()) == []
