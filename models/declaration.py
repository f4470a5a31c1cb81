"""The hierarchical model, declared once, in PyMC.

Everything that HSPR computes (importance weights, proposal, acquisition, decision, NUTS) reads the
prior, the link, the concentration and the outcome from this model's graph.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from .config import Config
from .errors import DataError
from .groups import TaskGroups


def build_model(
    groups: TaskGroups,
    config: Config,
    *,
    successes: np.ndarray | None = None,
    trials: np.ndarray | None = None,
) -> pm.Model:
    """Declare the hierarchical model of one target agent (equations 3 to 6).

    Parameters
    ----------
    groups : TaskGroups
        Groups with averaged item parameters; G groups, K residual factors.
    config : Config
        Rank, precision and kappa; the other settings play no part here.
    successes, trials : numpy.ndarray of int, shape (G,), default None
        Observed successes and outcomes of each group; None means none observed yet.

    Returns
    -------
    pymc.Model
        Variables ``z`` (latent), ``p`` and ``q`` (group) and ``outcome`` (observation). Item
        parameters, prior standard deviations, kappa, group sizes and observations are `pm.Data`, so
        `pymc.set_data` moves the model to another fit.

    Raises
    ------
    DataError
        If a count is negative, not whole, or exceeds its group.
    """
    group_of_outcome, outcomes = expand_counts(groups.size, successes, trials)
    rank = min(config.rank, groups.loading.shape[1])
    coords = {
        "group": groups.labels,
        "latent": ["ability", *(f"factor {k + 1}" for k in range(rank))],
    }
    precision = np.array([config.ability_precision] + [config.precision] * rank, dtype=float)
    with pm.Model(coords=coords) as model:
        intercept = pm.Data("intercept", groups.intercept, dims="group")
        loading = pm.Data(
            "loading",
            np.column_stack([groups.slope, groups.loading[:, :rank]]),
            dims=("group", "latent"),
        )
        prior_sd = pm.Data("prior_sd", precision**-0.5, dims="latent")
        kappa = pm.Data("kappa", np.float64(config.kappa))
        pm.Data("group_size", groups.size, dims="group")

        z = pm.Normal("z", 0.0, prior_sd, dims="latent")
        eta, alpha, beta = rate_parameters(intercept, loading, kappa, z)
        pm.Deterministic("p", pm.math.sigmoid(eta), dims="group")
        q = pm.Beta("q", alpha=alpha, beta=beta, dims="group")
        group_index = pm.Data("group_of_outcome", group_of_outcome, dims="observation")
        observed = pm.Data("observed_outcome", outcomes, dims="observation")
        pm.Bernoulli("outcome", p=q[group_index], observed=observed, dims="observation")
    return model


def rate_parameters(
    intercept: TensorVariable, loading: TensorVariable, kappa: TensorVariable, z: TensorVariable
) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
    """Declare the rates' predictor and Beta parameters (equations 4 and 5).

    Parameters
    ----------
    intercept, loading : TensorVariable, shape (G,) and (G, K)
        Item parameters of the groups.
    kappa : TensorVariable, scalar
        Strength of the group rates.
    z : TensorVariable, shape (K,)
        Latent state.

    Returns
    -------
    eta, alpha, beta : TensorVariable, shape (G,)
        Predictor, and the two Beta parameters c p = kappa / (1 - p) and c (1 - p) = kappa / p,
        written without cancellation.
    """
    eta = intercept + loading @ z
    return eta, kappa * (1 + pt.exp(eta)), kappa * (1 + pt.exp(-eta))


def expand_counts(
    size: np.ndarray, successes: np.ndarray | None, trials: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Write counts by group as single outcomes.

    Parameters
    ----------
    size : numpy.ndarray of int, shape (G,)
        Tasks in each group.
    successes, trials : numpy.ndarray of int, shape (G,) or None
        Counts by group; both or neither.

    Returns
    -------
    group_of_outcome : numpy.ndarray of int, shape (n,)
    outcomes : numpy.ndarray of int, shape (n,)

    Raises
    ------
    DataError
        If the counts do not fit each other or the group sizes.
    """
    if (successes is None) != (trials is None):
        raise DataError("successes and trials go together; give both or neither")
    if successes is None or trials is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    s, n = np.asarray(successes), np.asarray(trials)
    for name, counts in (("successes", s), ("trials", n)):
        if counts.shape != size.shape or not np.issubdtype(counts.dtype, np.integer):
            raise DataError(
                f"{name} must be whole numbers, one a group: expected shape {size.shape}, got "
                f"{counts.dtype} of shape {counts.shape}"
            )
    wrong = np.flatnonzero((s < 0) | (s > n) | (n > size))
    if wrong.size:
        g = int(wrong[0])
        raise DataError(
            f"counts must satisfy 0 <= successes <= trials <= group size; group {g} has successes "
            f"{s[g]}, trials {n[g]}, size {size[g]}"
        )
    group_of_outcome = np.repeat(np.arange(len(size)), n)
    outcomes = np.concatenate(
        [np.repeat([1, 0], [s_g, n_g - s_g]) for s_g, n_g in zip(s, n, strict=True)]
    )
    return group_of_outcome, outcomes.astype(np.int64)
