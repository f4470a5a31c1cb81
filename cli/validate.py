"""The command that checks one replayed evaluation against NUTS."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..models.config import Config
from .options import (
    BankName,
    Budget,
    Criterion,
    Json,
    Kappa,
    Missing,
    Nodes,
    Precision,
    Proposal,
    Rank,
    parse_budget,
)
from .output import print_json, print_rows

if TYPE_CHECKING:
    from ..experiments.validation import Validation

_DEFAULTS = Config()


def validate(
    bank: BankName,
    agent: Annotated[str, typer.Option(help="Agent to hold out and evaluate.")],
    budget: Budget = "10%",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the queries and of the chains.")] = 0,
    rank: Rank = _DEFAULTS.rank,
    precision: Precision = _DEFAULTS.precision,
    kappa: Kappa = _DEFAULTS.kappa,
    criterion: Criterion = _DEFAULTS.criterion,
    nodes: Nodes = 8192,
    proposal: Proposal = "gaussian",
    scrambles: Annotated[
        int,
        typer.Option(help="Scrambles whose scatter is the sampler's error; 1 uses the weights."),
    ] = 8,
    form: Annotated[
        str, typer.Option(help="NUTS on the latent vector (marginal) or with the rates (full).")
    ] = "marginal",
    draws: Annotated[int, typer.Option(help="Draws of each chain.")] = 1000,
    tune: Annotated[int, typer.Option(help="Draws before them that tune the sampler.")] = 1000,
    chains: Annotated[int, typer.Option(help="Chains.")] = 4,
    cores: Annotated[int, typer.Option(help="Chains that run at the same time.")] = 1,
    sampler: Annotated[
        str | None, typer.Option(help="nutpie or pymc; nutpie if it is installed.")
    ] = None,
    missing: Missing = "refuse",
    output: Annotated[Path | None, typer.Option(help="Write the comparison here, as CSV.")] = None,
    json: Json = False,
) -> None:
    """Replay an evaluation of a held-out agent and compare its posterior with that of NUTS.

    Prints both posteriors of the score and the latent coordinates and whether they agree. Ends with
    exit code 1 if they disagree, else 0; an inconclusive comparison says what it lacks.
    """
    config = Config(rank, precision, kappa, criterion)
    tasks = parse_budget(budget)
    from ..experiments.banks import load_bank
    from ..experiments.files import require_writable
    from ..experiments.validation import validate_agent

    if output is not None:
        require_writable(output)
    validation = validate_agent(
        load_bank(bank, missing=missing),
        agent,
        config,
        budget=tasks,
        seed=seed,
        nodes=nodes,
        proposal=proposal,
        scrambles=scrambles,
        form=form,
        draws=draws,
        tune=tune,
        chains=chains,
        cores=cores,
        nuts_sampler=sampler,
        progress=True,
    )
    if output is not None:
        validation.to_csv(output)
    if json:
        print_json(validation.summary())
    else:
        _print(validation)
        if output is not None:
            print(f"saved        {output}")
    if validation.comparison.verdict == "disagree":
        raise typer.Exit(1)


def _print(validation: Validation) -> None:
    """Print both posteriors, their difference and the verdict."""
    told = validation.summary()
    comparison = validation.comparison
    nuts, sobol = comparison.facts["nuts"], comparison.facts["sobol"]
    solved = f", {told['observed_successes']} of them solved" if told["n_observed"] else ""
    error = (
        f"error from {told['scrambles']} scrambles"
        if told["scrambles"] > 1
        else "error from weights"
    )
    print_rows(
        {
            "target": f"{told['agent']} of {told['bank']}, {told['n_tasks']} tasks",
            "outcomes": f"{told['n_observed']} tasks run{solved}",
            "score": f"estimate {told['estimate']:.1%}, truth {told['truth']:.1%}",
            "sobol": f"{sobol['nodes']} nodes, ESS {sobol['ess']:.0f}, Pareto k "
            f"{sobol['pareto_k']:.2f}, {error}",
            "nuts": f"{nuts['sampler']}, {nuts['form']} form, {nuts['chains']} x {nuts['draws']} "
            f"draws, {nuts['divergences']} diverged, R-hat {nuts['r_hat']:.4f}, ESS "
            f"{nuts['ess']:.0f}",
        }
    )
    rows: list[tuple[str, ...]] = [("quantity", "", "mean", "sd", "5 %", "50 %", "95 %", "MCSE")]
    for quantity in ("S", *comparison.latent):
        row = comparison.table.loc[quantity]
        label, factor = ("S (%)", 100.0) if quantity == "S" else (quantity, 1.0)
        for name in comparison.names:
            columns = ("mean", "sd", "q05", "q50", "q95", "mcse")
            values = [factor * row[f"{column}_{name}"] for column in columns]
            rows.append(
                (label, name, *(f"{value:.3f}" for value in values[:-1]), f"{values[-1]:.1g}")
            )
            label = ""
        rows.append(
            (
                "",
                "difference",
                f"{factor * row['difference']:+.3f}",
                f"{row['sd_ratio'] - 1:+.1%}",
                *[""] * 3,
                f"{row['difference_in_mcse']:+.1f} MCSE",
            )
        )
    print()
    _print_columns(rows)
    print()
    print(f"verdict      {comparison.verdict}")
    for reason in comparison.reasons:
        print(f"             {reason}")


def _print_columns(rows: list[tuple[str, ...]]) -> None:
    """Print a table; the first two columns are texts, the others are aligned to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            f"{cell:<{width}}" if column < 2 else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
