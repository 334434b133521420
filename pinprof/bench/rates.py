"""What a replay and a report need of the bench of a machine."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from pinprof.bench.advice import Advice, advice, size_of
from pinprof.bench.order import by_size
from pinprof.bench.results import Bench, BenchError, Result, from_json
from pinprof.bench.unusable_rates import WAYS
from pinprof.prediction.edits import PinnedRates, Rates


@dataclass(frozen=True)
class Pinning:
    """What pinned memory brings and costs on a machine: little, since each process that measures a rank is given it."""

    rates: PinnedRates
    pays: Advice | None = None
    """From which size on copies to the GPU are faster for it; None where that was not measured."""
    fresh: Advice | None = None
    """Whether a tensor that is pinned just for its copy is there sooner; None where that was not measured."""
    fresh_size: str = ""
    """How large that tensor was."""


def read_machine(path: str | os.PathLike[str]) -> Pinning:
    """Return what a bench file says about pinned memory. Raises BenchError if it has no rates of pinned copies."""
    name = os.fspath(path)
    try:
        bench = from_json(Path(path).read_bytes(), name)
    except OSError as error:
        way_out = f"measure it with: pinprof bench --json {shlex.quote(name)}"
        raise BenchError(f"{name}: {error.strerror}; {way_out}") from error
    try:
        return pinning(bench)
    except BenchError as error:
        raise BenchError(f"{name}: {error}") from error


def pinning(bench: Bench) -> Pinning:
    """Return what a bench says about pinned memory; raises BenchError as `pinned_rates` does."""
    pieces, single = {piece.name: piece for piece in advice(bench)}, bench.result("E1")
    return Pinning(
        pinned_rates(bench),
        pieces.get("pinning_pays_from_htod"),
        pieces.get("pin_then_copy"),
        size_of(single) if single else "",
    )


def pinned_rates(bench: Bench) -> PinnedRates:
    """Return the rates of pinned copies by direction and size (E13). Raises BenchError if there are none.

    Those whose rounds differ too much are among them: a median of rounds says what is likely where it decides nothing.
    """
    htod, dtoh = (_rates(bench.result("E13"), f"{way} pinned") for way in WAYS)
    if not htod and not dtoh:
        raise BenchError("has no rates of pinned copies; measure them with: pinprof bench --only E13 --json FILE")
    return PinnedRates(bench.machine.gpu, htod, dtoh)


def _rates(result: Result | None, name: str) -> Rates:
    figures = by_size(result, name) if result else ()
    return tuple(
        (figure.size, figure.median) for figure in figures if figure.size and min(figure.size, figure.median) > 0
    )
