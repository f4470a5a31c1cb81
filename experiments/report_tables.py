"""The sections of the report that list and explain: numbers in, HTML out."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from ..models.groups import TaskGroups
from .html import identifier, records_table, section, settings_table
from .metrics import PERCENT

_MISSING = {
    "refuse": "none",
    "fail": "counted as not solved",
    "drop-task": "their tasks are left out",
    "model": "kept as missing",
}


def tasks_section(numbers: dict[str, Any], path: pd.DataFrame, groups: TaskGroups) -> str:
    """Return the queried tasks in order.

    Parameters
    ----------
    numbers : dict
        What `report_numbers` returns.
    path : pandas.DataFrame
        What `score_path` returns.
    groups : TaskGroups
        The groups of the evaluation.

    Returns
    -------
    str
        HTML.
    """
    if numbers["queried"] == 0:
        return section("Queried tasks", "<p>No task was queried.</p>")
    group_of = groups.group_by_task
    records = []
    for query, row in path.iloc[1:].to_dict("index").items():
        group = group_of[row["task"]]
        records.append(
            [
                str(query),
                identifier(row["task"]),
                f"{escape(groups.labels[group])} ({groups.size[group]})",
                f"{row['predicted']:.0%}",
                _outcome(bool(row["outcome"])),
                f"{row['mean']:.1%}",
                f"{row['low']:.1%} to {row['high']:.1%}",
            ]
        )
    table = records_table(
        "Tasks in the order they were asked for; in brackets the tasks of their group. Expected: "
        "the probability of success just before the outcome was known. Score: posterior mean just "
        "after.",
        {
            "#": "number",
            "Task": "id",
            "Group": "word",
            "Expected": "number",
            "Outcome": "word",
            "Score": "number",
            f"{numbers['interval_prob']:.0%} interval": "number",
        },
        records,
    )
    return section("Queried tasks", table)


def settings_section(numbers: dict[str, Any]) -> str:
    """Return all that is needed to compute the page again.

    Parameters
    ----------
    numbers : dict
        What `report_numbers` returns.

    Returns
    -------
    str
        HTML.
    """
    tasks = f"{numbers['tasks']} tasks in {numbers['groups']} groups"
    if numbers["bank_tasks"] != numbers["tasks"]:
        tasks += f", of the bank's {numbers['bank_tasks']}: the agent has no outcome for the others"
    settings = {
        "Bank": f"{identifier(numbers['bank'])}: {numbers['source_agents']} source agents, {tasks}",
        "Missing outcomes": _MISSING.get(numbers["missing"], escape(numbers["missing"])),
        "Budget": f"{numbers['budget']} tasks",
        **{name.capitalize(): escape(str(value)) for name, value in numbers["config"].items()},
        "Nodes": f"{numbers['nodes']:,}, {escape(numbers['proposal'])} proposal",
        "Query seed": str(numbers["query_seed"]),
        "Seed of the nodes": str(numbers["sobol_seed"]),
    }
    versions = {name: escape(value) for name, value in numbers["versions"].items()}
    return section(
        "Settings",
        f'<div class="pair">{settings_table("Evaluation", settings)}'
        f"{settings_table('Versions', versions)}</div>",
    )


def guide_section(numbers: dict[str, Any]) -> str:
    """Return how to read the page.

    Parameters
    ----------
    numbers : dict
        What `report_numbers` returns.

    Returns
    -------
    str
        HTML.
    """
    share = f"{numbers['interval_prob']:.0%}"
    tail = f"{PERCENT * (1 - numbers['interval_prob']) / 2:.3g}%"
    points = [
        "The <strong>estimate</strong> is the share of all tasks that the agent would solve, not "
        "of those that were run.",
        f"The <strong>interval</strong> leaves {tail} of the posterior's probability on either "
        f"side. Given the model and the settings, the full score lies inside with probability "
        f"{share}. It is not calibrated on data: how often such intervals hold the truth is what "
        "<code>hspr replay</code> measures.",
        "The <strong>observed share</strong> differs from the score because the tasks were chosen "
        "for what they tell, which are those of uncertain outcome.",
        "A posterior that is <strong>not trusted</strong> rests on too few nodes: compute it again "
        "with <code>--proposal student</code> or more <code>--nodes</code>.",
        "An outcome <strong>expected</strong> at 5% that came true, or at 95% that did not, is a "
        "surprise. A few are normal; many say that the agent is unlike the source agents.",
    ]
    items = "\n".join(f"<li>{point}</li>" for point in points)
    return section("How to read this page", f"<ul>\n{items}\n</ul>")


def _outcome(solved: bool) -> str:
    return '<span class="good">solved</span>' if solved else '<span class="bad">not solved</span>'
