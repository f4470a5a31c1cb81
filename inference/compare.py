"""Whether two posteriors agree, as far as their Monte Carlo errors can tell.

Legend of shapes: M quantities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..models.errors import DataError
from .nuts import DENSITY_TOLERANCE
from .summaries import COLUMNS, SCORE, PosteriorSummary, summarise

VERDICTS = ("agree", "disagree", "inconclusive")
MAX_R_HAT = 1.01
MIN_ESS = 400
# A mean other than the score's differs only if it does so by this share of the standard deviation.
_RELEVANT_SHARE = 0.1
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two posteriors side by side.

    Attributes
    ----------
    verdict : {"agree", "disagree", "inconclusive"}
        What the comparison says; see `compare_posteriors`.
    reasons : tuple of str
        Why it does not say "agree"; empty if it does.
    table : pandas.DataFrame, shape (M, 25)
        One row a quantity: the score "S", each latent coordinate, the rate of each group with an
        outcome. For both posteriors, suffixed by their names: mean, sd, q05, q50, q95, mcse,
        mcse_sd (Monte Carlo standard errors of mean and sd), r_hat, ess_bulk, ess_tail. Then
        difference (of the means), mcse (both errors combined), difference_in_mcse, sd_ratio
        and sd_ratio_error (its Monte Carlo standard error).
    latent : tuple of str
        The rows of the latent coordinates.
    names : tuple of str
        Names of the two posteriors.
    facts : dict of str to dict
        Kind and diagnostics of each posterior, by name.
    """

    verdict: str
    reasons: tuple[str, ...]
    table: pd.DataFrame
    latent: tuple[str, ...]
    names: tuple[str, str]
    facts: dict[str, dict[str, Any]]

    def summary(self) -> dict[str, Any]:
        """Return verdict, reasons, diagnostics and the rows of score and latent, ready for JSON.

        Returns
        -------
        dict
            Numbers that are not finite are None.
        """
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "score": _finite(dict(self.table.loc[SCORE])),
            "latent": {name: _finite(dict(self.table.loc[name])) for name in self.latent},
            "facts": {name: _finite(facts) for name, facts in self.facts.items()},
        }


def compare_posteriors(
    tree_a: xr.DataTree | Iterable[xr.DataTree],
    tree_b: xr.DataTree | Iterable[xr.DataTree],
    *,
    names: Sequence[str] | None = None,
    max_mcse: float = 4.0,
    score_tolerance: float = 0.001,
    sd_tolerance: float = 0.05,
) -> Comparison:
    """Compare two posteriors of one model and the same outcomes, such as Sobol's and NUTS's.

    Parameters
    ----------
    tree_a, tree_b : xarray.DataTree or iterable of xarray.DataTree
        Trees of `SobolSampler`, `Evaluator` or `sample_nuts`. Instead of one, four or more: the
        first is compared, and the scatter between all of them (other scrambles, other seeds) is its
        Monte Carlo error. With one tree, that error comes from the weighted nodes, as if they were
        independent, which for Sobol nodes is an upper bound; or from ArviZ's effective sample size.
    names : sequence of two str, default None
        Names of the two in table and reasons; None means "sobol" for weighted nodes and "nuts" for
        chains, or "a" and "b" if both are of one kind.
    max_mcse : float, default 4.0
        Combined Monte Carlo standard errors from which two means differ.
    score_tolerance : float, default 0.001
        Difference of the mean scores, a share (0.001 is 0.1 percentage points), from which they
        differ.
    sd_tolerance : float, default 0.05
        Relative difference of the score's standard deviations from which they differ.

    Returns
    -------
    Comparison
        The verdict is "agree" if both posteriors are sound, the mean scores differ by less than
        `max_mcse` combined Monte Carlo standard errors and by less than `score_tolerance`, their
        standard deviations by less than `sd_tolerance`, and no other mean differs by `max_mcse`
        errors and a tenth of its standard deviation. It is "disagree" if both are sound and one of
        the differences exceeds its bound by more than chance explains (`max_mcse` errors). It is
        "inconclusive" if a bound is exceeded but chance explains it, if the combined error of the
        mean score exceeds `score_tolerance`, or if one of the posteriors is not sound: chains with
        R-hat of 1.01 or more, an effective sample size below 400 (of score and latent coordinates),
        any divergence, or an inaccurate density; weights that `ScorePosterior.trusted` rejects.

    Raises
    ------
    DataError
        If the trees are no posteriors, or not of the same quantities and outcomes, or a bound is
        not positive.
    """
    bounds = {
        "max_mcse": max_mcse,
        "score_tolerance": score_tolerance,
        "sd_tolerance": sd_tolerance,
    }
    for name, bound in bounds.items():
        if not isinstance(bound, Real) or isinstance(bound, bool) or not bound > 0:
            raise DataError(f"{name} must be a positive number, got {bound!r}")
    a, b = summarise(tree_a), summarise(tree_b)
    labels = _names(names, a, b)
    _require_same(a, b, labels)
    table = _table(a, b, labels)
    unsound = [*_problems(a, labels[0]), *_problems(b, labels[1])]
    differ, unclear = _differences(table, labels, max_mcse, score_tolerance, sd_tolerance)
    if unsound or (unclear and not differ):
        verdict = "inconclusive"
    else:
        verdict = "disagree" if differ else "agree"
    return Comparison(
        verdict=verdict,
        reasons=(*unsound, *differ, *unclear),
        table=table,
        latent=a.latent,
        names=labels,
        facts={labels[0]: a.facts, labels[1]: b.facts},
    )


def _table(a: PosteriorSummary, b: PosteriorSummary, names: tuple[str, str]) -> pd.DataFrame:
    table = pd.concat(
        [a.rows.add_suffix(f"_{names[0]}"), b.rows.add_suffix(f"_{names[1]}")], axis=1
    )
    interleaved = [f"{column}_{name}" for column in COLUMNS for name in names]
    table = table[interleaved]
    difference = a.rows["mean"] - b.rows["mean"]
    mcse = np.hypot(a.rows["mcse"], b.rows["mcse"])
    # Two constants have neither an error nor a spread: equal ones differ by nothing.
    with np.errstate(divide="ignore", invalid="ignore"):
        in_mcse = np.where(_negligible(difference), 0.0, difference / mcse)
        constant = _negligible(a.rows["sd"]) & _negligible(b.rows["sd"])
        ratio = np.where(constant, 1.0, a.rows["sd"] / b.rows["sd"])
        relative = [np.where(constant, 0.0, s.rows["mcse_sd"] / s.rows["sd"]) for s in (a, b)]
    return table.assign(
        difference=difference,
        mcse=mcse,
        difference_in_mcse=in_mcse,
        sd_ratio=ratio,
        sd_ratio_error=ratio * np.hypot(relative[0], relative[1]),
    )


def _negligible(values: pd.Series) -> np.ndarray:
    """Whether values are no more than rounding errors; scores and rates are of the order of 1."""
    return values.abs().to_numpy() < _ROUNDING


def _problems(summary: PosteriorSummary, name: str) -> list[str]:
    """Say what is wrong with one posterior by itself."""
    facts = summary.facts
    if summary.weighted:
        if facts["trusted"]:
            return []
        return [
            f"{name}: Pareto k {facts['pareto_k']:.2f} with {facts['ess']:.0f} effective of "
            f"{facts['nodes']} nodes; use the Student-t proposal or more nodes"
        ]
    found = []
    constant = bool(np.isnan(facts["ess"]))
    if facts["chains"] < 2:
        found.append(f"{name}: R-hat needs two chains or more")
    elif not facts["r_hat"] < MAX_R_HAT and not constant:
        found.append(f"{name}: R-hat {facts['r_hat']:.3f} is not below {MAX_R_HAT}; tune longer")
    if not facts["ess"] >= MIN_ESS and not constant:
        found.append(
            f"{name}: effective sample size {facts['ess']:.0f} is below {MIN_ESS}; take more draws"
        )
    if facts["divergences"]:
        total = facts["chains"] * facts["draws"]
        found.append(
            f"{name}: {facts['divergences']} of {total} draws diverged; raise target_accept"
        )
    if facts.get("density_error", 0.0) > DENSITY_TOLERANCE:
        found.append(
            f"{name}: PyMC's Beta density is off by about {facts['density_error']:.1g} nats; use "
            "form='marginal'"
        )
    return found


def _differences(
    table: pd.DataFrame,
    names: tuple[str, str],
    max_mcse: float,
    score_tolerance: float,
    sd_tolerance: float,
) -> tuple[list[str], list[str]]:
    """Say what differs beyond chance, and what differs but may do so by chance."""
    differ, unclear = [], []
    score, others = table.loc[SCORE], table.drop(index=SCORE)
    points, errors = 100 * score["difference"], score["difference_in_mcse"]
    if abs(errors) >= max_mcse:
        differ.append(f"mean of S: {points:+.3f} pp, {errors:+.1f} combined MCSE")
    elif abs(score["difference"]) >= score_tolerance:
        unclear.append(f"mean of S: {points:+.3f} pp, but only {errors:+.1f} combined MCSE")
    if score["mcse"] > score_tolerance:
        unclear.append(
            f"the combined MCSE of the mean of S, {100 * score['mcse']:.3f} pp, exceeds the "
            f"tolerance of {100 * score_tolerance:g} pp; take more draws"
        )
    excess = abs(score["sd_ratio"] - 1)
    if excess >= sd_tolerance:
        by_chance = excess < max_mcse * score["sd_ratio_error"]
        (unclear if by_chance else differ).append(
            f"sd of S: {names[0]} / {names[1]} = {score['sd_ratio']:.3f}, standard error "
            f"{score['sd_ratio_error']:.3f}"
        )
    spread = others[[f"sd_{name}" for name in names]].max(axis=1)
    wrong = (others["difference_in_mcse"].abs() >= max_mcse) & (
        others["difference"].abs() >= _RELEVANT_SHARE * spread
    )
    for quantity, row in others[wrong].iterrows():
        differ.append(
            f"mean of {quantity}: {row['difference']:+.3g}, "
            f"{row['difference_in_mcse']:+.1f} combined MCSE"
        )
    return differ, unclear


def _require_same(a: PosteriorSummary, b: PosteriorSummary, names: tuple[str, str]) -> None:
    what = ("successes", "trials", "group sizes")
    for kind, first, second in zip(what, a.counts, b.counts, strict=True):
        if not np.array_equal(first, second):
            raise DataError(
                f"posteriors {names[0]!r} and {names[1]!r} have different {kind}: "
                f"{int(first.sum())} and {int(second.sum())} in all; condition both on one model"
            )
    if not a.rows.index.equals(b.rows.index):
        other = a.rows.index.symmetric_difference(b.rows.index)
        raise DataError(
            f"posteriors {names[0]!r} and {names[1]!r} have different quantities, such as "
            f"{other[0]!r}; compare posteriors of one model"
        )


def _names(
    names: Sequence[str] | None, a: PosteriorSummary, b: PosteriorSummary
) -> tuple[str, str]:
    if names is None:
        if a.weighted == b.weighted:
            return "a", "b"
        return ("sobol", "nuts") if a.weighted else ("nuts", "sobol")
    found = [names] if isinstance(names, str) else list(names)
    if len(found) != 2 or found[0] == found[1] or not all(isinstance(n, str) and n for n in found):
        raise DataError(f"names must be two different texts, got {names!r}; try ('sobol', 'nuts')")
    return found[0], found[1]


def _finite(values: Mapping[Any, Any]) -> dict[str, Any]:
    plain = {str(k): v.item() if isinstance(v, np.generic) else v for k, v in values.items()}
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in plain.items()
    }
