"""Options that several commands share, and how their text is read."""

from __future__ import annotations

from typing import Annotated

import typer

from ..models.errors import DataError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Missing = Annotated[
    str,
    typer.Option(help="Missing outcomes: refuse, fail (count as not solved), drop-task or model."),
]
BankName = Annotated[
    str, typer.Argument(metavar="BANK", help="A bank's name (hspr bank list) or a file.")
]
Budget = Annotated[
    str, typer.Option(help="Tasks to run: a number (30), a share (0.1) or a percentage (10%).")
]
Nodes = Annotated[int, typer.Option(min=2, help="Nodes of the importance sampler, a power of two.")]
Proposal = Annotated[str, typer.Option(help="gaussian or student.")]
Rank = Annotated[int, typer.Option(help="Residual factors.")]
Precision = Annotated[float, typer.Option(help="Prior precision of the residual coordinates.")]
Kappa = Annotated[float, typer.Option(help="Strength of group rates.")]
Criterion = Annotated[str, typer.Option(help="score or latent.")]
Calibration = Annotated[
    float, typer.Option(help="Share of the mean residual added to the decision.")
]
Decision = Annotated[str, typer.Option(help="median or mean.")]


def parse_budget(text: str) -> int | float:
    """Read a budget: a whole number of tasks, a share with a decimal point, or a percentage.

    Parameters
    ----------
    text : str
        Such as "30", "0.1" or "10%".

    Returns
    -------
    int or float
        As `budget_tasks` takes it.

    Raises
    ------
    DataError
        If the text is none of these.
    """
    cleaned = text.strip()
    try:
        if cleaned.endswith("%"):
            return float(cleaned[:-1]) / 100
        return float(cleaned) if "." in cleaned or "e" in cleaned.lower() else int(cleaned)
    except ValueError:
        raise DataError(
            "budget must be a number of tasks (30), a share (0.1) or a percentage (10%), got "
            f"{text!r}"
        ) from None
