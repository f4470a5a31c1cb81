"""Quadrature: the posterior on a dense grid of latent states, for one or two coordinates.

A third route beside importance sampling and NUTS, exact up to the grid: for checks and teaching. It
reads the same declaration as the sampler.

Legend of shapes: J grid points, K latent coordinates, G groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import pymc as pm

from ..models.errors import DataError, ModelError, SamplingError
from .family import RateFamily, read_family
from .kernels import conditional_variance
from .nodes import WeightedNodes, evaluate_nodes, validated_group_size
from .proposal import gaussian_proposal, scout_proposal

MAX_DIMENSIONS = 2
_BLOCK = 512
# Posterior mass in the outermost cells above which the grid cuts the posterior off.
_EDGE_MASS = 1e-9


@dataclass(frozen=True, eq=False)
class QuadraturePosterior:
    """Posterior moments on a grid.

    Attributes
    ----------
    mean, sd : float
        Mean and standard deviation of the score S.
    z_mean, z_sd : numpy.ndarray, shape (K,)
        Mean and standard deviation of the latent state.
    rate_mean : numpy.ndarray, shape (G,)
        Posterior means of the group rates.
    log_evidence : float
        Log marginal likelihood of the ordered outcomes.
    z : numpy.ndarray, shape (J, K)
        Grid.
    weight : numpy.ndarray, shape (J,)
        Posterior mass of each grid point.
    edge_mass : float
        Posterior mass on the rim of the grid, which bounds what the grid cuts off.
    """

    mean: float
    sd: float
    z_mean: np.ndarray
    z_sd: np.ndarray
    rate_mean: np.ndarray
    log_evidence: float
    z: np.ndarray
    weight: np.ndarray
    edge_mass: float


def integrate(
    model: pm.Model,
    *,
    group_size: Sequence[int] | np.ndarray | None = None,
    points: int | None = None,
    half_width: float = 12.0,
) -> QuadraturePosterior:
    """Integrate the posterior of a model with one or two latent coordinates on a grid.

    Parameters
    ----------
    model : pymc.Model
        A model of the family that `SobolSampler` reads; outcomes that it holds are observed.
    group_size : sequence of int, shape (G,), default None
        Tasks in each group; None reads the model's data named ``group_size``.
    points : int, default None
        Grid points in each coordinate; None means 4,001 for one coordinate and 401 for two.
    half_width : float, default 12.0
        Half the grid's width, in standard deviations of the widest coordinate.

    Returns
    -------
    QuadraturePosterior

    Raises
    ------
    ModelError
        If the model lies outside the family or has more than two latent coordinates.
    DataError
        If `points` or `half_width` is out of range.
    SamplingError
        If the grid cuts off more than 1e-9 of the posterior: widen it.

    Notes
    -----
    The trapezoid rule on an equidistant grid that follows the Gaussian proposal's axes: for smooth
    densities that vanish at the rim its error falls faster than any power of the spacing.
    """
    family = read_family(model)
    n_latent = len(family.start)
    if n_latent > MAX_DIMENSIONS:
        raise ModelError(
            f"quadrature takes at most {MAX_DIMENSIONS} latent coordinates, {family.latent!r} has "
            f"{n_latent}; use SobolSampler or sample_nuts"
        )
    points = (4001 if n_latent == 1 else 401) if points is None else points
    if not isinstance(points, Integral) or points < 3:
        raise DataError(f"points must be a whole number from 3, got {points!r}; try 401")
    if not isinstance(half_width, Real) or not 0 < half_width < np.inf:
        raise DataError(f"half_width must be a positive number, got {half_width!r}; try 12.0")
    size = validated_group_size(family, group_size)
    z, rim, log_cell = _grid(family, size, int(points), float(half_width))
    log_joint, mean_score = np.empty(len(z)), np.empty(len(z))
    within, rates = [], []
    for first in range(0, len(z), _BLOCK):
        block = slice(first, first + _BLOCK)
        part = WeightedNodes.empty(size, family.successes, family.trials, z[block])
        evaluate_nodes(family, part)
        log_joint[block], mean_score[block] = part.log_weight, part.mean_score
        # Sums over the block relative to its largest density; put on one scale at the end.
        mass = np.exp(part.log_weight - part.log_weight.max())
        moments = (part.mean_rate, part.rate_alpha, part.rate_beta, part.unqueried)
        within.append(mass @ conditional_variance(*moments))
        rates.append(part.mean_rate @ mass)
    top = log_joint.max()
    mass = np.exp(log_joint - top)
    weight = mass / mass.sum()
    edge_mass = float(weight[rim].sum())
    if not edge_mass < _EDGE_MASS:
        raise SamplingError(
            f"the grid cuts the posterior off: {edge_mass:.1e} of it lies on the rim; raise "
            f"half_width above {half_width:g}"
        )
    tops = np.maximum.reduceat(log_joint, np.arange(0, len(z), _BLOCK))
    scale = np.exp(tops - top) / mass.sum()
    mean = float(weight @ mean_score)
    variance = weight @ (mean_score - mean) ** 2 + scale @ np.array(within) / size.sum() ** 2
    z_mean = weight @ z
    return QuadraturePosterior(
        mean=mean,
        sd=float(np.sqrt(variance)),
        z_mean=z_mean,
        z_sd=np.sqrt(weight @ (z - z_mean) ** 2),
        rate_mean=scale @ np.array(rates),
        log_evidence=float(top + np.log(mass.sum()) + log_cell),
        z=z,
        weight=weight,
        edge_mass=edge_mass,
    )


def _grid(
    family: RateFamily, size: np.ndarray, points: int, half_width: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return grid points (J, K), which of them are on the rim, and the log volume of a cell."""
    gaussian = gaussian_proposal(family, family.successes, family.trials, size)
    # At least as wide as the prior in each direction, and reaches to the prior.
    wide = scout_proposal(family, gaussian, size)
    axis = np.linspace(-half_width, half_width, points)
    mesh = np.meshgrid(*[axis] * len(gaussian.center), indexing="ij")
    standard = np.stack([part.ravel() for part in mesh], axis=1)
    rim = (np.abs(standard) == half_width).any(axis=1)
    log_cell = np.linalg.slogdet(wide.factor).logabsdet + len(gaussian.center) * np.log(
        axis[1] - axis[0]
    )
    return gaussian.center + standard @ wide.factor.T, rim, float(log_cell)
