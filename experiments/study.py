"""The comparison of all methods on one bank: selected once, recorded once, read by every table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pandas as pd

from ..acquisition.budget import budget_tasks
from ..inference.decision import calibrated
from ..inference.proposal import require_nodes
from ..inference.sobol import NODES
from ..models.config import Config
from ..models.errors import DataError
from ..models.responses import ResponseMatrix
from .controls import budget_sweep, matched_paths
from .files import made_folder
from .folds import Fold, agent_folds, fold_of_target
from .methods import METHODS
from .methods.hspr import SEEDS, hspr_method
from .methods.static import static_method
from .parallel import require_jobs
from .predictions import record_predictions, with_truth
from .pta_frozen import frozen_estimates
from .selection import NO_GROUP_KAPPA, Selection, run_selection

BUDGET = 0.1
# The selection compares averages over many paths, and needs fewer nodes than a reported figure.
SELECTION_NODES = 2048


class Study:
    """All runs of one bank that the paper's tables are made of.

    Parameters
    ----------
    bank : ResponseMatrix, shape (m, N)
        The archive, complete.
    output_dir : str or path-like
        Folder of selections and predictions; what is finished there is not repeated.
    budget : float, default 0.1
        Share of tasks that a run may reveal.
    plan : sequence of Fold, default None
        Folds over the agents; None means four shuffled ones.
    nodes : int, default 8192
        Nodes of the importance sampler in the runs on targets.
    selection_nodes : int, default 2048
        Nodes in the source-only selection.
    frozen : pandas.DataFrame, default None
        Published predictions of PTA-IRT, as `read_frozen` returns them.
    n_jobs : int, default 1
        Parallel workers.
    progress : bool, default False
        Whether to show progress bars, on stderr and only if that is a terminal.

    Raises
    ------
    DataError
        If the bank has missing outcomes, or a setting is out of its range.
    """

    def __init__(
        self,
        bank: ResponseMatrix,
        output_dir: str | os.PathLike[str],
        *,
        budget: float = BUDGET,
        plan: Sequence[Fold] | None = None,
        nodes: int = NODES,
        selection_nodes: int = SELECTION_NODES,
        frozen: pd.DataFrame | None = None,
        n_jobs: int = 1,
        progress: bool = False,
    ) -> None:
        bank.require_complete()
        if bank.missing == "model":
            raise DataError(
                f"the compared methods need complete outcomes, but bank {bank.name!r} has missing "
                "ones; choose missing='fail' or missing='drop-task'"
            )
        for count in (nodes, selection_nodes):
            require_nodes(count)
        require_jobs(n_jobs)
        self.bank = bank
        self.share = float(budget)
        self.budget = budget_tasks(self.share, len(bank.tasks))
        self.plan = list(agent_folds(bank) if plan is None else plan)
        self.nodes, self.selection_nodes = nodes, selection_nodes
        self.frozen = frozen
        self.folder = made_folder(output_dir)
        self._n_jobs, self._progress = n_jobs, progress
        self._runs: dict[str, pd.DataFrame] = {}

    @cached_property
    def selections(self) -> dict[int, Selection]:
        """The source-only selection of each fold, by its index."""
        return {
            fold.index: run_selection(
                self.bank.select(fold.source),
                budget=self.share,
                nodes=self.selection_nodes,
                cache_dir=self.folder / "selections",
                n_jobs=self._n_jobs,
                progress=self._progress,
            )
            for fold in self.plan
        }

    @property
    def configs(self) -> dict[int, Config]:
        """The selected configuration of each fold."""
        return {index: selection.config for index, selection in self.selections.items()}

    def runs(self, method: str) -> pd.DataFrame:
        """Return the runs of one method with their truth, made now if they are not finished.

        Parameters
        ----------
        method : str
            A name in `METHODS`, "pta-irt", "hspr", or a control: "hspr-no-groups" (no group
            uncertainty, paths of its own), "hspr-matched" (the same on HSPR's paths, posterior
            mean), "hspr-mean" (posterior mean on HSPR's paths), "hspr-uniform" or "hspr-mid-range"
            (HSPR on other queries).

        Returns
        -------
        pandas.DataFrame
            As `with_truth` returns them.
        """
        if method not in self._runs:
            self._runs[method] = with_truth(self._predictions(method), self.bank)
        return self._runs[method]

    @property
    def method_names(self) -> list[str]:
        """The methods of table 1, in its order."""
        frozen = [] if self.frozen is None else ["pta-irt"]
        return [*METHODS, *frozen, "hspr"]

    def record(self, names: Sequence[str]) -> None:
        """Record the predictions of methods, without reading the truth.

        Parameters
        ----------
        names : sequence of str
            As `runs` takes them.
        """
        for name in names:
            self._predictions(name)

    def _predictions(self, method: str) -> pd.DataFrame:
        if method == "pta-irt":
            return self._published()
        if method == "hspr-mean":
            return self._means()
        if method in METHODS:
            return self._record(dict.fromkeys(self._folds, METHODS[method]), {}, fit_each=False)
        if method == "hspr-matched":
            return self._matched()
        configs = self.configs
        if method == "hspr-no-groups":
            configs = {i: replace(c, kappa=NO_GROUP_KAPPA) for i, c in configs.items()}
        if method in ("hspr", "hspr-no-groups"):
            made = {i: hspr_method(c, nodes=self.nodes) for i, c in configs.items()}
            made = {i: replace(m, name=method) for i, m in made.items()}
        elif method in ("hspr-uniform", "hspr-mid-range"):
            uniform = method == "hspr-uniform"
            made = {
                i: static_method(c, uniform=uniform, nodes=self.nodes) for i, c in configs.items()
            }
        else:
            raise DataError(f"method must be one of {', '.join(self.method_names)}, got {method!r}")
        return self._record(made, self._determined(configs), fit_each=True)

    def sweep(self, shares: Sequence[float]) -> pd.DataFrame:
        """Return HSPR's estimates at several budgets along nested paths, with the truth.

        Parameters
        ----------
        shares : sequence of float
            Budgets as shares, ascending.

        Returns
        -------
        pandas.DataFrame
            One row a target, seed and budget (a number of tasks).
        """
        frame = budget_sweep(
            self.bank,
            configs=self.configs,
            budgets=[budget_tasks(float(share), len(self.bank.tasks)) for share in shares],
            seeds=range(SEEDS),
            nodes=self.nodes,
            **self._common(),
        )
        return with_truth(frame, self.bank)

    def at(self, budget: float) -> Study:
        """Return the study of the same bank at another budget, as a share."""
        return Study(
            self.bank,
            self.folder,
            budget=budget,
            plan=self.plan,
            nodes=self.nodes,
            selection_nodes=self.selection_nodes,
            n_jobs=self._n_jobs,
            progress=self._progress,
        )

    def _determined(self, configs: dict[int, Config]) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "configs": {str(index): config.to_dict() for index, config in configs.items()},
        }

    def _common(self) -> dict[str, Any]:
        return {
            "plan": self.plan,
            "output_dir": self.folder / "predictions",
            "n_jobs": self._n_jobs,
            "progress": self._progress,
        }

    def _matched(self) -> pd.DataFrame:
        return matched_paths(
            self.bank,
            self._predictions("hspr"),
            configs=self.configs,
            calibrations={i: s.mean_calibration for i, s in self.selections.items()},
            nodes=self.nodes,
            **self._common(),
        )

    @property
    def _folds(self) -> list[int]:
        return [fold.index for fold in self.plan]

    def _record(
        self, methods: dict[int, Any], settings: dict[str, Any], *, fit_each: bool
    ) -> pd.DataFrame:
        return record_predictions(
            self.bank,
            methods,
            budget=self.budget,
            settings=settings,
            fit_each=fit_each,
            **self._common(),
        )

    def _means(self) -> pd.DataFrame:
        """Decide by the posterior mean at the end of HSPR's own paths."""
        runs = self._predictions("hspr")
        chosen = {index: s.mean_calibration for index, s in self.selections.items()}
        observed = self.budget / len(self.bank.tasks)
        estimate = [
            calibrated(mean, chosen[fold], residual, observed)
            for mean, fold, residual in zip(
                runs["mean"], runs["fold"], runs["mean_residual"], strict=True
            )
        ]
        return runs.assign(estimate=estimate)

    def _published(self) -> pd.DataFrame:
        if self.frozen is None:
            raise DataError("there are no published predictions; read them with read_frozen")
        estimates = frozen_estimates(self.frozen, self.bank, bank=self.bank.name, budget=self.share)
        fold_of = fold_of_target(self.plan)
        return pd.DataFrame(
            [
                {"agent": agent, "fold": fold_of[agent], "seed": seed, "estimate": value}
                for seed, row in enumerate(estimates)
                for agent, value in zip(self.bank.agents, row, strict=True)
            ]
        )
