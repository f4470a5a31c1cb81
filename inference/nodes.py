"""The weighted nodes: all arrays of a posterior, as the sampler works on them.

Legend of shapes: J nodes, K latent coordinates, G groups.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from .diagnostics import normalised_weights


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

    @classmethod
    def empty(
        cls, size: np.ndarray, successes: np.ndarray, trials: np.ndarray, nodes: int, n_latent: int
    ) -> WeightedNodes:
        """Allocate the arrays of the nodes for given counts.

        Parameters
        ----------
        size, successes, trials : numpy.ndarray of int, shape (G,)
            Counts; copied.
        nodes, n_latent : int
            J and K.

        Returns
        -------
        WeightedNodes
        """
        by_group = (len(size), nodes)
        return cls(
            size=size.copy(),
            successes=successes.copy(),
            trials=trials.copy(),
            z=np.empty((nodes, n_latent)),
            log_weight=np.empty(nodes),
            mean_score=np.empty(nodes),
            rate_alpha=np.empty(by_group),
            rate_beta=np.empty(by_group),
            mean_rate=np.empty(by_group),
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
        return WeightedNodes(**{f.name: getattr(self, f.name).copy() for f in fields(self)})
