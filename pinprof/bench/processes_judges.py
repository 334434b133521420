"""Judges of the claims on processes and on rates (E11, E12, E13)."""

from collections.abc import Sequence
from math import comb

from pinprof.bench.experiment import MIB, Published
from pinprof.bench.figures import (
    LARGE_BYTES,
    MATTERS,
    WAYS,
    Order,
    is_faster_than_reported,
    order,
    ratios,
    ratios_of_ratios,
    shown,
    times,
)
from pinprof.bench.judging import (
    BARELY,
    HIDDEN,
    MOSTLY,
    TWICE,
    ClaimJudgement,
    Measured,
    MissingError,
    against,
    all_pairs_by_size,
    beyond,
    decide,
    pairs_by_size,
    reverse,
)
from pinprof.bench.results import Figure
from pinprof.units import percent, rate, size

EIGHTY_ONE = 81.0
"""How many times as fast pinned memory was in the first of the text's two processes; 90 in the other."""
REACHES = 0.9
"""A machine with this share of a link's usual rate reaches the rate of the link."""
PUBLISHED_BYTES = 16 * MIB
CHANCE = 0.05
"""The largest probability that a count which decides a claim is chance."""
HELD_SHARE = 0.1
"""A call is negligible compared with another if it takes at most this share of the other's time."""
ALIKE = 1.25
"""Copies are as fast as each other if neither is this many times as fast; pinned ones are three or four times."""
BY_EVENTS = ("as written", "bare, by events")
BY_CLOCK = ("as written", "in the object, by perf_counter")
"""The text's two programs, as written and with the other's clock: BY_CLOCK begins with E11's, BY_EVENTS with E12's."""
PAGEABLE_ACCESS = "the GPU can access pageable memory"
"""A property of the GPU that the driver reports."""
ARRIVES = "a tensor that is sent to a process arrives in shared memory, unpinned: no pinned memory is timed"


def as_fast_as_published(measured: Measured) -> ClaimJudgement:
    """Judge by memory that the child pins itself; the figure of the text's own program is shown, too."""
    written = measured.maybe("times as fast, as written")
    outcome, why = beyond("times as fast, pinned in the child", EIGHTY_ONE)(measured)
    return ClaimJudgement(outcome, f"pinned in the child {why}" + (f"; as written {shown(written)}" if written else ""))


def was_first_use(measured: Measured) -> ClaimJudgement:
    """Judge whether the first copy was slow, pinned or pageable, and mostly because of the first use of CUDA."""
    pageable_first, pinned_second = measured.all("pageable, first", "pinned, second")
    pinned_first, pageable_second = measured.all("pinned, first", "pageable, second")
    use = measured("first use of CUDA")
    follows = {order(pinned_second, pageable_first), order(pageable_second, pinned_first)}
    share = use.median / pageable_first.median if pageable_first.median > 0 else 0.0
    why = (
        f"{against(pinned_second, pageable_first)}; in the other order {against(pageable_second, pinned_first)}; "
        f"the first use of CUDA alone takes {shown(use)}, {percent(share)} of the first copy"
    )
    return decide(why, confirmed=follows == {"less"} and share > MOSTLY, refuted="more" in follows or "same" in follows)


def no_faster_in_the_object(measured: Measured) -> ClaimJudgement:
    """Judge by copies in turn, after a warm-up; the figure of the text's own program is shown, too."""
    written, again = measured.maybe("times as fast, as written"), measured("times as fast, sent to the child")
    why = f"{shown(again)} as fast, in turn after a warm-up" + (f"; as written {shown(written)}" if written else "")
    return decide(why, confirmed=again.high <= 1 + MATTERS, refuted=again.low > 1 + MATTERS)


def faster_bare(measured: Measured) -> ClaimJudgement:
    """Judge by copies in turn, after a warm-up, whether the tensor that is sent bare is copied faster."""
    ratio = measured("times as fast, bare instead of in an object")
    why = f"{shown(ratio)} as fast, in turn after a warm-up"
    return decide(why, confirmed=ratio.low > 1 + MATTERS, refuted=ratio.high <= 1 + MATTERS)


def differs_in_the_clock(measured: Measured) -> ClaimJudgement:
    """Judge whether the clock makes the large factor: both programs have it with one clock, and neither with the other.

    With perf_counter the first copy includes the first use of CUDA; the first event is recorded after that.
    """
    by_clock = [measured.of("E11")(f"times as fast, {BY_CLOCK[0]}"), measured(f"times as fast, {BY_CLOCK[1]}")]
    by_events = measured.all(*(f"times as fast, {name}" for name in BY_EVENTS))
    object_by_events, bare_by_events = by_events
    why = (
        f"bare {shown(by_clock[0])} by perf_counter, {shown(bare_by_events)} by events; "
        f"in the object {shown(by_clock[1])} by perf_counter, {shown(object_by_events)} by events"
    )
    least, most = min(figure.low for figure in by_clock), max(figure.high for figure in by_events)
    as_large = max(figure.low for figure in by_events) >= min(figure.high for figure in by_clock)
    return decide(why, confirmed=least > TWICE * most, refuted=as_large)


def goes_as_pageable(measured: Measured) -> ClaimJudgement:
    """Judge whether a copy from shared memory is like a pageable one: as fast, with a call as long as the copy."""
    sent, pageable, pinned = measured.all("pinned, sent to the child", "pageable", "pinned in the child itself")
    ratio, call = measured("times as fast, sent to the child"), measured("call, pinned, sent to the child")
    why = (
        f"{shown(ratio)} as fast as from pageable memory, the call lasts {shown(call)} of the {shown(sent)}; "
        f"{against(pinned, pageable)}"
    )
    as_fast = ratio.low >= 1 / ALIKE and ratio.high <= ALIKE
    blocks, returns = call.low >= HIDDEN, call.high <= BARELY
    other = ratio.low > ALIKE or ratio.high < 1 / ALIKE or returns
    return decide(why, confirmed=as_fast and blocks and order(pinned, pageable) == "less", refuted=other)


def reaches_the_link(measured: Measured) -> ClaimJudgement:
    """Judge whether pinned copies of some size reach, in both directions, the usual rate of such a link.

    For each direction it names the size whose spread has the highest low end.
    """
    rates = [measured.usable(f"{way} pinned") for way in WAYS]
    surest = [max(figures, key=lambda figure: figure.low) for figures in rates]
    measured.asked.extend(surest)
    link = measured.bench.machine.link
    why = " and ".join(f"{rate(figure.median)} ({figure.name})" for figure in surest)
    if link is None:
        return ClaimJudgement("unknown", f"{why}; the driver does not say the generation and width of the link")
    why += f" of {rate(link.theoretical)} on {link.name}, of which {rate(link.usual)} is usual"
    if is_faster_than_reported(measured.bench, link):
        return ClaimJudgement("unknown", f"{why}: the link is faster than the driver reports")
    reached = REACHES * link.usual
    return decide(
        why,
        confirmed=all(figure.low >= reached for figure in surest),
        refuted=all(max(figure.high for figure in figures) < reached for figures in rates),
    )


def at_most_of_sizes(ways: Sequence[Sequence[Order]], expected: Order, why: str) -> ClaimJudgement:
    """Judge by figures of many sizes: in each direction most are in the wanted order, and none is in another.

    Sizes whose spread is too wide contradict nothing.
    """
    contradicted = any(relation not in {expected, "unsure"} for relations in ways for relation in relations)
    mostly = all(relations.count(expected) > MOSTLY * len(relations) for relations in ways)
    never = not any(expected in relations for relations in ways)
    return decide(why, confirmed=mostly and not contradicted, refuted=never and contradicted)


def slower_pageable(measured: Measured) -> ClaimJudgement:
    """Judge whether pageable copies are slower than pinned ones, both ways and at the sizes from 1 MiB on."""
    ways, why = [], []
    for way in WAYS:
        pairs = pairs_by_size(measured, f"{way} pageable", f"{way} pinned", LARGE_BYTES)
        relations = [order(*pair) for pair in pairs]
        best = [max(figures, key=lambda figure: figure.median) for figures in zip(*pairs, strict=True)]
        why.append(
            f"{way} {rate(best[0].median)} pageable, {rate(best[1].median)} pinned at best, slower beyond the spread "
            f"at {relations.count('less')} of {len(pairs)} sizes"
        )
        ways.append(relations)
    return at_most_of_sizes(ways, "less", "; ".join(why))


def more_than_twice(measured: Measured) -> ClaimJudgement:
    """Judge whether pinned copies have more than twice the rate at the published size, both ways."""
    pairs = [(measured(f"{way} pinned", PUBLISHED_BYTES), measured(f"{way} pageable", PUBLISHED_BYTES)) for way in WAYS]
    least, most = zip(*(ratios(*pair) for pair in pairs), strict=True)
    why = "; ".join(against(*pair) for pair in pairs)
    return decide(why, confirmed=min(least) > TWICE, refuted=max(most) <= TWICE)


def own_memory_is_faster(measured: Measured) -> ClaimJudgement:
    """Judge whether copies on the GPU have a much higher rate than those over the link: more than twice."""
    own, link = pairs_by_size(measured, "DtoD", "HtoD pinned")[-1]
    measured.asked.extend((own, link))
    least, most = ratios(own, link)
    why = f"at {size(own.size or 0)} {against(own, link)}"
    return decide(why, confirmed=least > TWICE, refuted=most <= TWICE)


def slower_though_in_memory(measured: Measured) -> ClaimJudgement:
    """Judge whether the disk makes pageable copies slow: memory that was just written is not on disk."""
    outcome, why = reverse(slower_pageable(measured))
    return ClaimJudgement(outcome, f"of memory just written {why}")


def gains_more_when_large(measured: Measured) -> ClaimJudgement:
    """Judge whether pinned memory gains more at the largest size than at the smallest, to the GPU."""
    pairs = pairs_by_size(measured, "HtoD pinned", "HtoD pageable")
    if len({pinned.size for pinned, _ in pairs}) < 2:  # noqa: PLR2004  the smallest and the largest
        raise MissingError("HtoD pinned and pageable at two sizes")
    small, large = pairs[0], pairs[-1]
    measured.asked.extend((*small, *large))
    why = " and ".join(
        f"{times(pinned.median, pageable.median)} as fast at {size(pinned.size or 0)}"
        for pinned, pageable in (small, large)
    )
    least, most = ratios_of_ratios(large, small)
    return decide(why, confirmed=least > 1, refuted=most <= 1)


def differ_between_machines(measured: Measured) -> ClaimJudgement:
    """Judge whether this machine has other rates than the text's."""
    relations, why = [], []
    for published in PUBLISHED_RATES:
        here, value = measured(published.figure, published.size), published.value
        there = Figure(published.figure, here.unit, value, value, value, 1, published.size)
        relations.append(order(there, here))
        why.append(f"{published.figure} {shown(here)} here, {shown(there)} there")
    differs = "less" in relations or "more" in relations
    return decide("; ".join(why), confirmed=differs, refuted="unsure" not in relations)


def more_predictable(measured: Measured) -> ClaimJudgement:
    """Judge whether copies of pinned memory vary less: at each size, by the spread as a share of the median.

    Unusable rates count here, as the claim is about rounds that differ.
    """
    pairs = [
        pair for way in WAYS for pair in all_pairs_by_size(measured, f"{way} pageable", f"{way} pinned", LARGE_BYTES)
    ]
    steadier = sum(_variation(pinned) < _variation(pageable) for pageable, pinned in pairs)
    why = (
        f"of {len(pairs)} sizes and ways from {size(LARGE_BYTES)} on pinned copies vary less in {steadier}: by "
        f"{percent(_middle([_variation(pinned) for _, pinned in pairs]))} against "
        f"{percent(_middle([_variation(pageable) for pageable, _ in pairs]))} of the median, in the middle"
    )
    return decide(
        why,
        confirmed=_by_chance(steadier, len(pairs)) < CHANCE,
        refuted=_by_chance(len(pairs) - steadier, len(pairs)) < CHANCE,
    )


def _by_chance(hits: int, tries: int) -> float:
    """Return how likely at least `hits` of the tries hit if hit and miss are equally likely (sign test)."""
    return sum(comb(tries, number) for number in range(hits, tries + 1)) / 2**tries


def _variation(figure: Figure) -> float:
    return (figure.high - figure.low) / figure.median if figure.median > 0 else 0.0


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def is_staged(measured: Measured) -> ClaimJudgement:
    """Judge whether the host copies pageable memory before the GPU does.

    Then the call of a small copy takes its values along: the GPU gets them although the host overwrites the source
    before the GPU copies. During a large copy the call lasts and the process uses a CPU. Neither happens with pinned
    memory.
    """
    from_pageable, from_pinned = (
        measured(f"taken along by the call, HtoD {memory}") for memory in ("pageable", "pinned")
    )
    pageable, pinned = (
        [_largest(measured, f"{what}, {way} {memory}") for way in WAYS for what in ("host busy", "call")]
        for memory in ("pageable", "pinned")
    )
    why = (
        f"small sources are taken along by the call: {shown(from_pageable)} (pageable), {shown(from_pinned)} (pinned); "
        f"for {_by_way(pageable)} of a large copy the host is busy and in the call, for {_by_way(pinned)} of a pinned"
    )
    taken_along = from_pageable.low == 1 and from_pinned.high == 0
    works = all(figure.low >= HIDDEN for figure in pageable) and all(figure.high <= BARELY for figure in pinned)
    idle = any(figure.high <= BARELY for figure in pageable)
    return decide(why, confirmed=taken_along and works, refuted=idle)


def _by_way(figures: Sequence[Figure]) -> str:
    """Return two figures of each direction: "98 % and 99 % (HtoD), 97 % and 98 % (DtoH)"."""
    pairs = zip(WAYS, figures[::2], figures[1::2], strict=True)
    return ", ".join(f"{shown(busy)} and {shown(call)} ({way})" for way, busy, call in pairs)


def _largest(measured: Measured, name: str) -> Figure:
    figure = measured.by_size(name)[-1]
    measured.asked.append(figure)
    return figure


def leaves_the_cpu_free(measured: Measured) -> ClaimJudgement:
    """Judge whether the process uses no CPU while memory that is pinned is copied, both ways."""
    pinned, pageable = (
        [_largest(measured, f"host busy, {way} {memory}") for way in WAYS] for memory in ("pinned", "pageable")
    )
    why = "; ".join(
        f"CPUs run for {shown(one)} of the copy's time ({way} pinned), for {shown(other)} ({way} pageable)"
        for way, one, other in zip(WAYS, pinned, pageable, strict=True)
    )
    free, not_free = all(figure.high <= BARELY for figure in pinned), any(figure.low >= HIDDEN for figure in pinned)
    return decide(why, confirmed=free, refuted=not_free)


def host_is_free(measured: Measured) -> ClaimJudgement:
    """Judge whether calls of pinned copies return at once while the stream is busy, compared with pageable ones."""
    pinned, pageable = measured.by_size("blocked, HtoD pinned")[-1], measured.by_size("blocked, HtoD pageable")[-1]
    measured.asked.extend((pinned, pageable))
    if pinned.size != pageable.size or not pageable.median:
        raise MissingError("blocked, HtoD pinned and pageable at one size")
    why = f"at {size(pinned.size or 0)} the call takes {against(pinned, pageable)}"
    relation = order(pinned, pageable)
    return decide(why, confirmed=pinned.high <= HELD_SHARE * pageable.low, refuted=relation in {"same", "more"})


def pageable_holds_the_host(measured: Measured) -> ClaimJudgement:
    """Judge whether non_blocking copies of pageable memory return at once as well, at the largest size."""
    smallest, *_, largest = measured.by_size("blocked, HtoD pageable")
    measured.asked.extend((smallest, largest))
    why = (
        f"the call takes {shown(smallest)} at {size(smallest.size or 0)}, {shown(largest)} at {size(largest.size or 0)}"
    )
    relation = order(smallest, largest)
    is_held = relation == "less" and largest.low > smallest.high / HELD_SHARE
    return decide(why, confirmed=relation in {"same", "more"}, refuted=is_held)


PUBLISHED_RATES = (
    Published("HtoD pageable", 2.308439, PUBLISHED_BYTES),
    Published("DtoH pageable", 2.316220, PUBLISHED_BYTES),
    Published("HtoD pinned", 5.774224, PUBLISHED_BYTES),
    Published("DtoH pinned", 5.958834, PUBLISHED_BYTES),
)
