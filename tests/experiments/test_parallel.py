"""Jobs are all run, once, with the same results whatever runs them."""

import pytest
from threadpoolctl import threadpool_info

from hspr.experiments.parallel import run_jobs
from hspr.models.errors import DataError


def threads(number: int) -> tuple[int, set[int]]:
    return number, {library["num_threads"] for library in threadpool_info()}


def test_one_worker_runs_every_job_in_order_with_one_thread() -> None:
    results = list(run_jobs(threads, range(5)))
    assert [number for number, _ in results] == list(range(5))
    assert all(used <= {1} for _, used in results)


def test_jobs_are_run_as_results_are_taken() -> None:
    done: list[int] = []
    results = run_jobs(done.append, range(3))
    next(iter(results))
    assert len(done) == 1


def test_no_jobs_give_no_results() -> None:
    assert list(run_jobs(threads, [])) == []


@pytest.mark.parametrize("n_jobs", [0, 1.5, True, "2"])
def test_a_bad_number_of_workers_is_refused(n_jobs: object) -> None:
    with pytest.raises(DataError, match=r"n_jobs must be a whole number other than 0, got"):
        run_jobs(threads, [1], n_jobs=n_jobs)  # type: ignore[arg-type]
