"""Every table and figure of the paper by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .comparison_tables import table1, table2, table5, table6
from .figures import figure3, figure4
from .structure_tables import table3, table4, table7, table8
from .study import Study
from .tables import Table

RESULTS: dict[str, Callable[[Sequence[Study]], Table]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table4": table4,
    "table5": table5,
    "table6": table6,
    "table7": table7,
    "table8": table8,
    "figure3": figure3,
    "figure4": figure4,
}
