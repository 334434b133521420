"""Measures the traces of many ranks in several processes, which keep no trace: on this machine or on a Dask cluster."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from pinprof.errors import PinprofError, TraceError
from pinprof.prediction.pinning import Pinning
from pinprof.processes import available_cores, in_processes, without_collections
from pinprof.ranks.rank import RankPart, measure_rank
from pinprof.trace import read_trace
from pinprof.urls import shown
from pinprof.version import VERSION

ANSWER_SECONDS = 30
"""How long to wait for the scheduler to answer."""
WORKER_SECONDS = 300
"""How long to wait for the first worker; a cluster that grows on demand takes minutes."""

OF_THIS_PROCESS = "memory://"
"""The start of URLs of files that other processes cannot read."""

FileOutcome = tuple[str, RankPart | PinprofError]
"""A file, with what was measured of it or the reason why that failed."""


def measure_all(
    paths: Sequence[str],
    workers: int | None = None,
    client: Any = None,
    machine: Pinning | None = None,
    on_outcome: Callable[[int, RankPart | PinprofError], None] = lambda *_: None,
) -> tuple[list[RankPart], dict[str, PinprofError]]:
    """Return what was measured of the files in this order, and the files that could not be measured, with the reasons.

    The other arguments are those of `measure_files`. `on_outcome` gets the number of outcomes so far, and the latest.
    """
    outcome_of: dict[str, RankPart | PinprofError] = {}
    with closing(measure_files(paths, workers, client, machine)) as outcomes:
        for path, outcome in outcomes:
            outcome_of[path] = outcome
            on_outcome(len(outcome_of), outcome)
    measured = [part for path in paths if isinstance(part := outcome_of[path], RankPart)]
    return measured, {path: error for path, error in outcome_of.items() if isinstance(error, PinprofError)}


def measure_files(
    paths: Sequence[str], workers: int | None = None, client: Any = None, machine: Pinning | None = None
) -> Generator[FileOutcome, None, None]:
    """Yield each file with what was measured of it, as soon as that is done.

    Each worker reads its files itself, one after the other, and returns a `RankPart` of some ten kB. `workers` is a
    number of processes on this machine, by default one for each core. `client` is a `dask.distributed.Client` to
    use instead; its workers must reach the files under the same names, and it stays open. `machine` is as for `find`. A
    file that is not a trace, or that kills its process, does not affect the others. Raises PinprofError if the cluster
    cannot be used.
    """
    if client is not None:
        yield from _on_cluster(paths, client, machine)
        return
    cores = workers or available_cores()
    if len(paths) == 1 or any(path.startswith(OF_THIS_PROCESS) for path in paths):
        for path in paths:
            yield path, _outcome(path, machine)
        return
    count = min(cores, len(paths))
    measured = partial(_outcome, machine=machine)
    for path, outcome in in_processes(measured, paths, count):
        died = f"{shown(path)}: the process that read it died, perhaps because memory ran out"
        yield path, TraceError(died) if outcome is None else outcome


def _outcome(path: str, machine: Pinning | None) -> RankPart | PinprofError:
    try:
        with without_collections():
            return replace(measure_rank(read_trace(path), machine), file=path)
    except PinprofError as error:
        return error
    except MemoryError:
        raise  # ends the process, so that another one tries
    except Exception as error:  # noqa: BLE001  an unexpected error must not cost the other files
        return PinprofError(f"{shown(path)}: pinprof itself failed ({_one_line(error)}); please report this")


def _on_cluster(paths: Sequence[str], client: Any, machine: Pinning | None) -> Iterator[FileOutcome]:
    from dask.distributed import as_completed  # noqa: PLC0415  only where a cluster is used

    # one task for each file, so that a growing cluster sees the work
    futures = {client.submit(_outcome, path, machine, pure=False): path for path in paths}
    try:
        _check_workers(client)
        for future in as_completed(list(futures)):
            path, error = futures.pop(future), future.exception()
            if error is None:
                yield path, future.result()
            else:
                yield path, TraceError(f"{shown(path)}: its worker failed ({_one_line(error)})")
    finally:
        client.cancel(list(futures))


def _check_workers(client: Any) -> None:
    """Raise PinprofError if there are no workers, or if one has another version of pinprof."""
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError as error:
        raise PinprofError(f"the Dask cluster has no workers; none came within {WORKER_SECONDS} s") from error
    for worker, version in client.run(_version, on_error="return").items():
        if version != VERSION:
            answer = f"({_one_line(version)})" if isinstance(version, Exception) else f"but {version}"
            raise PinprofError(
                f"the Dask worker {worker} does not have pinprof {VERSION} {answer}; install it on all workers"
            )


def _version() -> str:
    return VERSION


def _one_line(error: BaseException) -> str:
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
        raise PinprofError(f"{address}: no Dask scheduler answers there ({_one_line(error)})") from error
