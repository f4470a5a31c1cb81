"""Fixtures that all tests share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of the public banks, or skip the test."""
    folder = os.environ.get("HSPR_DATA")
    if not folder:
        pytest.skip("HSPR_DATA does not name a folder with the public banks")
    return Path(folder)
