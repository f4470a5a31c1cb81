"""Selection and reproduction on the command line: whole, resumable, and one line for errors."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hspr.cli import main
from hspr.cli.reproduce import RESULTS
from hspr.experiments import controls, predictions, selection
from hspr.experiments.banks import load_bank
from hspr.experiments.methods import METHODS
from hspr.experiments.provenance import digest
from hspr.experiments.results import RESULTS as BUILDERS
from hspr.experiments.selection import run_selection
from hspr.experiments.simulate import simulate_bank

BANK_SEED = 4951
KILL_SEED = 4952
AGENTS = ["gpt-4 | a", "b", "агент é", "d"]
FOLDS = {0: [3, 0], 1: [1, 2]}
FAST = ("--nodes", "64", "--selection-nodes", "64", "--jobs", "1", "--output-dir", "out")
TABLE1 = ("reproduce", "table1", "--pta-irt", ".", "--bank", "pro", "--frozen", "frozen.csv", *FAST)
SELECT = ("select", "small.csv", "--budget", "2", "--nodes", "64", "--jobs", "1")
START = "from hspr.cli import main; main()"


class Result:
    """What a command left: exit code, standard output and error."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


def hspr(folder: Path, *arguments: str) -> Result:
    """Run the command line in this process and a folder."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["hspr", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
    return Result(int(end.value.code or 0), out.getvalue(), err.getvalue())


def assert_refused(result: Result, *parts: str) -> None:
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("hspr: error: ")
    assert result.err.endswith("\n")
    assert result.err.count("\n") == 1
    for part in parts:
        assert part in result.err


def write_csv(path: Path, agents: int, tasks: int) -> str:
    values = simulate_bank(agents=agents, tasks=tasks, seed=BANK_SEED).values.astype(int)
    columns = [f"task {task}" for task in range(tasks)]
    frame = pd.DataFrame(values, index=AGENTS[:agents], columns=columns)
    path.parent.mkdir(exist_ok=True)
    frame.to_csv(path, index_label="agent")
    return path.name


def write_pta_irt(root: Path) -> np.ndarray:
    """Write a bank as PTA-IRT does, with published predictions, and return its outcomes."""
    values = simulate_bank(agents=4, tasks=20, seed=BANK_SEED).values
    summary, folds = (root / "data" / part for part in ("swe_pro_summary", "folds/pro"))
    summary.mkdir(parents=True)
    folds.mkdir(parents=True)
    pd.DataFrame(values).to_csv(summary / "matrix.csv", header=False, index=False)
    models = [{"folder": agent} for agent in AGENTS]
    metadata = {"instance_ids": [f"t{task}" for task in range(20)], "agents": models}
    (summary / "metadata.json").write_text(json.dumps(metadata))
    for number, targets in FOLDS.items():
        train = [models[row] for row in range(4) if row not in targets]
        fold = {"fold": number, "train_models": train, "test_models": [models[r] for r in targets]}
        (folds / f"fold_{number}.json").write_text(json.dumps(fold))
    rows = [{"bank": "pro", "agent": a, "budget": 0.1, "estimate": 0.25} for a in AGENTS]
    pd.DataFrame(rows).to_csv(root / "frozen.csv", index=False)
    return values


def cells(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, comment="#")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Make table 1 of PTA-IRT's folder once, in a folder that the tests share."""
    folder = tmp_path_factory.mktemp("pta-irt")
    write_pta_irt(folder)
    return folder, hspr(folder, *TABLE1, "--json")


def test_results_are_those_that_are_built() -> None:
    assert RESULTS == tuple(BUILDERS)
    assert len(RESULTS) == 10


def test_table1_of_pta_irt_has_every_method(finished: tuple[Path, Result]) -> None:
    folder, result = finished
    assert (result.code, result.err) == (0, "")
    assert result.out.count("\n") == 1
    told = json.loads(result.out)
    assert told["files"] == [str(Path("out", f"table1.{kind}")) for kind in ("csv", "md", "png")]
    frame = cells(folder / "out" / "table1.csv")
    titles = [method.title for method in METHODS.values()]
    assert frame["method"].tolist() == [*titles, "PTA-IRT (published)", "HSPR"]
    assert set(frame["bank"]) == {"pta-irt:pro"}
    truth = simulate_bank(agents=4, tasks=20, seed=BANK_SEED).values.mean(axis=1)
    published = frame.set_index("method").loc["PTA-IRT (published)"]
    assert published["mae"] == pytest.approx(100 * abs(0.25 - truth).mean())
    assert published["max_error"] == pytest.approx(100 * abs(0.25 - truth).max())
    assert frame["mae"].between(0, 100).all()


def test_result_says_command_versions_and_data(finished: tuple[Path, Result]) -> None:
    folder, result = finished
    told = json.loads(result.out)
    assert told["command"] == "hspr " + " ".join([*TABLE1, "--json"])
    bank = told["banks"]["pta-irt:pro"]
    assert (bank["agents"], bank["tasks"], bank["budget"], bank["folds"]) == (4, 20, 2, 2)
    assert (bank["nodes"], bank["selection_nodes"]) == (64, 64)
    assert len(bank["sha256"]) == 64
    files = told.pop("files")
    for file in files[:2]:
        assert json.dumps(told["command"]) in (folder / file).read_text(encoding="utf-8")


def no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_jobs(_: object, jobs: Any, **__: object) -> list[object]:
        assert not jobs, f"{len(jobs)} jobs are done again"
        return []

    for module in (selection, predictions, controls):
        monkeypatch.setattr(module, "run_jobs", run_jobs)


def test_finished_work_is_not_done_again(
    finished: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = finished
    before = cells(folder / "out" / "table1.csv")
    no_job(monkeypatch)
    result = hspr(folder, *TABLE1)
    assert (result.code, result.err) == (0, "")
    pd.testing.assert_frame_equal(cells(folder / "out" / "table1.csv"), before, check_exact=True)
    # For people: title, rows and files.
    lines = result.out.splitlines()
    assert lines[0] == "Errors at a matched budget, every compared method"
    assert any("PTA-IRT (published)" in line for line in lines)
    assert lines[-1].startswith("saved  ")
    for table in ("table3", "table4", "table5", "table8", "figure4"):
        again = hspr(folder, "reproduce", table, *TABLE1[2:])
        assert (again.code, again.err) == (0, ""), table
        assert {f"{table}.{kind}" for kind in ("csv", "md", "png")} < names(folder / "out")


@pytest.mark.slow
def test_all_makes_every_result(finished: tuple[Path, Result]) -> None:
    folder, _ = finished
    result = hspr(folder, "reproduce", "all", *TABLE1[2:], "--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)["files"] == [
        str(Path("out", f"{name}.{kind}")) for name in RESULTS for kind in ("csv", "md", "png")
    ]
    assert all(len(cells(folder / "out" / f"{name}.csv")) for name in RESULTS)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("table9",), ("result must be one of table1, ", "or all, got 'table9'")),
        (("Table1",), ("got 'Table1'",)),
        (("table3", "--budget", "30"), ("budget must be a share", "got '30'; try 10%")),
        (("table3", "--budget", "abc"), ("budget must be a number of tasks", "'abc'")),
        (("table3", "--budget", "150%"), ("budget as a share must be from 0.0 to 1.0",)),
        (("table3", "--bank", "swebench-por"), ("'swebench-por' is unknown", "'swebench-pro'")),
        (("table3", "--bank", "none.csv"), ("none.csv",)),
        (("table3", "--bank", "holes.csv"), ("'holes' lacks 1 of", "drop-task")),
        (("table3", "--bank", "small.csv", "--bank", "other/small.csv"), ("small, small",)),
        (("table3", "--bank", "small.csv", "--pta-irt", "."), ("lite, verified, full, pro",)),
        (("table3", "--bank", "small.csv", "--frozen", "none.csv"), ("none.csv",)),
        (("table3", "--bank", "small.csv", "--missing", "skip"), ("missing must be one of",)),
        (("table1", "--bank", "small.csv", "--jobs", "0"), ("n_jobs must be",)),
        (("table1", "--bank", "small.csv", "--selection-nodes", "100"), ("a power of two",)),
        (("table1", "--bank", "small.csv", "--nodes", "100"), ("a power of two", "got 100")),
        ((), ("RESULT",)),
    ],
    ids=lambda value: " ".join(value),
)
def test_reproduce_refuses_bad_input(
    tmp_path: Path, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    write_csv(tmp_path / "small.csv", 3, 12)
    write_csv(tmp_path / "other" / "small.csv", 3, 12)
    text = (tmp_path / "small.csv").read_text(encoding="utf-8")
    (tmp_path / "holes.csv").write_text(text.replace("b,0", "b,").replace("b,1", "b,"))
    chosen = ("reproduce", "--nodes", "64", "--output-dir", "out", *arguments)
    assert_refused(hspr(tmp_path, *chosen), *parts)
    # Before anything is computed.
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_reproduce_refuses_an_output_that_is_a_file(tmp_path: Path) -> None:
    name = write_csv(tmp_path / "small.csv", 3, 12)
    result = hspr(tmp_path, "reproduce", "table3", "--bank", name, "--output-dir", name)
    assert_refused(result, "cannot make the folder small.csv")
    assert names(tmp_path) == {"small.csv"}


def test_reproduce_takes_a_policy_for_missing_outcomes(tmp_path: Path) -> None:
    (tmp_path / "holes.csv").write_text("agent,t0,t1,t2\na,1,,0\nb,0,1,1\nc,0,0,1\n")
    arguments = ("reproduce", "table3", "--bank", "holes.csv", "--output-dir", "out")
    for policy, tasks in (("fail", 3), ("drop-task", 2)):
        assert hspr(tmp_path, *arguments, "--missing", policy).code == 0
        assert cells(tmp_path / "out" / "table3.csv")["tasks"].tolist() == [tasks]


def test_select_prints_the_whole_grid_as_json(tmp_path: Path) -> None:
    bank = load_bank(tmp_path / write_csv(tmp_path / "small.csv", 3, 12))
    result = hspr(tmp_path, *SELECT, "--json")
    assert (result.code, result.err) == (0, "")
    assert result.out.count("\n") == 1
    told = json.loads(result.out)
    assert [row["stage"] for row in told["grid"]] == (
        ["global"] * 44 + ["hierarchical"] * 16 + ["median"] * 2
    )
    assert sum(row["selected"] for row in told["grid"]) == 3
    assert told["source"] == digest(bank)
    assert (told["agents"], told["tasks"], told["budget"]) == (3, 12, 2)
    assert told == json.loads(json.dumps(run_selection(bank, budget=2, nodes=64).summary()))
    # Finished paths are kept in the default folder, and people see the same grid.
    assert names(tmp_path) == {"small.csv", "hspr-selection"}
    with pytest.MonkeyPatch.context() as patch:
        no_job(patch)
        shown = hspr(tmp_path, *SELECT)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "source       small: 3 agents x 12 tasks"
    assert f"kappa        {told['config']['kappa']:g}" in lines
    stages = [line.split()[0] for line in lines[6:]]
    assert stages == ["stage", *(row["stage"] for row in told["grid"])]
    assert sum(line.endswith("*") for line in lines) == 3


def test_select_leaves_agents_out(tmp_path: Path) -> None:
    write_csv(tmp_path / "small.csv", 4, 12)
    bank = load_bank(tmp_path / "small.csv")
    result = hspr(tmp_path, *SELECT, "--without", AGENTS[2], "--without", AGENTS[0], "--json")
    assert result.code == 0
    told = json.loads(result.out)
    assert (told["agents"], told["source"]) == (2, digest(bank.select([AGENTS[1], AGENTS[3]])))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--without", "B"), ("no agent 'B' among its 3",)),
        (("--without", "b", "--without", "b"), ("'b' occurs 2 times",)),
        (("--without", "b", "--without", AGENTS[0]), ("has only 'агент é'",)),
        (
            [text for agent in AGENTS[:3] for text in ("--without", agent)],
            ("--without leaves no source agent; leave fewer out",),
        ),
        (("--budget", "13"), ("budget must be from 0 to 12 tasks, got 13",)),
        (("--nodes", "100"), ("a power of two",)),
        (("--jobs", "0"), ("n_jobs must be",)),
        (("--missing", "skip"), ("missing must be one of",)),
    ],
    ids=lambda value: " ".join(value),
)
def test_select_refuses_bad_input(
    tmp_path: Path, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    write_csv(tmp_path / "small.csv", 3, 12)
    assert_refused(hspr(tmp_path, *SELECT, *arguments), *parts)
    left = [path for path in (tmp_path / "hspr-selection").rglob("*") if path.is_file()]
    # A file of no finished paths at most.
    assert all(json.loads(path.read_text())["rows"] == {} for path in left)


def recorded(folder: Path) -> dict[tuple[str, str], Any]:
    """Return every finished row by its file and number."""
    return {
        (path.name, number): row
        for path in folder.rglob("*.json")
        for number, row in json.loads(path.read_text(encoding="utf-8"))["rows"].items()
    }


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_a_killed_reproduction_goes_on_and_ends_with_the_same_numbers(tmp_path: Path) -> None:
    write_csv(tmp_path / "small.csv", 4, 20)
    chosen = ("reproduce", "table1", "--bank", "small.csv", "--budget", "20%", *FAST[:-1])
    assert hspr(tmp_path, *chosen, "whole").code == 0
    rng = np.random.default_rng(KILL_SEED)
    out = tmp_path / "parts"
    killed, kept = 0, recorded(out)
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", START, *chosen, "parts"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            # Counted from the first new rows, so that the moment lies within the work.
            while process.poll() is None and len(recorded(out)) == len(kept):
                time.sleep(0.05)
            time.sleep(float(rng.uniform(0, 2)))
        finally:
            process.kill()
            process.communicate()
        assert process.returncode in (0, -signal.SIGKILL)
        killed += process.returncode == -signal.SIGKILL
        # Times are rows' own: equal rows were not done again.
        now = recorded(out)
        assert all(now.get(place) == row for place, row in kept.items())
        kept = now
    assert killed >= 2
    assert hspr(tmp_path, *chosen, "parts").code == 0
    now = recorded(out)
    assert all(now[place] == row for place, row in kept.items())
    pd.testing.assert_frame_equal(
        cells(out / "table1.csv"), cells(tmp_path / "whole" / "table1.csv"), check_exact=True
    )
    # Everything that is recorded agrees, but for the times; and no part of a file is left over.
    untimed = [
        {
            place: {name: value for name, value in row.items() if not name.endswith("seconds")}
            for place, row in recorded(tmp_path / folder).items()
        }
        for folder in ("parts", "whole")
    ]
    assert untimed[0] == untimed[1]
