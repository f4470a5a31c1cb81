"""The importance sampler against quadrature, mpmath and itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pymc as pm
import pytest
from scipy.special import expit, gammaln

import hspr
from hspr.inference.decision import score_posterior
from hspr.inference.sobol import SobolSampler
from hspr.models.groups import TaskGroups
from hspr.tests.oracles import Moments, grid, log_sequence_likelihood, quadrature

SCRAMBLES = range(8)
NODES = 2048
EXTREME = np.array([-40.0, -30.0, -20.0, -8.0, -1.0, 0.5, 8.0, 20.0, 30.0, 40.0])


def counts_of(history: str, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Successes and trials: half of each group observed, rounded up, with given outcomes."""
    trials = np.zeros_like(size) if history == "none" else (size + 1) // 2
    if history == "all-pass":
        return trials.copy(), trials
    if history == "mixed":
        return trials // 2, trials
    return np.zeros_like(trials), trials


def with_rank(groups: TaskGroups, rank: int) -> TaskGroups:
    return replace(groups, loading=groups.loading[:, :rank])


def declared(groups: TaskGroups, config: hspr.Config, s: np.ndarray, n: np.ndarray) -> Moments:
    """Quadrature of the declared model, written from section 1's formulas."""
    rank = min(config.rank, groups.loading.shape[1])
    sd = np.array([config.ability_precision] + [config.precision] * rank) ** -0.5
    loading = np.column_stack([groups.slope, groups.loading[:, :rank]])

    def rates(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        eta = groups.intercept + z @ loading.T
        return config.kappa * (1 + np.exp(eta)), config.kappa * (1 + np.exp(-eta))

    def log_prior(z: np.ndarray) -> np.ndarray:
        return (-0.5 * (z / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)).sum(axis=1)

    # Wide enough for tasks at a logit of 40 that failed: more than 20 prior standard deviations.
    width = 60.0 if np.abs(groups.intercept).max() > 20 else 18.0
    z, cell = grid(width, 6001 if rank == 0 else int(16 * width) + 1, 1 + rank)
    return quadrature(rates, log_prior, groups.size, s, n, z, cell)


@pytest.mark.parametrize("proposal", ["gaussian", "student"])
@pytest.mark.parametrize(
    ("history", "extreme"),
    [(history, False) for history in ("none", "all-fail", "all-pass", "mixed")]
    + [(history, True) for history in ("all-fail", "all-pass", "mixed")],
)
@pytest.mark.parametrize("kappa", [0.25, 1.0, 4.0, 16.0])
@pytest.mark.parametrize("rank", [0, 1])
def test_posterior_agrees_with_quadrature(
    groups, rank, kappa, history, proposal, extreme, record_property
):
    bank = with_rank(groups, rank)
    if extreme:
        bank = replace(bank, intercept=EXTREME)
    s, n = counts_of(history, bank.size)
    config = hspr.Config(rank=rank, precision=1.0, kappa=kappa)
    truth = declared(bank, config, s, n)
    model = hspr.build_model(bank, config, successes=s, trials=n)
    estimates, trusted = [], []
    for seed in SCRAMBLES:
        sampler = SobolSampler(model, nodes=NODES, seed=seed, proposal=proposal)
        score = score_posterior(sampler.state(), draws=16)
        ability = sampler.arrays.weight @ sampler.state()["importance"]["z"].values[:, 0]
        estimates.append((score.mean, score.sd, ability))
        trusted.append(score.trusted)
    # One sampler's own standard error is the scatter between independent scrambles.
    error = np.std(estimates, axis=0, ddof=1)
    record_property("own standard error of the score mean", float(error[0]))
    expected = np.array([truth.score_mean, truth.score_sd, truth.z_mean[0]])
    difference = np.abs(np.mean(estimates, axis=0) - expected)
    if proposal == "student":
        # Bounded weights: the mean of the scrambles is that much better than one of them.
        assert np.all(difference <= 4 * error / np.sqrt(len(SCRAMBLES)) + 1e-9), (difference, error)
        assert error[0] < 2e-3
        assert all(trusted)
    elif extreme and not all(trusted):
        # Tasks at a logit of 40 that failed pull the posterior to where the Gaussian has no nodes.
        # It cannot be right there, but it must not pass for right: every scramble says so.
        assert not any(trusted)
    else:
        # The Gaussian visits long tails seldom, so its scatter understates its error a little.
        assert np.all(difference <= 4 * error + 1e-9), (difference, error)
        assert error[0] < 2e-3


@pytest.mark.parametrize("history", ["all-fail", "all-pass", "mixed"])
@pytest.mark.parametrize("kappa", [0.25, 16.0])
@pytest.mark.parametrize("proposal", ["gaussian", "student"])
def test_log_weight_agrees_with_mpmath(groups, kappa, history, proposal):
    bank = with_rank(replace(groups, intercept=EXTREME), 1)
    s, n = counts_of(history, bank.size)
    config = hspr.Config(rank=1, precision=4.0, kappa=kappa)
    sampler = SobolSampler(
        hspr.build_model(bank, config, successes=s, trials=n), nodes=128, proposal=proposal
    )
    importance = sampler.state()["importance"]
    center, factor, dof = sampler.proposal.center, sampler.proposal.factor, sampler.proposal.dof
    with mpmath.workdps(60):
        inverse = mpmath.matrix((factor @ factor.T).tolist()) ** -1
        log_root = mpmath.log(abs(mpmath.det(mpmath.matrix(factor.tolist()))))
        for z, log_weight in zip(
            importance["z"].values[:40], importance["log_weight"].values[:40], strict=True
        ):
            state = [mpmath.mpf(float(value)) for value in z]
            total = mpmath.mpf(0)
            for value, precision in zip(state, (0.25, 4.0), strict=True):
                total += (
                    mpmath.log(mpmath.mpf(precision)) - mpmath.log(2 * mpmath.pi)
                ) / 2 - precision * value**2 / 2
            for g in range(len(bank.size)):
                eta = (
                    mpmath.mpf(float(bank.intercept[g]))
                    + mpmath.mpf(float(bank.slope[g])) * state[0]
                    + mpmath.mpf(float(bank.loading[g, 0])) * state[1]
                )
                total += log_sequence_likelihood(
                    kappa * (1 + mpmath.exp(eta)),
                    kappa * (1 + mpmath.exp(-eta)),
                    int(s[g]),
                    int(n[g]),
                )
            away = mpmath.matrix([state[k] - mpmath.mpf(float(center[k])) for k in range(2)])
            square = (away.T * inverse * away)[0]
            if np.isinf(dof):
                log_density = -square / 2 - mpmath.log(2 * mpmath.pi) - log_root
            else:
                log_density = (
                    mpmath.loggamma((dof + 2) / 2)
                    - mpmath.loggamma(dof / 2)
                    - mpmath.log(dof * mpmath.pi)
                    - (dof + 2) / 2 * mpmath.log(1 + square / dof)
                    - log_root
                )
            expected = total - log_density
            assert abs(log_weight - expected) <= 1e-9 * max(1, abs(expected))


@pytest.mark.parametrize("outcomes", [[0] * 25, [1] * 25, [1, 0] * 12])
def test_log_evidence_of_one_group_is_exact(outcomes):
    """With a slope of zero the model is one Beta-binomial sequence, known in closed form."""
    from hspr.tests.inference.conftest import make_groups

    groups = make_groups(np.array([-0.7]), np.array([0.0]), np.empty((1, 0)), np.array([25]))
    s, n = np.array([sum(outcomes)]), np.array([len(outcomes)])
    model = hspr.build_model(groups, hspr.Config(rank=0, kappa=2.0), successes=s, trials=n)
    tree = SobolSampler(model, nodes=256).posterior(draws=4)
    p = expit(-0.7)
    a, b = 2.0 / (1 - p), 2.0 / p

    def log_beta(x: float, y: float) -> float:
        return float(gammaln(x) + gammaln(y) - gammaln(x + y))

    expected = log_beta(a + s[0], b + n[0] - s[0]) - log_beta(a, b)
    assert tree["importance"].attrs["log_evidence"] == pytest.approx(expected, abs=1e-9)


@pytest.fixture
def observed(groups) -> SobolSampler:
    s, n = counts_of("mixed", groups.size)
    config = hspr.Config(rank=2, precision=2.0, kappa=1.0)
    model = hspr.build_model(groups, config, successes=s, trials=n)
    return SobolSampler(model, nodes=1024, refresh_every=1000)


ARRAYS = ("log_weight", "mean_score", "rate_alpha", "rate_beta", "mean_rate")


def test_update_equals_rebuild_at_equal_nodes(observed):
    rng = np.random.default_rng(sum(map(ord, "update")))
    for _ in range(20):
        group = int(rng.choice(np.flatnonzero(observed.arrays.unqueried)))
        observed.update(group, int(rng.integers(2)))
    rebuilt = observed.copy()
    rebuilt._place(observed.proposal)
    for name in ARRAYS:
        np.testing.assert_allclose(
            getattr(observed.arrays, name),
            getattr(rebuilt.arrays, name),
            rtol=1e-10,
            atol=1e-10,
            err_msg=name,
        )


def test_update_order_does_not_matter_at_equal_nodes(observed):
    told = [(7, 1), (7, 0), (4, 1), (5, 0), (7, 1), (3, 1), (5, 1)]
    forward, backward = observed.copy(), observed.copy()
    for group, outcome in told:
        forward.update(group, outcome)
    for group, outcome in reversed(told):
        backward.update(group, outcome)
    for name in ARRAYS:
        np.testing.assert_allclose(
            getattr(forward.arrays, name), getattr(backward.arrays, name), atol=1e-10
        )


def test_refresh_depends_on_counts_alone(groups):
    """Whatever the path, equal counts at a refresh give equal bytes."""
    config = hspr.Config(rank=2, kappa=1.0)
    told = [(7, 1), (7, 0), (4, 1), (5, 0), (7, 1), (3, 1), (5, 1), (7, 0)]
    forward = SobolSampler(hspr.build_model(groups, config), nodes=256)
    backward = SobolSampler(hspr.build_model(groups, config), nodes=256)
    for group, outcome in told:
        forward.update(group, outcome)
    for group, outcome in reversed(told):
        backward.update(group, outcome)
    declared = SobolSampler(
        hspr.build_model(
            groups, config, successes=forward.arrays.successes, trials=forward.arrays.trials
        ),
        nodes=256,
    )
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(forward.arrays, name), getattr(backward.arrays, name))
        np.testing.assert_array_equal(getattr(forward.arrays, name), getattr(declared.arrays, name))


def test_refresh_comes_after_every_eighth_outcome(groups):
    sampler = SobolSampler(hspr.build_model(groups, hspr.Config(rank=1)), nodes=256)
    placed = []
    for told in range(1, 25):
        before = sampler.state()["importance"]["z"].values.copy()
        sampler.update(7, told % 2)
        if not np.array_equal(before, sampler.state()["importance"]["z"].values):
            placed.append(told)
    assert placed == [8, 16, 24]


def test_copy_is_independent(observed):
    before = {name: getattr(observed.arrays, name).copy() for name in ARRAYS}
    observed.copy().update(7, 1)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(observed.arrays, name), before[name])


def permuted(groups: TaskGroups, order: np.ndarray, factors: list[int], signs: np.ndarray):
    return replace(
        groups,
        intercept=groups.intercept[order],
        slope=groups.slope[order],
        loading=(groups.loading * signs)[order][:, factors],
        size=groups.size[order],
    )


def test_permuting_groups_and_factors_changes_nothing(groups):
    order = np.random.default_rng(7).permutation(len(groups.size))
    s, n = counts_of("mixed", groups.size)
    config = hspr.Config(rank=2, precision=2.0, kappa=1.0)
    other = permuted(groups, order, [1, 0], np.array([-1.0, 1.0]))
    for history in (np.zeros_like(n), n):
        wins = np.minimum(s, history)
        first = SobolSampler(
            hspr.build_model(groups, config, successes=wins, trials=history), nodes=1024
        )
        second = SobolSampler(
            hspr.build_model(other, config, successes=wins[order], trials=history[order]),
            nodes=1024,
        )
        a, b = (score_posterior(sampler.state(), draws=16) for sampler in (first, second))
        assert a.mean == pytest.approx(b.mean, abs=1e-9)
        assert a.sd == pytest.approx(b.sd, abs=1e-9)
        for gain in (hspr.score_gain, hspr.latent_gain):
            np.testing.assert_allclose(gain(first.state())[order], gain(second.state()), atol=1e-9)


@pytest.mark.parametrize("history", ["all-fail", "all-pass"])
@pytest.mark.parametrize("kappa", [1e-3, 1e4])
@pytest.mark.parametrize("slope", [0.05, 5.0])
def test_extremes_stay_finite(groups, history, kappa, slope):
    bank = replace(groups, intercept=EXTREME, slope=np.full(len(EXTREME), slope))
    s, n = counts_of(history, bank.size)
    model = hspr.build_model(
        bank, hspr.Config(rank=2, precision=0.25, kappa=kappa), successes=s, trials=n
    )
    for proposal in ("gaussian", "student"):
        tree = SobolSampler(model, nodes=512, proposal=proposal).posterior(draws=64)
        for node in tree.subtree:
            for name, variable in node.data_vars.items():
                if variable.dtype.kind == "f":
                    assert np.isfinite(variable.values).all(), (node.path, name)
        score = score_posterior(tree, draws=256)
        assert s.sum() / score.n_tasks <= score.mean <= 1 and np.isfinite(score.sd)
        for gain in (hspr.score_gain, hspr.latent_gain):
            assert not np.isnan(gain(tree)).any()


def test_bad_settings_name_the_rule(groups):
    model = hspr.build_model(groups, hspr.Config(rank=0))
    with pytest.raises(hspr.DataError, match=r"power of two.*1000; use 1024"):
        SobolSampler(model, nodes=1000)
    with pytest.raises(hspr.DataError, match=r"nodes.*0"):
        SobolSampler(model, nodes=0)
    with pytest.raises(hspr.DataError, match="proposal must be one of gaussian, student, got 'x'"):
        SobolSampler(model, proposal="x")
    with pytest.raises(hspr.DataError, match=r"refresh_every.*0"):
        SobolSampler(model, refresh_every=0)
    sampler = SobolSampler(model, nodes=64)
    with pytest.raises(hspr.DataError, match="outcome must be 0 or 1, got 2"):
        sampler.update(0, 2)
    with pytest.raises(hspr.DataError, match="group must be from 0 to 9, got 10"):
        sampler.update(10, 1)
    sampler.update(0, 1)
    with pytest.raises(hspr.DataError, match="group 0 has no unqueried task"):
        sampler.update(0, 1)
    assert sampler.arrays.trials.sum() == 1


def reference_cases(folder: Path) -> list[dict]:
    path = folder.parent / "reference" / "posteriors.json"
    if not path.is_file():
        pytest.skip("no reference posteriors beside HSPR_DATA")
    return json.loads(path.read_text())


@pytest.mark.parametrize("case", range(6))
def test_reference_posteriors(data_dir, case):
    """Means to 2e-4, sd to 1 %, best groups of both criteria, of an independent implementation."""
    reference = reference_cases(data_dir)[case]
    source, _ = hspr.load_bank(reference["bank"]).hold_out(reference["target"])
    groups = hspr.group_tasks(source, hspr.fit_items(source))
    assert len(groups.size) == reference["groups"]
    position = {task: index for index, task in enumerate(groups.tasks)}
    index = groups.group_of_task[[position[task] for task in reference["queried"]]]
    n = np.bincount(index, minlength=len(groups.size))
    s = np.bincount(index, weights=reference["outcomes"], minlength=len(groups.size)).astype(int)
    config = hspr.Config(
        rank=reference["rank"], precision=reference["precision"], kappa=reference["kappa"]
    )
    sampler = SobolSampler(hspr.build_model(groups, config, successes=s, trials=n))
    score = score_posterior(sampler.state(), draws=1024)
    assert score.mean == pytest.approx(reference["score_mean"], abs=2e-4)
    assert score.sd == pytest.approx(reference["score_sd"], rel=0.01)
    for gain, key in ((hspr.score_gain, "best_score"), (hspr.latent_gain, "best_latent")):
        gains = gain(sampler.state())
        best = {int(group) for group in np.argsort(-gains)[:6]}
        for expected in reference[key]:
            group = int(groups.group_of_task[position[expected["task"]]])
            assert groups.size[group] == expected["group_size"]
            assert gains[group] == pytest.approx(expected["gain"], rel=0.05)
            # Near-ties may swap.
            assert group in best


def compact_pair(groups, **settings) -> tuple[SobolSampler, SobolSampler]:
    """A sampler and its compact twin."""
    model = hspr.build_model(groups, hspr.Config(rank=2, precision=2.0, kappa=1.0))
    return (
        SobolSampler(model, nodes=512, **settings),
        SobolSampler(model, nodes=512, compact=True, **settings),
    )


# Groups 0, 1 and 6 have one task each; the last outcomes follow a refresh.
TOLD = [(7, 1), (0, 0), (4, 1), (7, 0), (5, 1), (6, 1), (3, 0), (7, 1), (1, 1), (9, 0), (5, 0)]


@pytest.mark.parametrize("proposal", ["gaussian", "student"])
def test_compact_sampler_agrees_with_the_full_one(groups, proposal):
    full, compact = compact_pair(groups, proposal=proposal)
    for told in [None, *TOLD]:
        if told is not None:
            full.update(*told)
            compact.update(*told)
        for name in ("z", "log_weight", "weight", "mean_score"):
            np.testing.assert_allclose(
                getattr(compact.arrays, name),
                getattr(full.arrays, name),
                rtol=0,
                atol=1e-12,
                err_msg=name,
            )
        np.testing.assert_allclose(compact.arrays.mean_rate, full.arrays.mean_rate, rtol=1e-7)
        for gain in (hspr.score_gain, hspr.latent_gain):
            np.testing.assert_allclose(
                gain(compact.state()), gain(full.state()), rtol=1e-4, atol=1e-12
            )


def test_compact_sampler_keeps_the_parameters_that_matter(groups):
    full, compact = compact_pair(groups)
    assert compact.arrays.mean_rate.dtype == np.float32
    assert compact.arrays.rate_alpha.dtype == np.float64
    for told in [None, *TOLD]:
        if told is not None:
            full.update(*told)
            compact.update(*told)
        arrays = compact.arrays
        left_out = (arrays.size == 1) & (arrays.trials == 0)
        assert left_out.any() == (arrays.trials[[0, 1, 6]].sum() < 3)
        for name in ("rate_alpha", "rate_beta"):
            kept = getattr(arrays, name)
            assert not kept[left_out].any()
            np.testing.assert_allclose(
                kept[~left_out], getattr(full.arrays, name)[~left_out], rtol=1e-12
            )


def test_compact_sampler_decides_as_the_full_one(groups):
    full, compact = compact_pair(groups)
    for told in TOLD:
        full.update(*told)
        compact.update(*told)
    one, other = (score_posterior(sampler.state(), draws=4096) for sampler in (full, compact))
    assert other.mean == pytest.approx(one.mean, abs=1e-12)
    for name in ("sd", "mean_residual", "ess"):
        assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-6), name
    # The same draws, but for one in a million that single precision turns.
    assert (one.draws != other.draws).mean() < 1e-3


def test_compact_copy_is_independent(groups):
    _, sampler = compact_pair(groups)
    for told in TOLD[:5]:
        sampler.update(*told)
    copy, names = sampler.copy(), (*ARRAYS, "z", "successes", "trials")
    for name in names:
        mine, other = (getattr(each.arrays, name) for each in (sampler, copy))
        assert not np.shares_memory(mine, other)
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other, err_msg=name)
    before = {name: getattr(sampler.arrays, name).copy() for name in names}
    for told in TOLD[5:]:
        copy.update(*told)
    for name in names:
        np.testing.assert_array_equal(getattr(sampler.arrays, name), before[name], err_msg=name)
    for told in TOLD[5:]:
        sampler.update(*told)
    for name in names:
        np.testing.assert_array_equal(
            getattr(sampler.arrays, name), getattr(copy.arrays, name), err_msg=name
        )


def test_compact_sampler_has_no_posterior(groups):
    _, compact = compact_pair(groups)
    with pytest.raises(hspr.SamplingError, match="make one without compact"):
        compact.posterior()


def test_compact_sampler_needs_the_declared_rates():
    with pm.Model() as model:
        z = pm.Normal("z", shape=1)
        q = pm.Beta("rate", mu=pm.math.sigmoid(z[0] + np.array([-1.0, 0.5])), nu=3.0)
        pm.Bernoulli("y", q[[0, 1]], observed=[1, 0])
    SobolSampler(model, group_size=[2, 3], nodes=64)
    with pytest.raises(hspr.ModelError, match=r"compact=True needs .* but 'rate' has other"):
        SobolSampler(model, group_size=[2, 3], nodes=64, compact=True)
