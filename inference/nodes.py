"""The weighted nodes: all arrays of a posterior, as the sampler works on them.

Legend of shapes: J nodes, K latent coordinates, G groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from ..models.errors import ModelError
from .diagnostics import normalised_weights
from .family import RateFamily
from .kernels import fill_nodes
from .logistic import fill_logistic_nodes

# Nodes evaluated at a time: large enough for array speed, small enough for the caches.
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class WeightedNodes:
    """Arrays of one posterior; group-major, so that row g is group g at every node.

    Attributes
    ----------
    size, successes, trials : numpy.ndarray of int, shape (G,)
        Tasks N, observed successes s and observed outcomes n of each group.
    z : numpy.ndarray, shape (J, K)
        Latent state at each node.
    log_weight : numpy.ndarray, shape (J,)
        Log of prior times likelihood over proposal, with every constant.
    mean_score : numpy.ndarray, shape (J,)
        E[S | z, D].
    rate_alpha, rate_beta, mean_rate : numpy.ndarray, shape (G, J)
        Beta parameters A and F of the rates given z and the outcomes, and A / (A + F).
    compact : bool
        Whether the means are kept in single precision, and the Beta parameters only where they
        matter: they are zero for unqueried groups of one task.
    """

    size: np.ndarray
    successes: np.ndarray
    trials: np.ndarray
    z: np.ndarray
    log_weight: np.ndarray
    mean_score: np.ndarray
    rate_alpha: np.ndarray
    rate_beta: np.ndarray
    mean_rate: np.ndarray
    compact: bool

    @classmethod
    def empty(
        cls,
        size: np.ndarray,
        successes: np.ndarray,
        trials: np.ndarray,
        z: np.ndarray,
        *,
        compact: bool = False,
    ) -> WeightedNodes:
        """Allocate the arrays for given counts and latent states.

        Parameters
        ----------
        size, successes, trials : numpy.ndarray of int, shape (G,)
            Counts; copied.
        z : numpy.ndarray, shape (J, K)
            Latent states; kept.
        compact : bool, default False
            Whether to save memory traffic, as the class says.

        Returns
        -------
        WeightedNodes
        """
        nodes = len(z)
        by_group = (len(size), nodes)
        return cls(
            size=size.copy(),
            successes=successes.copy(),
            trials=trials.copy(),
            z=z,
            log_weight=np.empty(nodes),
            mean_score=np.empty(nodes),
            # Zeros that are never written take no memory.
            rate_alpha=np.zeros(by_group),
            rate_beta=np.zeros(by_group),
            mean_rate=np.empty(by_group, dtype=np.float32 if compact else np.float64),
            compact=compact,
        )

    @property
    def weight(self) -> np.ndarray:
        """Normalised weights, shape (J,)."""
        return normalised_weights(self.log_weight)

    @property
    def unqueried(self) -> np.ndarray:
        """Tasks of each group without an outcome, shape (G,)."""
        return self.size - self.trials

    def copy(self) -> WeightedNodes:
        """Return a copy that shares nothing with this one."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "compact"}
        skipped = ("rate_alpha", "rate_beta") if self.compact else ()
        copies = {name: array.copy() for name, array in values.items() if name not in skipped}
        if self.compact:
            # Only the rows that are in use, so that the others go on taking no memory.
            used = (self.size > 1) | (self.trials > 0)
            for name in skipped:
                copies[name] = np.zeros(values[name].shape)
                copies[name][used] = values[name][used]
        return WeightedNodes(**copies, compact=self.compact)


def evaluate_nodes(family: RateFamily, arrays: WeightedNodes) -> None:
    """Evaluate the model at the nodes: everything but the proposal's share of the weights.

    Parameters
    ----------
    family : RateFamily
        The model.
    arrays : WeightedNodes
        Its latent states and counts are read, all else is written; ``log_weight`` becomes the log
        of prior times likelihood.

    Raises
    ------
    ModelError
        If a Beta parameter is negative or NaN.
    """
    if family.logistic is not None:
        fill_logistic_nodes(
            np.ascontiguousarray(arrays.z.T),
            *family.logistic,
            arrays.successes,
            arrays.trials,
            arrays.size,
            arrays.compact,
            arrays.rate_alpha,
            arrays.rate_beta,
            arrays.mean_rate,
            arrays.log_weight,
            arrays.mean_score,
        )
        arrays.log_weight[:] += family.log_prior(arrays.z)
        return
    nodes = len(arrays.z)
    log_prior = np.empty(nodes)
    for first in range(0, nodes, _BLOCK):
        block = slice(first, first + _BLOCK)
        alpha, beta, log_prior[block] = family.evaluate_unchecked(arrays.z[block])
        invalid = fill_nodes(
            first,
            np.ascontiguousarray(alpha.T),
            np.ascontiguousarray(beta.T),
            arrays.successes,
            arrays.trials,
            arrays.size,
            arrays.rate_alpha,
            arrays.rate_beta,
            arrays.mean_rate,
            arrays.log_weight,
            arrays.mean_score,
        )
        if invalid >= 0:
            raise family.out_of_range(arrays.z[first + invalid])
    arrays.log_weight[:] += log_prior


def validated_group_size(
    family: RateFamily, group_size: Sequence[int] | np.ndarray | None
) -> np.ndarray:
    """Return the tasks of each group, from the argument or the model's data.

    Parameters
    ----------
    family : RateFamily
        The model.
    group_size : sequence of int, shape (G,), or None
        Tasks in each group; None reads the model's data named ``group_size``.

    Returns
    -------
    numpy.ndarray of int, shape (G,)

    Raises
    ------
    ModelError
        If there are none, or they do not fit the rates and the observations.
    """
    if group_size is None:
        if "group_size" not in family.data:
            raise ModelError(
                "the model has no data named 'group_size' (tasks in each group, for the score); "
                "add pm.Data('group_size', ...) or pass group_size"
            )
        group_size = family.data["group_size"][1]
    size = np.asarray(group_size)
    n_groups = len(family.trials)
    if size.shape != (n_groups,) or not np.issubdtype(size.dtype, np.integer) or (size < 1).any():
        raise ModelError(
            f"group_size must hold {n_groups} whole numbers from 1, one a rate of {family.rate!r}; "
            f"got {np.array2string(size, threshold=6)}"
        )
    if (family.trials > size).any():
        g = int(np.flatnonzero(family.trials > size)[0])
        raise ModelError(
            f"group {g} has {family.trials[g]} observed outcomes but {size[g]} tasks; correct "
            "group_size or the observations"
        )
    return size.astype(np.int64)
