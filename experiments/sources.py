"""The banks of a reproduction: public ones by name, files, or PTA-IRT's folder with its folds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..models.errors import DataError
from .banks import load_bank
from .pta_frozen import read_frozen
from .pta_irt import PTA_IRT_BANKS, load_pta_irt
from .study import Study

# The paper's four benchmarks, in its order.
PAPER_BANKS = ("swebench-lite", "swebench-verified", "swebench-full", "swebench-pro")


def load_studies(
    banks: Sequence[str] | None,
    output_dir: str | os.PathLike[str],
    *,
    pta_irt: str | os.PathLike[str] | None = None,
    frozen: Sequence[str | os.PathLike[str]] = (),
    missing: str = "refuse",
    **settings: Any,
) -> list[Study]:
    """Load the banks of a reproduction.

    Parameters
    ----------
    banks : sequence of str or None
        Names or files; None means the paper's four. Of PTA-IRT's folder: lite, verified, full, pro.
    output_dir : str or path-like
        Folder of selections and predictions.
    pta_irt : str or path-like, default None
        PTA-IRT's data folder; its matrices and folds then stand for the paper's own cohort.
    frozen : sequence of str or path-like, default ()
        Files of PTA-IRT's published predictions; banks without any go without.
    missing : str, default "refuse"
        Policy for missing outcomes.
    **settings
        As `Study` takes them.

    Returns
    -------
    list of Study

    Raises
    ------
    DataError
        If a bank or a file cannot be read.
    """
    frames = [read_frozen(path, folder=pta_irt) for path in frozen]
    published = pd.concat(frames, ignore_index=True) if frames else None
    if published is not None and pta_irt is not None:
        # PTA-IRT's own files call its banks by their short names.
        published["bank"] = published["bank"].replace(
            {name: f"pta-irt:{name}" for name in PTA_IRT_BANKS}
        )
    studies = []
    for name in banks or (PAPER_BANKS if pta_irt is None else tuple(PTA_IRT_BANKS)):
        plan = None
        if pta_irt is None:
            bank = load_bank(name, missing=missing)
        else:
            bank, plan = load_pta_irt(Path(pta_irt), name)
        here = None
        if published is not None and bank.name in set(published["bank"]):
            here = published
        studies.append(Study(bank, output_dir, plan=plan, frozen=here, **settings))
    names = [study.bank.name for study in studies]
    if len(set(names)) < len(names):
        raise DataError(f"banks must have different names, got {', '.join(names)}; rename a file")
    return studies
