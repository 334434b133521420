"""Measures the traces of many ranks, each in a process that keeps nothing of it: here, or on a Dask cluster."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from pinprof.bench.rates import Pinning
from pinprof.errors import PinprofError, TraceError
from pinprof.processes import in_processes
from pinprof.ranks import RankPart, measure_rank
from pinprof.ranks.runs import job_of, numbered
from pinprof.trace import read_trace
from pinprof.trace.scan.parallel import available_cores
from pinprof.urls import shown
from pinprof.version import VERSION

ANSWER_SECONDS = 30
"""A scheduler that does not answer within this time is none."""
WORKER_SECONDS = 300
"""A cluster to which no worker has come within this time has none; those that grow on demand take minutes."""

OF_THIS_PROCESS = "memory://"
"""Files that no other process sees."""

FileOutcome = tuple[str, RankPart | PinprofError]
"""The file, and what was measured of it or why that was not possible."""
MeasuredFiles = Sequence[tuple[str, RankPart]]
"""Files, and what was measured of each."""


def measure_all(
    paths: Sequence[str],
    workers: int | None = None,
    client: Any = None,
    machine: Pinning | None = None,
    tell: Callable[[int, RankPart | PinprofError], None] = lambda *_: None,
) -> tuple[MeasuredFiles, dict[str, PinprofError]]:
    """Return the files in this order, each with what was measured of it, and the others with the reason why not.

    The arguments are those of `measure_files`. `tell` is called for each outcome as it comes, with their number so far.
    """
    found: dict[str, RankPart | PinprofError] = {}
    with closing(measure_files(paths, workers, client, machine)) as outcomes:
        for path, outcome in outcomes:
            found[path] = outcome
            tell(len(found), outcome)
    measured = [(path, part) for path in paths if isinstance(part := found[path], RankPart)]
    return measured, {path: error for path, error in found.items() if isinstance(error, PinprofError)}


def job_of_files(
    measured: MeasuredFiles, rank_from: str | None = None, run: int | None = None
) -> tuple[MeasuredFiles, list[str]]:
    """Return the files that are the ranks of one job, by rank, and the remarks on this choice.

    `rank_from` is as for `numbered`, `run` and the errors are as for `job_of`.
    """
    parts = numbered([part for _, part in measured], rank_from)
    file_of = {id(part): file for (file, _), part in zip(measured, parts, strict=True)}
    job = job_of(parts, run)
    return [(file_of[id(part)], part) for part in job.parts], job.remarks


def measure_files(
    paths: Sequence[str], workers: int | None = None, client: Any = None, machine: Pinning | None = None
) -> Generator[FileOutcome, None, None]:
    """Yield each file with what was measured of it, as soon as that is there.

    Each worker reads its files itself, one after the other, and gives back what `RankPart` holds, some ten kB.
    `workers` are processes of this machine, by default one for each core (cores that are left read the files with more
    threads); `client` is a `dask.distributed.Client` to use instead, whose workers must reach the files by the same
    names; it stays open. `machine` is as for `find`. A file that is no trace, or that a process dies of, costs no other
    one. Raises PinprofError if the cluster cannot be used.
    """
    if client is not None:
        yield from _on_cluster(paths, client, machine)
        return
    cores = workers or available_cores()
    if len(paths) == 1 or any(path.startswith(OF_THIS_PROCESS) for path in paths):
        for path in paths:
            yield path, _outcome(path, machine, cores)
        return
    count = min(cores, len(paths))
    measured = partial(_outcome, machine=machine, jobs=max(1, cores // max(count, 1)))
    for path, outcome in in_processes(measured, paths, count):
        yield path, _death(path) if outcome is None else outcome


def _outcome(path: str, machine: Pinning | None, jobs: int = 1) -> RankPart | PinprofError:
    try:
        return measure_rank(read_trace(path, jobs), machine)
    except PinprofError as error:
        return error
    except MemoryError:
        raise  # for the process to end, and another one to try
    except Exception as error:  # noqa: BLE001  the others are not to be lost by what nobody thought of
        return PinprofError(f"{shown(path)}: pinprof failed here ({_line(error)}); please report that")


def _death(path: str) -> TraceError:
    return TraceError(f"{shown(path)}: the process that read it died, as it does when memory runs out")


def _on_cluster(paths: Sequence[str], client: Any, machine: Pinning | None) -> Iterator[FileOutcome]:
    from dask.distributed import as_completed  # noqa: PLC0415  only where a cluster is used

    # one task for each file: a cluster that grows sees the work
    futures = {client.submit(_outcome, path, machine, pure=False): path for path in paths}
    try:
        _check_workers(client)
        for future in as_completed(list(futures)):
            path, error = futures.pop(future), future.exception()
            if error is None:
                yield path, future.result()
            else:
                yield path, TraceError(f"{shown(path)}: its worker failed ({_line(error)})")
    finally:
        client.cancel(list(futures))


def _check_workers(client: Any) -> None:
    """Raise PinprofError if there are no workers, or some without this version of pinprof."""
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError as error:
        raise PinprofError(f"the Dask cluster has no workers; none came within {WORKER_SECONDS} s") from error
    for worker, version in client.run(_version, on_error="return").items():
        if version != VERSION:
            found = f"({_line(version)})" if isinstance(version, Exception) else f"but {version}"
            raise PinprofError(f"the Dask worker {worker} has not pinprof {VERSION} {found}; install that on all")


def _version() -> str:
    return VERSION


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
