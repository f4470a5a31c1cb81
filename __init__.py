"""HSPR: full-benchmark scores of software agents from a tenth of the tasks, with a posterior."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .acquisition.criteria import latent_gain, score_gain
    from .acquisition.evaluator import Evaluator
    from .experiments.banks import load_bank
    from .experiments.files import load_tree, save_tree
    from .experiments.folds import agent_folds
    from .experiments.pta_frozen import read_frozen
    from .experiments.pta_irt import load_pta_irt
    from .experiments.replay import Replay, replay
    from .experiments.selection import Selection, run_selection, select_config
    from .experiments.simulate import simulate_bank
    from .experiments.study import Study
    from .inference.compare import Comparison, compare_posteriors
    from .inference.decision import ScorePosterior, score_posterior
    from .inference.marginal import marginal_model
    from .inference.nuts import sample_nuts
    from .inference.quadrature import QuadraturePosterior, integrate
    from .inference.sobol import SobolSampler
    from .models.config import Config
    from .models.declaration import build_model
    from .models.errors import (
        DataError,
        HSPRError,
        ModelError,
        SamplingError,
        SamplingWarning,
    )
    from .models.groups import TaskGroups, group_tasks
    from .models.items import ItemFit, fit_items
    from .models.responses import ResponseMatrix

__version__ = "0.1.0"

# Imported on first use: PyMC takes seconds, and `hspr --help` needs none of it.
_HOME = {
    "latent_gain": "acquisition.criteria",
    "score_gain": "acquisition.criteria",
    "Evaluator": "acquisition.evaluator",
    "load_bank": "experiments.banks",
    "load_tree": "experiments.files",
    "save_tree": "experiments.files",
    "agent_folds": "experiments.folds",
    "read_frozen": "experiments.pta_frozen",
    "load_pta_irt": "experiments.pta_irt",
    "Replay": "experiments.replay",
    "replay": "experiments.replay",
    "Selection": "experiments.selection",
    "run_selection": "experiments.selection",
    "select_config": "experiments.selection",
    "simulate_bank": "experiments.simulate",
    "Study": "experiments.study",
    "Comparison": "inference.compare",
    "compare_posteriors": "inference.compare",
    "ScorePosterior": "inference.decision",
    "score_posterior": "inference.decision",
    "marginal_model": "inference.marginal",
    "sample_nuts": "inference.nuts",
    "QuadraturePosterior": "inference.quadrature",
    "integrate": "inference.quadrature",
    "SobolSampler": "inference.sobol",
    "Config": "models.config",
    "build_model": "models.declaration",
    "DataError": "models.errors",
    "HSPRError": "models.errors",
    "ModelError": "models.errors",
    "SamplingError": "models.errors",
    "SamplingWarning": "models.errors",
    "TaskGroups": "models.groups",
    "group_tasks": "models.groups",
    "ItemFit": "models.items",
    "fit_items": "models.items",
    "ResponseMatrix": "models.responses",
}

__all__ = [
    "Comparison",
    "Config",
    "DataError",
    "Evaluator",
    "HSPRError",
    "ItemFit",
    "ModelError",
    "QuadraturePosterior",
    "Replay",
    "ResponseMatrix",
    "SamplingError",
    "SamplingWarning",
    "ScorePosterior",
    "Selection",
    "SobolSampler",
    "Study",
    "TaskGroups",
    "__version__",
    "agent_folds",
    "build_model",
    "compare_posteriors",
    "fit_items",
    "group_tasks",
    "integrate",
    "latent_gain",
    "load_bank",
    "load_pta_irt",
    "load_tree",
    "marginal_model",
    "read_frozen",
    "replay",
    "run_selection",
    "sample_nuts",
    "save_tree",
    "score_gain",
    "score_posterior",
    "select_config",
    "simulate_bank",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
