"""Reading a PyMC model: what the production sampler needs, taken from the model's graph.

A model belongs to the family if its free variables are one latent vector and one vector of Beta
rates whose parameters depend on the latent, and its only observed variable is Bernoulli with those
rates as probabilities. Prior, link and concentration may be anything.

Legend of shapes: J nodes, K latent coordinates, G groups, n outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import support_point
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.gradient import DisconnectedInputError, pushforward
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import BernoulliRV, BetaRV
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from ..models.errors import ModelError
from .compiled import CompiledGraph, Signature, compile_once
from .kernels import LARGEST, SMALLEST
from .logistic import LogisticRates, linearise_logistic, read_logistic_rates

_FAMILY = (
    "the sampler needs one latent vector, one vector of Beta rates that depends on it, and one "
    "observed Bernoulli variable with those rates as its probabilities"
)


class Linearisation(NamedTuple):
    """The model around one latent state."""

    predictor: np.ndarray
    """Linear predictor log(alpha) - log(beta), shape (G,)."""
    offset_precision: np.ndarray
    """Precision alpha beta / (alpha + beta) of the local offset, shape (G,)."""
    jacobian: np.ndarray
    """Derivative of the predictor in z, shape (G, K)."""
    log_prior: float
    """Log prior density of z."""
    prior_gradient: np.ndarray
    """Gradient of the log prior density, shape (K,)."""
    prior_hessian: np.ndarray
    """Hessian of the log prior density, shape (K, K)."""


@dataclass(frozen=True, eq=False)
class RateFamily:
    """A PyMC model as the sampler reads it; values of its data are copied at reading time.

    Attributes
    ----------
    latent, rate : str
        Names of the latent vector and of the Beta rates.
    dims : dict of str to str
        Names of the dimensions of latent ("latent") and rates ("group").
    coords : dict of str to list
        Labels of both dimensions.
    start : numpy.ndarray, shape (K,)
        Support point of the prior, where the search for the mode starts.
    successes, trials : numpy.ndarray of int, shape (G,)
        Counts of the observed outcomes by group.
    data : dict of str to tuple
        The model's data as (dims, values).
    logistic : LogisticRates or None
        Data of the rates if they are those that `build_model` declares.
    """

    latent: str
    rate: str
    dims: dict[str, str]
    coords: dict[str, list[Any]]
    start: np.ndarray
    successes: np.ndarray
    trials: np.ndarray
    data: dict[str, tuple[tuple[str | None, ...], np.ndarray]]
    logistic: LogisticRates | None
    _evaluate: CompiledGraph = field(repr=False)
    _log_prior: CompiledGraph = field(repr=False)
    _expand_rates: CompiledGraph = field(repr=False)
    _expand_prior: CompiledGraph = field(repr=False)

    def evaluate(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evaluate the Beta parameters and the prior at many latent states.

        Parameters
        ----------
        z : numpy.ndarray, shape (J, K)
            Latent states.

        Returns
        -------
        alpha, beta : numpy.ndarray, shape (J, G)
            Beta parameters of the group rates.
        log_prior : numpy.ndarray, shape (J,)
            Log prior density.

        Raises
        ------
        ModelError
            If a Beta parameter is NaN or not positive.
        """
        alpha, beta, log_prior = self.evaluate_unchecked(z)
        wrong = ~((alpha >= 0) & (beta >= 0)).all(axis=1)
        if wrong.any():
            raise self.out_of_range(z[int(np.flatnonzero(wrong)[0])])
        return (
            np.clip(alpha, SMALLEST, LARGEST),
            np.clip(beta, SMALLEST, LARGEST),
            log_prior,
        )

    def evaluate_unchecked(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evaluate as `evaluate` does, without a look at the values.

        Parameters
        ----------
        z : numpy.ndarray, shape (J, K)
            Latent states.

        Returns
        -------
        alpha, beta : numpy.ndarray, shape (J, G)
            Beta parameters as the graph gives them: perhaps 0, infinite or NaN.
        log_prior : numpy.ndarray, shape (J,)
            Log prior density.
        """
        with np.errstate(over="ignore", divide="ignore", under="ignore"):
            alpha, beta, log_prior = self._evaluate(z)
        shape = (len(z), len(self.trials))
        return (
            np.broadcast_to(alpha, shape),
            np.broadcast_to(beta, shape),
            np.broadcast_to(log_prior, shape[:1]),
        )

    def log_prior(self, z: np.ndarray) -> np.ndarray:
        """Evaluate the log prior density.

        Parameters
        ----------
        z : numpy.ndarray, shape (J, K)
            Latent states.

        Returns
        -------
        numpy.ndarray, shape (J,)
        """
        return np.broadcast_to(self._log_prior(z)[0], len(z))

    def out_of_range(self, z: np.ndarray) -> ModelError:
        """Return the error that says where a Beta parameter is negative or NaN.

        Parameters
        ----------
        z : numpy.ndarray, shape (K,)
            The latent state.

        Returns
        -------
        ModelError
        """
        return ModelError(
            f"the Beta parameters of {self.rate!r} must be positive, but they are negative or NaN "
            f"at {self.latent} = {np.array2string(z, precision=4)}; check the link and the "
            "concentration of the model"
        )

    def linearise(self, z: np.ndarray) -> Linearisation:
        """Linearise the predictor and expand the log prior around one latent state.

        Parameters
        ----------
        z : numpy.ndarray, shape (K,)
            Latent state.

        Returns
        -------
        Linearisation

        Raises
        ------
        ModelError
            If a value or a derivative is not finite, or a Beta parameter not positive.
        """
        with np.errstate(all="ignore"):
            log_prior, gradient, hessian = self._expand_prior(z)
            if self.logistic is None:
                eta, precision, jacobian = self._expand_rates(z)
            else:
                eta, precision, jacobian = linearise_logistic(self.logistic, z)
        values = (eta, precision, jacobian, log_prior, gradient, hessian)
        if not all(np.isfinite(value).all() for value in values) or not (precision > 0).all():
            raise ModelError(
                f"the rates {self.rate!r} or the prior of {self.latent!r} have no finite value and "
                f"derivative at {self.latent} = {np.array2string(z, precision=4)}, or a Beta "
                "parameter is not positive there; check the link and the concentration"
            )
        return Linearisation(eta, precision, jacobian, float(log_prior), gradient, hessian)


def read_family(model: pm.Model) -> RateFamily:
    """Read a PyMC model of the family from its graph.

    Parameters
    ----------
    model : pymc.Model
        A model with one latent vector, Beta rates and a Bernoulli outcome; `build_model` declares
        one, and a model written by hand serves as well.

    Returns
    -------
    RateFamily

    Raises
    ------
    ModelError
        If the model lies outside the family; the message names what was found and what is needed.
    """
    latent, rate, outcome = find_variables(model)
    z, q = pt.vector("z"), pt.vector("q")
    alpha, beta, n_groups = beta_parameters(rate)
    (probability,) = outcome.owner.op.dist_params(outcome.owner)
    graph = [
        alpha,
        beta,
        pm.logp(latent, z).sum(),
        support_point(latent),
        n_groups,
        probability,
    ]
    graph = graph_replace(graph, {latent: z, rate: q}, strict=False)
    parameters = graph_replace(rate.owner.op.dist_params(rate.owner), {latent: z}, strict=False)

    def derive(
        alpha: Variable, beta: Variable, log_prior: Variable, *rest: Variable
    ) -> list[Signature]:
        start, n_groups, probability = rest
        nodes = pt.matrix("nodes")
        around = _expand(z, alpha, beta, log_prior, rate.name, latent.name)
        return [
            Signature([nodes], vectorize_graph([alpha, beta, log_prior], {z: nodes}), many=True),
            Signature([nodes], [vectorize_graph(log_prior, {z: nodes})]),
            Signature([z], around[:3]),
            Signature([z], around[3:]),
            Signature([], [start]),
            Signature([z], [n_groups]),
            Signature([q], [probability]),
        ]

    evaluate, prior, rates, around, support, count, probabilities = compile_once(
        [z, q], graph, derive
    )
    (start,) = support()
    # By its graph the number may depend on the latent vector, if on nothing but its length.
    (n_groups,) = count(np.asarray(start, dtype=float))
    index, observed = _observed_outcomes(model, rate, outcome, probabilities, int(n_groups))
    dims, coords = _dimensions(model, latent, rate, len(start), int(n_groups))
    return RateFamily(
        latent=latent.name,
        rate=rate.name,
        dims=dims,
        coords=coords,
        start=np.array(start, dtype=float),
        successes=np.bincount(index, weights=observed, minlength=int(n_groups)).astype(np.int64),
        trials=np.bincount(index, minlength=int(n_groups)),
        data={
            data.name: (
                tuple(model.named_vars_to_dims.get(data.name, ())),
                np.array(data.get_value()),
            )
            for data in model.data_vars
            if isinstance(data, SharedVariable)
        },
        logistic=read_logistic_rates(model, parameters[0], parameters[1], z, int(n_groups)),
        _evaluate=evaluate,
        _log_prior=prior,
        _expand_rates=rates,
        _expand_prior=around,
    )


def beta_parameters(
    rate: TensorVariable,
) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
    """Return the graphs of the two Beta parameters of the rates and of their number.

    Parameters
    ----------
    rate : TensorVariable, shape (G,)
        The Beta variable of a model.

    Returns
    -------
    alpha, beta : TensorVariable, shape (G,)
        As functions of the model's latent variable and data.
    n_groups : TensorVariable
        Number of groups G, which does not depend on the latent variable.
    """
    op, node = rate.owner.op, rate.owner
    parameters = op.dist_params(node)
    shape = op._infer_shape(op.size_param(node), parameters)
    # PyMC keeps constants in the smallest type that holds them; logarithms need more.
    alpha, beta = (pt.broadcast_to(value.astype("float64"), shape) for value in parameters)
    return alpha, beta, shape[0]


def find_variables(model: pm.Model) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
    """Find latent vector, rates and outcome of a model.

    Parameters
    ----------
    model : pymc.Model
        The model.

    Returns
    -------
    latent, rate, outcome : TensorVariable

    Raises
    ------
    ModelError
        If one of them is missing, there are too many, or they do not form a model of the family.
    """
    rates = [rv for rv in model.free_RVs if isinstance(rv.owner.op, BetaRV)]
    latents = [rv for rv in model.free_RVs if not isinstance(rv.owner.op, BetaRV)]
    _require_one(rates, "Beta variable")
    _require_one(latents, "latent variable")
    _require_one(model.observed_RVs, "observed variable")
    latent, rate, outcome = latents[0], rates[0], model.observed_RVs[0]
    if not isinstance(outcome.owner.op, BernoulliRV):
        raise ModelError(
            f"observed variable {outcome.name!r} has distribution {outcome.owner.op.name!r}, not "
            f"Bernoulli; {_FAMILY}"
        )
    if model.potentials:
        raise ModelError(
            f"potential {model.potentials[0].name!r} would be ignored; write it as part of the "
            f"prior of {latent.name!r}"
        )
    for variable in (latent, rate):
        if variable.ndim != 1:
            raise ModelError(
                f"{variable.name!r} must be a vector, it has {variable.ndim} dimensions"
            )
    parameters = rate.owner.op.dist_params(rate.owner)
    for parent in ancestors(parameters, blockers=[latent]):
        if parent is not latent and parent.owner and isinstance(parent.owner.op, RandomVariable):
            raise ModelError(
                f"the rates {rate.name!r} depend on a random variable besides {latent.name!r}; "
                f"{_FAMILY}"
            )
    return latent, rate, outcome


def _require_one(variables: list[TensorVariable], kind: str) -> None:
    if len(variables) != 1:
        found = ", ".join(str(variable.name) for variable in variables) or "none"
        raise ModelError(f"the model must have exactly one {kind}, found: {found}; {_FAMILY}")


def _expand(
    z: Variable, alpha: Variable, beta: Variable, log_prior: Variable, rate: str, latent: str
) -> list[Variable]:
    """Return the graphs of the fields of `Linearisation`."""
    predictor = pt.log(alpha) - pt.log(beta)
    unit = pt.vector("unit")
    try:
        gradient = pt.grad(log_prior, z)
        tangent = pushforward(predictor, z, unit)
        curvature = pushforward(gradient, z, unit, disconnected_outputs="ignore")
    except DisconnectedInputError:
        raise ModelError(
            f"the rates {rate!r} or the prior do not depend on {latent!r}; {_FAMILY}"
        ) from None
    tangents, hessian = vectorize_graph([tangent, curvature], {unit: pt.eye(z.shape[0])})
    return [predictor, alpha / (1 + alpha / beta), tangents.T, log_prior, gradient, hessian]


def _observed_outcomes(
    model: pm.Model,
    rate: TensorVariable,
    outcome: TensorVariable,
    probabilities: CompiledGraph,
    n_groups: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return group and value of each observed outcome, shape (n,) each."""
    # If the probabilities are the rates picked by index, then labels in give labels out; a second
    # evaluation at other values tells a pick from anything else.
    labels, values = np.arange(n_groups, dtype=float), np.linspace(0.2, 0.7, n_groups)
    index = np.atleast_1d(probabilities(labels)[0]).astype(int)
    picked = (index >= 0) & (index < n_groups)
    if not picked.all() or not np.array_equal(
        np.atleast_1d(probabilities(values)[0]), values[index]
    ):
        raise ModelError(
            f"the probabilities of {outcome.name!r} must be entries of {rate.name!r}, such as "
            f"{rate.name}[group]; {_FAMILY}"
        )
    variable = model.rvs_to_values[outcome]
    if isinstance(variable, SharedVariable):
        observed = variable.get_value()
    elif isinstance(variable, Constant):
        observed = variable.data
    else:
        (read,) = compile_once([], [variable], lambda value: [Signature([], [value])])
        (observed,) = read()
    observed = np.atleast_1d(observed)
    wrong = observed[~np.isin(observed, (0, 1))]
    if wrong.size:
        raise ModelError(f"observed outcomes of {outcome.name!r} must be 0 or 1, got {wrong[0]}")
    return np.broadcast_to(index, observed.shape), observed


def _dimensions(
    model: pm.Model, latent: TensorVariable, rate: TensorVariable, n_latent: int, n_groups: int
) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """Return the names and the labels of the dimensions of latent and rates."""
    dims, coords = {}, {}
    for role, variable, size in (("latent", latent, n_latent), ("group", rate, n_groups)):
        named = model.named_vars_to_dims.get(variable.name)
        dims[role] = str(named[0]) if named and named[0] else f"{variable.name}_dim_0"
        labels = model.coords.get(dims[role])
        coords[role] = list(range(size)) if labels is None else list(labels)
        if len(coords[role]) != size:
            raise ModelError(
                f"dimension {dims[role]!r} of {variable.name!r} has {len(coords[role])} labels but "
                f"length {size}; set both together with pymc.set_data(..., coords=...)"
            )
    return dims, coords
