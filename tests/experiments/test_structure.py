"""What the source outcomes of made-up banks look like."""

import numpy as np
import pandas as pd
import pytest

from hspr.experiments.folds import Fold
from hspr.experiments.structure import source_structure, zero_queries
from hspr.tests.oracles_models import matrix

# Tasks t0 and t4 are solved by no source agent of the first fold; t1 and t2 are one group.
BANK = matrix([[0, 1, 1, 1, 0], [0, 0, 0, 1, 0], [1, 1, 1, 0, 0], [1, 1, 0, 0, 1]])
PLAN = [Fold(0, ("a0", "a1"), ("a2", "a3")), Fold(1, ("a2", "a3"), ("a0", "a1"))]


def test_source_structure_counts_groups_and_tasks_that_nobody_solved() -> None:
    frame = source_structure(BANK, PLAN).set_index("agent")
    assert frame.loc[["a0", "a2"], "fold"].tolist() == [1, 0]
    # Columns of the source: 00, 10, 10, 11, 00; and 11, 11, 10, 00, 01.
    assert frame.loc[["a2", "a3"], "groups"].tolist() == [3, 3]
    assert frame.loc[["a0", "a1"], "groups"].tolist() == [4, 4]
    assert frame.loc[["a2", "a0"], "zero_share"].tolist() == [0.4, 0.2]
    assert frame["zero_success"].to_dict() == {"a2": 0.5, "a3": 1.0, "a0": 1.0, "a1": 1.0}


def test_source_structure_without_such_tasks_has_no_success_in_them() -> None:
    bank = matrix([[1, 1], [1, 0], [0, 1]])
    frame = source_structure(bank, [Fold(0, ("a0", "a1"), ("a2",))])
    assert frame["zero_share"].tolist() == [0.0]
    assert np.isnan(frame["zero_success"]).all()


def test_zero_queries_weighs_runs_the_same() -> None:
    runs = pd.DataFrame(
        {"fold": [0, 0, 1, 1], "queried": [(0, 1, 2, 4), (1,), (3, 0), ()]},
    )
    # Half of the first run's, none of the second's, half of the third's, none of the empty one's.
    assert zero_queries(BANK, PLAN, runs) == pytest.approx((0.5 + 0 + 0.5 + 0) / 4)
