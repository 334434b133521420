"""Advice for a machine from its bench, each a sentence with its figures and a value; and its rates, for a replay."""

import math
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

from msgspec import Struct

from pinprof.bench.figures import WAYS, amount, by_size, order, shown, usable
from pinprof.bench.results import Bench, BenchError, Figure, Result, from_json
from pinprof.bench.tutorial_judges import FRESH
from pinprof.document import Words, doc
from pinprof.prediction.edits import PinnedRates, Rates
from pinprof.units import counted, rate, size

HELD_MS = 0.5
"""A longer call has waited for the stream, on which a kernel of some ms runs; a call that only launches, or stages
64 KiB, takes some tens of µs."""
WORTH_WORKERS = 0.1
"""Share of a batch's time that more workers must save to be worth their memory. Batches come in bursts, so that single
ones differ by more than that; their median does not."""
FLOAT_BYTES = 4
TO_OR_FROM = dict(zip(WAYS, ("to", "from"), strict=True))


class Advice(Struct, frozen=True):
    """What to do on this machine."""

    name: Annotated[str, doc("which advice; the same on every machine")]
    text: Annotated[Words, doc("the advice")]
    value: Annotated[float | None, doc("its value, for programs; null where nothing pays, or none was found")]
    unit: Annotated[str, doc("the unit of the value")]


def advice(bench: Bench) -> list[Advice]:
    """Return the advice that the figures of a machine give, as far as they were measured."""
    pieces = (
        _pinning_pays(bench, "HtoD"),
        _pinning_pays(bench, "DtoH"),
        _pinning_paid_for(bench),
        _pin_then_copy(bench),
        _side_stream(bench),
        _not_blocking(bench),
        _workers(bench),
        _link(bench),
    )
    return [*chain.from_iterable(pieces)]


def _figures(result: Result | None, *names: str) -> list[Figure]:
    """Return the figures of these names; empty if one of them is missing."""
    figures = [figure for name in names if result and (figure := result.figure(name)) is not None]
    return figures if len(figures) == len(names) else []


def _sized(bench: Bench, number: str, name: str) -> list[Figure]:
    result = bench.result(number)
    return usable(bench, by_size(result, name)) if result else []


def _pinning_pays(bench: Bench, way: str) -> Iterator[Advice]:
    """Yield the smallest size from which on all copies from pinned memory are faster; nothing if unsure."""
    pinned = {figure.size: figure for figure in _sized(bench, "E13", f"{way} pinned")}
    pairs = [
        (pageable, pinned[pageable.size])
        for pageable in _sized(bench, "E13", f"{way} pageable")
        if pageable.size in pinned
    ]
    if not pairs:
        return
    paying: list[tuple[Figure, Figure]] = []
    for pageable, of_pinned in reversed(pairs):
        if order(pageable, of_pinned) != "less":
            break
        paying.insert(0, (pageable, of_pinned))
    name = f"pinning_pays_from_{way.lower()}"
    first, last = (paying or pairs)[0], pairs[-1]
    if not paying and order(*last) == "unsure":
        return
    if not paying:
        text = f"Copies {TO_OR_FROM[way]} the GPU need no pinned memory: {_rates(last)} at {size(last[0].size or 0)}."
        yield Advice(name, text, None, "bytes")
        return
    least = first[0].size or 0
    at_end = f"; {_rates(last)} at {size(last[0].size or 0)}" if last != first else ""
    text = f"Pin host memory of copies {TO_OR_FROM[way]} the GPU from {size(least)} on: {_rates(first)} there{at_end}."
    yield Advice(name, text, least, "bytes")


def _rates(pair: tuple[Figure, Figure]) -> str:
    pageable, pinned = pair
    return f"{rate(pinned.median)} pinned, {rate(pageable.median)} pageable"


def _pinning_paid_for(bench: Bench) -> Iterator[Advice]:
    """Yield how often pinned memory must be used to pay for its pinning; nothing if it is unsure whether it does."""
    result = bench.result("E1")
    kinds = _figures(result, "pageable.to", "pinned.to", "pageable.pin_memory()")
    if result is None or not kinds:
        return
    pageable, pinned, kept = kinds
    pinning = result.figure(f"{kept.name}{FRESH}") or kept  # memory that is pinned once is fresh
    cost = f"to pin {size_of(result)} costs {shown(pinning)}"
    relation = order(pinned, pageable)
    if relation == "unsure":
        return
    if relation != "less":
        text = f"Do not pin for copies of this size: {cost}, and no copy gets faster."
        yield Advice("pinning_paid_after", text, None, "copies")
        return
    saved = pageable.median - pinned.median
    copies = max(math.ceil(pinning.median / saved), 1)
    text = (
        f"Pin once and use the memory again: {cost} and saves {amount('ms', saved)} per copy, "
        f"so it is paid for after {counted(copies, 'copy', 'copies')}."
    )
    yield Advice("pinning_paid_after", text, copies, "copies")


def size_of(result: Result) -> str:
    """Return how large the tensors of an experiment are: "3.81 MiB"."""
    floats = result.sizes.get("floats")
    return size(floats * FLOAT_BYTES) if floats else "a tensor"


def _pin_then_copy(bench: Bench) -> Iterator[Advice]:
    """Yield how `pin_memory().to()` compares with a plain `.to()`."""
    single = _figures(bench.result("E1"), "pageable.pin_memory().to", "pageable.to")
    many = _figures(bench.result("E3"), "pin and copy, blocking", "pageable, blocking")
    if not (single or many):
        return
    both = [pair for pair in (single, many) if pair]
    relations = [order(pinning, plain) for pinning, plain in both]
    relation = next((known for known in relations if known != "unsure"), "unsure")
    fresh = _figures(bench.result("E1"), f"pageable.pin_memory().to{FRESH}", "pageable.to")
    only_kept = bool(fresh) and relation == "less" and order(*fresh) != "less"
    do = {
        "more": "Write x.to(device), not x.pin_memory().to(device)",
        "less": "x.pin_memory().to(device) is faster than x.to(device)"
        + (", but only in pinned memory that torch has kept" if only_kept else ""),
        "same": "x.pin_memory().to(device) is no faster than x.to(device)",
        "unsure": "Whether x.pin_memory().to(device) is faster than x.to(device) is not sure",
    }[relation]
    figures = " and for many tensors ".join(f"{shown(pair[0])} against {shown(pair[1])}" for pair in both)
    anew = f"; pinned in fresh memory, {shown(fresh[0])}" if fresh else ""
    pinning, plain = both[0]
    ratio = pinning.median / plain.median if plain.median > 0 else None
    yield Advice("pin_then_copy", f"{do}: it takes {figures}{anew}.", _rounded(ratio), "times the time")


def _side_stream(bench: Bench) -> Iterator[Advice]:
    """Yield whether copies on a stream of their own make the step shorter."""
    loop = _figures(bench.result("E10"), "prefetcher", "plain loop")
    single = _figures(bench.result("E4"), "side stream, pinned", "default stream, pinned")
    if not (loop or single):
        return
    ahead, plain = loop or single
    what = "prefetched batches" if loop else "a pinned copy on a side stream"
    than = f"{shown(ahead)} per step with {what}, {shown(plain)} without"
    share = _figures(bench.result("E4"), "overlapped, side stream, pinned")
    hidden = f" ({shown(share[0])} of a pinned copy is under kernels)" if share else ""
    relation = order(ahead, plain)
    ratio = plain.median / ahead.median if ahead.median > 0 else None
    if relation == "less":
        text = f"Copy on a side stream: {than}{hidden}."
    elif relation == "more":
        text = f"Leave copies on the default stream: {than}{hidden}."
    else:
        text = f"A side stream brings no measurable gain here: {than}{hidden}."
    yield Advice("side_stream", text, _rounded(ratio), "times as fast")


def _not_blocking(bench: Bench) -> Iterator[Advice]:
    """Yield the largest size up to which a copy of pageable memory does not hold the host."""
    blocked = _sized(bench, "E13", "blocked, HtoD pageable")
    if not blocked:
        return
    free = _while_free(blocked)
    if not free:
        text = f"Pageable copies hold the host at every size: {shown(blocked[0])} at {size(blocked[0].size or 0)}."
        yield Advice("pageable_free_up_to", text, None, "bytes")
        return
    largest = free[-1].size or 0
    blocking = blocked[len(free) :]
    beyond = f"; one of {size(blocking[0].size or 0)} holds the host for {shown(blocking[0])}" if blocking else ""
    text = (
        f"Up to {size(largest)} a non_blocking copy of pageable memory does not wait for the stream: "
        f"the call takes {shown(free[-1])}{beyond}."
    )
    yield Advice("pageable_free_up_to", text, largest, "bytes")


def _while_free(blocked: Sequence[Figure]) -> list[Figure]:
    """Return the figures up to the first call that waits."""
    waits = [number for number, figure in enumerate(blocked) if figure.median > HELD_MS]
    return list(blocked[: waits[0] if waits else len(blocked)])


def _workers(bench: Bench) -> Iterator[Advice]:
    """Yield the smallest number of workers after which more of them bring little."""
    batches = _sized(bench, "E8", "batch, N workers")
    if not batches:
        return
    enough = next(
        few
        for number, few in enumerate(batches)
        if all(more.median >= (1 - WORTH_WORKERS) * few.median for more in batches[number + 1 :])
    )
    others = ", ".join(f"{shown(figure)} with {figure.size}" for figure in batches if figure is not enough)
    noun = "worker is" if enough.size == 1 else "workers are"
    text = f"{enough.size} {noun} enough for the pin thread: a pinned batch takes {shown(enough)}"
    yield Advice("pin_workers", f"{text}; {others}." if others else f"{text}.", enough.size, "workers")


def _link(bench: Bench) -> Iterator[Advice]:
    """Yield the share of the rate of the link that copies of pinned memory reach."""
    best = [max(rates, key=lambda figure: figure.median) for rates in _pinned(bench) if rates]
    if not best:
        return
    reached = max(best, key=lambda figure: figure.median)
    ways = ", ".join(f"{figure.name.split()[0]} {rate(figure.median)}" for figure in best)
    link = bench.machine.link
    if link is None:
        text = f"Pinned copies reach {ways}; the driver does not say what the link could carry."
        yield Advice("link_reached", text, None, "of the link")
        return
    share = reached.median / link.theoretical
    text = f"Pinned copies reach {ways} of the {rate(link.theoretical)} of {link.name}; {rate(link.usual)} is usual."
    if share > 1:
        text = (
            f"Pinned copies reach {ways}, more than {link.name} carries: the driver reports the slower speed of an "
            "idle link."
        )
    yield Advice("link_reached", text, _rounded(share), "of the link")


def _pinned(bench: Bench) -> Iterator[list[Figure]]:
    for way in WAYS:
        yield _sized(bench, "E13", f"{way} pinned")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


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
    htod, dtoh = (_by_bytes(bench.result("E13"), f"{way} pinned") for way in WAYS)
    if not htod and not dtoh:
        raise BenchError("has no rates of pinned copies; measure them with: pinprof bench --only E13 --json FILE")
    return PinnedRates(bench.machine.gpu, htod, dtoh)


def _by_bytes(result: Result | None, name: str) -> Rates:
    figures = by_size(result, name) if result else ()
    return tuple(
        (figure.size, figure.median) for figure in figures if figure.size and min(figure.size, figure.median) > 0
    )
