"""How commands print: aligned rows for people, one JSON value for programs."""

from __future__ import annotations

import json
from typing import Any


def print_json(value: Any) -> None:
    """Print one JSON value; NaN and infinity are not JSON and must not reach here.

    Parameters
    ----------
    value : Any
        What `json` can write.
    """
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))


def print_rows(rows: dict[str, str]) -> None:
    """Print names and values in two columns.

    Parameters
    ----------
    rows : dict of str to str
        Name to value.
    """
    width = max(len(name) for name in rows)
    for name, value in rows.items():
        print(f"{name:<{width}}  {value}")
