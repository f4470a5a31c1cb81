"""The banks of a reproduction, by name, from files, or from PTA-IRT's folder."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hspr.experiments.folds import agent_folds
from hspr.experiments.pta_irt import load_pta_irt
from hspr.experiments.results import RESULTS
from hspr.experiments.simulate import simulate_bank
from hspr.experiments.sources import PAPER_BANKS, load_studies
from hspr.models.errors import DataError

BANK_SEED = 4781
AGENTS = ["a", "b", "c", "d"]
FOLDS = {0: ["d", "a"], 1: ["b", "c"]}
VALUES = simulate_bank(agents=4, tasks=20, seed=BANK_SEED).values


def write_csv(path: Path, values: np.ndarray = VALUES) -> str:
    path.parent.mkdir(exist_ok=True)
    columns = [f"t{task}" for task in range(values.shape[1])]
    frame = pd.DataFrame(values, index=AGENTS, columns=columns).astype("Int64")
    frame.to_csv(path, index_label="agent")
    return str(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write the bank as PTA-IRT does."""
    summary, folds = (tmp_path / "data" / part for part in ("swe_pro_summary", "folds/pro"))
    summary.mkdir(parents=True)
    folds.mkdir(parents=True)
    pd.DataFrame(VALUES).to_csv(summary / "matrix.csv", header=False, index=False)
    metadata = {
        "instance_ids": [f"t{task}" for task in range(20)],
        "agents": [{"folder": agent} for agent in AGENTS],
    }
    (summary / "metadata.json").write_text(json.dumps(metadata))
    for number, targets in FOLDS.items():
        fold = {
            "fold": number,
            "train_models": [{"folder": a} for a in AGENTS if a not in targets],
            "test_models": [{"folder": a} for a in targets],
        }
        (folds / f"fold_{number}.json").write_text(json.dumps(fold))
    return tmp_path


def write_frozen(path: Path, bank: str) -> Path:
    rows = [{"bank": bank, "agent": a, "budget": 0.1, "estimate": 0.25} for a in reversed(AGENTS)]
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_files_are_banks_with_the_folds_of_the_paper(tmp_path: Path) -> None:
    names = [write_csv(tmp_path / f"{name}.csv") for name in ("x", "y")]
    made = load_studies(names, tmp_path / "out", budget=0.2, nodes=64)
    assert [study.bank.name for study in made] == ["x", "y"]
    for study in made:
        assert study.plan == agent_folds(study.bank)
        assert (study.budget, study.nodes, study.frozen) == (4, 64, None)
        assert study.folder == tmp_path / "out"


def test_the_paper_s_banks_are_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HSPR_DATA", raising=False)
    assert PAPER_BANKS == tuple(f"swebench-{n}" for n in ("lite", "verified", "full", "pro"))
    with pytest.raises(DataError, match="swebench-lite"):
        load_studies(None, tmp_path)


@pytest.mark.parametrize("policy", ["fail", "drop-task"])
def test_missing_outcomes_need_a_policy(tmp_path: Path, policy: str) -> None:
    values = VALUES.copy()
    values[1, 3] = np.nan
    name = write_csv(tmp_path / "holes.csv", values)
    with pytest.raises(DataError, match="lacks 1 of 80"):
        load_studies([name], tmp_path / "out")
    (made,) = load_studies([name], tmp_path / "out", missing=policy)
    assert len(made.bank.tasks) == (19 if policy == "drop-task" else 20)


def test_banks_of_one_name_are_refused(tmp_path: Path) -> None:
    names = [write_csv(tmp_path / folder / "same.csv") for folder in ("one", "two")]
    with pytest.raises(DataError, match="must have different names, got same, same"):
        load_studies(names, tmp_path / "out")


def test_pta_irt_gives_its_own_folds(root: Path, tmp_path: Path) -> None:
    (made,) = load_studies(["pro"], tmp_path / "out", pta_irt=root)
    bank, plan = load_pta_irt(root, "pro")
    assert made.bank.name == "pta-irt:pro"
    assert made.bank.outcomes.identical(bank.outcomes)
    assert made.plan == plan
    assert [set(fold.target) for fold in made.plan] == [set(FOLDS[0]), set(FOLDS[1])]
    with pytest.raises(DataError, match="swe_lite_summary"):
        load_studies(None, tmp_path / "out", pta_irt=root)


def test_published_predictions_go_to_the_bank_that_they_name(root: Path, tmp_path: Path) -> None:
    frozen = [write_frozen(tmp_path / "frozen.csv", "pro")]
    (made,) = load_studies(["pro"], tmp_path / "out", pta_irt=root, frozen=frozen)
    assert "pta-irt" in made.method_names
    runs = made.runs("pta-irt")
    assert runs["estimate"].tolist() == [0.25] * 4
    fold_of = {agent: fold.index for fold in made.plan for agent in fold.target}
    assert runs["fold"].tolist() == [fold_of[agent] for agent in AGENTS]


def test_published_predictions_of_a_file_go_to_its_name(tmp_path: Path) -> None:
    names = [write_csv(tmp_path / f"{name}.csv") for name in ("x", "pro")]
    frozen = [write_frozen(tmp_path / "frozen.csv", "pro")]
    plain, published = load_studies(names, tmp_path / "out", frozen=frozen)
    assert plain.frozen is None
    assert "pta-irt" not in plain.method_names
    assert published.runs("pta-irt")["estimate"].tolist() == [0.25] * 4


def test_several_files_of_published_predictions_are_put_together(tmp_path: Path) -> None:
    names = [write_csv(tmp_path / f"{name}.csv") for name in ("x", "y")]
    frozen = [write_frozen(tmp_path / f"frozen-{name}.csv", name) for name in ("y", "x")]
    for study in load_studies(names, tmp_path / "out", frozen=frozen):
        assert "pta-irt" in study.method_names
        assert len(study.runs("pta-irt")) == 4


def test_results_are_named_as_the_tables_that_they_build(tmp_path: Path) -> None:
    name = write_csv(tmp_path / "x.csv")
    (made,) = load_studies([name], tmp_path / "out")
    assert RESULTS["table3"]([made]).name == "table3"
    assert all(builder.__name__ == result for result, builder in RESULTS.items())
