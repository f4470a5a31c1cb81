"""The logistic factor model of factorized active querying: logit p_sj = u_s' v_j.

Legend of shapes: m source agents, N tasks, D factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from ...models.errors import SamplingError

RANKS = (1, 2, 3, 4, 6, 8)
# Ascending: each fit of a path starts from the one before, and a factor that a heavy penalty has
# removed cannot come back (zero is stationary in u and v together).
PENALTIES = (0.5, 1.0, 2.0, 4.0, 8.0)
_ENTRY_FOLDS = 5
_ENTRY_SEED = 0
_SEARCH_TOLERANCE = 1e-6
_TOLERANCE = 1e-13
_GRADIENT_TOLERANCE = 1e-6
_MAX_ITERATIONS = 20_000
_COVARIANCE_FLOOR = 1e-6


@dataclass(frozen=True, eq=False)
class FactorModel:
    """A fitted logistic factor model.

    Attributes
    ----------
    agent : numpy.ndarray, shape (m, D)
        Factors u of the source agents.
    task : numpy.ndarray, shape (N, D)
        Factors v of the tasks.
    penalty : float
        Ridge penalty on both.
    """

    agent: np.ndarray
    task: np.ndarray
    penalty: float

    @property
    def rank(self) -> int:
        """Number of factors D."""
        return self.task.shape[1]

    def target_prior(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the normal prior of a target's factors.

        Returns
        -------
        mean : numpy.ndarray, shape (D,)
            Sample mean of the source agents' factors.
        covariance : numpy.ndarray, shape (D, D)
            Their sample covariance (divisor m - 1). Where its smallest eigenvalue is below 1e-6
            times the mean one, that much is added to the diagonal (1e-6 if all are zero).
            One agent has no sample covariance: it is then I / penalty, the normal prior that
            the ridge penalty amounts to.
        """
        mean = self.agent.mean(axis=0)
        if len(self.agent) < 2:
            return mean, np.eye(self.rank) / self.penalty
        covariance = np.atleast_2d(np.cov(self.agent, rowvar=False))
        average = float(np.trace(covariance)) / self.rank
        floor = _COVARIANCE_FLOOR * (average if average > 0 else 1.0)
        if np.linalg.eigvalsh(covariance)[0] < floor:
            covariance = covariance + floor * np.eye(self.rank)
        return mean, covariance


def penalised_loss(
    agent: np.ndarray, task: np.ndarray, outcomes: np.ndarray, *, penalty: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the negative penalised log likelihood and its gradient.

    Parameters
    ----------
    agent : numpy.ndarray, shape (m, D)
        Factors u of the agents.
    task : numpy.ndarray, shape (N, D)
        Factors v of the tasks.
    outcomes : numpy.ndarray, shape (m, N)
        0, 1 or NaN; a NaN cell is left out.
    penalty : float
        Ridge penalty lambda on both.

    Returns
    -------
    loss : float
        -sum log p(y_sj) + (lambda / 2) (sum u^2 + sum v^2).
    agent_gradient, task_gradient : numpy.ndarray, shapes (m, D) and (N, D)
    """
    known = ~np.isnan(outcomes)
    solved = np.where(known, outcomes, 0.0)
    return _loss(agent, task, solved, known.astype(float), penalty)


def _loss(
    agent: np.ndarray, task: np.ndarray, solved: np.ndarray, known: np.ndarray, penalty: float
) -> tuple[float, np.ndarray, np.ndarray]:
    eta = agent @ task.T
    decay = np.exp(-np.abs(eta))
    softplus = np.maximum(eta, 0.0) + np.log1p(decay)
    rate = np.where(eta >= 0, 1.0, decay) / (1.0 + decay)
    log_likelihood = (solved * eta - known * softplus).sum()
    loss = penalty / 2 * ((agent**2).sum() + (task**2).sum()) - log_likelihood
    excess = known * rate - solved
    return float(loss), excess @ task + penalty * agent, excess.T @ agent + penalty * task


def fit_factors(
    outcomes: np.ndarray,
    *,
    rank: int,
    penalty: float,
    start: FactorModel | None = None,
    tolerance: float = _TOLERANCE,
) -> FactorModel:
    """Fit the factors by penalised maximum likelihood.

    Parameters
    ----------
    outcomes : numpy.ndarray, shape (m, N)
        0, 1 or NaN; a NaN cell is left out.
    rank : int
        Factors D, at least 1.
    penalty : float
        Ridge penalty on both sides.
    start : FactorModel, optional
        Where to start, of the same shape; the leading singular vectors of the linearised logits
        by default. Either way the fit is deterministic.
    tolerance : float, default 1e-13
        Relative decrease of the loss at which L-BFGS stops; the default fits to convergence.

    Returns
    -------
    FactorModel
        A stationary point of the joint penalised likelihood.

    Raises
    ------
    SamplingError
        If the optimiser does not converge.

    Notes
    -----
    The two-sided ridge is a nuclear-norm penalty on the logits: it removes factors that the
    outcomes do not support. There is no intercept, as in the source paper; the mean of u
    differs from zero and serves as one.
    """
    known = ~np.isnan(outcomes)
    solved = np.where(known, outcomes, 0.0)
    weight = known.astype(float)
    m, n_tasks = outcomes.shape
    if start is None:
        agent, task = _start(solved, weight, rank)
    else:
        agent, task = start.agent, start.task
    split = m * rank

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        loss, agent_gradient, task_gradient = _loss(
            x[:split].reshape(m, rank), x[split:].reshape(n_tasks, rank), solved, weight, penalty
        )
        return loss, np.concatenate([agent_gradient.ravel(), task_gradient.ravel()])

    fit = minimize(
        objective,
        np.concatenate([agent.ravel(), task.ravel()]),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": _MAX_ITERATIONS,
            "maxfun": 2 * _MAX_ITERATIONS,
            "maxcor": 20,
            "ftol": tolerance,
            "gtol": _GRADIENT_TOLERANCE,
        },
    )
    # Status 2 is a line search at rounding level: no further decrease exists in floats.
    if fit.status not in (0, 2):
        raise SamplingError(
            f"the factor model of rank {rank} and penalty {penalty} did not converge in "
            f"{fit.nit} iterations ({fit.message}); choose a lower rank or a higher penalty"
        )
    return FactorModel(
        fit.x[:split].reshape(m, rank), fit.x[split:].reshape(n_tasks, rank), penalty
    )


def _start(solved: np.ndarray, known: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return balanced factors of the logits linearised at one half, 4 (y - 1/2)."""
    logits = 4.0 * (solved - 0.5 * known) * known.size / max(known.sum(), 1.0)
    left, singular, right = np.linalg.svd(logits, full_matrices=False)
    # Some of every factor, even where rows repeat: the origin is a saddle that no step leaves.
    root = np.sqrt(np.maximum(singular, 1e-3 * max(singular[0], 1.0)))[:rank]
    return left[:, :rank] * root, right[:rank].T * root


def choose_factors(outcomes: np.ndarray) -> tuple[int, float]:
    """Choose the rank and the penalty by the likelihood of held-out source entries.

    Parameters
    ----------
    outcomes : numpy.ndarray, shape (m, N)
        Complete source outcomes.

    Returns
    -------
    rank : int
        One of 1, 2, 3, 4, 6, 8, at most m - 1 (1 if m = 1) and at most N.
    penalty : float
        One of 0.5, 1, 2, 4, 8.

    Notes
    -----
    Entries are split into five folds at random (fixed seed); every pair is fitted without each
    fold in turn and judged by the summed log likelihood of the entries left out. Ranks are tried
    in ascending order until the best penalty of one predicts no better than that of the rank
    before. Ties go to the lower rank, then to the lower penalty.
    """
    m, n_tasks = outcomes.shape
    largest = max(1, min(m - 1, n_tasks))
    shuffled = np.random.default_rng(_ENTRY_SEED).permutation(outcomes.size)
    fold = (shuffled % _ENTRY_FOLDS).reshape(outcomes.shape)
    best, chosen = -np.inf, (1, PENALTIES[0])
    for rank in RANKS:
        if rank > largest:
            break
        likelihood = _held_out_likelihood(outcomes, fold, rank)
        j = int(likelihood.argmax())
        if likelihood[j] <= best:
            break
        best, chosen = float(likelihood[j]), (rank, PENALTIES[j])
    return chosen


def _held_out_likelihood(outcomes: np.ndarray, fold: np.ndarray, rank: int) -> np.ndarray:
    """Return the log likelihood of the entries left out, for each penalty."""
    likelihood = np.zeros(len(PENALTIES))
    for held_out in range(_ENTRY_FOLDS):
        hidden = fold == held_out
        visible = np.where(hidden, np.nan, outcomes)
        model = None
        for j, penalty in enumerate(PENALTIES):
            model = fit_factors(
                visible, rank=rank, penalty=penalty, start=model, tolerance=_SEARCH_TOLERANCE
            )
            eta = (model.agent @ model.task.T)[hidden]
            likelihood[j] += (outcomes[hidden] * eta - np.logaddexp(0.0, eta)).sum()
    return likelihood
