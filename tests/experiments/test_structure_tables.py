"""Structure, configurations and cost against counts by hand."""

import numpy as np
import pytest

from hspr.experiments.structure_tables import table3, table4, table7, table8
from hspr.experiments.study import Study


def never_solved(study: Study, agent: str) -> list[int]:
    """Return the tasks that no source agent of an agent's fold solved."""
    (fold,) = [fold for fold in study.plan if agent in fold.target]
    values = study.bank.outcomes
    return [
        place
        for place, task in enumerate(study.bank.tasks)
        if not any(values.sel(agent=source, task=task) == 1 for source in fold.source)
    ]


def shares(study: Study) -> tuple[float, float]:
    """Return mean share of such tasks, and the mean share of them that a target solves."""
    found = {agent: never_solved(study, agent) for agent in study.bank.agents}
    assert all(found.values())
    solved = [
        np.mean([study.bank.outcomes.sel(agent=agent)[task] for task in tasks])
        for agent, tasks in found.items()
    ]
    size = np.mean([len(tasks) for tasks in found.values()]) / len(study.bank.tasks)
    return 100 * float(size), 100 * float(np.mean(solved))


def test_table3_counts_groups_and_tasks_that_nobody_solved(studies: list[Study]) -> None:
    rows = table3(studies).frame.to_dict("records")
    assert [row["bank"] for row in rows] == ["one", "two"]
    for study, row in zip(studies, rows, strict=True):
        assert (row["agents"], row["tasks"]) == study.bank.values.shape
        counts: dict[str, int] = {}
        for fold in study.plan:
            columns = study.bank.select(fold.source).values.T.tolist()
            counts |= dict.fromkeys(fold.target, len(set(map(tuple, columns))))
        groups = sum(counts.values()) / len(study.bank.agents)
        assert row["groups"] == pytest.approx(groups)
        assert row["tasks_per_group"] == pytest.approx(len(study.bank.tasks) / groups)
        assert (row["zero_share"], row["zero_success"]) == pytest.approx(shares(study))


def test_table7_counts_queries_of_tasks_that_nobody_solved(studies: list[Study]) -> None:
    rows = table7(studies).frame.to_dict("records")
    for study, row in zip(studies, rows, strict=True):
        assert (row["zero_share"], row["zero_success"]) == pytest.approx(shares(study))
        for column, method in (("queries_hspr", "hspr"), ("queries_no_groups", "hspr-no-groups")):
            runs = study.runs(method)
            hits = sum(
                task in never_solved(study, agent)
                for agent, queried in zip(runs["agent"], runs["queried"], strict=True)
                for task in queried
            )
            assert row[column] == pytest.approx(100 * hits / (len(runs) * study.budget))
    assert any(row["queries_hspr"] != row["queries_no_groups"] for row in rows)


def test_table4_lists_the_selections(studies: list[Study]) -> None:
    rows = table4(studies).frame.to_dict("records")
    expected = [
        (study.bank.name, index, selection)
        for study in studies
        for index, selection in study.selections.items()
    ]
    assert len(rows) == len(expected) == 4
    for row, (bank, index, selection) in zip(rows, expected, strict=True):
        assert (row["bank"], row["fold"]) == (bank, index)
        for name in ("rank", "precision", "kappa", "criterion", "calibration"):
            assert row[name] == getattr(selection.config, name), name
        assert row["mean_calibration"] == selection.mean_calibration
        # Of the selected rows, that of the last stage.
        assert row["source_mae"] == 2.0 + index
        study = next(study for study in studies if study.bank.name == bank)
        assert row["source_agents"] == len(study.plan[index].source)


def test_table8_adds_the_time_of_the_runs_up(studies: list[Study]) -> None:
    for study, row in zip(studies, table8(studies).frame.to_dict("records"), strict=True):
        runs = study.runs("hspr")
        wall, cpu = sorted(runs["seconds"]), runs["cpu_seconds"].tolist()
        assert row["runs"] == len(runs) == 5 * len(study.bank.agents)
        assert row["seconds"] == pytest.approx(sum(wall) / len(wall))
        # Linear interpolation between order statistics.
        place = 0.9 * (len(wall) - 1)
        below = int(place)
        high = wall[below] + (place - below) * (wall[below + 1] - wall[below])
        assert row["seconds_p90"] == pytest.approx(high)
        assert row["cpu_seconds"] == pytest.approx(sum(cpu) / len(cpu))
        assert row["cpu_hours_total"] == pytest.approx(sum(cpu) / 3600)
        assert row["cpu_seconds"] > 0
