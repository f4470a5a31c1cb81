"""Finished parts of a long computation, kept in a file so that it can be resumed after a kill."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from ..models.errors import DataError
from .files import require_writable, written_whole

# A kill costs at most the work of this many seconds.
_SECONDS_BETWEEN_SAVES = 1.0


class Checkpoint:
    """Rows by number, written whole to a JSON file every second and at the end.

    Parameters
    ----------
    path : path-like or None
        The file; None keeps the rows in memory only.
    settings : dict
        All that determines the rows, as JSON values. A file that was made with other settings is
        refused.

    Attributes
    ----------
    rows : dict of int to dict
        The finished rows.

    Raises
    ------
    DataError
        If the file cannot be read or written, or belongs to other settings.

    Examples
    --------
    >>> with Checkpoint("rows.json", {"seed": 1}) as checkpoint:  # doctest: +SKIP
    ...     for number in set(range(10)) - checkpoint.rows.keys():
    ...         checkpoint.add(number, {"square": number**2})
    """

    def __init__(self, path: str | os.PathLike[str] | None, settings: dict[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.settings: dict[str, Any] = json.loads(json.dumps(settings))
        self.rows: dict[int, dict[str, Any]] = {}
        self._saved_at = time.monotonic()
        if self.path is not None:
            require_writable(self.path)
            if self.path.exists():
                self.rows = _read(self.path, self.settings)

    def add(self, number: int, row: dict[str, Any]) -> None:
        """Keep a finished row, and write the file if it was last written a second ago.

        Parameters
        ----------
        number : int
            Number of the row.
        row : dict
            The row, as JSON values.
        """
        self.rows[number] = row
        if time.monotonic() - self._saved_at >= _SECONDS_BETWEEN_SAVES:
            self.save()

    def save(self) -> None:
        """Write the file now.

        Raises
        ------
        DataError
            If it cannot be written.
        """
        if self.path is None:
            return
        content = {"settings": self.settings, "rows": dict(sorted(self.rows.items()))}
        with written_whole(self.path) as part:
            part.write_text(json.dumps(content, allow_nan=False), encoding="utf-8")
        self._saved_at = time.monotonic()

    def __enter__(self) -> Checkpoint:
        """Return the checkpoint itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write the file, also after an error or an interrupt."""
        self.save()


def _read(path: Path, settings: dict[str, Any]) -> dict[int, dict[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = dict(content["settings"])
        rows = {int(number): dict(row) for number, row in content["rows"].items()}
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; choose another folder") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f"{path} is not a file of finished rows; remove it or choose another folder"
        ) from None
    for name in [*settings, *found]:
        if settings.get(name) != found.get(name):
            raise DataError(
                f"{path} was made with {name} = {found.get(name)}, not {settings.get(name)}; "
                "remove it or choose another folder"
            )
    return rows
