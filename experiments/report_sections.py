"""The sections of the report that show pictures: numbers and pictures in, HTML out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from .html import identifier, section, settings_table
from .metrics import PERCENT

# By key: from text alternative and caption to the HTML of the figure.
Figures = dict[str, Callable[[str, str], str]]


def header(numbers: dict[str, Any]) -> str:
    """Return title, main figures and the verdict on the posterior.

    Parameters
    ----------
    numbers : dict
        What `report_numbers` returns.

    Returns
    -------
    str
        HTML.
    """
    agent, bank = (identifier(numbers[name]) for name in ("agent", "bank"))
    low, high = numbers["interval"]
    share = f"{numbers['interval_prob']:.0%}"
    figures = {
        "Estimated full score": (
            f"{numbers['estimate']:.1%}",
            f"{numbers['config']['decision']} of the posterior{_calibrated(numbers)}",
        ),
        f"{share} interval": (
            f"{low:.1%} to {high:.1%}",
            f"{numbers['interval_kind']}",
        ),
        "Tasks run": (
            f"{numbers['queried']} of {numbers['tasks']}",
            "no outcome yet"
            if numbers["observed_share"] is None
            else f"{numbers['observed_share']:.1%} of them solved",
        ),
    }
    if numbers["truth"] is not None:
        where = "inside" if numbers["truth_inside"] else "outside"
        figures["True score"] = (
            f"{numbers['truth']:.1%}",
            f"estimate off by {_points(numbers['error'])}; {where} the interval",
        )
    cells = "\n".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, (value, note) in figures.items()
    )
    return (
        f"<header>\n<h1>Score of {agent} on {bank}</h1>\n"
        f'<p class="lead">Recovered from {numbers["queried"]} of {numbers["tasks"]} tasks with '
        f"the outcomes of {numbers['source_agents']} other agents.</p>\n"
        f'<dl class="figures">\n{cells}\n</dl>\n{_verdict(numbers)}\n</header>'
    )


def score_section(numbers: dict[str, Any], figures: Figures) -> str:
    """Return the pictures of score and path.

    Parameters
    ----------
    numbers : dict
        What `report_numbers` returns.
    figures : dict
        The figures by key.

    Returns
    -------
    str
        HTML.
    """
    low, high = numbers["interval"]
    share, truth = f"{numbers['interval_prob']:.0%}", numbers["truth"]
    known = "" if truth is None else f" The truth is {truth:.1%}."
    score = figures["score"](
        f"Histogram of the posterior of the full score, with the estimate {numbers['estimate']:.1%}"
        f" and the {share} interval from {low:.1%} to {high:.1%}.{known}",
        "Which full scores the outcomes leave possible. The observed share is no estimate: the "
        "tasks were chosen to be informative, not to be typical.",
    )
    if "path" not in figures:
        return section("Score", score)
    path = figures["path"](
        f"Line of the posterior mean with its {share} interval after each of "
        f"{numbers['queried']} queries; at the end {numbers['mean']:.1%}.{known}",
        "How the score settled, query by query. Ticks above mark solved tasks, ticks below tasks "
        "that were not solved.",
    )
    return section("Score", f'<div class="pair">{score}{path}</div>')


def latent_section(numbers: dict[str, Any], figures: Figures) -> str:
    """Return the pictures of latent state and group rates.

    Parameters
    ----------
    numbers : dict
        What `report_numbers` returns.
    figures : dict
        The figures by key.

    Returns
    -------
    str
        HTML.
    """
    share = f"{numbers['interval_prob']:.0%}"
    latent = figures["latent"](
        f"Medians, 50% and {share} intervals of ability and residual factors.",
        "Ability: solving the tasks that able agents solve; the source agents have mean 0 and "
        "standard deviation 1. Factors: strengths on some tasks and weaknesses on others that "
        "ability does not explain.",
    )
    if "rates" in figures:
        rates = figures["rates"](
            f"Medians, 50% and {share} intervals of the solving rates of the groups whose outcomes "
            "moved the expectation the most: from the latent state alone, and with own outcomes.",
            "Groups hold tasks that all other agents answered alike. p is the group's mean rate "
            "from the latent state alone; q is its rate with the outcomes of its own tasks. The "
            "label counts solved and queried tasks and the tasks of the group.",
        )
    else:
        rates = "<p>No task was queried, so no group has outcomes of its own.</p>"
    return section("What was learnt", f'<div class="pair">{latent}{rates}</div>')


def diagnostics_section(
    numbers: dict[str, Any], means: Mapping[str, float], figures: Figures
) -> str:
    """Return the sampler's diagnostics.

    Parameters
    ----------
    numbers : dict
        What `report_numbers` returns.
    means : mapping of str to float
        Posterior mean of the score by other computations, as shares.
    figures : dict
        The figures by key.

    Returns
    -------
    str
        HTML.
    """
    share = numbers["ess"] / numbers["nodes"]
    k = numbers["pareto_k"]
    tail = f"{k:.2f} (good up to 0.70)"
    if math.isinf(k):
        tail = "none: all weights are equal" if k < 0 else "infinite: a few weights dominate"
    table = settings_table(
        "Diagnostics of the importance sampler",
        {
            "Trusted": _yes(numbers["trusted"]),
            "Effective nodes": f"{numbers['ess']:,.0f} of {numbers['nodes']:,} ({share:.1%})",
            "Pareto k of the weights": tail,
            "Largest weight": f"{numbers['max_weight']:.2%} of the sum",
            "Posterior mean": f"{PERCENT * numbers['mean']:.3f}%",
            **{
                f"Same, from {label}": f"{PERCENT * mean:.3f}% "
                f"({_points(mean - numbers['mean'], digits=3)})"
                for label, mean in means.items()
            },
        },
    )
    weights = figures["weights"](
        f"Histogram of the weights of {numbers['nodes']:,} nodes on a logarithmic axis; effective "
        f"sample size {numbers['ess']:,.0f}, largest weight {numbers['max_weight']:.2%}.",
        "The closer the weights lie to their mean, the more nodes count.",
    )
    overlay = figures["overlay"](
        "Cumulative distributions of latent state and score from two or more computations of the "
        "same posterior.",
        "The same posterior computed more than once. Lines that lie on each other show that the "
        "sampler's own error plays no part; they say nothing about the model.",
    )
    return section(
        "Can the computation be trusted?",
        f'<div class="pair"><div>{table}{weights}</div>{overlay}</div>',
    )


def _verdict(numbers: dict[str, Any]) -> str:
    share = numbers["ess"] / numbers["nodes"]
    if numbers["trusted"]:
        return (
            '<p class="notice"><strong class="good">The posterior can be trusted.</strong> '
            f"{share:.0%} of the sampler's nodes are effective.</p>"
        )
    tail = "" if numbers["pareto_k"] <= 0.7 else " and their weights have a heavy tail"
    return (
        '<p class="notice warning"><strong class="bad">The posterior cannot be trusted.</strong> '
        f"{share:.1%} of the sampler's nodes are effective{tail}: compute it again with the "
        "Student-t proposal or more nodes.</p>"
    )


def _calibrated(numbers: dict[str, Any]) -> str:
    share = numbers["config"]["calibration"]
    return f", plus {share:g} of the mean residual" if share else ""


def _points(difference: float, *, digits: int = 1) -> str:
    sign = "−" if round(PERCENT * difference, digits) < 0 else "+"
    return f"{sign}{abs(PERCENT * difference):.{digits}f} points"


def _yes(holds: bool) -> str:
    return '<span class="good">yes</span>' if holds else '<span class="bad">no</span>'
