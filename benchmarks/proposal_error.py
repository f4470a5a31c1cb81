"""Errors of the two proposals against quadrature, as a Markdown table.

Run from the repository's root: ``python -m hspr.benchmarks.proposal_error [BANK ...]``. Every tenth
task of a bank is told to the model, with the outcomes of one held-out agent, all failed, or all
solved; rank 0 (precision 0.25, kappa 0.25) and rank 1 (precision 4, kappa 1).
"""

from __future__ import annotations

import sys

import numpy as np

import hspr

SCRAMBLES = 12
HISTORIES = ("agent's own", "all failed", "all solved")
CONFIGS = (
    hspr.Config(rank=0, precision=0.25, kappa=0.25),
    hspr.Config(rank=1, precision=4.0, kappa=1.0),
)


def main() -> None:
    """Print the table for the banks named on the command line, or for the simulated one."""
    print("| bank | rank | told | S | Gaussian: error, s.e. | trusted | Student-t: error, s.e. |")
    print("|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or ["simulated"]:
        bank = hspr.load_bank(name)
        agent = bank.agents[int(np.argsort(bank.values.mean(axis=1))[len(bank.agents) // 2])]
        source, truth = bank.hold_out(agent)
        groups = hspr.group_tasks(source, hspr.fit_items(source))
        told = np.arange(0, len(bank.tasks), 10)
        for config in CONFIGS:
            for history in HISTORIES:
                outcomes = {"agent's own": truth.values[told].astype(int)}.get(
                    history, np.full(len(told), int(history == "all solved"))
                )
                print(f"| {name} | {config.rank} | {history} {row(groups, config, told, outcomes)}")


def row(
    groups: hspr.TaskGroups, config: hspr.Config, told: np.ndarray, outcomes: np.ndarray
) -> str:
    """Return the measured cells of one case, in percentage points."""
    index = groups.group_of_task[told]
    trials = np.bincount(index, minlength=len(groups.size))
    successes = np.bincount(index, weights=outcomes, minlength=len(groups.size)).astype(int)
    model = hspr.build_model(groups, config, successes=successes, trials=trials)
    exact = hspr.integrate(model)
    cells = [f"{100 * exact.mean:.3f} ± {100 * exact.sd:.3f}"]
    for proposal in ("gaussian", "student"):
        scores = [
            hspr.score_posterior(
                hspr.SobolSampler(model, seed=seed, proposal=proposal).state(), draws=1
            )
            for seed in range(SCRAMBLES)
        ]
        means = 100 * np.array([score.mean for score in scores])
        error = means.mean() - 100 * exact.mean
        cells.append(f"{error:+.4f}, {means.std(ddof=1):.4f}")
        if proposal == "gaussian":
            cells.append("yes" if all(score.trusted for score in scores) else "no, and says so")
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
