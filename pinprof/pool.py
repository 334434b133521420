"""Measures the traces of many ranks, each in a process that keeps nothing of it: here, or on a Dask cluster."""

import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from pinprof.errors import PinprofError, TraceError
from pinprof.ranks import RankPart, measure_rank
from pinprof.trace import read_trace
from pinprof.trace.parallel import available_cores
from pinprof.urls import shown

RETRIES = 2
"""A task of a cluster whose worker died is given to another one so often."""

ANSWER_SECONDS = 30
"""A scheduler that does not answer within this time is none."""

OF_THIS_PROCESS = "memory://"
"""Files that no other process sees."""

Outcome = tuple[str, RankPart | PinprofError]
"""The file, and what was measured of it or why that was not possible."""


def rank_of_file(path: str) -> RankPart:
    """Return what the report on a job needs of the trace in a file; raises TraceError as `read_trace` does."""
    return measure_rank(read_trace(path, jobs=1))


def measure_files(paths: Sequence[str], workers: int | None = None, client: Any = None) -> Iterator[Outcome]:
    """Yield each file with what was measured of it, as soon as that is there.

    Each worker reads its files itself and gives back what `RankPart` holds, some hundred kB. `workers` are processes of
    this machine, by default one for each core; `client` is a `dask.distributed.Client` to use instead, whose workers
    must reach the files by the same names. A file that is no trace, or too large for a worker, costs no other one.
    """
    if client is not None:
        yield from _on_cluster(paths, client)
        return
    own = any(path.startswith(OF_THIS_PROCESS) for path in paths)
    count = 1 if own else min(workers or available_cores(), len(paths))
    if count <= 1:
        for path in paths:
            yield path, _outcome(path)
        return
    died = []
    for path, outcome in _in_processes(paths, count):
        if outcome is None:
            died.append(path)
        else:
            yield path, outcome
    for path in died:  # one of them was too much, and took the others with it
        yield next((path, again or _death(path)) for _, again in _in_processes([path], 1))


def _outcome(path: str) -> RankPart | PinprofError:
    try:
        return rank_of_file(path)
    except PinprofError as error:
        return error


def _in_processes(paths: Iterable[str], count: int) -> Iterator[tuple[str, RankPart | PinprofError | None]]:
    """Yield each file with its outcome, None if the process died."""
    context = multiprocessing.get_context("spawn")  # the caller may have threads, and CUDA
    with ProcessPoolExecutor(count, context) as pool:
        futures: dict[Future[RankPart | PinprofError], str] = {pool.submit(_outcome, path): path for path in paths}
        for future in as_completed(futures):
            died = isinstance(future.exception(), BrokenProcessPool)
            yield futures[future], None if died else future.result()


def _death(path: str) -> TraceError:
    return TraceError(f"{shown(path)}: the process that read it died, as it does when memory runs out")


def _on_cluster(paths: Sequence[str], client: Any) -> Iterator[Outcome]:
    from dask.distributed import as_completed as completed  # noqa: PLC0415  only where a cluster is used

    futures = {client.submit(_outcome, path, pure=False, retries=RETRIES): path for path in paths}
    for future in completed(list(futures)):
        error = future.exception()
        if error is None:
            yield futures[future], future.result()
        else:
            yield futures[future], TraceError(f"{shown(futures[future])}: its worker failed ({_line(error)})")
        future.release()


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def cluster(address: str) -> Any:
    """Return a client of the Dask scheduler at an address; raises PinprofError if there is none."""
    try:
        from dask.distributed import Client  # noqa: PLC0415
    except ImportError:
        raise PinprofError("a Dask cluster needs dask.distributed; pip install 'pinprof[dask]'") from None
    try:
        return Client(address, timeout=ANSWER_SECONDS)
    except (OSError, ValueError) as error:
        raise PinprofError(f"{address}: no Dask scheduler answers there ({_line(error)})") from error
