"""Measures the traces of many ranks in several processes, which keep no trace."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from pinprof.ground.errors import PinprofError, TraceError
from pinprof.ground.processes import available_cores, in_processes, without_collections
from pinprof.ground.urls import shown
from pinprof.prediction.pinning import Pinning
from pinprof.ranks.rank import RankPart, measure_rank
from pinprof.trace import read_trace

URL_OF_THIS_PROCESS = "memory://"
"""The start of URLs of files that other processes cannot read."""


def measure_all(
    paths: Sequence[str],
    workers: int | None = None,
    machine: Pinning | None = None,
    on_outcome: Callable[[int, RankPart | PinprofError], None] = lambda *_: None,
) -> tuple[list[RankPart], dict[str, PinprofError]]:
    """Return what was measured of the files in this order, and the files that could not be measured, with the reasons.

    The other arguments are those of `measure_files`. `on_outcome` gets the number of outcomes so far, and the latest.
    """
    outcome_of: dict[str, RankPart | PinprofError] = {}
    with closing(measure_files(paths, workers, machine)) as outcomes:
        for path, outcome in outcomes:
            outcome_of[path] = outcome
            on_outcome(len(outcome_of), outcome)
    measured = [part for path in paths if isinstance(part := outcome_of[path], RankPart)]
    return measured, {path: error for path, error in outcome_of.items() if isinstance(error, PinprofError)}


def measure_files(
    paths: Sequence[str], workers: int | None = None, machine: Pinning | None = None
) -> Generator[tuple[str, RankPart | PinprofError], None, None]:
    """Yield each file with what was measured of it, as soon as that is done.

    Each process reads its files itself, one after the other, and returns a `RankPart` of some ten kB. `workers` is the
    number of processes, by default one for each core. `machine` is as for `measure_rank`. A file that is not a
    trace, or that kills its process, does not affect the others.
    """
    if len(paths) == 1 or any(path.startswith(URL_OF_THIS_PROCESS) for path in paths):
        for path in paths:
            yield path, _outcome(path, machine)
        return
    count = min(workers or available_cores(), len(paths))
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
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return PinprofError(f"{shown(path)}: pinprof itself failed ({reason}); please report this")
