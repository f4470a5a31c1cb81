"""Tables of what lies behind the errors: structure (3, 7), configurations (4) and cost (8)."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from .metrics import PERCENT
from .structure import source_structure, zero_queries
from .study import Study
from .tables import Table


def table3(studies: Sequence[Study]) -> Table:
    """Describe the structure of the source outcomes."""
    rows = []
    for study in studies:
        structure = source_structure(study.bank, study.plan)
        n_tasks, groups = len(study.bank.tasks), structure["groups"].mean()
        rows.append(
            {
                "bank": study.bank.name,
                "agents": len(study.bank.agents),
                "tasks": n_tasks,
                "groups": groups,
                "tasks_per_group": n_tasks / groups,
                "zero_share": PERCENT * structure["zero_share"].mean(),
                "zero_success": PERCENT * structure["zero_success"].mean(),
            }
        )
    return Table(
        "table3",
        "Structure of the source outcomes",
        pd.DataFrame(rows),
        ("groups: source-signature groups, averaged over targets. zero_share: tasks that no source "
         "agent solved, %. zero_success: how many of those the target solves, %.",),
    )  # fmt: skip


def table4(studies: Sequence[Study]) -> Table:
    """List the configurations that the source-only selection chose."""
    rows = [
        {
            "bank": study.bank.name,
            "fold": index,
            "source_agents": selection.settings["agents"],
            "rank": selection.config.rank,
            "precision": selection.config.precision,
            "kappa": selection.config.kappa,
            "criterion": selection.config.criterion,
            "calibration": selection.config.calibration,
            "mean_calibration": selection.mean_calibration,
            "source_mae": selection.grid.loc[selection.grid["selected"], "mae"].iloc[-1],
        }
        for study in studies
        for index, selection in study.selections.items()
    ]
    return Table(
        "table4",
        "Frozen configurations, selected on source agents alone",
        pd.DataFrame(rows),
        ("source_mae: error of the winner over the held-out source agents, percentage points.",),
    )


def table7(studies: Sequence[Study]) -> Table:
    """Count the queries of tasks that no source agent solved."""
    rows = []
    for study in studies:
        structure = source_structure(study.bank, study.plan)
        rows.append(
            {
                "bank": study.bank.name,
                "zero_share": PERCENT * structure["zero_share"].mean(),
                "zero_success": PERCENT * structure["zero_success"].mean(),
                "queries_hspr": PERCENT * zero_queries(study.bank, study.plan, study.runs("hspr")),
                "queries_no_groups": PERCENT
                * zero_queries(study.bank, study.plan, study.runs("hspr-no-groups")),
            }
        )
    return Table(
        "table7",
        "Tasks that no source agent solved: success of the targets, and queries",
        pd.DataFrame(rows),
        ("All in %. queries: share of the queries that went to such tasks, over targets and seeds; "
         "without groups on paths of its own.",),
    )  # fmt: skip


def table8(studies: Sequence[Study]) -> Table:
    """Average the cost of one run of HSPR."""
    rows = []
    for study in studies:
        runs = study.runs("hspr")
        rows.append(
            {
                "bank": study.bank.name,
                "runs": len(runs),
                "seconds": runs["seconds"].mean(),
                "seconds_p90": runs["seconds"].quantile(0.9),
                "cpu_seconds": runs["cpu_seconds"].mean(),
                "cpu_hours_total": runs["cpu_seconds"].sum() / 3600,
            }
        )
    return Table(
        "table8",
        "Cost of one run: wall and CPU time",
        pd.DataFrame(rows),
        ("One thread a run; without loading, fitting and selection. The wall time depends on what "
         "else the machine did.",),
    )  # fmt: skip
