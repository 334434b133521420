"""E11, E12, E13, E15: what an article does and says that times pinned against pageable memory over processes."""

from collections.abc import Sequence

from pinprof.bench.experiment import (
    ANSWER,
    ARTICLE,
    GIB,
    MIB,
    OURS,
    PROCESSES,
    TUTORIAL,
    Claim,
    Experiment,
    Published,
    Size,
)
from pinprof.bench.judging import (
    Judgement,
    Measured,
    MissingError,
    Outcome,
    against,
    answers,
    beyond,
    less,
    not_less,
    pairs_by_size,
    ratios,
)
from pinprof.bench.link import link_of
from pinprof.bench.order import order, shown, times
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


def _as_fast_as_published(of: Measured) -> Judgement:
    """Judge by memory that is pinned where it is copied; the text's own figure, taken as it takes it, stands beside."""
    written = of.maybe("times as fast, as written")
    outcome, said = beyond("times as fast, pinned in the child", EIGHTY_ONE)(of)
    return Judgement(outcome, f"pinned in the child {said}" + (f"; as written {shown(written)}" if written else ""))


def _was_first_use(of: Measured) -> Judgement:
    """Judge whether the copy that came first was slow, whichever it was, and mostly by the first use of CUDA."""
    pageable_first, pinned_second = of.all("pageable, first", "pinned, second")
    pinned_first, pageable_second = of.all("pinned, first", "pageable, second")
    use = of("first use of CUDA")
    follows = [order(pinned_second, pageable_first), order(pageable_second, pinned_first)]
    share = use.median / pageable_first.median if pageable_first.median > 0 else 0.0
    said = (
        f"{against(pinned_second, pageable_first)}; in the other order {against(pageable_second, pinned_first)}; "
        f"the first use of CUDA alone takes {shown(use)}, {percent(share)} of the first copy"
    )
    if all(relation == "less" for relation in follows) and share > MOSTLY:
        return Judgement("confirmed", said)
    return Judgement("refuted" if "more" in follows or "same" in follows else "depends", said)


def _sent_bare_is_faster(of: Measured) -> Judgement:
    return less("pinned, sent bare", "pinned, sent to the child")(of)


def _reaches_the_link(of: Measured) -> Judgement:
    best = [max(of.by_size(f"{way} pinned"), key=lambda figure: figure.median) for way in WAYS]
    of.asked.extend(best)
    link = link_of(of.bench.machine)
    said = " and ".join(f"{rate(figure.median)} ({figure.name})" for figure in best)
    if link is None:
        return Judgement("unknown", f"{said}; the driver does not tell the generation and width of the link")
    said += f" of {rate(link.theoretical)} on {link.name}, of which {rate(link.usual)} are usual"
    if any(figure.low > link.theoretical for figure in best):
        return Judgement("unknown", f"{said}: the link is faster than the driver reports")
    if all(figure.low >= REACHES * link.usual for figure in best):
        return Judgement("confirmed", said)
    return Judgement("refuted" if all(figure.high < REACHES * link.usual for figure in best) else "depends", said)


def _slower_pageable(of: Measured) -> Judgement:
    relations, said = [], []
    for way in WAYS:
        pairs = list(pairs_by_size(of, f"{way} pageable", f"{way} pinned", LARGE_BYTES))
        if not pairs:
            raise MissingError(f"{way} pageable and pinned from 1 MiB on")
        relations += [order(*pair) for pair in pairs]
        best = [max(each, key=lambda figure: figure.median) for each in zip(*pairs, strict=True)]
        said.append(f"{way} {rate(best[0].median)} pageable, {rate(best[1].median)} pinned at best")
    if all(relation == "less" for relation in relations):
        return Judgement("confirmed", "; ".join(said))
    return Judgement("depends" if "less" in relations else "refuted", "; ".join(said))


def _more_than_twice(of: Measured) -> Judgement:
    pairs = [(of(f"{way} pinned", PUBLISHED_BYTES), of(f"{way} pageable", PUBLISHED_BYTES)) for way in WAYS]
    factors = [ratios(*pair) for pair in pairs]
    said = "; ".join(against(*pair) for pair in pairs)
    if all(least > TWICE for least, _ in factors):
        return Judgement("confirmed", said)
    return Judgement("refuted" if all(most <= TWICE for _, most in factors) else "depends", said)


def _own_memory_is_faster(of: Measured) -> Judgement:
    own, link = of.by_size("DtoD")[-1], of.by_size("HtoD pinned")[-1]
    of.asked.extend((own, link))
    least, most = ratios(own, link)
    said = f"at {size(own.size or 0)} {against(own, link)}"
    if least > TWICE:
        return Judgement("confirmed", said)
    return Judgement("refuted" if most <= TWICE else "depends", said)


def _slower_though_in_memory(of: Measured) -> Judgement:
    """Judge whether it is the disk that makes pageable copies slow: of memory just written none is on disk."""
    outcome, said = _slower_pageable(of)
    opposite: dict[Outcome, Outcome] = {"confirmed": "refuted", "refuted": "confirmed"}
    return Judgement(opposite.get(outcome, outcome), f"of memory just written {said}")


def _gains_more_when_large(of: Measured) -> Judgement:
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
    if large_least > small_most:
        return Judgement("confirmed", said)
    return Judgement("refuted" if large_most <= small_least else "depends", said)


def _turns_on_the_machine(of: Measured) -> Judgement:
    """Judge whether this machine has other rates than the text's."""
    relations, said = [], []
    for each in PUBLISHED_RATES:
        here = of(each.figure, each.size)
        there = Figure(each.figure, here.unit, each.value, each.value, each.value, 1, each.size)
        relations.append(order(there, here))
        said.append(f"{each.figure} {shown(here)} here, {shown(there)} there")
    if {"less", "more"} & set(relations):
        return Judgement("confirmed", "; ".join(said))
    return Judgement("depends" if "unsure" in relations else "refuted", "; ".join(said))


def _more_predictable(of: Measured) -> Judgement:
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
    if share > 1 - HELD_SHARE:
        return Judgement("confirmed", said)
    return Judgement("refuted" if share < MOSTLY else "depends", said)


def _variation(figure: Figure) -> float:
    return (figure.high - figure.low) / figure.median if figure.median > 0 else 0.0


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _host_is_free(of: Measured) -> Judgement:
    """Judge whether calls of pinned copies return at once while the stream is busy: against pageable ones that wait."""
    pinned, pageable = of.by_size("blocked, HtoD pinned")[-1], of.by_size("blocked, HtoD pageable")[-1]
    of.asked.extend((pinned, pageable))
    if pinned.size != pageable.size or not pageable.median:
        raise MissingError("blocked, HtoD pinned and pageable at one size")
    said = f"at {size(pinned.size or 0)} the call takes {against(pinned, pageable)}"
    if pinned.high <= HELD_SHARE * pageable.low:
        return Judgement("confirmed", said)
    return Judgement("refuted" if order(pinned, pageable) in {"same", "more"} else "depends", said)


def _pageable_holds_the_host(of: Measured) -> Judgement:
    """Judge whether non_blocking copies of pageable memory return at once as well, at the largest size."""
    smallest, *_, largest = of.by_size("blocked, HtoD pageable")
    of.asked.extend((smallest, largest))
    said = (
        f"the call takes {shown(smallest)} at {size(smallest.size or 0)}, {shown(largest)} at {size(largest.size or 0)}"
    )
    if order(smallest, largest) == "less" and largest.low > smallest.high / HELD_SHARE:
        return Judgement("refuted", said)
    return Judgement("confirmed" if order(smallest, largest) in {"same", "more"} else "depends", said)


def _always_anew(of: Measured) -> Judgement:
    outcome, said = _again_is_cheap(of)
    opposite: dict[Outcome, Outcome] = {"confirmed": "refuted", "refuted": "confirmed"}
    return Judgement(opposite.get(outcome, outcome), said)


def _costs_more(of: Measured) -> Judgement:
    pinned, pageable = of.by_size("allocate, pinned")[-1], of.by_size("allocate, pageable")[-1]
    of.asked.extend((pinned, pageable))
    relation = order(pinned, pageable)
    said = f"{size(pinned.size or 0)}: {against(pinned, pageable)}"
    if relation == "more":
        return Judgement("confirmed", said)
    return Judgement("depends" if relation == "unsure" else "refuted", said)


def _again_is_cheap(of: Measured) -> Judgement:
    first, again = of.by_size("allocate, pinned")[-1], of.by_size("allocate, pinned again")[-1]
    of.asked.extend((again, first))
    relation = order(again, first)
    said = f"{size(first.size or 0)}: {against(again, first)}"
    if relation == "less":
        return Judgement("confirmed", said)
    return Judgement("depends" if relation == "unsure" else "refuted", said)


PUBLISHED_RATES = (
    Published("HtoD pageable", 2.308439, PUBLISHED_BYTES),
    Published("DtoH pageable", 2.316220, PUBLISHED_BYTES),
    Published("HtoD pinned", 5.774224, PUBLISHED_BYTES),
    Published("DtoH pinned", 5.958834, PUBLISHED_BYTES),
)

OF_PROCESSES = {
    "E11": Experiment(
        "E11",
        "processes",
        "two processes that copy 40 MB each from pageable and from pinned memory: the first time and later",
        (
            Claim(
                "Pinned memory is 81 to 90 times as fast as pageable memory",
                (PROCESSES,),
                _as_fast_as_published,
                "1.055 s against 12.9 ms and 1.169 s against 13.0 ms: 81.47 and 89.80 times",
                f"the first copy of a process has the first use of CUDA in it, and {ARRIVES}",
            ),
            Claim(
                "What comes first is slow, pinned or not: the 80 times were the first use of CUDA",
                (OURS,),
                _was_first_use,
            ),
            Claim(
                'The "pinned" tensor, passed bare to a process, arrives unpinned and in shared memory',
                (OURS,),
                answers({"pinned in the parent": True, "pinned on arrival": False, "shared on arrival": True}),
            ),
        ),
        (
            Published("pageable, first", 1054.59),
            Published("pinned, second", 12.945),
            Published("times as fast, as written", 81.47),
        ),
        (
            Size("floats", 10_000_000, "numbers of 4 bytes that each process copies"),
            Size("processes", 2, "processes that copy at the same time"),
        ),
        ("pageable", "pinned, as it arrives", "pinned in the child"),
        "the program is run as it is, then with the two copies in the other order, then after a warm-up with a third "
        "copy, of a tensor pinned in the child",
    ),
    "E12": Experiment(
        "E12",
        "pinned_in_object",
        "a pinned tensor in an object that is sent to two processes, copied to the GPU there; and one sent bare",
        (
            Claim(
                "The pinned tensor of an object is no faster than the pageable one",
                (PROCESSES,),
                not_less("pinned, sent to the child", "pageable"),
                "13.7 against 13.5 and 13.8 against 13.6 ms: 1.01 times",
            ),
            Claim(
                "It is the object that makes it slow: sent bare the tensor is faster",
                (PROCESSES,),
                _sent_bare_is_faster,
                "bare 12.9 and 13.0 ms (E11)",
                ARRIVES,
            ),
            Claim(
                "The tensor arrives unpinned, in an object or bare",
                (OURS,),
                answers(
                    {"pinned in the parent": True, "pinned in the child": False, "pinned, bare in the child": False}
                ),
            ),
            Claim(
                "Pinned in the child itself it is faster than what was sent",
                (OURS,),
                less("pinned in the child itself", "pinned, sent to the child"),
            ),
            Claim(
                "Data in shared memory go to the GPU by way of pinned memory, as pageable ones do",
                (TUTORIAL,),
                less("pinned in the child itself", "pageable"),
            ),
        ),
        (Published("pageable", 13.695), Published("pinned, sent to the child", 13.505)),
        (
            Size("floats", 10_000_000, "numbers of 4 bytes in the tensor"),
            Size("processes", 2, "processes that copy at the same time"),
        ),
        ("pageable", "pinned, sent to the child", "pinned in the child itself"),
        "each copy is repeated after a warm-up; the bare tensor and the one pinned in the child are ours",
    ),
    "E13": Experiment(
        "E13",
        "bandwidth",
        "copies of 4 KiB to 1 GiB in both directions, from and to pageable and pinned memory, and on the GPU",
        (
            Claim(
                "Copies of pinned memory have more than twice the rate of pageable ones",
                (PROCESSES,),
                _more_than_twice,
                differs="it turns on the link, and on how fast the host stages",
            ),
            Claim(
                "Copies of pinned memory reach the rate of the link",
                (PROCESSES,),
                _reaches_the_link,
                '"basically" the bandwidth of PCIe',
            ),
            Claim(
                "Those of pageable memory do not: the driver stages them through pinned memory of its own",
                (TUTORIAL, ARTICLE, PROCESSES),
                _slower_pageable,
            ),
            Claim(
                "Pinned memory is faster because none of it is on disk",
                (ANSWER,),
                _slower_though_in_memory,
                differs="it costs the second copy, within the host's memory; the same answer speaks of it",
            ),
            Claim(
                "Pinned memory gains more for large tensors than for small ones",
                (TUTORIAL,),
                _gains_more_when_large,
                differs="of small copies the time to start decides, of large ones the rate",
            ),
            Claim(
                "The rates turn on the host's board, CPU and chipset, and on the GPU",
                (PROCESSES,),
                _turns_on_the_machine,
                "NVS 4200M",
            ),
            Claim(
                "The GPU reaches its own memory at a much higher rate than the host's",
                (ARTICLE,),
                _own_memory_is_faster,
                differs="it turns on the link and the GPU's memory; here more than twice is much higher",
            ),
            Claim(
                "Pinned memory makes copies more predictable",
                (TUTORIAL,),
                _more_predictable,
                differs="both vary with what else the host does",
            ),
            Claim(
                "A non_blocking copy of pinned memory leaves the host free",
                (TUTORIAL, ARTICLE, PROCESSES),
                _host_is_free,
            ),
            Claim(
                "With non_blocking=True the host is not blocked, whatever the memory",
                (TUTORIAL,),
                _pageable_holds_the_host,
                differs="a small pageable source the driver takes along at once; a larger one it stages in the call, "
                "and waits for the stream first",
            ),
        ),
        PUBLISHED_RATES,
        (
            Size("least", 4096, "bytes of the smallest copy", of_text=False),
            Size(
                "most",
                GIB,
                "bytes of the largest copy; each is four times the one before",
                quick=64 * MIB,
                of_text=False,
            ),
        ),
        ("HtoD pageable", "HtoD pinned", "DtoH pageable", "DtoH pinned", "DtoD"),
        "the text's figures are of an old laptop, at 16 MB alone; the other sizes are ours",
    ),
    "E15": Experiment(
        "E15",
        "pinned_limits",
        "what pinned memory costs by size, what comes of asking for too much, and what the host does beside it",
        (
            Claim(
                "A pinned allocation may fail, and the error can be handled",
                (PROCESSES,),
                answers({"too much raises an error": True, "the GPU works after it": True}),
            ),
            Claim(
                "To pin too much memory makes the machine slower",
                (PROCESSES, TUTORIAL),
                less("host copy, nothing pinned", "host copy, much pinned"),
                differs="while enough memory is left, nothing is slower; how much is too much, the text says, only the "
                "machine's own work can tell",
            ),
            Claim(
                "Each pin_memory() gets its memory anew, by cudaHostAlloc",
                (TUTORIAL,),
                _always_anew,
                differs="torch keeps pinned memory that is given back, and hands it out again",
            ),
            Claim("Pinned memory costs more to get than pageable memory", (OURS,), _costs_more),
            Claim(
                "Pinned memory that torch has had before costs little to get again",
                (OURS,),
                _again_is_cheap,
            ),
        ),
        sizes=(
            Size("least", MIB, "bytes of the smallest allocation", of_text=False),
            Size("most", GIB, "bytes of the largest one", quick=64 * MIB, of_text=False),
            Size("held", 4 * GIB, "bytes that are pinned while the host copies", quick=GIB, of_text=False),
        ),
        cases=("allocate, pageable", "allocate, pinned", "allocate, pinned again"),
        changed="the text warns of it and has no program for it",
    ),
}
