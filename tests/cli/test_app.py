"""The command line: its commands, their JSON, and one line for everything that is wrong."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hspr
from hspr.cli import main
from hspr.cli.app import parse_budget
from hspr.experiments.banks import BANKS, describe_bank, load_bank
from hspr.experiments.files import load_tree
from hspr.experiments.replay import replay
from hspr.experiments.simulate import simulate_bank
from hspr.models.config import Config
from hspr.models.errors import DataError

BANK_SEED = 4901
AGENTS = ["агент é", "b", "c", "d"]
FAST = ("--budget", "3", "--seeds", "1", "--nodes", "128", "--rank", "1", "--jobs", "1")
START = "from hspr.cli import main; main()"


class Result:
    """What a command left: exit code, standard output and error."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


class Command:
    """Run the command line in this process, in an empty folder."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments: str) -> Result:
        self.monkeypatch.setattr(sys, "argv", ["hspr", *arguments])
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        return Result(int(end.value.code or 0), *self.capsys.readouterr())


@pytest.fixture
def hspr_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(capsys, monkeypatch)


@pytest.fixture
def bank_file(tmp_path: Path) -> str:
    """Return a wide CSV of four agents and twelve tasks."""
    values = simulate_bank(agents=4, tasks=12, seed=BANK_SEED).values
    return write_csv(tmp_path / "small.csv", values)


def write_csv(path: Path, values: np.ndarray) -> str:
    """Write a wide CSV; NaN is an empty cell."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", *(f"task {i}" for i in range(values.shape[1]))])
        for agent, row in zip(AGENTS, values, strict=False):
            writer.writerow([agent, *("" if np.isnan(cell) else int(cell) for cell in row)])
    return path.name


def files(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def assert_refused(result: Result, *parts: str) -> None:
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("hspr: error: ")
    assert result.err.endswith("\n")
    assert result.err.count("\n") == 1
    for part in parts:
        assert part in result.err


def buffered() -> dict[str, str]:
    """Return the environment in which output is written at a program's end."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}


def in_process(code: str, *arguments: str, **settings: object) -> subprocess.CompletedProcess:
    """Run Python code in another process."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)  # type: ignore[call-overload]


@pytest.mark.parametrize("arguments", [("--help",), (), ("bank", "--help"), ("replay", "--help")])
def test_help_is_printed(hspr_command: Command, arguments: tuple[str, ...]) -> None:
    result = hspr_command(*arguments)
    assert (result.code, result.err) == (0, "")
    assert "Usage: hspr" in result.out


def test_help_imports_nothing_heavy() -> None:
    heavy = ["pymc", "pytensor", "arviz", "arviz_plots", "scipy", "pandas", "xarray", "numpy"]
    code = (
        "import sys\nfrom hspr.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print('heavy:', [name for name in {heavy} if name in sys.modules])"
    )
    result = in_process(code, "--help")
    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] == "heavy: []"


def test_version_is_printed(hspr_command: Command) -> None:
    result = hspr_command("--version")
    assert (result.code, result.out, result.err) == (0, f"{hspr.__version__}\n", "")


def test_demo_writes_its_files(hspr_command: Command, tmp_path: Path) -> None:
    result = hspr_command("demo", "--budget", "3", "--json", "--seed", "1")
    assert (result.code, result.err) == (0, "")
    told = json.loads(result.out)
    assert result.out.count("\n") == 1
    assert files(tmp_path) == {"hspr-demo.nc", "hspr-demo.png"}
    assert told["files"] == ["hspr-demo.nc", "hspr-demo.png"]
    bank = load_bank()
    assert (told["bank"], told["target"]) == ("simulated", bank.agents[1])
    assert (told["budget"], told["tasks"]) == (3, 300)
    assert told["truth"] == pytest.approx(float(bank.values[1].mean()))
    low, high = told["interval"]
    assert 0 <= low <= told["estimate"] <= high <= 1
    assert told["observed_share"] * 3 in (0, 1, 2, 3)
    tree = load_tree("hspr-demo.nc")
    assert tree["constant_data"].attrs["budget"] == 3
    assert set(tree["observed_data"].to_dataset()["queried_task"].values) < set(bank.tasks)
    assert (tmp_path / "hspr-demo.png").read_bytes().startswith(b"\x89PNG")


def test_demo_prints_rows(hspr_command: Command, tmp_path: Path) -> None:
    result = hspr_command("demo", "--budget", "0", "--output", "v1.2")
    assert (result.code, result.err) == (0, "")
    rows = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in result.out.splitlines())
    assert list(rows) == ["bank", "target", "estimate", "interval", "truth", "saved"]
    assert rows["bank"] == "simulated: 40 agents x 300 tasks"
    assert rows["target"] == "sim-agent-01, 0 tasks run"
    assert files(tmp_path) == {"v1.2.nc", "v1.2.png"}


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--output", "none/demo"), ("cannot write ", "none/demo.nc", "No such file")),
        (("--output", "."), ("output must name files, got '.'",)),
        (("--output", ".."), ("output must name files, got '..'",)),
        (("--budget", "301"), ("budget must be from 0 to 300 tasks, got 301",)),
        (("--seed", "-1"), ("'--seed'",)),
    ],
)
def test_demo_refuses_bad_input(
    hspr_command: Command, tmp_path: Path, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    assert_refused(hspr_command("demo", *arguments), *parts)
    assert files(tmp_path) == set()


def test_bank_list_names_every_bank(hspr_command: Command) -> None:
    result = hspr_command("bank", "list", "--json")
    assert [entry["name"] for entry in json.loads(result.out)] == list(BANKS)
    rows = hspr_command("bank", "list").out.splitlines()
    assert [row.split()[0] for row in rows] == list(BANKS)


def test_bank_info_counts_a_file(hspr_command: Command, bank_file: str) -> None:
    result = hspr_command("bank", "info", bank_file, "--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out) == describe_bank(load_bank(bank_file))
    rows = hspr_command("bank", "info", bank_file).out
    assert "missing cells" in rows
    assert re.search(r"agents +4\n", rows)
    assert re.search(r"mean score +[\d.]+%\n", rows)


def test_bank_info_takes_a_policy_for_missing_outcomes(
    hspr_command: Command, tmp_path: Path
) -> None:
    values = np.array([[1, np.nan, 0], [0, 1, 1]])
    name = write_csv(tmp_path / "holes.csv", values)
    told = {
        policy: json.loads(hspr_command("bank", "info", name, "--missing", policy, "--json").out)
        for policy in ("refuse", "fail", "drop-task", "model")
    }
    assert [told[policy]["missing_cells"] for policy in told] == [1, 0, 0, 1]
    assert [told[policy]["tasks"] for policy in told] == [3, 3, 2, 3]
    assert_refused(hspr_command("bank", "info", name, "--missing", "skip"), "missing", "'skip'")


def test_replay_prints_what_the_library_computes(hspr_command: Command, bank_file: str) -> None:
    result = hspr_command("replay", bank_file, *FAST, "--seeds", "2", "--json")
    assert (result.code, result.err) == (0, "")
    assert result.out.count("\n") == 1
    told = json.loads(result.out)
    expected = replay(
        load_bank(bank_file), Config(rank=1), budget=3, seeds=[0, 1], nodes=128
    ).summary()
    for measured in ("seconds_per_run", "cpu_seconds_per_run"):
        assert told.pop(measured) > 0
        del expected[measured]
    assert told == expected
    assert {"bank", "mae", "max_error", "tau"} <= set(told)
    assert (told["bank"], told["budget"], told["runs"]) == ("small", 3, 8)


def test_replay_passes_every_setting_on(hspr_command: Command, bank_file: str) -> None:
    settings = {
        "rank": 2,
        "precision": 2.0,
        "kappa": 0.5,
        "criterion": "latent",
        "calibration": 0.5,
        "decision": "mean",
    }
    options = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    targets = ("--target", "d", "--target", AGENTS[0], "--folds", "3", "--budget", "25%")
    told = json.loads(hspr_command("replay", bank_file, *FAST, *options, *targets, "--json").out)
    assert told["config"] == settings
    assert (told["runs"], told["folds"], told["budget"], told["nodes"]) == (2, 3, 3, 128)


def test_replay_prints_rows(hspr_command: Command, bank_file: str) -> None:
    result = hspr_command("replay", bank_file, *FAST)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0].split(maxsplit=1)[1] == "small: 4 agents x 12 tasks"
    assert re.search(r"^MAE +\d+\.\d{3} pp$", result.out, re.MULTILINE)
    alone = hspr_command("replay", bank_file, *FAST, "--target", "b")
    assert "undefined" in alone.out


def test_replay_writes_a_table_of_runs(
    hspr_command: Command, bank_file: str, tmp_path: Path
) -> None:
    (tmp_path / "runs.csv").write_text("old")
    for _ in range(2):
        result = hspr_command("replay", bank_file, *FAST, "--output", "runs.csv")
        assert result.code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "runs.csv").read_text(encoding="utf-8"))))
    assert [row["agent"] for row in rows] == AGENTS
    for row in rows:
        queried = json.loads(row["queried"])
        assert len(set(queried)) == 3
        assert set(queried) <= {f"task {i}" for i in range(12)}
    assert files(tmp_path) == {"small.csv", "runs.csv"}


@pytest.mark.parametrize("budget", ["12", "100%", "1.0"])
def test_replay_of_all_tasks_has_no_error(
    hspr_command: Command, bank_file: str, budget: str
) -> None:
    told = json.loads(hspr_command("replay", bank_file, *FAST, "--budget", budget, "--json").out)
    assert (told["budget"], told["mae"], told["max_error"], told["width"]) == (12, 0, 0, 0)


@pytest.mark.parametrize("budget", ["0", "0.0", "0%"])
def test_replay_of_no_task_works(hspr_command: Command, bank_file: str, budget: str) -> None:
    result = hspr_command("replay", bank_file, *FAST, "--budget", budget, "--json")
    assert (result.code, json.loads(result.out)["budget"]) == (0, 0)


def test_replay_of_one_task_works(hspr_command: Command, tmp_path: Path) -> None:
    name = write_csv(tmp_path / "one.csv", np.array([[1], [0], [1.0]]))
    told = json.loads(hspr_command("replay", name, *FAST, "--budget", "1", "--json").out)
    assert (told["tasks"], told["mae"]) == (1, 0)


@pytest.mark.parametrize("policy", ["fail", "drop-task", "model"])
def test_replay_takes_a_policy_for_missing_outcomes(
    hspr_command: Command, tmp_path: Path, policy: str
) -> None:
    values = simulate_bank(agents=4, tasks=12, seed=BANK_SEED).values.copy()
    values[0, 3] = values[2, 5] = np.nan
    name = write_csv(tmp_path / "holes.csv", values)
    assert_refused(hspr_command("replay", name, *FAST), "lacks 2 of 48", "task 3", "drop-task")
    told = json.loads(hspr_command("replay", name, *FAST, "--missing", policy, "--json").out)
    assert told["tasks"] == (10 if policy == "drop-task" else 12)
    assert told["runs"] == 4


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("agent,t0,t1\na,0,1\nb,2,0\n", ("bad.csv", "'b'", "'t0'", "'2'")),
        ("agent,t0,t1\na,0,1\nb,0.5,0\n", ("bad.csv", "'b'", "'0.5'")),
        ("agent,t0,t1\na,0,1\nb,yes,0\n", ("bad.csv", "'b'", "'yes'")),
        ("agent,t0,t0\na,0,1\nb,1,0\n", ("bad.csv", "'t0'")),
        ("agent,t0,t1\na,0,1\na,1,0\n", ("bad.csv", "'a'")),
        ("agent,t0,t1\na,0,1\nb,1\n", ("bad.csv", "line 3")),
        ("", ("bad.csv", "empty")),
        ("agent,t0,t1\n", ("bad.csv",)),
        ("agent\na\nb\n", ("bad.csv", "at least one task")),
        ("agent,t0,t1,t2\na,0,1,0\n", ("'bad'", "one agent, 'a'")),
    ],
    ids=["two", "half", "word", "task", "agent", "ragged", "empty", "header", "no-task", "alone"],
)
def test_replay_refuses_a_bad_file(
    hspr_command: Command, tmp_path: Path, content: str, parts: tuple[str, ...]
) -> None:
    (tmp_path / "bad.csv").write_text(content, encoding="utf-8")
    assert_refused(hspr_command("replay", "bad.csv", *FAST, "--output", "runs.csv"), *parts)
    assert files(tmp_path) == {"bad.csv"}


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--budget", "-1"), ("budget must be from 0 to 12 tasks, got -1",)),
        (("--budget", "13"), ("budget must be from 0 to 12 tasks, got 13",)),
        (("--budget", "1.5"), ("budget as a share must be from 0.0 to 1.0, got 1.5",)),
        (("--budget", "101%"), ("budget as a share must be from 0.0 to 1.0, got 1.01",)),
        (("--budget", "abc"), ("budget must be a number of tasks", "'abc'")),
        (("--budget", ""), ("budget must be a number of tasks", "got ''")),
        (("--budget", "%"), ("budget must be a number of tasks", "got '%'")),
        (("--budget", "nan"), ("budget must be", "nan")),
        (("--budget", "nan%"), ("budget as a share must be from 0.0 to 1.0, got nan",)),
        (("--budget", "inf%"), ("budget as a share must be from 0.0 to 1.0, got inf",)),
        (("--target", "B"), ("'small'", "no agent 'B' among its 4")),
        (("--target", "b", "--target", "b"), ("'b' occurs 2 times",)),
        (("--criterion", "entropy"), ("criterion must be one of score, latent, got 'entropy'",)),
        (("--decision", "mode"), ("decision must be one of median, mean, got 'mode'",)),
        (("--rank", "-1"), ("rank must be a whole number from 0, got -1",)),
        (("--rank", "two"), ("'--rank'", "integer")),
        (("--kappa", "0"), ("kappa must be a positive number, got 0.0",)),
        (("--precision", "nan"), ("precision must be a positive number, got nan",)),
        (("--calibration", "2"), ("calibration must be a number from 0 to 1, got 2.0",)),
        (("--seeds", "0"), ("'--seeds'", "1")),
        (("--nodes", "1000"), ("nodes must be a power of two", "got 1000; use 1024")),
        (("--nodes", "-8"), ("'--nodes'", "2")),
        (("--folds", "1"), ("folds must be a whole number from 2, got 1",)),
        (("--jobs", "0"), ("n_jobs must be a whole number other than 0, got 0",)),
        (("--missing", "skip"), ("missing must be one of", "'skip'")),
        (("--no-such-option",), ("--no-such-option",)),
        (("second-bank",), ("second-bank",)),
    ],
    ids=lambda value: " ".join(value),
)
def test_replay_refuses_bad_settings(
    hspr_command: Command,
    bank_file: str,
    tmp_path: Path,
    arguments: tuple[str, ...],
    parts: tuple[str, ...],
) -> None:
    result = hspr_command("replay", bank_file, *FAST, "--output", "runs.csv", *arguments)
    assert_refused(result, *parts)
    assert files(tmp_path) == {bank_file}


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("replay",), ("BANK",)),
        (("replay", "swebench-por"), ("'swebench-por' is unknown", "'swebench-pro'")),
        (("replay", "none.csv"), ("none.csv",)),
        (("replay", "."), ()),
        (("bank", "info", "nonsense"), ("'nonsense' is unknown", "simulated")),
        (("bank",), ("command",)),
        (("bank", "remove"), ("'remove'",)),
        (("reply",), ("'reply'",)),
        (("--nonsense",), ("--nonsense",)),
    ],
    ids=lambda value: " ".join(value),
)
def test_commands_refuse_what_they_do_not_know(
    hspr_command: Command, tmp_path: Path, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    assert_refused(hspr_command(*arguments), *parts)
    assert files(tmp_path) == set()


@pytest.mark.parametrize("output", ["none/runs.csv", "."])
def test_replay_refuses_an_output_before_it_computes(
    hspr_command: Command, bank_file: str, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("computed before the check")

    monkeypatch.setattr("hspr.experiments.replay.replay", fail)
    result = hspr_command("replay", bank_file, *FAST, "--output", output)
    assert_refused(result, "cannot write", "choose a file in a folder that exists")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (PermissionError(13, "Permission denied", "bank.csv"), "'bank.csv'"),
        (MemoryError("Unable to allocate\n3 TiB"), "Unable to allocate 3 TiB"),
        (MemoryError(), "out of memory"),
        (DataError("one\nline"), "one line"),
    ],
    ids=repr,
)
def test_main_tells_an_error_in_one_line(
    hspr_command: Command, monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("hspr.cli._discard_output", lambda: None)
    monkeypatch.setattr("hspr.experiments.banks.load_bank", fail)
    assert_refused(hspr_command("bank", "info"), text)


def test_main_leaves_a_programming_error_its_traceback(
    hspr_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("hspr.experiments.banks.load_bank", fail)
    with pytest.raises(ZeroDivisionError):
        hspr_command("bank", "info")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_main_tells_of_a_full_disk_behind_its_output() -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [sys.executable, "-c", START, "bank", "list"],
            env=buffered(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert_refused(Result(process.returncode, "", process.stderr), "No space left on device")


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX pipes")
def test_main_is_silent_when_the_reader_leaves() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-c", START, "bank", "list"],
        env=buffered(),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (1, "")


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_main_ends_an_interrupted_run_without_a_traceback(tmp_path: Path) -> None:
    # The signal comes while a bank is loaded, from the process itself. A shell's background job
    # starts with the signal ignored, so its handler is set first.
    code = (
        "import signal, time\nimport hspr.experiments.banks as banks\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def load_bank(*_, **__):\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    time.sleep(60)\n"
        "banks.load_bank = load_bank\n" + START
    )
    process = in_process(code, "bank", "info", cwd=tmp_path)
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30", 30),
        (" 30 ", 30),
        ("-1", -1),
        ("1", 1),
        ("1.0", 1.0),
        ("0.1", 0.1),
        (".1", 0.1),
        ("1e-1", 0.1),
        ("10%", 0.1),
        ("7 %", 0.07),
        ("2.5%", 0.025),
    ],
)
def test_parse_budget_tells_numbers_from_shares(text: str, value: int | float) -> None:
    budget = parse_budget(text)
    assert budget == pytest.approx(value)
    assert type(budget) is type(value)


@pytest.mark.parametrize(
    "text", ["", " ", "%", "ten", "10 tasks", "1/2", "0,1", "nan", "--", "9" * 5000]
)
def test_parse_budget_refuses_other_text(text: str) -> None:
    with pytest.raises(DataError, match="budget must be a number of tasks"):
        parse_budget(text)
