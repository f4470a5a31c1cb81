"""What determines a result: versions of the libraries, and digests of data and settings."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.metadata import version
from typing import Any

import numpy as np

from ..models.responses import ResponseMatrix

LIBRARIES = ("pymc", "pytensor", "numpy", "scipy", "numba", "scikit-learn")


def versions() -> dict[str, str]:
    """Return the versions of this package and of the libraries that compute.

    Returns
    -------
    dict of str to str
    """
    from .. import __version__

    return {"hspr": __version__} | {name: version(name) for name in LIBRARIES}


def digest(value: ResponseMatrix | dict[str, Any]) -> str:
    """Return a SHA-256 of a matrix (ids and outcomes, in order) or of settings.

    Parameters
    ----------
    value : ResponseMatrix or dict
        A matrix, or settings as JSON values.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    if isinstance(value, ResponseMatrix):
        ids = json.dumps([list(value.agents), list(value.tasks)]).encode()
        cells = np.where(np.isnan(value.values), 2, value.values).astype(np.uint8).tobytes()
        return hashlib.sha256(ids + cells).hexdigest()
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def file_stem(*parts: str) -> str:
    """Return a name for a file from texts such as a bank's name.

    Parameters
    ----------
    *parts : str
        Put together with hyphens; characters that a file name should not hold become one too.

    Returns
    -------
    str
    """
    return re.sub(r"[^\w.-]+", "-", "-".join(parts))
