"""Digests tell every input apart that determines a result; names of files are safe."""

from __future__ import annotations

import hashlib
import re
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

import hspr
from hspr.experiments.provenance import LIBRARIES, digest, file_stem, versions
from hspr.models.responses import ResponseMatrix
from hspr.tests.oracles_models import random_matrix

BANK = random_matrix(4, 6, seed=4931)


def rebuilt(
    values: np.ndarray, agents: list[str] | None = None, tasks: list[str] | None = None
) -> ResponseMatrix:
    return ResponseMatrix.from_arrays(
        values, agents=agents or BANK.agents, tasks=tasks or BANK.tasks, name="another name"
    )


def test_versions_are_those_installed() -> None:
    found = versions()
    assert found["hspr"] == hspr.__version__
    assert list(found) == ["hspr", *LIBRARIES]
    assert found["numpy"] == np.__version__
    assert found["pymc"] == version("pymc")


def test_digest_of_a_matrix_is_that_of_its_ids_and_outcomes() -> None:
    assert digest(rebuilt(BANK.values.copy())) == digest(BANK)
    assert re.fullmatch("[0-9a-f]{64}", digest(BANK))


def test_digest_of_a_matrix_changes_with_every_cell() -> None:
    seen = {digest(BANK)}
    for place in np.ndindex(BANK.values.shape):
        for value in (1 - BANK.values[place], np.nan):
            values = BANK.values.copy()
            values[place] = value
            seen.add(digest(rebuilt(values)))
    assert len(seen) == 1 + 2 * BANK.values.size


def test_digest_of_a_matrix_changes_with_ids_and_their_order() -> None:
    values, agents, tasks = BANK.values, BANK.agents, BANK.tasks
    others = [
        rebuilt(values, agents=[*agents[:-1], "b"]),
        rebuilt(values, tasks=[*tasks[:-1], "b"]),
        rebuilt(values, agents=agents[::-1]),
        rebuilt(values, tasks=tasks[::-1]),
        rebuilt(values[::-1], agents=agents[::-1]),
        rebuilt(values[:, ::-1], tasks=tasks[::-1]),
        rebuilt(values.reshape(6, 4), agents=tasks, tasks=agents),
    ]
    assert len({digest(other) for other in [BANK, *others]}) == 8


@pytest.mark.parametrize(
    ("first", "second"),
    [((["ab", "c"], ["t"]), (["a", "bc"], ["t"])), ((["a", "b"], ["c"]), (["a"], ["b", "c"]))],
)
def test_digest_of_a_matrix_knows_where_an_id_ends(first: tuple, second: tuple) -> None:
    one, other = (
        ResponseMatrix.from_arrays(np.ones((len(a), len(t))), agents=a, tasks=t)
        for a, t in (first, second)
    )
    assert digest(one) != digest(other)


def test_digest_of_settings_is_that_of_names_and_values() -> None:
    settings: dict[str, Any] = {"budget": 3, "nodes": [1, 2], "none": None, "name": "é"}
    assert digest(dict(reversed(settings.items()))) == digest(settings)
    others: list[dict[str, Any]] = [
        {"budget": 3.5},
        {"nodes": [2, 1]},
        {"none": 0},
        {"name": "e"},
        {"more": 1},
    ]
    assert len({digest(settings | other) for other in [{}, *others]}) == 6


def test_digest_of_settings_does_not_depend_on_the_process() -> None:
    assert digest({"b": 1, "a": 2}) == hashlib.sha256(b'{"a": 2, "b": 1}').hexdigest()


@pytest.mark.parametrize(
    ("parts", "stem"),
    [
        (("selection", "swebench-pro", "0a1b"), "selection-swebench-pro-0a1b"),
        (("a/b\\c", "d e"), "a-b-c-d-e"),
        (("../up", "x"), "..-up-x"),
        (("a: *?<>|", "v1.2_3"), "a--v1.2_3"),
        (("банк ü",), "банк-ü"),
    ],
)
def test_file_stem_holds_no_character_that_a_file_should_not(
    parts: tuple[str, ...], stem: str
) -> None:
    assert file_stem(*parts) == stem
