"""Groups: tasks that the source agents answered identically.

Legend of shapes: N tasks, G groups, K residual factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import DataError
from .items import ItemFit
from .responses import ResponseMatrix


@dataclass(frozen=True, eq=False)
class TaskGroups:
    """The source-signature groups and their averaged item parameters.

    Attributes
    ----------
    group_of_task : numpy.ndarray of int, shape (N,)
        Group of each task; groups are numbered in the order of their first task.
    size : numpy.ndarray of int, shape (G,)
        Tasks in each group, N_g.
    intercept, slope : numpy.ndarray, shape (G,)
        Means of b and a over the group's tasks.
    loading : numpy.ndarray, shape (G, K)
        Means of the residual loadings v.
    tasks : tuple of str, length N
        Task ids in bank order.
    bank : str
        Name of the bank.
    """

    group_of_task: np.ndarray
    size: np.ndarray
    intercept: np.ndarray
    slope: np.ndarray
    loading: np.ndarray
    tasks: tuple[str, ...]
    bank: str

    @property
    def labels(self) -> list[str]:
        """Labels of the groups, one a group: "g0", "g1", ..."""
        return [f"g{index}" for index in range(len(self.size))]

    @property
    def members(self) -> list[np.ndarray]:
        """Tasks of each group by position, in bank order: G arrays of shape (N_g,)."""
        order = np.argsort(self.group_of_task, kind="stable")
        return np.split(order, np.cumsum(self.size)[:-1])

    @property
    def group_by_task(self) -> dict[str, int]:
        """Group of each task by task id, in bank order."""
        return dict(zip(self.tasks, self.group_of_task.tolist(), strict=True))


def group_tasks(source: ResponseMatrix, items: ItemFit) -> TaskGroups:
    """Group the tasks by source signature and average their item parameters.

    Parameters
    ----------
    source : ResponseMatrix, shape (m, N)
        The matrix that `items` was fitted to.
    items : ItemFit
        The item fit.

    Returns
    -------
    TaskGroups
        A missing cell counts as a third symbol of the signature.

    Raises
    ------
    DataError
        If `items` was fitted to other tasks or agents.
    """
    if items.tasks != tuple(source.tasks) or items.agents != tuple(source.agents):
        raise DataError(
            f"items were fitted to {len(items.agents)} agents x {len(items.tasks)} tasks that are "
            f"not those of bank {source.name!r}; fit them to this matrix with fit_items"
        )
    group_of_task = _signature_index(source.values)
    size = np.bincount(group_of_task)

    def average(values: np.ndarray) -> np.ndarray:
        return np.bincount(group_of_task, weights=values) / size

    columns = [average(column) for column in items.loading.T]
    return TaskGroups(
        group_of_task=group_of_task,
        size=size,
        intercept=average(items.intercept),
        slope=average(items.slope),
        loading=np.column_stack(columns) if columns else np.empty((len(size), 0)),
        tasks=items.tasks,
        bank=source.name,
    )


def _signature_index(values: np.ndarray) -> np.ndarray:
    """Return numbers of the columns, equal for equal ones, by first occurrence; shape (N,)."""
    known = ~np.isnan(values)
    bits = np.packbits(np.vstack([known, known & (values == 1)]), axis=0)
    packed = np.ascontiguousarray(bits.T).view(f"V{bits.shape[0]}").ravel()
    _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]
