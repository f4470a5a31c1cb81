"""The paper's figures 3 and 4: their numbers, from the recorded runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from .families import model_family
from .metrics import PERCENT
from .study import Study
from .tables import TITLES, Table, pooled

SHARES = (0.05, 0.1, 0.15, 0.2)
# Peers of the budget sweep: one for each idea among them.
SWEEP_METHODS = ("uniform", "stratified", "faq", "atlas", "adaptive-2pl")


def figure3(studies: Sequence[Study]) -> Table:
    """Error against budget: HSPR along nested paths, peers fitted at each budget.

    Parameters
    ----------
    studies : sequence of Study
        One a bank; their selection at their own budget serves every budget.

    Returns
    -------
    Table
        Columns bank, method, share (percent), budget (tasks), mae, max_error.
    """
    rows = []
    for study in studies:
        swept = study.sweep(SHARES)
        for share in SHARES:
            other = study.at(share)
            part = swept[swept["budget"] == other.budget]
            rows.append(_sweep_row(study, "hspr", share, other.budget, part))
            for name in SWEEP_METHODS:
                rows.append(_sweep_row(study, name, share, other.budget, other.runs(name)))
    frame = pd.DataFrame(rows)
    if len(studies) > 1:
        macro = frame.groupby(["method", "share"], sort=False)[["mae", "max_error"]].mean()
        frame = pd.concat([frame, macro.reset_index().assign(bank="macro")], ignore_index=True)
    return Table(
        "figure3",
        "Error against budget",
        frame,
        ("HSPR on nested paths with the configuration selected at the main budget; peers fitted at "
         "each budget. MAE and MaxErr in percentage points.",),
    )  # fmt: skip


def _sweep_row(
    study: Study, name: str, share: float, budget: int, runs: pd.DataFrame
) -> dict[str, object]:
    figures = pooled(runs)
    return {
        "bank": study.bank.name,
        "method": TITLES[name],
        "share": PERCENT * share,
        "budget": budget,
        "mae": figures["mae"],
        "max_error": figures["max_error"],
    }


def figure4(studies: Sequence[Study]) -> Table:
    """Estimates and true scores of every agent, with the family of its model.

    Parameters
    ----------
    studies : sequence of Study
        One a bank.

    Returns
    -------
    Table
        Columns bank, agent, family, truth, estimate (mean over seeds), sd (over seeds) and error
        (mean absolute), in percent and percentage points.
    """
    rows = []
    for study in studies:
        runs = study.runs("hspr")
        for agent, part in runs.groupby("agent", sort=False):
            estimates = part["estimate"]
            rows.append(
                {
                    "bank": study.bank.name,
                    "agent": agent,
                    "family": model_family(str(agent)),
                    "truth": PERCENT * part["truth"].iloc[0],
                    "estimate": PERCENT * estimates.mean(),
                    "sd": PERCENT * estimates.std(ddof=1) if len(estimates) > 1 else np.nan,
                    "error": PERCENT * part["error"].abs().mean(),
                }
            )
    return Table(
        "figure4",
        "Estimated against true scores, by model family",
        pd.DataFrame(rows),
        (
            "estimate: mean over query seeds; sd: over them. Families by a rule from the agent's "
            "name.",
        ),
    )
