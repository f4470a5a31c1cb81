"""The marginal form of a model: the latent vector alone, group rates integrated out.

A group's rate is Beta given the latent state, so the probability of its ordered outcomes has a
closed form: each outcome is drawn from Pólya's urn, with probability (own + i) / (alpha + beta + k)
after k outcomes of the group of which i were of its own kind (own = alpha for a success, beta for a
failure). In logarithms,

    log1p(i / own) - log1p(other / own) - log1p(k / (alpha + beta)),

summed over the outcomes: rising factorials, no difference of gamma functions, so it keeps its
accuracy where PyMC's Beta density loses it. Rates are drawn exactly from Beta(A, F) afterwards.

Legend of shapes: K latent coordinates, G groups, n outcomes.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.model.fgraph import ModelNamed, clone_model, fgraph_from_model, model_from_fgraph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from ..models.errors import ModelError
from .family import beta_parameters, find_variables, read_family

LIKELIHOOD = "log_likelihood"


def marginal_model(model: pm.Model) -> pm.Model:
    """Integrate the group rates out of a model.

    Parameters
    ----------
    model : pymc.Model
        A model of the family: one latent vector, Beta rates that depend on it, a Bernoulli outcome.
        It is left as it is.

    Returns
    -------
    pymc.Model
        The same latent vector with the same prior, the data and deterministics that depend on
        nothing else, and the log probability of the ordered outcomes as a potential. Prior, link
        and concentration are the graphs of `model`, copied; the outcomes are those that it holds
        now. Density and gradient are finite and accurate as long as alpha / beta is a number that
        double precision holds (a predictor within 700 of zero, for the declared model).

    Raises
    ------
    ModelError
        If the model lies outside the family, or has start values of its own or a parent model.
    """
    family = read_family(model)
    try:
        clone = clone_model(model)
    except (NotImplementedError, ValueError) as error:
        raise ModelError(
            f"the model cannot be copied ({error}); declare it without initial values and outside "
            "of other models"
        ) from None
    _, rate, _ = find_variables(clone)
    alpha, beta, _ = beta_parameters(rate)
    outcomes = _ordered_outcomes(family.successes, family.trials)
    with clone:
        pm.Potential(_free_name(clone), _log_likelihood(alpha, beta, *outcomes))
    return _without(clone, rate)


def _ordered_outcomes(
    successes: np.ndarray, trials: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Order the outcomes of each group, successes first: any order has the same probability.

    Returns group, whether it is a success, earlier outcomes of its own kind in its group, and
    earlier outcomes of any kind; shape (n,) each.
    """
    group = np.repeat(np.arange(len(trials)), trials)
    before = np.arange(len(group)) - np.repeat(np.cumsum(trials) - trials, trials)
    solved = before < successes[group]
    own = np.where(solved, before, before - successes[group])
    return group, solved, own.astype(float), before.astype(float)


def _log_likelihood(
    alpha: TensorVariable,
    beta: TensorVariable,
    group: np.ndarray,
    solved: np.ndarray,
    own_before: np.ndarray,
    before: np.ndarray,
) -> TensorVariable:
    """Return the graph of the log probability of the ordered outcomes."""
    # Shared variables, so that models with other outcomes compile to the same code.
    index, success, same, all_kinds = (
        pytensor.shared(values) for values in (group, solved, own_before, before)
    )
    a, b = alpha[index], beta[index]
    own, other = pt.switch(success, a, b), pt.switch(success, b, a)
    terms = pt.log1p(same / own) - pt.log1p(other / own) - pt.log1p(all_kinds / (a + b))
    return terms.sum()


def _free_name(model: pm.Model) -> str:
    """Return a name for the likelihood that the model does not use yet."""
    name = LIKELIHOOD
    while name in model.named_vars or name in model.coords:
        name += "_"
    return name


def _without(model: pm.Model, rate: TensorVariable) -> pm.Model:
    """Return the model without the rates and what depends on them; without idle data too."""
    graph, memo = fgraph_from_model(model)
    gone = memo[rate]
    variables = [v for v in graph.outputs if not isinstance(v.owner.op, ModelNamed)]
    kept = [variable for variable in variables if gone not in ancestors([variable])]
    used = set(ancestors(kept))
    # A data variable is a label beside the graph; its values are what the graph holds.
    kept += [v for v in graph.outputs if v not in variables and v.owner.inputs[0] in used]
    for variable in list(graph.outputs):
        if variable not in kept:
            graph.remove_node(variable.owner)
    return model_from_fgraph(graph, mutate_fgraph=True)
