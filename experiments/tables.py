"""What every table of the comparison is made with: its form, names, and pooled errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .methods import METHODS
from .metrics import pool_runs
from .study import Study

TITLES = {name: method.title for name, method in METHODS.items()} | {
    "pta-irt": "PTA-IRT (published)",
    "hspr": "HSPR",
    "hspr-no-groups": "HSPR without group uncertainty",
    "hspr-uniform": "HSPR on Uniform queries",
    "hspr-mid-range": "HSPR on Mid-Range queries",
    "hspr-mean": "HSPR, posterior mean",
    "hspr-matched": "HSPR's queries without groups, posterior mean",
}


@dataclass(frozen=True, eq=False)
class Table:
    """A table and what it says.

    Attributes
    ----------
    name : str
        Such as "table1".
    title : str
        One line.
    frame : pandas.DataFrame
        The cells; errors in percentage points.
    notes : tuple of str
        What a reader must know of the numbers.
    """

    name: str
    title: str
    frame: pd.DataFrame
    notes: tuple[str, ...] = ()


def pooled(runs: pd.DataFrame) -> dict[str, Any]:
    """Pool the targets within each seed, then average over the seeds (section 4.1).

    Parameters
    ----------
    runs : pandas.DataFrame
        Columns seed, estimate, truth.

    Returns
    -------
    dict
        ``mae``, ``max_error`` (percentage points), ``tau`` (NaN where undefined) and ``seeds``.
    """
    figures = pool_runs(runs)
    return {
        "mae": figures["mae"],
        "max_error": figures["max_error"],
        "tau": np.nan if figures["tau"] is None else figures["tau"],
        "seeds": runs["seed"].nunique(),
    }


def agent_errors(study: Study, method: str) -> np.ndarray:
    """Return the absolute error of each agent, averaged over seeds.

    Parameters
    ----------
    study : Study
        The runs of a bank.
    method : str
        As `Study.runs` takes it.

    Returns
    -------
    numpy.ndarray, shape (m,)
        As shares, in bank order.
    """
    runs = study.runs(method)
    by_agent = runs["error"].abs().groupby(runs["agent"]).mean()
    return by_agent.loc[study.bank.agents].to_numpy()
