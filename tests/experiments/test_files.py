"""Files come back as they were, and are written whole or not at all."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from hspr.acquisition.evaluator import Evaluator
from hspr.experiments.files import (
    load_tree,
    made_folder,
    require_writable,
    save_tree,
    written_whole,
)
from hspr.models.config import Config
from hspr.models.errors import DataError
from hspr.models.responses import ResponseMatrix
from hspr.tests.oracles_models import random_matrix

BANK_SEED = 4701

as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="every file is writable for root"
)


def long_id(number: int) -> str:
    """Return a task id of 130 characters, as SWE-bench Pro has, with more than ASCII."""
    return f"instance_naïve__任务-{number:03d}-".ljust(130, "ß")


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    values = random_matrix(5, 12, seed=BANK_SEED).values
    agents = [f"Агент {row} «é» 模型" for row in range(5)]
    bank = ResponseMatrix.from_arrays(
        values, agents=agents, tasks=[long_id(i) for i in range(12)], name="банк-ü"
    )
    evaluator = Evaluator(bank, Config(rank=2), budget=4, nodes=128)
    while (task := evaluator.ask()) is not None:
        evaluator.tell(task, len(evaluator.outcomes) % 2)
    return evaluator


@pytest.fixture(scope="module")
def tree(evaluator: Evaluator) -> xr.DataTree:
    return evaluator.posterior


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def labels(tree: xr.DataTree, group: str, variable: str) -> list[str]:
    return tree[group].to_dataset()[variable].values.tolist()


def assert_refused(error: pytest.ExceptionInfo[DataError], *parts: str) -> None:
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_save_tree_and_load_tree_give_the_posterior_back(
    evaluator: Evaluator, tree: xr.DataTree, tmp_path: Path
) -> None:
    path = tmp_path / "постериор ü.nc"
    assert save_tree(tree, path) == path
    loaded = load_tree(path)
    xr.testing.assert_identical(loaded, tree)
    for node in tree.subtree:
        for name, values in node.to_dataset().variables.items():
            kind = loaded[node.path].to_dataset().variables[name].dtype.kind
            # Text labels come back with a width of their own.
            assert kind.replace("U", "O") == values.dtype.kind, name
    queried = labels(loaded, "observed_data", "queried_task")
    assert queried == list(evaluator.outcomes)
    assert {len(task) for task in queried} == {130}
    assert loaded["constant_data"].attrs["bank"] == "банк-ü"
    assert names(tmp_path) == ["постериор ü.nc"]


def test_save_tree_before_any_outcome(tmp_path: Path) -> None:
    source = random_matrix(4, 6, seed=BANK_SEED)
    tree = Evaluator(source, Config(rank=0), budget=0, nodes=128).posterior
    xr.testing.assert_identical(load_tree(save_tree(tree, tmp_path / "prior.nc")), tree)


def test_save_tree_leaves_the_tree_alone(tree: xr.DataTree, tmp_path: Path) -> None:
    before = tree.copy(deep=True)
    save_tree(tree, tmp_path / "a.nc")
    xr.testing.assert_identical(tree, before)


def test_save_tree_over_a_loaded_file_keeps_longer_ids(tree: xr.DataTree, tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    tasks = labels(tree, "constant_data", "task")
    short = [task[:16] + task[20:24] for task in tasks]
    changed = tree.copy(deep=True)
    named = changed["constant_data"].to_dataset()[["group_of_task"]]
    changed["constant_data"] = named.assign_coords(task=np.array(short, dtype=object))
    save_tree(changed, path)
    for _ in range(2):
        loaded = load_tree(path)
        # Loaded coordinates know the width that they were stored with, and pass it on.
        before = loaded["constant_data"].to_dataset().isel(task=slice(12))
        loaded["constant_data"] = xr.concat([before, named], dim="task")
        save_tree(loaded, path)
        assert labels(load_tree(path), "constant_data", "task") == short + tasks
    assert names(tmp_path) == ["a.nc"]


@pytest.mark.parametrize("kept", [0.0, 1e-4, 0.01, 0.5, 0.9, 0.999])
def test_load_tree_refuses_a_truncated_file(tree: xr.DataTree, tmp_path: Path, kept: float) -> None:
    whole = save_tree(tree, tmp_path / "a.nc").read_bytes()
    part = tmp_path / "part.nc"
    part.write_bytes(whole[: min(int(kept * len(whole)), len(whole) - 1)])
    with pytest.raises(DataError) as error:
        load_tree(part)
    assert_refused(error, f"cannot read {part} as a netCDF posterior", "truncated")


def test_load_tree_refuses_other_files(tmp_path: Path) -> None:
    text = tmp_path / "a.nc"
    text.write_text("agent,task\n0,1\n")
    with pytest.raises(DataError) as error:
        load_tree(text)
    assert_refused(error, f"cannot read {text} as a netCDF posterior")
    other = tmp_path / "b.nc"
    xr.DataTree.from_dict({"posterior": xr.Dataset({"x": 1.0})}).to_netcdf(other, engine="h5netcdf")
    with pytest.raises(DataError) as error:
        load_tree(other)
    assert_refused(error, f"{other} holds no HSPR posterior: group 'constant_data' is missing")
    for place in (tmp_path, tmp_path / "none.nc", tmp_path / "none" / "a.nc"):
        with pytest.raises(DataError) as error:
            load_tree(place)
        assert_refused(error, f"no file {place}")


@pytest.mark.parametrize("check", [require_writable, lambda path: save_tree(xr.DataTree(), path)])
def test_writing_refuses_places_that_hold_no_file(
    check: Callable[[Path], object], tmp_path: Path
) -> None:
    for place, reason in (
        (tmp_path / "none" / "a.nc", "No such file or directory"),
        (tmp_path, "it is a folder"),
    ):
        with pytest.raises(DataError) as error:
            check(place)
        assert_refused(error, f"cannot write {place}: {reason}", "choose")
    assert names(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_writing_refuses_to_replace_a_pipe_or_device(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(DataError) as error:
        require_writable(pipe)
    assert_refused(error, f"cannot write {pipe}", "no file that may be replaced")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(DataError):
        require_writable(os.devnull)
    assert not Path(os.devnull).is_file()


@as_root
def test_writing_refuses_a_read_only_folder_or_file(tmp_path: Path) -> None:
    file = tmp_path / "a.nc"
    file.write_text("old")
    file.chmod(0o444)
    with pytest.raises(DataError) as error:
        require_writable(file)
    assert_refused(error, f"cannot write {file}", "no file that may be replaced")
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(DataError) as error:
            require_writable(tmp_path / "b.nc")
        assert_refused(error, "Permission denied")
    finally:
        tmp_path.chmod(0o755)


def test_require_writable_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.nc"
    require_writable(file)
    assert names(tmp_path) == []
    file.write_text("old")
    require_writable(file)
    assert (names(tmp_path), file.read_text()) == (["a.nc"], "old")


def test_written_whole_replaces_only_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "a.nc"
    file.write_text("old")
    with written_whole(file) as part:
        part.write_text("new")
        assert part.parent == tmp_path
        assert part.suffix == ".nc"
        assert file.read_text() == "old"
    assert (names(tmp_path), file.read_text()) == (["a.nc"], "new")


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt(), SystemExit(1)])
@pytest.mark.parametrize("old", [None, "old"])
def test_written_whole_leaves_nothing_of_a_failure(
    tmp_path: Path, error: BaseException, old: str | None
) -> None:
    file = tmp_path / "a.nc"
    if old is not None:
        file.write_text(old)
    with pytest.raises(type(error)), written_whole(file) as part:
        part.write_text("half")
        raise error
    assert names(tmp_path) == ([] if old is None else ["a.nc"])
    assert old is None or file.read_text() == old


def test_written_whole_says_where_a_full_disk_met_it(tmp_path: Path) -> None:
    file = tmp_path / "a.nc"
    file.write_text("old")
    with pytest.raises(DataError) as error, written_whole(file) as part:
        part.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert_refused(error, f"cannot write {file}: No space left on device; free space")
    assert (names(tmp_path), file.read_text()) == (["a.nc"], "old")


def test_written_whole_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file, link = tmp_path / "real" / "a.nc", tmp_path / "link.nc"
    file.write_text("old")
    link.symlink_to(file)
    with written_whole(link) as part:
        part.write_text("new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert names(tmp_path / "real") == ["a.nc"]


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")
def test_written_whole_gives_the_usual_permissions(tmp_path: Path) -> None:
    file, usual = tmp_path / "a.nc", tmp_path / "usual"
    usual.touch()
    with written_whole(file) as part:
        part.write_text("new")
    assert file.stat().st_mode == usual.stat().st_mode
    file.chmod(0o600)
    with written_whole(file) as part:
        part.write_text("newer")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_written_whole_takes_a_relative_path_and_a_long_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "n" * 252 + ".nc"
    with written_whole(name) as part:
        part.write_text("new")
    assert names(tmp_path) == [name]


def test_made_folder_makes_what_is_missing_and_leaves_the_rest(tmp_path: Path) -> None:
    for place in (tmp_path / "a" / "b ü" / "c", str(tmp_path / "d")):
        assert made_folder(place) == Path(place)
        assert Path(place).is_dir()
    kept = tmp_path / "a" / "file"
    kept.write_text("old")
    assert made_folder(tmp_path / "a") == tmp_path / "a"
    assert kept.read_text() == "old"


def test_made_folder_refuses_a_file_in_its_way(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    for place, reason in ((file, "File exists"), (file / "below", "Not a directory")):
        with pytest.raises(DataError) as error:
            made_folder(place)
        assert_refused(error, f"cannot make the folder {place}: {reason}; choose another place")
    assert file.read_text() == "old"


@as_root
def test_made_folder_refuses_a_read_only_parent(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(DataError) as error:
            made_folder(tmp_path / "a")
        assert_refused(error, "Permission denied")
    finally:
        tmp_path.chmod(0o755)
