"""The item fit against a general optimiser, hand computation and an own decomposition."""

import json
from math import log
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit

from hspr.experiments.banks import load_bank
from hspr.models.errors import DataError
from hspr.models.groups import group_tasks
from hspr.models.items import MAX_FACTORS, ItemFit, fit_items
from hspr.models.responses import ResponseMatrix
from hspr.models.zero_inflated import fit_zero_inflated_beta
from hspr.tests.oracles_models import best_item, matrix, random_matrix, residual_loading

SOURCE_SEED = 4201
ORDER_SEED = 4202
BANKS = ["swebench-pro", "swebench-lite", "swebench-verified", "swebench-full"]


def assert_usable(fit: ItemFit, source: ResponseMatrix) -> None:
    m, n = source.values.shape
    assert fit.loading.shape == (n, min(MAX_FACTORS, m - 1, n))
    for values in (fit.intercept, fit.slope, fit.loading, fit.ability, fit.initial_rate):
        assert np.isfinite(values).all()
    assert ((fit.intercept >= -10) & (fit.intercept <= 10)).all()
    assert ((fit.slope >= 0.05) & (fit.slope <= 5)).all()
    assert ((fit.initial_rate >= 1e-4) & (fit.initial_rate <= 1 - 1e-4)).all()


def assert_same_fit(one: ItemFit, other: ItemFit, rtol: float = 1e-9) -> None:
    for name in ("intercept", "slope", "ability", "initial_rate"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol, 1e-9, True, name)
    assert one.loading.shape == other.loading.shape
    sign = np.sign((one.loading * other.loading).sum(axis=0))
    np.testing.assert_allclose(one.loading * sign, other.loading, rtol, 1e-9)


@pytest.mark.parametrize(("m", "missing"), [(14, 0.0), (60, 0.0), (25, 0.3)])
def test_fit_items_maximises_the_penalised_likelihood(m: int, missing: float) -> None:
    source = random_matrix(m, 40, seed=SOURCE_SEED + m, missing=missing)
    fit = fit_items(source)
    start = logit(fit.initial_rate)
    compared = 0
    for task in range(40):
        best, moved = best_item(source.values[:, task], fit.ability, start[task])
        # Sixteen updates of at most 0.5: what lies within half of that has converged.
        if (moved < 4).all() and 0.06 < best[1] < 4.9 and abs(best[0]) < 9.9:
            assert (fit.intercept[task], fit.slope[task]) == pytest.approx(best, abs=2e-6)
            compared += 1
    assert compared > 30


def test_fit_items_takes_clipped_newton_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hspr.models.items._NEWTON_UPDATES", 1)
    source = random_matrix(60, 40, seed=SOURCE_SEED, spread=3.0)
    fit = fit_items(source)
    design = np.column_stack([np.ones(60), fit.ability])
    steps = []
    for task, start in enumerate(logit(fit.initial_rate)):
        p = expit(start + fit.ability)
        # At the start, the penalties have no gradient.
        gradient = design.T @ (source.values[:, task] - p)
        hessian = design.T @ (design * (p * (1 - p))[:, None]) + np.diag([1.0, 2.0])
        steps.append(np.linalg.solve(hessian, gradient))
        expected = np.array([start, 1.0]) + np.clip(steps[-1], -0.5, 0.5)
        assert (fit.intercept[task], fit.slope[task]) == pytest.approx(tuple(expected))
    assert 0 < (np.abs(steps) > 0.5).mean() < 1


def test_fit_items_keeps_slopes_and_intercepts_in_their_range() -> None:
    # The strong half fails one task and the weak half solves it: its slope wants to be negative.
    values = np.ones((40, 12))
    values[:20, :11] = 0
    values[20:, 11] = 0
    fit = fit_items(matrix(values))
    assert fit.slope[11] == 0.05
    assert_usable(fit, matrix(values))


def test_fit_items_starts_from_the_zero_inflated_rates() -> None:
    source = random_matrix(14, 60, seed=SOURCE_SEED)
    successes, trials = source.values.sum(axis=0).astype(int), np.full(60, 14)
    prior = fit_zero_inflated_beta(successes, trials)
    fit = fit_items(source)
    assert fit.rate_prior == prior
    expected = np.clip(prior.posterior_mean(successes, trials), 1e-4, 1 - 1e-4)
    np.testing.assert_array_equal(fit.initial_rate, expected)


def test_fit_items_ability_by_hand() -> None:
    fit = fit_items(matrix([[0, 0, 0], [0, 1, 0], [1, 1, 1]]))
    raw = [log(0.5 / 3.5), log(1.5 / 2.5), log(3.5 / 0.5)]
    mean = sum(raw) / 3
    sd = (sum((x - mean) ** 2 for x in raw) / 3) ** 0.5
    assert fit.ability == pytest.approx([(x - mean) / sd for x in raw])


def test_fit_items_ability_sd_has_a_floor() -> None:
    values = np.zeros((2, 101))
    values[0, :50], values[1, :51] = 1, 1
    difference = log(51.5 / 50.5) - log(50.5 / 51.5)
    assert difference / 2 < 0.25
    fit = fit_items(matrix(values))
    assert fit.ability == pytest.approx([-difference / 2 / 0.25, difference / 2 / 0.25])


@pytest.mark.parametrize(
    ("m", "n", "spread"), [(5, 40, 1.5), (14, 60, 4.0), (30, 6, 1.5), (2, 20, 1.5)]
)
def test_fit_items_loading_is_equation_19(m: int, n: int, spread: float) -> None:
    source = random_matrix(m, n, seed=SOURCE_SEED + 1, spread=spread)
    fit = fit_items(source)
    probability = expit(fit.intercept + np.outer(fit.ability, fit.slope))
    expected, singular = residual_loading(source.values, probability)
    rank = min(8, m - 1, n)
    assert fit.loading.shape == (n, rank)
    # Neighbours with (nearly) equal singular values have no direction of their own.
    assert (singular[: rank - 1] / singular[1:rank] > 1.001).all()
    sign = np.sign((fit.loading * expected[:, :rank]).sum(axis=0))
    np.testing.assert_allclose(fit.loading, expected[:, :rank] * sign, rtol=1e-7, atol=1e-9)


def test_fit_items_loadings_have_their_largest_direction_positive() -> None:
    source = random_matrix(14, 60, seed=SOURCE_SEED)
    fit = fit_items(source)
    p = expit(fit.intercept + np.outer(fit.ability, fit.slope))
    direction = fit.loading * np.maximum((p * (1 - p)).mean(axis=0), 0.08)[:, None]
    largest = np.abs(direction).argmax(axis=0)
    assert (direction[largest, np.arange(8)] > 0).all()


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((5, 7)),
        np.ones((5, 7)),
        np.zeros((1, 4)),
        np.ones((1, 4)),
        [[0, 1, 1, 0]],
        [[0], [1], [1]],
        [[1]],
        [[0]],
        np.tile([0, 1, 0, 0, 1], (6, 1)),
        np.tile([0, 1], (3, 2)).T,
        np.vstack([np.zeros((3, 9)), np.ones((3, 9))]),
        np.eye(20),
        1 - np.eye(20),
    ],
    ids=str,
)
def test_fit_items_of_degenerate_sources_is_usable(values: object) -> None:
    source = matrix(values)
    fit = fit_items(source)
    assert_usable(fit, source)
    groups = group_tasks(source, fit)
    assert np.isfinite(groups.loading).all()


def test_fit_items_of_identical_agents_has_no_residual_directions() -> None:
    fit = fit_items(matrix(np.tile([0, 1, 0, 0, 1], (6, 1))))
    assert fit.ability == pytest.approx(np.zeros(6), abs=1e-12)
    assert fit.loading == pytest.approx(np.zeros((5, 5)), abs=1e-12)


def test_fit_items_refuses_missing_outcomes_without_a_policy() -> None:
    with pytest.raises(DataError, match=r"lacks 1 of 6 outcomes .*'a1', task 't2'.*drop-task"):
        fit_items(matrix([[0, 1, 0], [1, 0, np.nan]]))


def test_fit_items_refuses_a_source_without_any_outcome() -> None:
    with pytest.raises(DataError, match="all 6 outcomes of bank 'bank' are missing"):
        fit_items(matrix(np.full((2, 3), np.nan)).with_missing("model"))


def test_fit_items_of_known_cells_does_not_depend_on_the_policy() -> None:
    source = random_matrix(9, 30, seed=SOURCE_SEED)
    plain, masked = fit_items(source), fit_items(source.with_missing("model"))
    for name in ("intercept", "slope", "loading", "ability", "initial_rate"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(masked, name))


def test_fit_items_of_a_partly_known_agent_uses_its_known_scores() -> None:
    values = np.array([[0, 1, 1, np.nan], [1, 1, 1, 0], [0, np.nan, np.nan, 0]])
    raw = np.log([2.5 / 1.5, 3.5 / 1.5, 0.5 / 2.5])
    fit = fit_items(matrix(values).with_missing("model"))
    assert fit.ability == pytest.approx((raw - raw.mean()) / raw.std())


def test_fit_items_of_an_agent_without_outcomes_is_as_without_the_agent() -> None:
    source = random_matrix(9, 30, seed=SOURCE_SEED, missing=0.2)
    values = np.insert(source.values, 4, np.nan, axis=0)
    fit = fit_items(matrix(values).with_missing("model"))
    assert fit.ability[4] == 0
    expected = fit_items(source)
    assert fit.rate_prior == expected.rate_prior
    for name in ("intercept", "slope", "loading"):
        np.testing.assert_allclose(getattr(fit, name), getattr(expected, name), 1e-9, 1e-12)
    np.testing.assert_allclose(np.delete(fit.ability, 4), expected.ability, 1e-12)


def test_fit_items_of_a_task_without_outcomes_stays_at_the_prior() -> None:
    source = random_matrix(9, 30, seed=SOURCE_SEED)
    values = np.insert(source.values, 3, np.nan, axis=1)
    fit = fit_items(matrix(values).with_missing("model"))
    prior = fit.rate_prior
    mean = (1 - prior.zero_mass) * prior.a / (prior.a + prior.b)
    assert fit.initial_rate[3] == pytest.approx(mean)
    assert (fit.intercept[3], fit.slope[3]) == pytest.approx((logit(mean), 1))
    assert fit.loading[3] == pytest.approx(np.zeros(8), abs=1e-12)
    rest = fit_items(source)
    # To the accuracy of the optimiser of the prior.
    np.testing.assert_allclose(np.delete(fit.intercept, 3), rest.intercept, 1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_fit_items_follows_a_permutation_of_tasks(missing: float) -> None:
    source = random_matrix(12, 40, seed=SOURCE_SEED, missing=missing)
    order = np.random.default_rng(ORDER_SEED).permutation(40)
    moved = ResponseMatrix(source.outcomes[:, order], missing=source.missing)
    fit, other = fit_items(source), fit_items(moved)
    assert other.tasks == tuple(fit.tasks[i] for i in order)
    expected = ItemFit(
        fit.intercept[order],
        fit.slope[order],
        fit.loading[order],
        fit.ability,
        fit.initial_rate[order],
        fit.rate_prior,
        other.tasks,
        fit.agents,
    )
    assert_same_fit(other, expected)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_fit_items_follows_a_permutation_of_agents(missing: float) -> None:
    source = random_matrix(12, 40, seed=SOURCE_SEED, missing=missing)
    order = np.random.default_rng(ORDER_SEED).permutation(12)
    fit, other = fit_items(source), fit_items(source.select(np.array(source.agents)[order]))
    expected = ItemFit(
        fit.intercept,
        fit.slope,
        fit.loading,
        fit.ability[order],
        fit.initial_rate,
        fit.rate_prior,
        fit.tasks,
        other.agents,
    )
    assert_same_fit(other, expected)


def test_fit_items_leaves_its_input_alone() -> None:
    source = random_matrix(12, 40, seed=SOURCE_SEED, missing=0.2)
    before = source.values.copy()
    fit_items(source)
    np.testing.assert_array_equal(source.values, before)


def test_to_dataset_labels_the_parameters() -> None:
    source = random_matrix(4, 6, seed=SOURCE_SEED)
    fit = fit_items(source)
    dataset = fit.to_dataset()
    assert dict(dataset.sizes) == {"task": 6, "agent": 4, "factor": 3}
    assert list(dataset["task"].values) == source.tasks
    assert list(dataset["factor"].values) == [1, 2, 3]
    assert float(dataset["slope"].sel(task="t4")) == fit.slope[4]
    assert float(dataset["loading"].sel(task="t4", factor=2)) == fit.loading[4, 1]
    assert float(dataset["ability"].sel(agent="a2")) == fit.ability[2]
    assert dataset.attrs["zero_mass"] == fit.rate_prior.zero_mass


@pytest.mark.parametrize("bank", BANKS)
def test_fit_items_agrees_with_the_reference_on_real_banks(bank: str, data_dir: Path) -> None:
    file = data_dir.parent / "reference" / "item_fits.json"
    if not file.is_file():
        pytest.skip(f"the reference fits are not beside the data: no file {file}")
    (reference,) = (case for case in json.loads(file.read_text()) if case["bank"] == bank)
    source = load_bank(bank)
    assert source.values.shape == (reference["agents"], reference["tasks"])
    fit = fit_items(source)
    groups = group_tasks(source, fit)
    for value, name in zip(
        (fit.rate_prior.zero_mass, fit.rate_prior.a, fit.rate_prior.b),
        ("zero_mass", "beta_a", "beta_b"),
        strict=True,
    ):
        assert value == pytest.approx(reference[name], abs=2e-3), name
    assert len(groups.size) == reference["groups"]
    assert groups.size.max() == reference["largest_group"]
    assert (source.values.sum(axis=0) == 0).sum() == reference["all_zero_tasks"]
    ability = (fit.ability.min(), fit.ability.max())
    assert ability == pytest.approx(tuple(reference["ability"].values()), abs=1e-4)
    for sample in reference["tasks_sample"]:
        task = source.tasks.index(sample["task"])
        group = groups.group_of_task[task]
        assert source.values[:, task].sum() == sample["successes"]
        assert groups.size[group] == sample["group_size"]
        assert groups.intercept[group] == pytest.approx(sample["intercept"], abs=2e-3)
        assert groups.slope[group] == pytest.approx(sample["slope"], abs=2e-3)
        loading = abs(groups.loading[group, 0])
        assert loading == pytest.approx(sample["abs_loading_1"], abs=2e-3)
