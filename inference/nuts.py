"""NUTS, the independent check: the same declaration, sampled by PyMC.

The marginal form samples the latent vector alone and draws rates and outcomes exactly given it; the
full form samples the rates as declared, through PyMC's Beta density.

Legend of shapes: K latent coordinates, G groups, C chains, D draws.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from numbers import Integral, Real
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from ..models.errors import DataError, SamplingError, SamplingWarning
from .chains import chain_tree
from .family import RateFamily, read_family
from .marginal import marginal_model
from .nodes import validated_group_size

FORMS = ("marginal", "full")
SAMPLERS = ("nutpie", "pymc")
# Error of PyMC's Beta density, in nats, above which the full form is not to be trusted.
DENSITY_TOLERANCE = 1e-3
_REMEDY = {
    "marginal": "check the model's prior, or use the other nuts_sampler",
    "full": "use form='marginal', which does without PyMC's density of the rates",
}
# Draws turned into rates at a time.
_BLOCK = 1024


def sample_nuts(
    model: pm.Model,
    *,
    group_size: Sequence[int] | np.ndarray | None = None,
    form: str = "marginal",
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    cores: int = 1,
    random_seed: int | None = None,
    progressbar: bool = False,
    nuts_sampler: str | None = None,
    target_accept: float = 0.9,
) -> xr.DataTree:
    """Sample the posterior of a model by NUTS, and the score by posterior predictive draws.

    Parameters
    ----------
    model : pymc.Model
        A model of the family that `SobolSampler` reads; outcomes that it holds are observed.
    group_size : sequence of int, shape (G,), default None
        Tasks in each group; None reads the model's data named ``group_size``.
    form : {"marginal", "full"}, default "marginal"
        Sample the latent vector with the rates integrated out (`marginal_model`) and draw the rates
        from their exact Beta distribution afterwards, or sample both as declared; with hundreds of
        groups the latter needs many more draws for the same accuracy.
    draws, tune : int, default 1000
        Draws D kept of each chain, and draws before them that tune the sampler.
    chains : int, default 4
        Chains C.
    cores : int, default 1
        Chains that run at the same time; nutpie runs them in threads, PyMC in processes, for which
        a script needs ``if __name__ == "__main__"``. The draws do not depend on it.
    random_seed : int, default None
        Seed of chains and predictive draws; None picks one. It is recorded.
    progressbar : bool, default False
        Whether PyMC shows its progress and its messages.
    nuts_sampler : {"nutpie", "pymc"}, default None
        Implementation; None leaves the choice to PyMC, which takes nutpie if it is installed.
    target_accept : float, default 0.9
        Acceptance rate that the step size is tuned to.

    Returns
    -------
    xarray.DataTree
        Groups and variables as of `SobolSampler.posterior`, with ``sample_stats`` in place of
        ``importance``. Its attributes: sampler, sampler_version, form, divergences, random_seed,
        tune, target_accept, sampling_time, and for the full form density_error, the estimated
        rounding error of PyMC's Beta density in nats at the worst draw.

    Raises
    ------
    ModelError
        If the model lies outside the family, or the group sizes do not fit it.
    DataError
        If a setting is outside its range.
    SamplingError
        If the sampler finds no start or fails.

    Warns
    -----
    SamplingWarning
        If draws diverged, or the full form meets concentrations at which PyMC's Beta density is
        inaccurate.
    """
    _validate(form, draws, tune, chains, cores, random_seed, nuts_sampler, target_accept)
    family = read_family(model)
    size = validated_group_size(family, group_size)
    if random_seed is None:
        random_seed = int(np.random.default_rng().integers(2**31))
    names = [family.latent] if form == "marginal" else [family.latent, family.rate]
    run = _run(
        marginal_model(model) if form == "marginal" else model,
        names,
        _REMEDY[form],
        draws=int(draws),
        tune=int(tune),
        chains=int(chains),
        cores=int(cores),
        random_seed=int(random_seed),
        progressbar=progressbar,
        quiet=not progressbar,
        nuts_sampler=nuts_sampler,
        nuts={"target_accept": float(target_accept)},
        compute_convergence_checks=progressbar,
    )
    samples = run["posterior"].dataset
    z = samples[family.latent].values
    sampled_rate = samples[family.rate].values if form == "full" else None
    # Apart from the generator of the chains.
    rng = np.random.default_rng([int(random_seed), 1])
    prior_rate, rate, unqueried, error = _predict(family, z, sampled_rate, size, rng)
    divergences = int(run["sample_stats"]["diverging"].sum())
    attributes: dict[str, Any] = {
        "sampler": str(samples.attrs["inference_library"]),
        "sampler_version": str(samples.attrs["inference_library_version"]),
        "form": form,
        "divergences": divergences,
        "random_seed": int(random_seed),
        "tune": int(tune),
        "target_accept": float(target_accept),
        "sampling_time": float(samples.attrs["sampling_time"]),
    }
    if form == "full":
        attributes["density_error"] = error
    _warn(divergences, z.shape[0] * z.shape[1], error if form == "full" else 0.0)
    return chain_tree(
        family,
        z=z,
        prior_rate=prior_rate,
        rate=rate,
        unqueried=unqueried,
        size=size,
        stats=run["sample_stats"].dataset,
        attributes=attributes,
    )


def _run(model: pm.Model, names: list[str], remedy: str, **settings: Any) -> xr.DataTree:
    try:
        return pm.sample(model=model, var_names=names, **settings)
    except RuntimeError as error:  # PyMC's SamplingError is one too
        reason = " ".join(str(error).split())[:200]
        raise SamplingError(f"NUTS failed ({type(error).__name__}: {reason}); {remedy}") from error


def _predict(
    family: RateFamily,
    z: np.ndarray,
    sampled_rate: np.ndarray | None,
    size: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Draw rates, unless they were sampled, and the successes among the unqueried tasks.

    Returns p, q and the successes, shape (C, D, G) each, and the largest error of PyMC's density.
    """
    states = z.reshape(-1, z.shape[-1])
    by_group = (*z.shape[:2], len(size))
    prior_rate = np.empty((len(states), len(size)))
    rate = (
        np.empty_like(prior_rate) if sampled_rate is None else sampled_rate.reshape(-1, len(size))
    )
    concentration = 0.0
    for first in range(0, len(states), _BLOCK):
        block = slice(first, first + _BLOCK)
        alpha, beta, _ = family.evaluate(states[block])
        prior_rate[block] = alpha / (alpha + beta)
        concentration = max(concentration, float((alpha + beta).max(initial=0.0)))
        if sampled_rate is None:
            failures = family.trials - family.successes
            rate[block] = rng.beta(alpha + family.successes, beta + failures)
    unqueried = rng.binomial(size - family.trials, rate)
    error = density_error(concentration)
    return prior_rate.reshape(by_group), rate.reshape(by_group), unqueried.reshape(by_group), error


def density_error(concentration: float) -> float:
    """Estimate the rounding error of PyMC's Beta density.

    Parameters
    ----------
    concentration : float
        Sum c of the two Beta parameters.

    Returns
    -------
    float
        In nats. The density is a difference of gamma functions, whose logarithms are of the size c
        log c; measured against mpmath for c from 1e2 to 1e15, its error is that times the precision
        of a float, within a factor of five.
    """
    return float(np.finfo(float).eps) * concentration * math.log(max(concentration, 1.0))


def _warn(divergences: int, draws: int, density_error: float) -> None:
    if density_error > DENSITY_TOLERANCE:
        warnings.warn(
            "PyMC's Beta density is inaccurate at the concentrations that this posterior visits: "
            f"its rounding error reaches about {density_error:.1g} nats; use form='marginal', "
            "which does not need it",
            SamplingWarning,
            stacklevel=3,
        )
    if divergences:
        warnings.warn(
            f"{divergences} of {draws} draws diverged, so the chains may miss a part of the "
            "posterior; raise target_accept or use form='marginal'",
            SamplingWarning,
            stacklevel=3,
        )


def _validate(
    form: str,
    draws: int,
    tune: int,
    chains: int,
    cores: int,
    random_seed: int | None,
    nuts_sampler: str | None,
    target_accept: float,
) -> None:
    if form not in FORMS:
        raise DataError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    least = {"draws": (draws, 4), "tune": (tune, 1), "chains": (chains, 1), "cores": (cores, 1)}
    for name, (value, low) in least.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
            raise DataError(f"{name} must be a whole number from {low}, got {value!r}")
    if random_seed is not None and (
        not isinstance(random_seed, Integral)
        or isinstance(random_seed, bool)
        or not 0 <= random_seed < 2**63
    ):
        raise DataError(
            f"random_seed must be None or a whole number from 0 to 2**63 - 1, got {random_seed!r}"
        )
    if nuts_sampler not in (None, *SAMPLERS):
        raise DataError(
            f"nuts_sampler must be None or one of {', '.join(SAMPLERS)}, got {nuts_sampler!r}"
        )
    if nuts_sampler == "nutpie" and find_spec("nutpie") is None:
        raise DataError(
            "nuts_sampler 'nutpie' is not installed; install hspr[nuts] or use nuts_sampler='pymc'"
        )
    number = isinstance(target_accept, Real) and not isinstance(target_accept, bool)
    if not number or not 0 < target_accept < 1:
        raise DataError(f"target_accept must be between 0 and 1, got {target_accept!r}; try 0.9")
