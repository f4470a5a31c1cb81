"""The progress bar of long work."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.progress import track


def with_progress[Item](
    items: Iterable[Item], *, description: str, progress: bool, total: int | None = None
) -> Iterable[Item]:
    """Show a progress bar with the time left while items are taken, on stderr.

    Parameters
    ----------
    items : iterable
        What is worked on.
    description : str
        What the bar says.
    progress : bool
        Whether to show it; it is shown only on a terminal.
    total : int, default None
        Number of items; None means their length.

    Returns
    -------
    iterable
        The same items.
    """
    return track(
        items,
        description=description,
        total=total,
        console=Console(stderr=True),
        disable=not (progress and sys.stderr.isatty()),
    )
