"""The commands that check the sampler: small runs, resumption, and one line for what is wrong."""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from hspr.cli import main
from hspr.experiments.simulate import simulate_bank

BANK_SEED = 5401


class Result(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str


@pytest.fixture
def hspr_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Result]:
    """Run the command line in this process, in an empty folder."""

    def run(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["hspr", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        return Result(int(end.value.code or 0), *capsys.readouterr())

    monkeypatch.chdir(tmp_path)
    return run


@pytest.fixture
def bank_file(tmp_path: Path) -> str:
    """Return a wide CSV of five agents and twenty tasks."""
    bank = simulate_bank(agents=5, tasks=20, seed=BANK_SEED)
    with (tmp_path / "small.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", *bank.tasks])
        for agent, row in zip(bank.agents, bank.values, strict=True):
            writer.writerow([agent, *map(int, row)])
    return "small.csv"


def test_sbc_runs_keeps_its_simulations_and_goes_on(
    hspr_command: Callable[..., Result], tmp_path: Path
) -> None:
    arguments = ("sbc", "--nodes", "64", "--jobs", "1", "--output-dir", "made/here")
    first = hspr_command(*arguments, "--simulations", "3", "--json")
    assert first.err == ""
    summary = json.loads(first.out)
    assert first.code == (0 if summary["passed"] else 1)
    assert summary["simulations"] == 3
    assert set(summary["quantities"]) == {"z[ability]", "z[factor 1]", "z[factor 2]", "score"}
    assert all((tmp_path / file).stat().st_size for file in summary["files"])
    rows = json.loads((tmp_path / summary["files"][0]).read_text(encoding="utf-8"))["rows"]
    more = hspr_command(*arguments, "--simulations", "4")
    assert "simulations  4 " in more.out
    again = json.loads((tmp_path / summary["files"][0]).read_text(encoding="utf-8"))["rows"]
    assert rows.items() <= again.items()
    assert len(again) == 4
    other = hspr_command(*arguments, "--simulations", "4", "--seed", "1")
    assert (other.code, other.out) == (2, "")
    assert "was made with seed" in other.err


def test_numerics_prints_every_check(hspr_command: Callable[..., Result], bank_file: str) -> None:
    arguments = ("numerics", bank_file, "--targets", "1", "--scrambles", "2", "--rank", "1")
    result = hspr_command(*arguments, "--budget", "20%", "--nodes", "1024", "--json")
    summary = json.loads(result.out)
    assert result.code == (0 if summary["passed"] else 1)
    assert (summary["budget"], len(summary["targets"]), len(summary["checks"])) == (4, 1, 9)
    # Four nodes are too few for anything.
    poor = hspr_command(*arguments, "--budget", "4", "--nodes", "4")
    assert poor.code == 1
    assert "FAIL" in poor.out
    assert poor.out.splitlines()[-1].endswith("of 9 checks passed")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sbc", "--simulations", "1"), "simulations must be a whole number from 2"),
        (("sbc", "--nodes", "100"), "nodes"),
        (("sbc", "--jobs", "0"), "n_jobs must be a whole number other than 0"),
        (("sbc", "--proposal", "cauchy"), "proposal must be one of"),
        (("sbc", "--output-dir", "small.csv"), "cannot make the folder small.csv"),
        (("numerics",), "BANK"),
        (("numerics", "nowhere"), "nowhere"),
        (("numerics", "small.csv", "--targets", "0"), "targets must be a whole number from 1 to 5"),
        (("numerics", "small.csv", "--budget", "ten"), "budget must be a number of tasks"),
        (("numerics", "small.csv", "--budget", "21"), "budget must be from 0 to 20 tasks"),
        (("numerics", "small.csv", "--nodes", "100"), "nodes"),
        (("numerics", "small.csv", "--kappa", "0"), "kappa must be a positive number"),
    ],
)
def test_bad_input_ends_with_one_line_and_leaves_nothing(
    hspr_command: Callable[..., Result],
    bank_file: str,
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    result = hspr_command(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("hspr: error: ")
    assert result.err.count("\n") == 1
    assert message in result.err
    assert [file.name for file in tmp_path.iterdir()] == [bank_file]
