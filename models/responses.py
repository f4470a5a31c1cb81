"""The response matrix: which agent solved which task.

Cells are 1 (solved), 0 (not solved) or NaN (missing). A missing cell is not a failure: a policy
says what becomes of it, and without one every fit refuses the matrix.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import xarray as xr

from .errors import DataError

MissingPolicy = Literal["refuse", "fail", "drop-task", "model"]
MISSING_POLICIES: tuple[str, ...] = get_args(MissingPolicy)


@dataclass(frozen=True, eq=False)
class ResponseMatrix:
    """Outcomes of m agents on N tasks.

    Parameters
    ----------
    outcomes : xarray.DataArray, shape (m, N)
        Dimensions ``agent`` and ``task`` with unique text coordinates; 0, 1 or NaN (missing).
    name : str, default "bank"
        Name of the bank, for messages and reports.
    missing : {"refuse", "model"}, default "refuse"
        Whether a fit may use the missing cells as missing ("model") or must refuse them. Use
        :meth:`with_missing` to apply a policy.

    Raises
    ------
    DataError
        If a cell is neither 0, 1 nor NaN, an id is repeated or not text, or an axis is empty.
    """

    outcomes: xr.DataArray
    name: str = "bank"
    missing: str = "refuse"

    def __post_init__(self) -> None:
        """Validate and normalise to float cells with text ids."""
        if not isinstance(self.outcomes, xr.DataArray):
            raise DataError(
                f"outcomes of {self.name!r} must be an xarray.DataArray, got "
                f"{type(self.outcomes).__name__}; use ResponseMatrix.from_arrays for plain arrays"
            )
        if tuple(self.outcomes.dims) != ("agent", "task"):
            raise DataError(
                f"outcomes of {self.name!r} must have the dimensions ('agent', 'task'), "
                f"got {tuple(self.outcomes.dims)}; transpose or rename them"
            )
        for dim in ("agent", "task"):
            if dim not in self.outcomes.coords:
                raise DataError(f"outcomes of {self.name!r} have no {dim} ids; add a coordinate")
        agents = _text_ids(self.outcomes["agent"].values, "agent", self.name)
        tasks = _text_ids(self.outcomes["task"].values, "task", self.name)
        values = _binary_or_missing(self.outcomes.values, agents, tasks, self.name)
        values.flags.writeable = False
        coords = {"agent": np.array(agents, dtype=object), "task": np.array(tasks, dtype=object)}
        clean = xr.DataArray(values, coords=coords, dims=("agent", "task"), name="outcome")
        object.__setattr__(self, "outcomes", clean)
        if self.missing not in ("refuse", "model"):
            raise DataError(
                f"missing must be 'refuse' or 'model', got {self.missing!r}; "
                "call with_missing(policy) to apply a policy"
            )

    @classmethod
    def from_arrays(
        cls,
        outcomes: np.ndarray | Sequence[Sequence[float]],
        *,
        agents: Sequence[str],
        tasks: Sequence[str],
        name: str = "bank",
    ) -> ResponseMatrix:
        """Build a response matrix from a plain array.

        Parameters
        ----------
        outcomes : array-like, shape (m, N)
            0, 1 or NaN (missing).
        agents : sequence of str, length m
            Unique agent ids, in row order.
        tasks : sequence of str, length N
            Unique task ids, in column order.
        name : str, default "bank"
            Name of the bank.

        Returns
        -------
        ResponseMatrix

        Raises
        ------
        DataError
            If the shape does not match the ids, or a rule of :class:`ResponseMatrix` is broken.
        """
        try:
            array = np.asarray(outcomes, dtype=float)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"outcomes of {name!r} must be a rectangle of numbers ({error})"
            ) from None
        if array.shape != (len(agents), len(tasks)):
            raise DataError(
                f"outcomes of {name!r} have shape {array.shape}, but there are "
                f"{len(agents)} agents and {len(tasks)} tasks; rows are agents, columns are tasks"
            )
        # Checked here too: xarray itself fails on some of the ids that the constructor refuses.
        coords = {
            dim: _objects(_text_ids(_objects(ids), dim, name))
            for dim, ids in (("agent", agents), ("task", tasks))
        }
        return cls(xr.DataArray(array, coords=coords, dims=("agent", "task")), name=name)

    @property
    def agents(self) -> list[str]:
        """Agent ids in row order."""
        return list(self.outcomes["agent"].values)

    @property
    def tasks(self) -> list[str]:
        """Task ids in column order."""
        return list(self.outcomes["task"].values)

    @property
    def values(self) -> np.ndarray:
        """Outcomes as a read-only float array of shape (m, N)."""
        return self.outcomes.values

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return int(np.isnan(self.values).sum())

    def select(self, agents: Iterable[str]) -> ResponseMatrix:
        """Return the bank restricted to some agents, in the order asked for.

        Raises
        ------
        DataError
            If an agent is unknown, or none is asked for.
        """
        wanted = list(agents)
        index = {agent: row for row, agent in enumerate(self.agents)}
        for agent in wanted:
            if agent not in index:
                raise DataError(_unknown("agent", agent, self.agents, self.name))
        rows = [index[agent] for agent in wanted]
        return ResponseMatrix(self.outcomes[rows], name=self.name, missing=self.missing)

    def hold_out(self, agent: str) -> tuple[ResponseMatrix, xr.DataArray]:
        """Split into the source matrix without one agent and that agent's outcomes.

        Parameters
        ----------
        agent : str
            The target agent.

        Returns
        -------
        source : ResponseMatrix, shape (m - 1, N)
        truth : xarray.DataArray, shape (N,)
            The target's outcomes by task.

        Raises
        ------
        DataError
            If the agent is unknown, or no source agent would be left.
        """
        if agent not in self.agents:
            raise DataError(_unknown("agent", agent, self.agents, self.name))
        if len(self.agents) == 1:
            raise DataError(
                f"bank {self.name!r} has one agent, {agent!r}; holding it out leaves no source "
                "agent, add at least one"
            )
        source = self.select(other for other in self.agents if other != agent)
        return source, self.outcomes.sel(agent=agent, drop=True)

    def with_missing(self, policy: str) -> ResponseMatrix:
        """Apply a policy to the missing cells.

        Parameters
        ----------
        policy : {"refuse", "fail", "drop-task", "model"}
            "refuse" raises if anything is missing; "fail" counts a missing cell as not solved
            (what the paper's matrices did); "drop-task" removes every task with a missing cell;
            "model" keeps the cells missing, masks them in the item fit and makes them a third
            symbol in the signature.

        Returns
        -------
        ResponseMatrix

        Raises
        ------
        DataError
            If the policy is unknown, "refuse" meets a missing cell, or "drop-task" leaves none.
        """
        if policy not in MISSING_POLICIES:
            raise DataError(f"missing must be one of {', '.join(MISSING_POLICIES)}, got {policy!r}")
        if policy == "refuse":
            self.require_complete()
            return self
        if policy == "fail":
            return ResponseMatrix(self.outcomes.fillna(0.0), name=self.name)
        if policy == "drop-task":
            complete = ~np.isnan(self.values).any(axis=0)
            if not complete.any():
                raise DataError(
                    f"missing='drop-task' leaves no task of bank {self.name!r}: each of its "
                    f"{complete.size} tasks lacks an outcome; use 'fail' or 'model'"
                )
            return ResponseMatrix(self.outcomes[:, complete], name=self.name)
        return ResponseMatrix(self.outcomes, name=self.name, missing="model")

    def require_complete(self) -> None:
        """Raise unless every cell is known or the policy "model" was applied.

        Raises
        ------
        DataError
            If outcomes are missing and no policy says what to do with them.
        """
        if self.n_missing and self.missing != "model":
            row, column = np.argwhere(np.isnan(self.values))[0]
            raise DataError(
                f"bank {self.name!r} lacks {self.n_missing} of {self.values.size} outcomes (first: "
                f"agent {self.agents[row]!r}, task {self.tasks[column]!r}); choose missing='fail' "
                "(count as not solved), 'drop-task' or 'model' (fit without them)"
            )


def _objects(ids: Sequence[object]) -> np.ndarray:
    array = np.empty(len(ids), dtype=object)
    array[:] = list(ids)
    return array


def _text_ids(ids: np.ndarray, kind: str, name: str) -> list[str]:
    if len(ids) == 0:
        raise DataError(f"bank {name!r} has no {kind}s; at least one is needed")
    for value in ids:
        if not isinstance(value, str) or not value.strip() or not _is_unicode(value):
            raise DataError(
                f"{kind} ids of bank {name!r} must be non-empty text, got {value!r}; "
                "convert them with str()"
            )
    repeated = [value for value, count in Counter(ids).items() if count > 1]
    if repeated:
        raise DataError(
            f"{kind} ids of bank {name!r} must be unique, {repeated[0]!r} occurs "
            f"{int((ids == repeated[0]).sum())} times; rename or remove the repeats"
        )
    return [str(value) for value in ids]


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which no file can hold
        return False
    return True


def _binary_or_missing(
    values: np.ndarray, agents: list[str], tasks: list[str], name: str
) -> np.ndarray:
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"outcomes of bank {name!r} must be numbers ({error})") from None
    wrong = ~((array == 0) | (array == 1) | np.isnan(array))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise DataError(
            f"outcomes of bank {name!r} must be 0, 1 or missing, got {array[row, column]!s} for "
            f"agent {agents[row]!r}, task {tasks[column]!r}; recode it"
        )
    return array


def _unknown(kind: str, value: str, known: list[str], name: str) -> str:
    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"the first is {known[0]!r}"
    return f"bank {name!r} has no {kind} {value!r} among its {len(known)}; {hint}"
