"""Running independent jobs in parallel, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral

from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

from ..models.errors import DataError
from .progress import with_progress


def run_jobs[Job, Result](
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    *,
    n_jobs: int = 1,
    description: str = "",
    progress: bool = False,
) -> Iterator[Result]:
    """Run one function on many jobs, one thread each.

    Parameters
    ----------
    function : callable
        Takes a job and returns its result; both can be pickled.
    jobs : sequence
        The jobs.
    n_jobs : int, default 1
        Parallel workers, as joblib counts them (-1 uses all cores); one runs in this process.
    description : str, default ""
        What the progress bar says.
    progress : bool, default False
        Whether to show a progress bar with the time left, on stderr and only if that is a terminal.

    Returns
    -------
    iterator
        The results as they are finished, in no particular order.

    Raises
    ------
    DataError
        If `n_jobs` is not a whole number other than 0.
    """
    require_jobs(n_jobs)
    with parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        results = parallel(delayed(_in_one_thread)(function, job) for job in jobs)
    return iter(with_progress(results, description=description, progress=progress, total=len(jobs)))


def require_jobs(n_jobs: int) -> None:
    """Check a number of parallel workers.

    Parameters
    ----------
    n_jobs : int
        As joblib counts them.

    Raises
    ------
    DataError
        If it is not a whole number other than 0.
    """
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise DataError(f"n_jobs must be a whole number other than 0, got {n_jobs!r}; try 1 or -1")


def _in_one_thread[Job, Result](function: Callable[[Job], Result], job: Job) -> Result:
    with threadpool_limits(1):
        return function(job)
