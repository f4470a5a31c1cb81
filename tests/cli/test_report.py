"""The command that writes a report: its page, its numbers, and what it refuses."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hspr.cli import main
from hspr.experiments.evaluation import evaluate_agent
from hspr.experiments.report import report_numbers
from hspr.models.config import Config
from hspr.tests.oracles_models import random_matrix

BANK = random_matrix(5, 12, seed=4807)
FAST = ("--budget", "3", "--nodes", "128", "--rank", "1")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command in an empty folder beside a bank; return exit code, output and error."""
    rows = [
        ",".join([agent, *map(str, map(int, row))])
        for agent, row in zip(BANK.agents, BANK.values, strict=True)
    ]
    bank = tmp_path / "small.csv"
    bank.write_text("\n".join([",".join(["agent", *BANK.tasks]), *rows]), encoding="utf-8")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "agg")

    def report(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hspr", "report", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), *capsys.readouterr()

    return report


def test_report_writes_a_page_and_prints_its_numbers(run: Run) -> None:
    code, out, err = run("../small.csv", "--agent", "a3", *FAST, "--json", "--output", "a.html")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert out.count("\n") == 1
    evaluation = evaluate_agent(BANK, "a3", Config(rank=1), budget=3, nodes=128)
    expected = report_numbers(evaluation) | {"bank": "small", "file": "a.html"}
    assert told == json.loads(json.dumps(expected))
    page = Path("a.html").read_text(encoding="utf-8")
    assert f"{told['estimate']:.1%}" in page
    assert all(f"<bdi>{task}</bdi>" in page for task in evaluation.evaluator.outcomes)
    assert [file.name for file in Path().iterdir()] == ["a.html"]


def test_report_prints_rows_for_people(run: Run) -> None:
    code, out, err = run(
        "../small.csv", *FAST, "--budget", "0", "--prob", "0.5", "--missing", "fail"
    )
    assert (code, err) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert list(rows) == ["bank", "target", "estimate", "interval", "truth", "trusted", "saved"]
    assert rows["target"] == "a0, 0 tasks run"
    assert "(50%, equal-tailed credible interval of the model's posterior)" in rows["interval"]
    page = Path("hspr-report.html").read_text(encoding="utf-8")
    assert "counted as not solved" in page


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--agent", "nobody"), ("no agent 'nobody'",)),
        (("--budget", "13"), ("budget must be from 0 to 12 tasks, got 13",)),
        (("--budget", "much"), ("budget must be a number of tasks", "'much'")),
        (("--prob", "1"), ("prob must be between 0 and 1, got 1.0; try 0.9",)),
        (("--prob", "nan"), ("prob must be between 0 and 1, got nan",)),
        (("--kappa", "-1"), ("kappa must be a positive number",)),
        (("--nodes", "100"), ("nodes", "100")),
        (("--proposal", "cauchy"), ("proposal must be one of gaussian, student",)),
        (("--seed", "-1"), ("'--seed'",)),
        (("--output", "none/a.html"), ("cannot write ", "none/a.html")),
        (("--output", "."), ("cannot write ",)),
    ],
)
def test_report_refuses_bad_input_in_one_line(
    run: Run, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    code, out, err = run("../small.csv", "--rank", "0", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("hspr: error: ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err
    assert list(Path().iterdir()) == []


def test_report_refuses_an_unknown_bank_and_keeps_an_older_page(run: Run) -> None:
    Path("hspr-report.html").write_text("older", encoding="utf-8")
    code, out, err = run("no-such-bank")
    assert (code, out) == (2, "")
    assert "bank 'no-such-bank' is unknown" in err
    assert Path("hspr-report.html").read_text(encoding="utf-8") == "older"
