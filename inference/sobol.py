"""The production posterior: importance sampling on scrambled Sobol nodes.

Legend of shapes: J nodes, K latent coordinates, G groups.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from numbers import Integral

import numpy as np
import pymc as pm
import xarray as xr

from ..models.errors import DataError, ModelError, SamplingError
from .diagnostics import effective_sample_size
from .family import RateFamily, read_family
from .logistic import fill_parameters
from .nodes import WeightedNodes, evaluate_nodes, validated_group_size
from .proposal import (
    PROPOSALS,
    Proposal,
    gaussian_proposal,
    place_nodes,
    require_nodes,
    scout_proposal,
    student_proposal,
)
from .trees import posterior_tree, working_tree

NODES = 8192
SEED = 20261005
REFRESH_EVERY = 8
# How often a Student-t proposal is matched anew while it serves a quarter of the nodes or fewer.
_MATCHES = 4


class SobolSampler:
    """Posterior of latent state, group rates and score, updated outcome by outcome.

    Parameters
    ----------
    model : pymc.Model
        A model of the family: one latent vector, Beta rates that depend on it, a Bernoulli outcome.
        Prior, link and concentration are read from its graph. Outcomes that it holds are observed.
    group_size : sequence of int, shape (G,), default None
        Tasks in each group; None reads the model's data named ``group_size``.
    nodes : int, default 8192
        Number of nodes J, a power of two.
    seed : int, default 20261005
        Seed of the scramble.
    proposal : {"gaussian", "student"}, default "gaussian"
        The paper's Gaussian, or a Student-t with five degrees of freedom matched to the posterior's
        moments: twice the work, bounded weights, for posteriors with long tails.
    refresh_every : int, default 8
        Outcomes after which the nodes are placed anew; in between, each outcome reweights them.
    compact : bool, default False
        Whether to halve the memory traffic, for the thousands of runs of a selection: mean rates
        are rounded to single precision (6e-8 of their value, far below the sampler's own error),
        and the Beta parameters of unqueried groups of one task, which nothing needs, are not kept.
        Where two groups' gains are equal to that precision, another one may be queried.
        Only for models with the rates that `build_model` declares; without `posterior`.

    Raises
    ------
    ModelError
        If the model lies outside the family, or the group sizes do not fit it.
    DataError
        If a setting is outside its range.
    SamplingError
        If no node has a positive weight.

    Notes
    -----
    Sections 3.3, 3.6 and appendix A of the paper.
    """

    family: RateFamily
    arrays: WeightedNodes
    proposal: Proposal
    seed: int
    refresh_every: int
    _proposal_kind: str
    _since_refresh: int

    def __init__(
        self,
        model: pm.Model,
        *,
        group_size: Sequence[int] | np.ndarray | None = None,
        nodes: int = NODES,
        seed: int = SEED,
        proposal: str = "gaussian",
        refresh_every: int = REFRESH_EVERY,
        compact: bool = False,
    ) -> None:
        if proposal not in PROPOSALS:
            raise DataError(f"proposal must be one of {', '.join(PROPOSALS)}, got {proposal!r}")
        if not isinstance(refresh_every, Integral) or refresh_every < 1:
            raise DataError(f"refresh_every must be a whole number from 1, got {refresh_every!r}")
        self.family = read_family(model)
        self.seed = seed
        self.refresh_every = refresh_every
        self._proposal_kind = proposal
        require_nodes(nodes)
        if compact and self.family.logistic is None:
            raise ModelError(
                f"compact=True needs the rates that build_model declares, but {self.family.rate!r} "
                "has other Beta parameters; leave compact out"
            )
        self.arrays = WeightedNodes.empty(
            validated_group_size(self.family, group_size),
            self.family.successes,
            self.family.trials,
            np.empty((nodes, len(self.family.start))),
            compact=compact,
        )
        self.refresh()

    @property
    def ess(self) -> float:
        """Effective sample size of the weights."""
        return effective_sample_size(self.arrays.weight)

    def refresh(self) -> None:
        """Place the nodes anew for the present counts and weight them.

        Raises
        ------
        SamplingError
            If the proposal's mode is not found, or no node has a positive weight.
        """
        arrays, family = self.arrays, self.family
        self.proposal = gaussian_proposal(family, arrays.successes, arrays.trials, arrays.size)
        if self._proposal_kind == "gaussian":
            self._place(self.proposal)
        else:
            self._place(self.proposal, scout_proposal(family, self.proposal, arrays.size))
            for _ in range(_MATCHES):
                self.proposal = student_proposal(family, arrays.z, arrays.weight, arrays.size)
                self._place(self.proposal)
                if self.ess > len(arrays.log_weight) / 4:
                    break
        self._since_refresh = 0

    def update(self, group: int, outcome: int) -> None:
        """Condition on one more outcome.

        The weights are multiplied by the outcome's predictive probability at each node and the
        group's Beta parameters grow by one; every eighth outcome then refreshes the nodes.

        Parameters
        ----------
        group : int
            Index of the group.
        outcome : {0, 1}
            Whether the task was solved.

        Raises
        ------
        DataError
            If the group has no unqueried task, or the outcome is neither 0 nor 1.
        """
        arrays = self.arrays
        if not 0 <= group < len(arrays.size):
            raise DataError(f"group must be from 0 to {len(arrays.size) - 1}, got {group!r}")
        if outcome not in (0, 1):
            raise DataError(f"outcome must be 0 or 1, got {outcome!r}")
        if arrays.trials[group] >= arrays.size[group]:
            raise DataError(
                f"group {group} has no unqueried task: all {arrays.size[group]} have an outcome"
            )
        arrays.successes[group] += int(outcome)
        arrays.trials[group] += 1
        self._since_refresh += 1
        # Also before a refresh: should that fail, the posterior still knows this outcome.
        self._reweight(group, int(outcome))
        if self._since_refresh >= self.refresh_every:
            self.refresh()

    def copy(self) -> SobolSampler:
        """Return a sampler that can be updated without touching this one.

        Returns
        -------
        SobolSampler
        """
        other = copy.copy(self)
        other.arrays = self.arrays.copy()
        return other

    def state(self) -> xr.DataTree:
        """Return the present posterior as views on the working arrays.

        Returns
        -------
        xarray.DataTree
            Groups ``importance``, ``observed_data`` and ``constant_data``; the next update changes
            it. Use :meth:`posterior` for a tree to keep.
        """
        return working_tree(self.family, self.arrays)

    def posterior(self, *, draws: int = 2000, seed: int = SEED) -> xr.DataTree:
        """Return the present posterior as a tree that stays as it is.

        Parameters
        ----------
        draws : int, default 2000
            Equally weighted draws of the groups ``posterior`` and ``posterior_predictive``.
        seed : int, default 20261005
            Seed of the resampling and of the draws.

        Returns
        -------
        xarray.DataTree
            Groups ``posterior``, ``posterior_predictive``, ``importance``, ``observed_data`` and
            ``constant_data``.

        Raises
        ------
        SamplingError
            If the sampler is compact and does not hold them.
        """
        if self.arrays.compact:
            raise SamplingError(
                "a compact sampler keeps too little for a posterior tree; make one without compact"
            )
        return posterior_tree(
            self.family,
            self.arrays,
            self.proposal,
            draws=draws,
            seed=seed,
            sobol_seed=self.seed,
        )

    def _place(self, *components: Proposal) -> None:
        """Evaluate the model at the nodes of a mixture and weight them (equation 20)."""
        arrays = self.arrays
        nodes = len(arrays.log_weight)
        arrays.z[:], log_density = place_nodes(components, nodes, self.seed)
        evaluate_nodes(self.family, arrays)
        arrays.log_weight[:] -= log_density
        if np.isnan(arrays.log_weight).any() or not np.isfinite(arrays.log_weight.max()):
            center = np.array2string(components[0].center, precision=4)
            raise SamplingError(
                f"the importance weights of {self.family.latent!r} are NaN, infinite or all zero: "
                f"the prior has no density around {center}; use a prior with support on the whole "
                "line"
            )

    def _reweight(self, group: int, outcome: int) -> None:
        """Condition the nodes, as they lie, on an outcome that is already counted."""
        arrays = self.arrays
        alpha, beta = arrays.rate_alpha[group], arrays.rate_beta[group]
        if arrays.compact and arrays.size[group] == 1:
            rates = self.family.logistic
            assert rates is not None
            eta = rates.intercept[group] + arrays.z @ rates.loading[group]
            fill_parameters(eta, rates.kappa, alpha, beta)
        mean = arrays.mean_rate[group]
        # log of alpha / (alpha + beta) or its complement, without cancellation near 0 and 1.
        arrays.log_weight[:] -= np.log1p(beta / alpha if outcome else alpha / beta)
        left = arrays.size[group] - arrays.trials[group]
        before = (left + 1) * (alpha / (alpha + beta) if arrays.compact else mean)
        (alpha if outcome else beta)[:] += 1
        after = alpha / (alpha + beta)
        mean[:] = after
        arrays.mean_score[:] += (outcome + left * after - before) / arrays.size.sum()
