"""A machine's advice from its bench, each a sentence with figures and a value; and the rates that a replay uses."""

import os
import shlex

from pinprof.bench.catalogue.bandwidth import BY_A_THREAD, PAGEABLE_RATE
from pinprof.bench.catalogue.pinning_cost import FRESH, PAGEABLE, PIN_TO
from pinprof.bench.judge import PINNED_RATE, by_size, order
from pinprof.bench.results import Bench, BenchError, Measured, from_json, shown
from pinprof.document import read_document
from pinprof.ground.units import rate, size
from pinprof.prediction.pinning import Advice, PinnedRates, Pinning, Rates

FLOAT_BYTES = 4
SPREAD_OF_ANOTHER_RUN = 1.0
"""Advice is for other runs than those of the bench: all of a spread is uncertain."""


def advice(bench: Bench) -> list[Advice]:
    """Return the advice that the figures of a machine give, as far as they were measured."""
    pieces = _pinning_pays(bench, "HtoD", "to"), _pinning_pays(bench, "DtoH", "from"), _pin_then_copy(bench)
    return [piece for piece in pieces if piece]


def _pinning_pays(bench: Bench, way: str, to_or_from: str) -> Advice | None:
    """Return the smallest size from which on all copies from pinned memory are faster; None if unsure."""
    pinned = {measured.size: measured for measured in by_size(bench, PINNED_RATE[way])}
    pairs = [(one, pinned[one.size]) for one in by_size(bench, PAGEABLE_RATE[way]) if one.size in pinned]
    slower = [order(*pair, SPREAD_OF_ANOTHER_RUN) == "less" for pair in pairs]
    start = len(pairs) - next((place for place, less in enumerate(reversed(slower)) if not less), len(pairs))
    if not pairs or (start == len(pairs) and order(*pairs[-1], SPREAD_OF_ANOTHER_RUN) == "unsure"):
        return None
    rates = [f"{rate(of_pinned.median)} pinned, {rate(pageable.median)} pageable" for pageable, of_pinned in pairs]
    sizes = [pageable.size or 0 for pageable, _ in pairs]
    at_end = f"{rates[-1]} at {size(sizes[-1])}"
    name = f"pinning_pays_from_{way.lower()}"
    if start == len(pairs):
        return Advice(name, f"Copies {to_or_from} the GPU need no pinned memory: {at_end}.", None, "bytes")
    rest = f"; {at_end}" if start < len(pairs) - 1 else ""
    text = f"Pin host memory of copies {to_or_from} the GPU from {size(sizes[start])} on: {rates[start]} there{rest}."
    return Advice(name, text, sizes[start], "bytes")


def _pin_then_copy(bench: Bench) -> Advice | None:
    """Return how `pin_memory().to()` compares with a plain `.to()`, in memory that torch has kept and in fresh one."""
    pinning, plain, fresh = map(bench.figure, (PIN_TO, PAGEABLE, FRESH[PIN_TO]))
    if pinning is None or plain is None:
        return None
    relation = order(pinning, plain, SPREAD_OF_ANOTHER_RUN)
    only_kept = fresh and relation == "less" and order(fresh, plain, SPREAD_OF_ANOTHER_RUN) != "less"
    do = {
        "more": "Write x.to(device), not x.pin_memory().to(device)",
        "less": "x.pin_memory().to(device) is faster than x.to(device)"
        + (", but only in pinned memory that torch has kept" if only_kept else ""),
        "same": "x.pin_memory().to(device) is no faster than x.to(device)",
        "unsure": "Whether x.pin_memory().to(device) is faster than x.to(device) is not sure",
    }[relation]
    anew = f"; pinned in fresh memory, {shown(fresh)}" if fresh else ""
    ratio = round(pinning.median / plain.median, 3) if plain.median > 0 else None
    text = f"{do}: it takes {shown(pinning)} against {shown(plain)}{anew}."
    return Advice("pin_then_copy", text, ratio, "times the time")


def read_machine(path: str | os.PathLike[str]) -> Pinning:
    """Return what a bench file says about pinned memory. Raises BenchError if it has no rates of pinned copies."""
    name = os.fspath(path)
    try:
        bench = from_json(read_document(name), name)
    except OSError as error:
        way_out = f"measure it with: pinprof bench --json {shlex.quote(name)}"
        raise BenchError(f"{name}: {error.strerror}; {way_out}") from error
    try:
        return pinning(bench)
    except BenchError as error:
        raise BenchError(f"{name}: {error}") from error


def pinning(bench: Bench) -> Pinning:
    """Return what a bench says about pinned memory; raises BenchError if it has no rates of pinned copies (E13)."""
    htod, dtoh = (_by_bytes(by_size(bench, figure)) for figure in PINNED_RATE.values())
    if not htod and not dtoh:
        raise BenchError("has no rates of pinned copies; measure them with: pinprof bench --rates --json FILE")
    pieces, of_tensor = {piece.name: piece for piece in advice(bench)}, bench.result(PAGEABLE.number)
    floats = of_tensor.sizes.get("floats") if of_tensor else None
    tensor = size(floats * FLOAT_BYTES) if floats else "a tensor" if of_tensor else ""
    rates = PinnedRates(bench.machine.gpu, htod, dtoh, _by_bytes(by_size(bench, BY_A_THREAD)))
    return Pinning(rates, pieces.get("pinning_pays_from_htod"), pieces.get("pin_then_copy"), tensor)


def _by_bytes(figures: list[Measured]) -> Rates:
    return tuple((each.size, each.median) for each in figures if each.size and min(each.size, each.median) > 0)
