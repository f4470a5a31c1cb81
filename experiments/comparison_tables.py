"""Tables of errors: all methods (1), ablations (2), paired comparisons (5), matched paths (6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .metrics import PERCENT
from .paired import PairedDifference, holm, macro_difference, paired_difference, signed_rank
from .structure import source_structure
from .study import Study
from .tables import TITLES, Table, agent_errors, pooled


def table1(studies: Sequence[Study]) -> Table:
    """Pool the errors of every method on every bank.

    Parameters
    ----------
    studies : sequence of Study
        One a bank.

    Returns
    -------
    Table
        Columns bank, method, mae, max_error, tau, seeds; with several banks also macro rows.
    """
    rows = []
    for study in studies:
        for name in study.method_names:
            runs = study.runs(name)
            rows.append({"bank": study.bank.name, "method": TITLES[name], **pooled(runs)})
    frame = pd.DataFrame(rows)
    if len(studies) > 1:
        by_method = frame.groupby("method", sort=False)[["mae", "max_error", "tau"]]
        macro = by_method.mean(skipna=False)
        # A method without figures on some bank has no macro figure.
        macro = macro[frame.groupby("method", sort=False).size() == len(studies)]
        frame = pd.concat(
            [frame, macro.reset_index().assign(bank="macro", seeds=np.nan)], ignore_index=True
        )
    frame["seeds"] = frame["seeds"].astype("Int64")
    return Table(
        "table1",
        "Errors at a matched budget, every compared method",
        frame,
        (
            "MAE and MaxErr in percentage points; pooled over the targets within a seed, then "
            "averaged over seeds.",
        ),
    )


def table2(studies: Sequence[Study]) -> Table:
    """Compare the ablations of groups (A), queries (B) and decision (C) with HSPR."""
    names = ["hspr-no-groups", "hspr-uniform", "hspr-mid-range", "hspr-mean"]
    rows = [
        {"ablation": part, **row}
        for part, name in zip("ABBC", names, strict=True)
        for row in _differences(studies, name, "hspr")
    ]
    return Table(
        "table2",
        "Ablations: MAE, and its difference to HSPR",
        pd.DataFrame(rows),
        (
            "A: no group uncertainty, paths of its own. B: HSPR's reconstruction on other queries. "
            "C: posterior mean on HSPR's paths, its calibration chosen on source agents.",
            "difference: ablation minus HSPR, positive where HSPR is better; 95 % percentile "
            "bootstrap over agents.",
        ),
    )


def _differences(studies: Sequence[Study], name: str, base: str) -> list[dict[str, Any]]:
    """Return the errors of two methods and their paired difference by bank and as macro."""
    errors = {study.bank.name: agent_errors(study, name) for study in studies}
    others = {study.bank.name: agent_errors(study, base) for study in studies}
    rows = [
        _difference_row(bank, name, base, errors[bank], others[bank],
                        paired_difference(errors[bank], others[bank]))
        for bank in errors
    ]  # fmt: skip
    if len(studies) > 1:
        means, other_means = (
            np.array([values.mean() for values in by_bank.values()]) for by_bank in (errors, others)
        )
        macro = macro_difference(errors, others)
        rows.append(_difference_row("macro", name, base, means, other_means, macro))
    return rows


def _difference_row(
    bank: str,
    name: str,
    base: str,
    errors: np.ndarray,
    others: np.ndarray,
    difference: PairedDifference,
) -> dict[str, Any]:
    return {
        "bank": bank,
        "method": TITLES[name],
        "mae": PERCENT * errors.mean(),
        f"mae_{base}": PERCENT * others.mean(),
        "difference": difference.estimate,
        "low": difference.low,
        "high": difference.high,
    }


def table5(studies: Sequence[Study]) -> Table:
    """Compare HSPR with every other method, paired by agent."""
    # Published predictions may be there for some banks only.
    having = {
        name: [study for study in studies if name in study.method_names]
        for name in TITLES
        if name != "hspr"
    }
    rows = []
    for name, banks in having.items():
        for study in banks:
            errors, others = agent_errors(study, "hspr"), agent_errors(study, name)
            row = _difference_row(
                study.bank.name, name, name, errors, others, paired_difference(errors, others)
            )
            row["mae_other"] = row.pop(f"mae_{name}")
            rows.append({**row, "p": signed_rank(errors, others)})
    frame = pd.DataFrame(rows)
    frame["p_holm"] = holm(frame["p"])
    if len(studies) > 1:
        macro = []
        for name in (name for name, banks in having.items() if len(banks) == len(studies)):
            row = _differences(studies, "hspr", name)[-1] | {"method": TITLES[name]}
            row["mae_other"] = row.pop(f"mae_{name}")
            macro.append(row)
        frame = pd.concat([frame, pd.DataFrame(macro)], ignore_index=True)
    order = ["bank", "method", "mae", "mae_other", "difference", "low", "high", "p", "p_holm"]
    return Table(
        "table5",
        "HSPR against every other method",
        frame[order],
        (
            "mae: HSPR's. difference: HSPR minus the other, negative where HSPR is better; 95 % "
            "percentile bootstrap over agents (10,000 resamples), not adjusted.",
            f"p: Wilcoxon signed rank over agents; p_holm: Holm's correction over all "
            f"{len(rows)} comparisons of a bank and a method.",
        ),
    )


def table6(studies: Sequence[Study]) -> Table:
    """Compare posterior means with and without groups on the same paths."""
    rows = []
    for study in studies:
        groups = source_structure(study.bank, study.plan)["groups"].mean()
        row = _differences([study], "hspr-matched", "hspr-mean")[0]
        rows.append(
            {
                "bank": study.bank.name,
                "groups": groups,
                "tasks_per_group": len(study.bank.tasks) / groups,
                "mae_without": row["mae"],
                "mae_with": row["mae_hspr-mean"],
                "gain": row["difference"],
                "low": row["low"],
                "high": row["high"],
            }
        )
    return Table(
        "table6",
        "The same queries reconstructed with and without group uncertainty",
        pd.DataFrame(rows),
        ("Posterior means, calibrated alike. gain: without minus with, percentage points; 95 % "
         "percentile bootstrap over agents.",),
    )  # fmt: skip
