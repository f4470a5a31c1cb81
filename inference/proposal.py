"""Proposals of the importance sampler: where the nodes lie.

The centre is the joint mode of an auxiliary logistic-normal model, in which each group's rate has
its own normal offset instead of a Beta distribution; the covariance is the inverse of that model's
Hessian with the offsets eliminated (appendix A of the paper).

Legend of shapes: J nodes, K latent coordinates, G groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit
from scipy.special import expit, gammaln, logsumexp, ndtri
from scipy.stats import chi2, qmc

from ..models.errors import DataError, SamplingError
from .family import Linearisation, RateFamily

PROPOSALS = ("gaussian", "student")
STUDENT_DOF = 5.0
_MAX_ITERATIONS = 100
_TOLERANCE = 1e-11
# Half a cell of Sobol's 30-bit grid: keeps a scrambled point off 0 and 1.
_EDGE = 2.0**-31


@dataclass(frozen=True, eq=False)
class Proposal:
    """A Gaussian or Student-t density over the latent state.

    Attributes
    ----------
    center : numpy.ndarray, shape (K,)
        Mode.
    factor : numpy.ndarray, shape (K, K)
        Scale matrix = factor @ factor.T.
    dof : float
        Degrees of freedom; infinite for the Gaussian.
    """

    center: np.ndarray
    factor: np.ndarray
    dof: float = np.inf

    @property
    def kind(self) -> str:
        """Its name in `PROPOSALS`."""
        return "gaussian" if np.isinf(self.dof) else "student"

    @property
    def covariance(self) -> np.ndarray:
        """Covariance matrix, shape (K, K)."""
        scale = 1.0 if np.isinf(self.dof) else self.dof / (self.dof - 2)
        return scale * self.factor @ self.factor.T

    def nodes(self, count: int, seed: int) -> np.ndarray:
        """Place scrambled Sobol nodes.

        Parameters
        ----------
        count : int
            Number of nodes J, a power of two.
        seed : int
            Seed of the scramble.

        Returns
        -------
        numpy.ndarray, shape (J, K)
        """
        k = len(self.center)
        if np.isinf(self.dof):
            standard = _normal_points(k, count, seed)
        else:
            points = sobol_points(k + 1, count, seed)
            mixing = chi2.ppf(points[:, k], self.dof) / self.dof
            standard = ndtri(points[:, :k]) / np.sqrt(mixing)[:, None]
        return self.center + standard @ self.factor.T

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Evaluate the log density.

        Parameters
        ----------
        z : numpy.ndarray, shape (J, K)
            Latent states.

        Returns
        -------
        numpy.ndarray, shape (J,)
        """
        k = len(self.center)
        standard = np.linalg.solve(self.factor, (z - self.center).T)
        square = (standard**2).sum(axis=0)
        log_root = np.linalg.slogdet(self.factor).logabsdet
        if np.isinf(self.dof):
            return -0.5 * (square + k * np.log(2 * np.pi)) - log_root
        constant = gammaln((self.dof + k) / 2) - gammaln(self.dof / 2)
        constant -= 0.5 * k * np.log(self.dof * np.pi) + log_root
        return constant - 0.5 * (self.dof + k) * np.log1p(square / self.dof)


def place_nodes(
    components: Sequence[Proposal], count: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Place nodes from an equal mixture of one, two, four, ... proposals.

    Parameters
    ----------
    components : sequence of Proposal
        A power of two of them; each places an equal share of the nodes.
    count : int
        Number of nodes J, a power of two.
    seed : int
        Seed of the scramble.

    Returns
    -------
    z : numpy.ndarray, shape (J, K)
        Nodes.
    log_density : numpy.ndarray, shape (J,)
        Log density of the mixture at them.
    """
    share = count // len(components)
    z = np.concatenate([component.nodes(share, seed) for component in components])
    densities = [component.log_density(z) for component in components]
    return z, logsumexp(densities, axis=0) - np.log(len(components))


@lru_cache(maxsize=8)
def sobol_points(dimensions: int, count: int, seed: int) -> np.ndarray:
    """Return scrambled Sobol points in the open unit cube.

    Parameters
    ----------
    dimensions, count : int
        Dimensions and number of points; the number is a power of two, since only whole blocks keep
        the sequence balanced.
    seed : int
        Seed of the scramble.

    Returns
    -------
    numpy.ndarray, shape (count, dimensions)
        Read-only, since it is cached.

    Raises
    ------
    DataError
        If `count` is not a power of two from 2 to 2**24.
    """
    require_nodes(count)
    engine = qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(seed))
    points = np.clip(engine.random_base2(int(count).bit_length() - 1), _EDGE, 1 - _EDGE)
    points.flags.writeable = False
    return points


@lru_cache(maxsize=8)
def _normal_points(dimensions: int, count: int, seed: int) -> np.ndarray:
    """Return `sobol_points` through the inverse normal distribution function; read-only."""
    points = ndtri(sobol_points(dimensions, count, seed))
    points.flags.writeable = False
    return points


def require_nodes(count: int) -> None:
    """Check a number of nodes.

    Parameters
    ----------
    count : int
        Number of nodes.

    Raises
    ------
    DataError
        If it is not a power of two from 2 to 2**24.
    """
    exponent = int(count).bit_length() - 1
    if count != 2**exponent or not 1 <= exponent <= 24:
        nearest = 2 ** min(24, max(1, int(max(count, 1)).bit_length()))
        raise DataError(
            f"nodes must be a power of two from 2 to 2**24 (a Sobol sequence is balanced only "
            f"there), got {count}; use {nearest}"
        )


def gaussian_proposal(
    family: RateFamily, successes: np.ndarray, trials: np.ndarray, size: np.ndarray
) -> Proposal:
    """Build the Gaussian proposal of the paper for given counts.

    Parameters
    ----------
    family : RateFamily
        The model.
    successes, trials, size : numpy.ndarray of int, shape (G,)
        Observed successes, observed outcomes and tasks of each group.

    Returns
    -------
    Proposal

    Raises
    ------
    SamplingError
        If the mode is not found.
    """
    center, around, precision = _find_mode(family, successes, trials)
    return Proposal(center, _oriented_factor(np.linalg.inv(precision), around, size))


def scout_proposal(family: RateFamily, base: Proposal, size: np.ndarray) -> Proposal:
    """Build a wide Student-t that reaches from the prior to the Gaussian proposal and beyond.

    Parameters
    ----------
    family : RateFamily
        The model.
    base : Proposal
        The Gaussian proposal.
    size : numpy.ndarray of int, shape (G,)
        Tasks of each group.

    Returns
    -------
    Proposal
        Centred on the base; its scale is the prior's plus the way between the two.
    """
    at_prior = family.linearise(family.start)
    prior = np.linalg.inv(_positive_definite(-at_prior.prior_hessian))
    way = base.center - family.start
    scale = prior + np.outer(way, way)
    around = family.linearise(base.center)
    return Proposal(base.center, _oriented_factor(scale, around, size), STUDENT_DOF)


def student_proposal(
    family: RateFamily, z: np.ndarray, weight: np.ndarray, size: np.ndarray
) -> Proposal:
    """Match a Student-t proposal to the moments of weighted nodes.

    Its tails are heavier than those of any posterior with a Gaussian prior, so the weights are
    bounded.

    Parameters
    ----------
    family : RateFamily
        The model.
    z : numpy.ndarray, shape (J, K)
        Nodes.
    weight : numpy.ndarray, shape (J,)
        Their normalised weights.
    size : numpy.ndarray of int, shape (G,)
        Tasks of each group.

    Returns
    -------
    Proposal
        Where few nodes carry the weight, their covariance is too narrow and is widened.
    """
    center = weight @ z
    covariance = (weight[:, None] * (z - center)).T @ (z - center)
    effective = 1 / (weight**2).sum()
    spread = 1 + len(center) * 10 / effective
    scale = _positive_definite(covariance * spread * (STUDENT_DOF - 2) / STUDENT_DOF)
    return Proposal(center, _oriented_factor(scale, family.linearise(center), size), STUDENT_DOF)


def _find_mode(
    family: RateFamily, successes: np.ndarray, trials: np.ndarray
) -> tuple[np.ndarray, Linearisation, np.ndarray]:
    """Return the mode of the auxiliary model, the model around it and its Schur complement.

    Newton's method on the offsets' profile; starts at the prior's support point, so the result
    depends on the counts alone and not on the order in which they came.
    """
    active = trials > 0
    s, n = successes[active], trials[active]
    z, around = family.start, family.linearise(family.start)
    value, gradient, precision = _profile(around, s, n, active)
    for _ in range(_MAX_ITERATIONS):
        step = np.linalg.solve(precision, gradient)
        if not np.isfinite(step).all():
            break
        # The decrement is the height still to gain, in nats.
        if gradient @ step < _TOLERANCE:
            return z, around, precision
        for halvings in range(40):
            trial = z + step * 0.5**halvings
            trial_around = family.linearise(trial)
            trial_value, trial_gradient, trial_precision = _profile(trial_around, s, n, active)
            if trial_value >= value:
                break
        else:
            # No step gains anything that double precision can tell: this is the mode.
            return z, around, precision
        z, around = trial, trial_around
        value, gradient, precision = trial_value, trial_gradient, trial_precision
    raise SamplingError(
        f"the mode of the auxiliary model was not found in {_MAX_ITERATIONS} Newton steps (last "
        f"{family.latent} = {np.array2string(z, precision=4)}); check the model's prior and link"
    )


def _profile(
    around: Linearisation, s: np.ndarray, n: np.ndarray, active: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return height, gradient and negative Hessian in z with the offsets at their best."""
    eta, kappa = around.predictor[active], around.offset_precision[active]
    jacobian = around.jacobian[active]
    offset = _best_offset(eta, kappa, s, n)
    eta_hat = eta + offset
    p = expit(eta_hat)
    weight = n * p * (1 - p)
    height = (s * eta_hat - n * np.logaddexp(0, eta_hat) - 0.5 * kappa * offset**2).sum()
    # At the best offset this score equals kappa * offset, which loses its digits for large kappa.
    gradient = around.prior_gradient + jacobian.T @ (s - n * p)
    shrunk = weight * kappa / (weight + kappa)
    precision = (jacobian * shrunk[:, None]).T @ jacobian - around.prior_hessian
    return around.log_prior + height, gradient, _positive_definite(precision)


@njit(cache=True)
def _best_offset(eta: np.ndarray, kappa: np.ndarray, s: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Maximise s log p + (n - s) log(1 - p) - kappa offset^2 / 2 for each group, shape (G',).

    The derivative falls in the offset, so its root stays bracketed. Newton's step is taken where it
    lies in the bracket and is at most half the step before (else it may cycle between the ends of a
    saturated logistic), and the bracket is halved where not.
    """
    offset = np.empty(len(eta))
    for g in range(len(eta)):
        low, high = -(n[g] - s[g]) / kappa[g], s[g] / kappa[g]
        x, last = 0.0, high - low
        for _ in range(200):
            odds = np.exp(-abs(eta[g] + x))
            p = (1.0 if eta[g] + x >= 0 else odds) / (1 + odds)
            slope = s[g] - n[g] * p - kappa[g] * x
            if slope > 0:
                low = x
            elif slope < 0:
                high = x
            step = slope / (n[g] * odds / (1 + odds) ** 2 + kappa[g])
            update = x + step
            if not (low <= update <= high and abs(step) <= 0.5 * last):
                update = 0.5 * (low + high)
            last = abs(update - x)
            x = update
            if last <= 1e-13 * (1 + abs(x)):
                break
        offset[g] = x
    return offset


def _positive_definite(matrix: np.ndarray) -> np.ndarray:
    """Return the matrix, with negative curvature (a long-tailed prior has some) made positive."""
    values, vectors = np.linalg.eigh(matrix)
    floor = 1e-8 * max(1.0, float(np.abs(values).max(initial=0.0)))
    if values.min(initial=np.inf) > floor:
        return matrix
    return (vectors * np.maximum(np.abs(values), floor)) @ vectors.T


def _oriented_factor(scale: np.ndarray, around: Linearisation, size: np.ndarray) -> np.ndarray:
    """Return a square root of a scale matrix whose columns are ordered by what they move.

    The first column moves the tasks' predictors most, in the score's own weights, and all point
    towards a higher score. So the best-spread Sobol dimensions serve the directions that matter,
    and the nodes do not depend on order or signs of the factors.
    """
    p = expit(around.predictor)
    weight = size * p * (1 - p)
    root = np.linalg.cholesky(scale)
    loading = around.jacobian @ root
    _, rotation = np.linalg.eigh((loading * weight[:, None]).T @ loading)
    rotation = rotation[:, ::-1]
    uphill = (weight @ loading) @ rotation
    return root @ (rotation * np.where(uphill < 0, -1.0, 1.0))
