"""What the figures say of each claim: a claim is confirmed or refuted only by differences beyond the spread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pinprof.bench.link import link_of
from pinprof.bench.order import Order, by_size, order, shown, spread, times
from pinprof.bench.results import Bench, Figure, Machine, Result
from pinprof.units import percent, rate

HIDDEN, BARELY = 50.0, 10.0
"""Percent of the copy time under kernels: from the first on copies overlap, up to the second they do not."""
FEW = 0.1
"""Waits that are at most this share of the others are gone."""
MOSTLY = 0.5
"""A share that is more than this is most of it."""
EIGHTY = 80
"""How many times as fast pinned memory was in the article on processes."""
REACHES = 0.9
"""Of the usual rate of a link: a machine that has this of it has what the link gives."""
LARGE_BYTES = 1 << 20
"""From this size on a copy shows the rate of the link; below it the time to start decides."""

STRATEGIES = tuple(
    f"{memory}, {how}" for memory in ("pageable", "pinned", "pin and copy") for how in ("blocking", "non_blocking")
)
CASES = tuple(
    f"{stream}, {memory}" for stream in ("default stream", "side stream") for memory in ("pageable", "pinned")
)

Outcome = Literal["confirmed", "refuted", "depends", "unknown"]
Judgement = tuple[Outcome, str]


@dataclass(frozen=True)
class Verdict:
    """What the figures of a machine say of a claim."""

    number: str
    """The experiment, `E1` to `E14`."""
    claim: str
    outcome: Outcome
    text: str
    """Why, with the figures."""


class _MissingError(Exception):
    """A figure that the judgement needs was not measured."""


@dataclass(frozen=True)
class _Measured:
    """The figures of an experiment, all of which must be there."""

    result: Result
    machine: Machine

    def __call__(self, name: str) -> Figure:
        found = self.result.figure(name)
        if found is None:
            raise _MissingError(name)
        return found

    def by_size(self, name: str) -> Sequence[Figure]:
        found = by_size(self.result, name)
        if not found:
            raise _MissingError(name)
        return found


def verdicts(bench: Bench) -> list[Verdict]:
    """Return a verdict on each claim of the experiments, `unknown` where its figures were not measured."""
    return [Verdict(number, claim, *_judged(bench, number, judge)) for number, claim, judge in CLAIMS]


def _judged(bench: Bench, number: str, judge: Callable[[_Measured], Judgement]) -> Judgement:
    result = bench.result(number)
    if result is None:
        return "unknown", "the experiment did not run"
    try:
        return judge(_Measured(result, bench.machine))
    except _MissingError as error:
        reason = f" ({result.problem})" if result.problem else ""
        return "unknown", f"not measured: {error}{reason}"


# Figures against each other


def _less(first: Figure, second: Figure) -> Judgement:
    """Judge the claim that the first takes less than the second."""
    outcomes: dict[Order, Outcome] = {"less": "confirmed", "more": "refuted", "same": "refuted", "unsure": "depends"}
    relation = order(first, second)
    return outcomes[relation], f"{_pair(first, second)}, {_relation(first, second, relation)}"


def _pair(first: Figure, second: Figure) -> str:
    return f"{shown(first)} ({first.name}) against {shown(second)} ({second.name})"


def _relation(first: Figure, second: Figure, relation: Order) -> str:
    if relation == "unsure":
        return f"a difference within the spread ({spread(first) or 'one run'}; {spread(second) or 'one run'})"
    if relation == "same":
        return "no difference that matters"
    less, more = sorted((first.median, second.median))
    return f"{times(more, less)} {'as fast' if relation == 'less' else 'the time'}"


def _extreme(measured: _Measured, name: str, wanted: Order) -> Judgement:
    """Judge the claim that a strategy takes less, or more, than all others."""
    chosen, others = measured(name), [measured(each) for each in STRATEGIES if each != name]
    relations = [order(chosen, other) for other in others]
    most = (min if wanted == "less" else max)(others, key=lambda figure: figure.median)
    said = f"{shown(chosen)}; of the others the {'best' if wanted == 'less' else 'worst'} is {most.name}, {shown(most)}"
    if all(relation == wanted for relation in relations):
        return "confirmed", said
    if any(relation in {"less", "more"} and relation != wanted for relation in relations):
        return "refuted", said
    alike = [other.name for other, relation in zip(others, relations, strict=True) if relation != wanted]
    return "depends", f"{said}; not to be told from {' and '.join(alike)}"


def _share(figure: Figure, *, hidden: bool) -> Judgement:
    """Judge the claim that copies are hidden behind kernels, or are not."""
    said = f"{shown(figure)} of the copy time is under kernels"
    if figure.low >= HIDDEN:
        return ("confirmed" if hidden else "refuted"), said
    if figure.high <= BARELY:
        return ("refuted" if hidden else "confirmed"), said
    return "depends", said


def _hazard(figure: Figure) -> Judgement:
    if figure.median > 0:
        return "confirmed", f"{figure.median:g} of {figure.runs} tries gave wrong values"
    return "depends", f"did not show in {figure.runs} tries on this machine; it may all the same"


def _safe(figure: Figure) -> Judgement:
    if figure.median > 0:
        return "refuted", f"{figure.median:g} of {figure.runs} tries gave wrong values"
    return "confirmed", f"no wrong value in {figure.runs} tries"


# The claims of each experiment


def _waits(measured: _Measured) -> Judgement:
    blocking, asynchronous = measured("waits, blocking"), measured("waits, non_blocking")
    said = f"{asynchronous.median:g} instead of {blocking.median:g}"
    if asynchronous.median <= FEW * blocking.median and blocking.median > 0:
        return "confirmed", said
    return ("refuted" if asynchronous.median >= blocking.median else "depends"), said


def _overlaps(measured: _Measured) -> Judgement:
    *others, both = (measured(f"overlapped, {case}") for case in CASES)
    said = "under kernels are " + "; ".join(
        f"{shown(figure)} ({case})" for case, figure in zip(CASES, (*others, both), strict=True)
    )
    if both.low >= HIDDEN and all(other.high <= BARELY for other in others):
        return "confirmed", said
    refuted = both.high <= BARELY or any(other.low >= HIDDEN for other in others)
    return ("refuted" if refuted else "depends"), said


def _off_the_path(measured: _Measured) -> Judgement:
    slow, fast, none = (measured(name) for name in ("pageable, blocking", "pinned, non_blocking", "no copy"))
    cost, left = slow.median - none.median, fast.median - none.median
    said = (
        f"a step of {shown(fast)} (pinned, non_blocking), of {shown(none)} without copy, of {shown(slow)} ({slow.name})"
    )
    if order(fast, slow) in {"same", "more"}:
        return "refuted", said
    if order(fast, slow) == "unsure":
        return "depends", f"{said}; a difference within the spread"
    if order(fast, none) in {"same", "less"}:
        return "confirmed", said
    return "depends", f"{said}: {percent(max(left, 0) / cost) if cost > 0 else 'part'} of the copy's cost is left"


def _unpinned(measured: _Measured) -> Judgement:
    without = measured("pinned, without pin_memory()")
    return ("refuted" if without.median else "confirmed"), f"its is_pinned() says {shown(without)}"


def _pinned(measured: _Measured) -> Judgement:
    with_method = measured("pinned, with pin_memory()")
    return ("confirmed" if with_method.median else "refuted"), f"its is_pinned() says {shown(with_method)}"


def _prefetched(measured: _Measured) -> Judgement:
    outcome, said = _share(measured("overlapped, prefetcher"), hidden=True)
    plain, ahead = measured("plain loop"), measured("prefetcher")
    _, against = _less(ahead, plain)
    if outcome == "confirmed" and order(ahead, plain) != "less":
        outcome = "depends"
    return outcome, f"{said}; {against}"


def _first_use(measured: _Measured) -> Judgement:
    first, later = measured("pageable, first"), measured("pageable, later")
    share = 1 - later.median / first.median if first.median > 0 else 0.0
    said = f"the first pageable copy took {shown(first)}, a later one {shown(later)}"
    if share > MOSTLY and order(later, first) == "less":
        return "confirmed", f"{said}: {percent(share)} of it is first use"
    return ("depends" if order(later, first) == "unsure" else "refuted"), said


def _honest_ratio(measured: _Measured) -> Judgement:
    pageable, pinned = measured("pageable, later"), measured("pinned, later")
    said = f"{_pair(pinned, pageable)}, {_relation(pinned, pageable, order(pinned, pageable))}, after the first copies"
    least, most = (_ratio(pageable.low, pinned.high), _ratio(pageable.high, pinned.low))
    if most < MOSTLY * EIGHTY:
        return "confirmed", said
    return ("refuted" if least >= MOSTLY * EIGHTY else "depends"), said


def _ratio(more: float, less: float) -> float:
    return more / less if less > 0 else float("inf")


def _lost_on_the_way(measured: _Measured) -> Judgement:
    parent, child = measured("pinned in the parent"), measured("pinned in the child")
    said = f"is_pinned() in the parent: {shown(parent)}; in the child: {shown(child)}"
    if not parent.median:
        return "unknown", f"{said}; the tensor was not pinned to begin with"
    return ("refuted" if child.median else "confirmed"), said


def _no_faster(measured: _Measured) -> Judgement:
    sent, pageable = measured("pinned, sent to the child"), measured("pageable")
    outcomes: dict[Order, Outcome] = {"less": "refuted", "unsure": "depends", "same": "confirmed", "more": "confirmed"}
    relation = order(sent, pageable)
    own = measured.result.figure("pinned in the child itself")
    beside = f"; pinned in the child itself {shown(own)}" if own else ""
    return outcomes[relation], f"{_pair(sent, pageable)}, {_relation(sent, pageable, relation)}{beside}"


def _reaches_the_link(measured: _Measured) -> Judgement:
    best = [max(measured.by_size(f"{way} pinned"), key=lambda figure: figure.median) for way in ("HtoD", "DtoH")]
    link = link_of(measured.machine)
    said = " and ".join(f"{rate(figure.median)} ({figure.name})" for figure in best)
    if link is None:
        return "unknown", f"{said}; the driver does not tell the generation and width of the link"
    said += f" of {rate(link.theoretical)} on {link.name}, of which {rate(link.usual)} are usual"
    if any(figure.low > link.theoretical for figure in best):
        return "unknown", f"{said}: the link is faster than the driver reports"
    if all(figure.median >= REACHES * link.usual for figure in best):
        return "confirmed", said
    return ("refuted" if all(figure.high < REACHES * link.usual for figure in best) else "depends"), said


def _slower_pageable(measured: _Measured) -> Judgement:
    relations, said = [], []
    for way in ("HtoD", "DtoH"):
        pinned = {figure.size: figure for figure in measured.by_size(f"{way} pinned")}
        pairs = [
            (pageable, pinned[pageable.size])
            for pageable in measured.by_size(f"{way} pageable")
            if pageable.size in pinned and (pageable.size or 0) >= LARGE_BYTES
        ]
        if not pairs:
            raise _MissingError(f"{way} pageable and pinned from 1 MiB on")
        relations += [order(*pair) for pair in pairs]
        best = [max(each, key=lambda figure: figure.median) for each in zip(*pairs, strict=True)]
        said.append(f"{way} {rate(best[0].median)} pageable, {rate(best[1].median)} pinned at best")
    if all(relation == "less" for relation in relations):
        return "confirmed", "; ".join(said)
    return ("depends" if "less" in relations else "refuted"), "; ".join(said)


def _undone_by_item(measured: _Measured) -> Judgement:
    with_waits, without = measured("waits, as written"), measured("waits, without .item()")
    waits = f"{with_waits.median:g} waits per step, {without.median:g} without .item()"
    step, freed = measured("as written"), measured("without .item()")
    said = f"{waits}; a step of {_pair(freed, step)}, {_relation(freed, step, order(freed, step))}"
    if without.median >= with_waits.median:
        return "refuted", said
    return ("confirmed" if order(freed, step) == "less" else "depends"), said


CLAIMS: tuple[tuple[str, str, Callable[[_Measured], Judgement]], ...] = (
    ("E1", "A copy from pinned memory is faster", lambda of: _less(of("pinned.to"), of("pageable.to"))),
    (
        "E1",
        "To pin and then copy is slower than to copy",
        lambda of: _less(of("pageable.to"), of("pageable.pin_memory().to")),
    ),
    (
        "E2",
        "Of many small tensors, non_blocking copies and one synchronize are faster",
        lambda of: _less(of("non_blocking, one synchronize"), of("blocking")),
    ),
    ("E2", "The host waits once instead of once per tensor", _waits),
    ("E3", "To pin and copy, blocking, is the worst of six", lambda of: _extreme(of, "pin and copy, blocking", "more")),
    ("E3", "Pinned and non_blocking is the best of six", lambda of: _extreme(of, "pinned, non_blocking", "less")),
    ("E4", "A copy overlaps kernels only if it is pinned and on a side stream", _overlaps),
    ("E5", "Values read right after a non_blocking copy to the host are wrong", lambda of: _hazard(of("read at once"))),
    ("E5", "After a synchronize they are right", lambda of: _safe(of("read after synchronize"))),
    (
        "E6",
        "What is written into a pinned source after a non_blocking copy reaches the GPU",
        lambda of: _hazard(of("pinned source")),
    ),
    ("E6", "With a pageable source it never does", lambda of: _safe(of("pageable source"))),
    ("E6", "After a synchronize it does not", lambda of: _safe(of("pinned source, written after synchronize"))),
    (
        "E7",
        "To pin in other threads is faster than in the main one",
        lambda of: _less(of("pin in threads then copy"), of("pin then copy")),
    ),
    ("E8", "Pinned batches and non_blocking take the copy off the step's critical path", _off_the_path),
    ("E9", "A batch without its own pin_memory() leaves the loader unpinned, and nothing says so", _unpinned),
    ("E9", "With it, the batch is pinned", _pinned),
    ("E10", "In the plain loop the copy is exposed", lambda of: _share(of("overlapped, plain loop"), hidden=False)),
    ("E10", "A prefetcher hides it", _prefetched),
    ("E11", "The first copy of a process is mostly first-use cost", _first_use),
    ("E11", "After it, pinned memory is nowhere near 80 times as fast", _honest_ratio),
    ("E12", "A pinned tensor in an object that is sent to a process arrives unpinned", _lost_on_the_way),
    ("E12", "So its copy is no faster than a pageable one", _no_faster),
    ("E13", "Copies of pinned memory reach the rate of the link", _reaches_the_link),
    ("E13", "Those of pageable memory do not: the host stages them", _slower_pageable),
    ("E14", "The .item() calls are hidden waits that undo the asynchronous copies", _undone_by_item),
)
"""What the texts claim, by experiment, and how it is judged; a claim with two halves stands here as two."""
