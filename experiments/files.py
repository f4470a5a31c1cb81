"""Writing and reading files: beside the target first, then renamed, so never half-written."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import xarray as xr

from ..inference.trees import plain_attributes
from ..models.errors import DataError


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary file in the target's folder and move it over the target at the end.

    Parameters
    ----------
    path : str or path-like
        Target file; an existing one is replaced only when the new one is complete.

    Yields
    ------
    pathlib.Path
        The file to write; it keeps the target's suffix.

    Raises
    ------
    DataError
        If the file or its folder cannot be written, or the disk is full.
    """
    target = _final(path)
    part = _part_of(target)
    try:
        yield part
        part.chmod(_mode(target))
        os.replace(part, target)
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise DataError(
            f"cannot write {target}: {reason}; free space or choose another place"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def require_writable(path: str | os.PathLike[str]) -> None:
    """Check, before a long computation, that its result can be written.

    Parameters
    ----------
    path : str or path-like
        Target file; it is left as it is.

    Raises
    ------
    DataError
        If the file or its folder cannot be written.
    """
    _part_of(_final(path)).unlink()


def made_folder(path: str | os.PathLike[str]) -> Path:
    """Return a folder, made if it is missing.

    Parameters
    ----------
    path : str or path-like
        The folder.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    DataError
        If it cannot be made.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot make the folder {folder}: {error.strerror}; choose another place"
        ) from None
    return folder


def _final(path: str | os.PathLike[str]) -> Path:
    """Follow links, so that a link stays one and the file that it leads to is replaced."""
    return Path(os.path.realpath(path))


def _part_of(target: Path) -> Path:
    """Make the empty file that may become the target."""
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if target.exists() and not (target.is_file() and os.access(target, os.W_OK)):
            raise PermissionError(errno.EACCES, "it is no file that may be replaced")
        # A short name, since the target's own may already be as long as names can be.
        handle, name = tempfile.mkstemp(
            prefix=".hspr.", suffix=f".part{target.suffix}", dir=target.parent
        )
        os.close(handle)
    except OSError as error:
        raise DataError(
            f"cannot write {target}: {error.strerror}; choose a file in a folder that exists and "
            "is writable"
        ) from None
    return Path(name)


def _mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, else those of any new file."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def save_tree(tree: xr.DataTree, path: str | os.PathLike[str]) -> Path:
    """Write a posterior tree as netCDF.

    Parameters
    ----------
    tree : xarray.DataTree
        The posterior. Attributes that netCDF has no type for are written as JSON, those that are
        None are left out.
    path : str or path-like
        Target file.

    Returns
    -------
    pathlib.Path
        The target.

    Raises
    ------
    DataError
        If the folder does not exist or cannot be written.
    """
    clean = tree.map_over_datasets(_writable)
    with written_whole(path) as part:
        clean.to_netcdf(part, engine="h5netcdf")
    return Path(path)


def _writable(dataset: xr.Dataset) -> xr.Dataset:
    # Encodings of a loaded file would cut longer ids that were added since.
    clean = dataset.drop_encoding()
    clean.attrs = plain_attributes(clean.attrs)
    for variable in clean.variables.values():
        variable.attrs = plain_attributes(variable.attrs)
    return clean


def load_tree(path: str | os.PathLike[str]) -> xr.DataTree:
    """Read a posterior tree that `save_tree` wrote, into memory.

    Parameters
    ----------
    path : str or path-like
        A netCDF file.

    Returns
    -------
    xarray.DataTree
        The file is closed again and may be overwritten.

    Raises
    ------
    DataError
        If the file is missing, truncated, not netCDF, or holds no HSPR posterior.
    """
    target = Path(path)
    if not target.is_file():
        raise DataError(f"no file {target}; give the path of a saved posterior")
    try:
        with xr.open_datatree(target, engine="h5netcdf") as opened:
            tree = opened.load()
    except Exception as error:  # the engines raise whatever their parsers meet
        reason = " ".join(str(error).split())[:120]
        raise DataError(
            f"cannot read {target} as a netCDF posterior ({type(error).__name__}: {reason}); it "
            "may be truncated or another kind of file: save it again"
        ) from None
    # Chains have statistics in place of importance weights.
    sampler = "sample_stats" if "sample_stats" in tree.children else "importance"
    missing = {sampler, "observed_data", "constant_data"} - set(tree.children)
    if missing:
        raise DataError(
            f"{target} holds no HSPR posterior: group {sorted(missing)[0]!r} is missing; save one "
            "with save_tree"
        )
    return tree
