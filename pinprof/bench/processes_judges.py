"""How figures judge what is said of processes, rates and the limits of pinned memory (E11, E12, E13, E15)."""

from collections.abc import Sequence

from pinprof.bench.experiment import MIB, Published
from pinprof.bench.judging import (
    Judgement,
    Measured,
    MissingError,
    against,
    beyond,
    decide,
    ordered,
    pairs_by_size,
    ratios,
    reverse,
)
from pinprof.bench.order import Order, order, shown, times
from pinprof.bench.results import Figure
from pinprof.units import percent, rate, size

EIGHTY_ONE = 81.0
"""How many times as fast pinned memory was in the first of the text's two processes; 90 in the other."""
TWICE = 2.0
MOSTLY = 0.5
"""A share that is more than this is most of it."""
REACHES = 0.9
"""Of the usual rate of a link: a machine that has this of it has what the link gives."""
LARGE_BYTES = MIB
"""From this size on a copy shows the rate of the link; below it the time to start decides."""
PUBLISHED_BYTES = 16 * MIB
HELD_SHARE = 0.1
"""A call that takes up to this share of another's time is nothing beside it."""
WAYS = ("HtoD", "DtoH")
ARRIVES = "a tensor that is sent to a process arrives in shared memory, unpinned: no pinned memory is timed"


def as_fast_as_published(of: Measured) -> Judgement:
    """Judge by memory that is pinned where it is copied; the text's own figure, taken as it takes it, stands beside."""
    written = of.maybe("times as fast, as written")
    outcome, said = beyond("times as fast, pinned in the child", EIGHTY_ONE)(of)
    return Judgement(outcome, f"pinned in the child {said}" + (f"; as written {shown(written)}" if written else ""))


def was_first_use(of: Measured) -> Judgement:
    """Judge whether the copy that came first was slow, whichever it was, and mostly by the first use of CUDA."""
    pageable_first, pinned_second = of.all("pageable, first", "pinned, second")
    pinned_first, pageable_second = of.all("pinned, first", "pageable, second")
    use = of("first use of CUDA")
    follows = {order(pinned_second, pageable_first), order(pageable_second, pinned_first)}
    share = use.median / pageable_first.median if pageable_first.median > 0 else 0.0
    said = (
        f"{against(pinned_second, pageable_first)}; in the other order {against(pageable_second, pinned_first)}; "
        f"the first use of CUDA alone takes {shown(use)}, {percent(share)} of the first copy"
    )
    return decide(
        said, confirmed=follows == {"less"} and share > MOSTLY, refuted="more" in follows or "same" in follows
    )


def reaches_the_link(of: Measured) -> Judgement:
    """Judge whether the best pinned rates are what a link of this kind usually gives."""
    best = [max(of.by_size(f"{way} pinned"), key=lambda figure: figure.median) for way in WAYS]
    of.asked.extend(best)
    link = of.bench.machine.link
    said = " and ".join(f"{rate(figure.median)} ({figure.name})" for figure in best)
    if link is None:
        return Judgement("unknown", f"{said}; the driver does not say the generation and width of the link")
    said += f" of {rate(link.theoretical)} on {link.name}, of which {rate(link.usual)} is usual"
    if any(figure.low > link.theoretical for figure in best):
        return Judgement("unknown", f"{said}: the link is faster than the driver reports")
    least, most = min(figure.low for figure in best), max(figure.high for figure in best)
    return decide(said, confirmed=least >= REACHES * link.usual, refuted=most < REACHES * link.usual)


def slower_pageable(of: Measured) -> Judgement:
    """Judge whether pageable copies are slower than pinned ones, both ways and at every size from 1 MiB on."""
    relations, said = set(), []
    for way in WAYS:
        pairs = list(pairs_by_size(of, f"{way} pageable", f"{way} pinned", LARGE_BYTES))
        if not pairs:
            raise MissingError(f"{way} pageable and pinned from 1 MiB on")
        relations |= {order(*pair) for pair in pairs}
        best = [max(each, key=lambda figure: figure.median) for each in zip(*pairs, strict=True)]
        said.append(f"{way} {rate(best[0].median)} pageable, {rate(best[1].median)} pinned at best")
    return decide("; ".join(said), confirmed=relations == {"less"}, refuted="less" not in relations)


def more_than_twice(of: Measured) -> Judgement:
    """Judge whether pinned copies have more than twice the rate at the published size, both ways."""
    pairs = [(of(f"{way} pinned", PUBLISHED_BYTES), of(f"{way} pageable", PUBLISHED_BYTES)) for way in WAYS]
    least, most = zip(*(ratios(*pair) for pair in pairs), strict=True)
    said = "; ".join(against(*pair) for pair in pairs)
    return decide(said, confirmed=min(least) > TWICE, refuted=max(most) <= TWICE)


def own_memory_is_faster(of: Measured) -> Judgement:
    """Judge whether copies on the GPU have a much higher rate than those over the link: more than twice."""
    own, link = of.by_size("DtoD")[-1], of.by_size("HtoD pinned")[-1]
    of.asked.extend((own, link))
    least, most = ratios(own, link)
    said = f"at {size(own.size or 0)} {against(own, link)}"
    return decide(said, confirmed=least > TWICE, refuted=most <= TWICE)


def slower_though_in_memory(of: Measured) -> Judgement:
    """Judge whether it is the disk that makes pageable copies slow: of memory just written none is on disk."""
    outcome, said = reverse(slower_pageable(of))
    return Judgement(outcome, f"of memory just written {said}")


def gains_more_when_large(of: Measured) -> Judgement:
    """Judge whether pinned memory is more times as fast at the largest size than at the smallest, by way HtoD."""
    pairs = list(pairs_by_size(of, "HtoD pinned", "HtoD pageable"))
    if len({pinned.size for pinned, _ in pairs}) < 2:  # noqa: PLR2004  the smallest and the largest
        raise MissingError("HtoD pinned and pageable at two sizes")
    small, large = pairs[0], pairs[-1]
    of.asked.extend((*small, *large))
    said = " and ".join(
        f"{times(pinned.median, pageable.median)} as fast at {size(pinned.size or 0)}"
        for pinned, pageable in (small, large)
    )
    (small_least, small_most), (large_least, large_most) = ratios(*small), ratios(*large)
    return decide(said, confirmed=large_least > small_most, refuted=large_most <= small_least)


def turns_on_the_machine(of: Measured) -> Judgement:
    """Judge whether this machine has other rates than the text's."""
    relations, said = [], []
    for each in PUBLISHED_RATES:
        here = of(each.figure, each.size)
        there = Figure(each.figure, here.unit, each.value, each.value, each.value, 1, each.size)
        relations.append(order(there, here))
        said.append(f"{each.figure} {shown(here)} here, {shown(there)} there")
    differs = "less" in relations or "more" in relations
    return decide("; ".join(said), confirmed=differs, refuted="unsure" not in relations)


def more_predictable(of: Measured) -> Judgement:
    """Judge whether copies of pinned memory vary less: by what share of the median the spread is, size by size."""
    pairs = [pair for way in WAYS for pair in pairs_by_size(of, f"{way} pageable", f"{way} pinned", LARGE_BYTES)]
    if not pairs:
        raise MissingError("pageable and pinned from 1 MiB on")
    steadier = sum(_variation(pinned) < _variation(pageable) for pageable, pinned in pairs)
    said = (
        f"of {len(pairs)} sizes and ways from {size(LARGE_BYTES)} on pinned copies vary less in {steadier}: by "
        f"{percent(_middle([_variation(pinned) for _, pinned in pairs]))} against "
        f"{percent(_middle([_variation(pageable) for pageable, _ in pairs]))} of the median, in the middle"
    )
    share = steadier / len(pairs)
    return decide(said, confirmed=share > 1 - HELD_SHARE, refuted=share < MOSTLY)


def _variation(figure: Figure) -> float:
    return (figure.high - figure.low) / figure.median if figure.median > 0 else 0.0


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def host_is_free(of: Measured) -> Judgement:
    """Judge whether calls of pinned copies return at once while the stream is busy: against pageable ones that wait."""
    pinned, pageable = of.by_size("blocked, HtoD pinned")[-1], of.by_size("blocked, HtoD pageable")[-1]
    of.asked.extend((pinned, pageable))
    if pinned.size != pageable.size or not pageable.median:
        raise MissingError("blocked, HtoD pinned and pageable at one size")
    said = f"at {size(pinned.size or 0)} the call takes {against(pinned, pageable)}"
    relation = order(pinned, pageable)
    return decide(said, confirmed=pinned.high <= HELD_SHARE * pageable.low, refuted=relation in {"same", "more"})


def pageable_holds_the_host(of: Measured) -> Judgement:
    """Judge whether non_blocking copies of pageable memory return at once as well, at the largest size."""
    smallest, *_, largest = of.by_size("blocked, HtoD pageable")
    of.asked.extend((smallest, largest))
    said = (
        f"the call takes {shown(smallest)} at {size(smallest.size or 0)}, {shown(largest)} at {size(largest.size or 0)}"
    )
    relation = order(smallest, largest)
    held = relation == "less" and largest.low > smallest.high / HELD_SHARE
    return decide(said, confirmed=relation in {"same", "more"}, refuted=held)


def always_anew(of: Measured) -> Judgement:
    """Judge whether pinned memory costs as much again as the first time."""
    return reverse(again_is_cheap(of))


def costs_more(of: Measured) -> Judgement:
    """Judge whether pinned memory costs more to get than pageable memory, at the largest size."""
    return _at_largest(of, "allocate, pinned", "allocate, pageable", "more")


def again_is_cheap(of: Measured) -> Judgement:
    """Judge whether pinned memory costs less again than the first time, at the largest size."""
    return _at_largest(of, "allocate, pinned again", "allocate, pinned", "less")


def _at_largest(of: Measured, first: str, second: str, wanted: Order) -> Judgement:
    one, other = (of.by_size(name)[-1] for name in (first, second))
    of.asked.extend((one, other))
    outcome, said = ordered(one, other, wanted)
    return Judgement(outcome, f"{size(one.size or 0)}: {said}")


PUBLISHED_RATES = (
    Published("HtoD pageable", 2.308439, PUBLISHED_BYTES),
    Published("DtoH pageable", 2.316220, PUBLISHED_BYTES),
    Published("HtoD pinned", 5.774224, PUBLISHED_BYTES),
    Published("DtoH pinned", 5.958834, PUBLISHED_BYTES),
)
