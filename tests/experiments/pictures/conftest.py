"""Small evaluations to draw, and no windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from hspr.acquisition.evaluator import Evaluator
from hspr.models.config import Config
from hspr.tests.oracles_models import random_matrix

BANK_SEED = 4801


@pytest.fixture(autouse=True)
def no_window() -> Iterator[None]:
    with mpl.rc_context({"backend": "agg"}):
        yield
    plt.close("all")


@pytest.fixture(scope="session")
def evaluated() -> Callable[..., Evaluator]:
    """Return evaluations of a small bank; every second task is solved."""

    @cache
    def evaluate(outcomes: int, tasks: int = 20) -> Evaluator:
        source = random_matrix(6, tasks, seed=BANK_SEED)
        evaluator = Evaluator(source, Config(rank=1), budget=outcomes, nodes=128)
        while (task := evaluator.ask()) is not None:
            evaluator.tell(task, len(evaluator.outcomes) % 2)
        return evaluator

    return evaluate
