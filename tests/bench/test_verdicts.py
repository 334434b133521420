"""Each claim with figures that confirm it, refute it, leave it open, and are missing; and what lies between them."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from bench_builder import H200, BenchBuilder, count, gbps, measured, ms
from msgspec.structs import replace

from pinprof.bench.article_judges import LONGER
from pinprof.bench.catalogue import EXPERIMENTS, ClaimVerdict, experiment_of, verdicts
from pinprof.bench.experiment import Claim
from pinprof.bench.judging import ClaimOutcome, NotJudged
from pinprof.bench.results import Figure, Machine
from pinprof.bench.tutorial_judges import CASES, IN_TURN, KERNELS_FIRST, SENT, STRATEGIES, TEXTS_KERNELS
from pinprof.bench.tutorial_judges import MADE as WRITTEN

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
Figures = tuple[Figure, ...]
E11 = "E11: "
"""Begins the names of figures of another experiment."""
CLAIMS = [(known.number, claim) for known in EXPERIMENTS for claim in known.claims]
JUDGED = [(number, claim) for number, claim in CLAIMS if not isinstance(claim.judge, NotJudged)]


def judged(number: str, claim: str, *figures: Figure, machine: Machine = H200) -> ClaimVerdict:
    """Return the verdict on the claim of an experiment that begins so; some figures may be of E11."""
    of_e11 = [replace(figure, name=figure.name.removeprefix(E11)) for figure in figures if figure.name.startswith(E11)]
    bench = BenchBuilder(machine).add("E11", *of_e11)
    own = [figure for figure in figures if not figure.name.startswith(E11)]
    bench.add(number, *own, sizes=experiment_of(number).defaults())
    for begin, others in ON_OTHERS.items():
        if claim.startswith(begin):
            for other in others:
                bench.add(other, *own)
    matching = [
        verdict for verdict in verdicts(bench.build()) if verdict.number == number and verdict.claim.startswith(claim)
    ]
    assert len(matching) == 1, matching
    return matching[0]


def six(**changed: float) -> Figures:
    """Return the published times of the six strategies; by name without blanks others."""
    published = (394, 316, 315, 300, 573, 324)
    return tuple(
        ms(name, changed.get(name.replace(", ", "_").replace(" ", "_"), time))
        for name, time in zip(STRATEGIES, published, strict=True)
    )


Row = Callable[..., Figures]


def row(kind: Callable[..., Figure], *names: str) -> Row:
    """Return what makes figures with these names of their values."""
    return lambda *values: tuple(kind(name, value) for name, value in zip(names, values, strict=True))


def percent(name: str, value: float) -> Figure:
    return count(name, "%", value)


def share(name: str, median: float, low: float | None = None, high: float | None = None) -> Figure:
    """Return a percentage with a spread."""
    return measured(name, "%", median, low, high)


def yes(name: str, value: float) -> Figure:
    return count(name, "yes", value)


def wrong(name: str, value: float) -> Figure:
    """Return how many of a hundred tries gave wrong values."""
    return count(name, "wrong", value, 100)


def rate(name: str, value: float) -> Figure:
    return measured(name, "GB/s", value)


def times(name: str, value: float) -> Figure:
    return measured(name, "times", value)


def factor(name: str, value: float) -> Figure:
    return times(f"times as fast, {name}", value)


def lead(name: str, time: float) -> Figure:
    return measured(f"ahead, {name}", "ms", time, time - 0.1, time + 0.1)


def overlapped(*shares: float, kernels: str = "", possible: float = 100) -> Figures:
    """Return the shares of the four cases of E4; a fifth share is of the case with kernels first."""
    if len(shares) > len(CASES):
        own = count(f"overlapped, {KERNELS_FIRST}", "%", shares[-1]), count(f"possible, {KERNELS_FIRST}", "%", possible)
        return (*overlapped(*shares[:-1], kernels=kernels, possible=possible), *own)
    return (
        *(count(f"overlapped, {case}{kernels}", "%", share) for case, share in zip(CASES, shares, strict=True)),
        *(count(f"possible, {case}{kernels}", "%", possible) for case in CASES),
    )


def few(gain: float, pinned: float | None = None) -> Figures:
    """Return the times of few tensors; their non_blocking copies are `gain` times as fast as blocking ones."""
    times = row(ms, *(f"few, {way}" for way in COPIED))
    return times(gain, 1, gain if pinned is None else pinned, 1)


def of_e2(gain: float) -> Figures:
    """Return the times of small tensors, of E2; their non_blocking copies are `gain` times as fast."""
    return ms("blocking", 10 * gain), ms("non_blocking, one synchronize", 10)


def left(longer: float) -> Figures:
    """Return by how much a step is longer for a pinned batch of 25.2 MB, whose copy takes 5.03 ms at 5 GB/s."""
    return measured(LONGER, "ms", longer, longer - 0.1, longer + 0.1), rate("rate, pinned, non_blocking", 5)


def prefetched(share: float, ahead: float, plain: float) -> Figures:
    return percent("overlapped, prefetcher", share), ms("prefetcher", ahead), ms("plain loop", plain)


def prefetchers(pinned: float, **shares: float) -> Figures:
    """Return which share of the copies of prefetchers is under kernels: `pageable`, `kernels_first`, `blocking`."""
    names = {"pageable": ", pageable", "kernels_first": ", pageable, kernels first", "blocking": ", blocking"}
    shares = {"": pinned, **{names[name]: share for name, share in shares.items()}}
    return tuple(percent(f"overlapped, prefetcher{name}", share) for name, share in shares.items())


def network(name: str, worst: float, best: float) -> Figures:
    """Return the steps of a network that takes 10 ms without a copy."""
    return row(ms, *(f"{name}{way}" for way in ("pageable, blocking", "pinned, non_blocking", "no copy")))(
        worst, best, 10
    )


def conclusions(pinned_first: float, plain: float, asynchronous: float, of_sent: float, read: float) -> Figures:
    """Return what the tutorial's three points are judged by; blocking copies take 400 and 320 ms."""
    return (
        *pinned_at(plain, pinned_first, pinned_first),
        *six(pageable_blocking=400, pinned_blocking=320, pageable_non_blocking=asynchronous, pinned_non_blocking=300),
        *row(wrong, *SENT, "read at once")(of_sent, of_sent, read),
    )


def held(queued: float, kept: float, fresh: float, grows: float = 4) -> Figures:
    """Return what the call of a copy that is only queued takes, and that of pin_memory(), of a larger tensor, too."""
    larger = ("", ", 4 times as large", ", fresh memory", ", 4 times as large, fresh memory")
    calls = row(ms, "call of pinned.to, non_blocking", *(f"call of pageable.pin_memory(){which}" for which in larger))
    return calls(queued, kept, grows * kept, fresh, grows * fresh)


def ahead(time: float) -> Figures:
    return (measured("ahead, plain loop", "ms", time, time - 1, time + 1),)


def links(htod: float, dtoh: float) -> Figures:
    return tuple(
        gbps(f"{way} pinned", size, rate)
        for way, at_best in zip(WAYS, (htod, dtoh), strict=True)
        for size, rate in ((4 * KIB, 1.0), (GIB, at_best))
    )


def staged(htod: float, dtoh: float, size: int = GIB) -> Figures:
    pinned = (gbps(f"{way} pinned", size, 50) for way in WAYS)
    return (*pinned, *(gbps(f"{way} pageable", size, rate) for way, rate in zip(WAYS, (htod, dtoh), strict=True)))


def untold(size: int) -> Figures:
    """Return rates of pageable memory that may be as high as those of pinned memory."""
    kinds = (("pinned", (50,)), ("pageable", (20, 5, 55)))
    return tuple(gbps(f"{way} {memory}", size, *rates) for way in WAYS for memory, rates in kinds)


def steady(pinned: float, pageable: float) -> Figures:
    """Return rates that vary by this many GB/s to either side, of three sizes both ways."""
    return tuple(
        gbps(f"{way} {memory}", size, 50, 50 - wide, 50 + wide)
        for way in WAYS
        for size in (MIB, 16 * MIB, GIB)
        for memory, wide in (("pinned", pinned), ("pageable", pageable))
    )


def blocked(memory: str, small: float, large: float) -> Figures:
    return ms(f"blocked, HtoD {memory}", small, size=4 * KIB), ms(f"blocked, HtoD {memory}", large, size=GIB)


def allocated(pageable: float, pinned: float, again: float) -> Figures:
    times = {"pageable": pageable, "pinned": pinned, "pinned again": again}
    return tuple(ms(f"allocate, {memory}", time, size=GIB) for memory, time in times.items())


def waits(counts: dict[str, float]) -> Figures:
    return tuple(count(f"waits, {case}", "waits", value) for case, value in counts.items())


def loop(written: float, without: float, size: str = "") -> Figures:
    """Return the steps as written and without .item()."""
    return ms(f"as written{size}", written), ms(f"without .item(){size}", without)


def calls(blocking: float, non_blocking: float, waited: float) -> Figures:
    copies = {"blocking": blocking, "non_blocking": non_blocking}
    figures = tuple(count(f"asynchronous copies, {how}", "calls", value) for how, value in copies.items())
    return (*figures, *waits({"blocking": waited}))


def gains(which: str, alone: float, in_threads: float) -> Figures:
    """Return the times of such tensors, and of many large ones that four threads pin in half the time."""
    ways = ("pin then copy", "pin in threads then copy")
    return row(ms, *(f"{which}, {way}" for way in ways), *ways)(alone, in_threads, 200, 100)


def rates(htod: float, dtoh: float) -> Figures:
    """Return the rates of pageable and pinned memory at the published size, the pinned ones two and a half times."""
    return tuple(
        gbps(f"{way} {memory}", 16 * MIB, factor * sizes)
        for way, sizes in (("HtoD", htod), ("DtoH", dtoh))
        for memory, factor in (("pageable", 1.0), ("pinned", 2.5))
    )


def growing(small: float, large: float) -> Figures:
    """Return pinned rates at 16 KiB and at 1 GiB, where pageable ones are 1 and 10 GB/s."""
    return tuple(
        gbps(f"HtoD {memory}", size, rate)
        for size, of_size in ((16 * KIB, (1, small)), (GIB, (10, large)))
        for memory, rate in zip(("pageable", "pinned"), of_size, strict=True)
    )


def shared(ratio: float, call: float) -> Figures:
    """Return how many times as fast as pageable copies, of 2.3 ms, those of shared memory are, and of the call."""
    times = row(ms, "pinned, sent to the child", "pageable", "pinned in the child itself")(2.3 / ratio, 2.3, 0.7)
    return factor("sent to the child", ratio), *times, share("call, pinned, sent to the child", call)


def beside(busy: float, call: float, pinned_busy: float, pinned_call: float, taken: float = 1) -> Figures:
    """Return for which percent of a copy the host is busy and in the call, of pageable and of pinned memory."""
    shares = (("pageable", busy, call), ("pinned", pinned_busy, pinned_call))
    return (
        *(
            measured(f"{what}, {way} {memory}", "%", value, size=GIB)
            for way in WAYS
            for memory, *values in shares
            for what, value in zip(("host busy", "call"), values, strict=True)
        ),
        *row(yes, *(f"taken along by the call, HtoD {memory}" for memory in ("pageable", "pinned")))(taken, 0),
    )


def working(nothing: float, some: float, much: float) -> Figures:
    """Return what the host's works take with nothing, 8 GiB and 16 GiB of 128 pinned; only the copy slows down."""
    return (
        *(
            ms(name, time if name == "host copy" else 10, size=pinned)
            for name in ("host copy", "fresh memory", "file read again")
            for time, pinned in ((nothing, 0), (some, 8 * GIB), (much, 16 * GIB))
        ),
        *(count("pinned of the host's memory", "%", 100 * part / 128, size=part * GIB) for part in (8, 16)),
    )


WAYS = ("HtoD", "DtoH")
COPIED = tuple(f"{memory}, {how}" for memory in ("pageable", "pinned") for how in ("blocking", "non_blocking"))
PINNING = "pageable.pin_memory().to, non_blocking"
ANEW = "pageable.pin_memory().to"
IN_THREADS = "pin in threads then copy"
THREAD = "pinned by a thread of its own"
pinned_at = row(ms, "pageable.to", PINNING, f"{PINNING}, fresh memory")
"""A plain copy, and one that is pinned on the way and not waited for: in memory kept or fresh."""
usual = row(ms, "pageable.to", ANEW, f"{ANEW}, fresh memory")
"""A plain copy, and one that is pinned on the way: in memory kept or fresh."""
one_tensor = row(ms, "pinned.to", "pageable.to")
small_tensors = row(ms, "non_blocking, one synchronize", "blocking")
EARLY = "copies asked for early"
at_once = row(share, f"{EARLY}, {COPIED[3]}", f"copies at once, {COPIED[3]}", f"{EARLY}, non_blocking")
"""Shares of large tensors, and the share of small ones, of E2, that the host asks for early."""
busy = row(percent, *(f"CPU time of other threads, {memory}" for memory in ("pageable", "pinned")))
first_uses = row(ms, "pageable, first", "pinned, second", "pinned, first", "pageable, second", "first use of CUDA")
leads = row(lead, *(f"{which}{size}" for size in ("", ", larger") for which in ("as written", "without .item()")))
"""How far the host is ahead in the two loops, of small batches and of larger ones."""
threads = row(ms, IN_THREADS, "non_blocking", "blocking")
pinners = row(ms, IN_THREADS, "pin then copy", IN_TURN)
"""What it takes where other threads pin, the main one before all copies, or in turn with them."""
tensordict = row(ms, *(f"TensorDict, {way}" for way in ("blocking", "non_blocking", "pin then copy", IN_THREADS)))
workers = row(yes, f"{THREAD}, with workers", f"{THREAD}, without workers")
collections = row(yes, "pinned, a list of tensors", "pinned, a dictionary of tensors")
sent = row(wrong, *SENT)
of_batches = row(rate, "rate, pinned, non_blocking", "rate, pageable, non_blocking")
in_the_child = row(ms, "pinned in the child itself", "pinned, sent to the child")
not_overwritten = row(wrong, "pageable source, copy then kernel", "pageable source")
locked = row(
    percent,
    *(f"locked by {name}" for name in ("VmLck, pageable", "VmLck, pinned", "VmFlags, pageable", "VmFlags, pinned")),
)
"""Percents of the bytes that VmLck and the flags of the mapping show as locked."""
swapped = row(percent, "swapped out when asked, pageable", "swapped out when asked, pinned")
GONE = "taken from the host"
taken = row(percent, f"{GONE}, allocated, pinned", f"{GONE}, allocated, pageable", f"{GONE}, written, pageable")
"""Percents of the bytes that are gone from what the host has left."""
own_rates = row(lambda name, value: gbps(name, GIB, value), "DtoD", "HtoD pinned")
CLOCKS = ("as written", "in the object, by perf_counter", "bare, by events")
clocks = row(times, f"{E11}times as fast, as written", *(f"times as fast, {clock}" for clock in CLOCKS))
"""The factors of E12 by program and clock; the first is that of E11 as written."""


WIDE = (0.2, 0.5)
"""Runs that lie among those of any other figure here."""
SLOWER, AT_MOST = (f"pin_memory().to(device, non_blocking=True) {which}" for which in ("can be", "takes at most"))
KEPT = "kept buffer, refilled and sent"
ENDED = "ended when its call returned, pinned"
FROM_PINNED, NON_BLOCKING = "To overlap, copies must be from pinned", "To overlap, copies must be non_blocking"
arrival = row(yes, "pinned in the parent", "pinned on arrival", "shared on arrival")
child = row(yes, "pinned in the parent", "pinned in the child", "pinned, bare in the child")
made = row(
    yes,
    "pinned, by pin_memory()",
    "a copy of the same values, by pin_memory()",
    "pinned, what was given to pin_memory()",
    "pinned, made with pin_memory=True",
)
limits = row(yes, "too much raises an error", "the GPU works after it")


MORE_THAN_AVAILABLE = "more than is available can be allocated, pageable"
CASES_OF_CLAIMS: list[tuple[str, str, ClaimOutcome, Figures]] = [
    ("E1", "A copy from pinned", "confirmed", one_tensor(0.315, 0.369)),
    ("E1", "A copy from pinned", "refuted", one_tensor(0.369, 0.315)),
    ("E1", "A copy from pinned", "refuted", one_tensor(0.365, 0.369)),
    ("E1", "A copy from pinned", "unknown", (ms("pinned.to", 0.315, *WIDE), ms("pageable.to", 0.369))),
    ("E1", "To pin a tensor", "confirmed", usual(0.3, 0.4, 2)),
    ("E1", "To pin a tensor", "depends", usual(0.3, 0.2, 2)),  # fresh memory is slower, memory that torch kept is not
    ("E1", "To pin a tensor", "refuted", usual(0.3, 0.2, 0.25)),
    ("E1", "To pin a tensor", "unknown", usual(0.3, 0.2, 2)[:2]),
    ("E1", "To pin a tensor", "unknown", (ms("pageable.to", 0.369, *WIDE), *usual(0.3, 0.4, 2)[1:])),
    ("E1", SLOWER, "confirmed", pinned_at(0.3, 0.2, 2)),  # slower in one case is enough for what can be
    ("E1", SLOWER, "confirmed", pinned_at(0.2, 0.4, 0.4)[:2]),
    ("E1", SLOWER, "refuted", pinned_at(0.3, 0.2, 0.25)),
    ("E1", SLOWER, "unknown", pinned_at(0.3, 0.2, 2)[:2]),
    ("E1", SLOWER, "depends", (ms("pageable.to", 0.4, *WIDE), *pinned_at(0.4, 0.3, 0.3)[1:])),
    ("E1", AT_MOST, "confirmed", pinned_at(0.3, 0.2, 0.5)),
    ("E1", AT_MOST, "depends", pinned_at(0.3, 0.2, 0.6)),
    ("E1", AT_MOST, "refuted", pinned_at(0.3, 0.2, 2)),
    ("E1", AT_MOST, "refuted", pinned_at(0.3, 0.7, 2)[:2]),
    ("E1", AT_MOST, "unknown", pinned_at(0.3, 0.2, 2)[:2]),  # fresh memory may cost more
    ("E1", "In rare cases", "confirmed", usual(0.4, 0.2, 2)),
    ("E1", "In rare cases", "depends", usual(0.4, 0.5, 2)),
    ("E1", "In rare cases", "depends", (*usual(0.4, 0.5, 2), ms(PINNING, 0.2))),  # of a copy that is not waited for
    ("E1", "pin_memory() holds", "confirmed", held(0.02, 0.05, 2)),
    ("E1", "pin_memory() holds", "confirmed", held(0.02, 0.05, 2)[:3]),
    ("E1", "pin_memory() holds", "depends", held(0.02, 0.05, 2, grows=1)),  # a larger tensor holds it no longer
    ("E1", "pin_memory() holds", "refuted", held(0.05, 0.04, 0.04, grows=1)),
    ("E1", "pin_memory() holds", "unknown", (*held(0.02, 0.05, 2)[:2], *held(0.02, 0.05, 2)[3:])),
    ("E1", "To allocate", "confirmed", (ms(WRITTEN[1], 0.2), ms(WRITTEN[0], 0.3))),
    ("E1", "To allocate", "refuted", (ms(WRITTEN[1], 0.3), ms(WRITTEN[0], 0.3))),
    ("E1", "To allocate", "unknown", (ms(WRITTEN[1], 0.2, *WIDE), ms(WRITTEN[0], 0.3))),
    ("E1", "A pinned buffer", "confirmed", (ms("pinned.to", 0.1), ms(KEPT, 0.2))),
    ("E1", "A pinned buffer", "refuted", (ms("pinned.to", 0.1), ms(KEPT, 0.101))),
    ("E1", "A pinned buffer", "unknown", (ms("pinned.to", 0.1, 0.05, 0.3), ms(KEPT, 0.2))),
    ("E2", "Of many small", "confirmed", small_tensors(12.05, 16.35)),
    ("E2", "Of many small", "refuted", small_tensors(16.35, 12.05)),
    ("E2", "Of many small", "unknown", (ms("non_blocking, one synchronize", 12.05, 9, 20), ms("blocking", 16.35))),
    ("E2", "The host waits", "confirmed", waits({"blocking": 1000, "non_blocking": 1})),
    ("E2", "The host waits", "depends", waits({"blocking": 1000, "non_blocking": 500})),
    ("E2", "The host waits", "refuted", waits({"blocking": 1000, "non_blocking": 1000})),
    ("E2", "A blocking copy", "confirmed", calls(1000, 1000, 1000)),
    ("E2", "A blocking copy", "depends", calls(500, 1000, 1000)),
    ("E2", "A blocking copy", "refuted", calls(0, 1000, 1000)),
    ("E2", "A blocking copy", "refuted", calls(1000, 1000, 0)),
    ("E2", "A blocking copy", "unknown", calls(0, 0, 0)),
    ("E3", "To pin, copy", "confirmed", six()),
    ("E3", "To pin, copy", "refuted", six(pin_and_copy_blocking=350)),
    ("E3", "To pin, copy", "depends", six(pin_and_copy_blocking=395)),
    ("E3", "Pinned beforehand", "confirmed", six()),
    ("E3", "Pinned beforehand", "refuted", six(pinned_blocking=200)),
    ("E3", "Pinned beforehand", "depends", six(pinned_blocking=301)),
    ("E3", "Generally", "confirmed", six()),
    ("E3", "Generally", "depends", six(pageable_non_blocking=400)),
    ("E3", "Generally", "refuted", six(pageable_non_blocking=400, pinned_non_blocking=340)),
    ("E3", "The tutorial's", "confirmed", conclusions(500, 300, 300, 0, 100)),
    ("E3", "The tutorial's", "depends", conclusions(500, 300, 420, 0, 100)),  # non_blocking pageable copies are slower
    ("E3", "The tutorial's", "depends", conclusions(500, 300, 300, 0, 0)),
    ("E3", "The tutorial's", "refuted", conclusions(500, 300, 300, 7, 100)),
    ("E3", "The tutorial's", "refuted", conclusions(200, 300, 300, 0, 100)),
    ("E3", "The tutorial's", "unknown", conclusions(500, 300, 300, 0, 100)[:-1]),
    ("E3", "The tutorial's", "refuted", conclusions(500, 300, 300, 7, 100)[:-1]),
    ("E3", "How much", "confirmed", (*six(), *few(1.0), *of_e2(2.0))),
    ("E3", "How much", "refuted", (*six(), *few(1.25, pinned=1.05), *of_e2(1.25))),
    ("E3", "How much", "depends", (*six(), *few(1.0), *of_e2(1.25))),  # with the number alone
    ("E3", "How much", "depends", (*six(), *few(1.25, pinned=1.05), *of_e2(2.0))),  # with the size alone
    ("E3", "How much", "unknown", (*six(), *of_e2(2.0))),
    ("E3", "From the host's", "confirmed", at_once(100, 0, 0)),
    ("E3", "From the host's", "confirmed", at_once(0, 0, 90)),
    ("E3", "From the host's", "depends", at_once(30, 0, 0)),
    ("E3", "From the host's", "refuted", at_once(0, 0, 0)),
    ("E3", "To pin each", "confirmed", six()),
    ("E3", "To pin each", "refuted", six(pin_and_copy_non_blocking=200)),
    ("E4", "A copy overlaps", "confirmed", overlapped(0, 0, 2, 98, 3)),
    ("E4", "A copy overlaps", "refuted", overlapped(0, 0, 2, 3, 3)),
    ("E4", "A copy overlaps", "refuted", overlapped(0, 0, 90, 98, 3)),
    ("E4", "A copy overlaps", "refuted", overlapped(0, 0, 2, 98, 90)),  # pageable copies behind launched kernels do
    ("E4", "A copy overlaps", "refuted", overlapped(0, 0, 30, 98, 3)),
    ("E4", "A copy overlaps", "refuted", overlapped(0, 0, 2, 98, 30)),
    ("E4", "A copy overlaps", "depends", overlapped(0, 0, 2, 30, 3)),
    ("E4", "A copy overlaps", "unknown", overlapped(0, 0, 2, 98)),
    ("E4", "Of the text's", "confirmed", overlapped(0, 0, 0, 8, kernels=TEXTS_KERNELS, possible=9)),
    ("E4", "Of the text's", "refuted", overlapped(0, 0, 0, 0, kernels=TEXTS_KERNELS, possible=9)),
    ("E4", "Of the text's", "depends", overlapped(0, 0, 0, 3, kernels=TEXTS_KERNELS, possible=9)),
    ("E4", "Of code that", "confirmed", (share("transfers of one kernel", 97),)),
    ("E4", "Of code that", "depends", (share("transfers of one kernel", 55, 45, 65),)),
    ("E4", "Of code that", "refuted", (share("transfers of one kernel", 40),)),
    ("E4", "On the default", "confirmed", overlapped(0, 0, 2, 98)),
    ("E4", "On the default", "refuted", overlapped(90, 90, 90, 98)),
    ("E4", "On the default", "depends", overlapped(0, 90, 90, 98)),
    ("E4", "A copy needs", "confirmed", (share("copies at once, two copies, the same way", 1),)),
    ("E4", "A copy needs", "refuted", (share("copies at once, two copies, the same way", 90),)),
    ("E4", "A copy needs", "depends", (share("copies at once, two copies, the same way", 30),)),
    ("E4", "Modern GPUs", "confirmed", (share("copies at once, two copies, both ways", 90),)),
    ("E4", "Modern GPUs", "refuted", (share("copies at once, two copies, both ways", 1),)),
    ("E4", "Modern GPUs", "depends", (share("copies at once, two copies, both ways", 30),)),
    ("E5", "Values read", "confirmed", (wrong("read at once", 99),)),
    ("E5", "Values read", "depends", (wrong("read at once", 0),)),
    ("E5", "After", "confirmed", (wrong("read after synchronize", 0),)),
    ("E5", "After", "refuted", (wrong("read after synchronize", 1),)),
    ("E5", 'to("cuda"', "confirmed", sent(0, 0)),
    ("E5", 'to("cuda"', "refuted", sent(7, 7)),
    ("E5", "When a non_blocking", "confirmed", (count(ENDED, "yes", 0, 100),)),
    ("E5", "When a non_blocking", "confirmed", (measured(ENDED, "yes", 0, 0, 1),)),  # in one try of ten
    ("E5", "When a non_blocking", "depends", (count(ENDED, "yes", 1, 100),)),
    ("E5", "So what is used", "refuted", sent(0, 0)),
    ("E5", "So what is used", "confirmed", sent(7, 7)),
    ("E5", "A background thread", "confirmed", busy(95, 60)),
    ("E5", "A background thread", "depends", busy(95, 0)),
    ("E5", "A background thread", "depends", busy(20, 0)),
    ("E5", "A background thread", "refuted", busy(9, 0)),
    ("E6", "What is written", "confirmed", (wrong("pinned source, copy then kernel", 2),)),
    ("E6", "What is written", "depends", (wrong("pinned source, copy then kernel", 0),)),
    ("E6", "If a kernel", "confirmed", (wrong("pinned source", 50),)),
    ("E6", "If a kernel", "depends", (wrong("pinned source", 0),)),
    ("E6", "With a pageable", "confirmed", not_overwritten(0, 0)),
    ("E6", "With a pageable", "refuted", not_overwritten(3, 0)),
    ("E6", "After", "confirmed", (wrong("pinned source, written after synchronize", 0),)),
    ("E6", "After", "refuted", (wrong("pinned source, written after synchronize", 3),)),
    ("E7", "To pin in other", "confirmed", pinners(302, 321, 340)),
    ("E7", "To pin in other", "refuted", pinners(302, 321, 280)),  # the main thread pins as fast, in turn
    ("E7", "To pin in other", "refuted", pinners(321, 302, 340)),
    ("E7", "To pin in other", "unknown", (ms("pin in threads then copy", 302, 280, 330), *pinners(302, 321, 340)[1:])),
    ("E7", "To pin in other", "unknown", pinners(302, 321, 340)[:2]),
    ("E7", "It is faster", "confirmed", threads(302, 317, 397)),
    ("E7", "It is faster", "depends", threads(350, 317, 397)),
    ("E7", "It is faster", "refuted", threads(450, 317, 397)),
    ("E7", "TensorDict", "confirmed", tensordict(397, 317, 321, 302)),
    ("E7", "TensorDict", "depends", tensordict(397, 317, 321, 316)),
    ("E7", "TensorDict", "refuted", tensordict(397, 317, 321, 400)),
    ("E7", "Of small", "confirmed", gains("small", 20, 25)),
    ("E7", "Of small", "refuted", gains("small", 20, 8)),
    ("E7", "Of few", "confirmed", gains("few", 20, 19)),
    ("E7", "Of few", "depends", gains("few", 20, 10.1)),
    ("E7", "Of few", "refuted", gains("few", 20, 8)),
    ("E8", "DataLoader", "confirmed", of_batches(55, 10)),
    ("E8", "DataLoader", "refuted", of_batches(10, 10)),
    (
        "E8",
        "DataLoader",
        "unknown",
        (measured("rate, pinned, non_blocking", "GB/s", 12, 9, 14), *of_batches(12, 10)[1:]),
    ),
    ("E8", "Once a batch", "confirmed", waits({"pinned, non_blocking": 0})),
    ("E8", "Once a batch", "refuted", waits({"pinned, non_blocking": 1})),
    ("E8", "Unless it is", "confirmed", waits({"pageable, blocking": 1, "pageable, non_blocking": 1})),
    ("E8", "Unless it is", "depends", waits({"pageable, blocking": 1, "pageable, non_blocking": 0})),
    ("E8", "Unless it is", "refuted", waits({"pageable, blocking": 0, "pageable, non_blocking": 0})),
    ("E8", "The way", "confirmed", (*network("", 15, 11), *network("small network, ", 50, 14))),
    ("E8", "The way", "confirmed", network("", 23, 11)),
    ("E8", "The way", "refuted", (*network("", 15, 11), *network("small network, ", 50, 30))),  # long either way
    (
        "E8",
        "The way",
        "depends",
        (ms("pageable, blocking", 21, 15, 30), *network("small network, ", 19, 14), ms("pinned, non_blocking", 11)),
    ),
    ("E8", "The way", "refuted", (*network("", 15, 11), *network("small network, ", 19, 14))),
    ("E8", "The way", "unknown", network("", 15, 11)),
    ("E8", "In a plain loop", "confirmed", (percent("overlapped, pinned, non_blocking", 90),)),
    ("E8", "In a plain loop", "depends", (percent("overlapped, pinned, non_blocking", 30),)),
    ("E8", "In a plain loop", "refuted", (percent("overlapped, pinned, non_blocking", 0),)),
    ("E8", "Pinned batches", "confirmed", left(0.5)),
    ("E8", "Pinned batches", "confirmed", left(-1)),  # shorter
    ("E8", "Pinned batches", "depends", left(2.5)),
    ("E8", "Pinned batches", "refuted", left(5)),
    ("E9", "A batch of", "confirmed", (yes("pinned, without pin_memory()", 0),)),
    ("E9", "A batch of", "refuted", (yes("pinned, without pin_memory()", 1),)),
    ("E9", "With a", "confirmed", (yes("pinned, with pin_memory()", 1),)),
    ("E9", "With a", "refuted", (yes("pinned, with pin_memory()", 0),)),
    ("E9", "Elements", "confirmed", (yes("pinned, elements without pin_memory()", 0),)),
    ("E9", "Elements", "refuted", (yes("pinned, elements without pin_memory()", 1),)),
    ("E9", "A loader", "confirmed", workers(1, 0)),
    ("E9", "A loader", "refuted", workers(0, 0)),
    ("E9", "A loader", "unknown", (yes(f"{THREAD}, without workers", 0),)),
    ("E9", "The memory", "confirmed", (yes("pinned, a tensor as it is made", 0),)),
    ("E9", "The memory", "refuted", (yes("pinned, a tensor as it is made", 1),)),
    ("E9", "pin_memory() returns", "confirmed", made(1, 1, 0, 1)),
    ("E9", "pin_memory() returns", "refuted", made(1, 1, 0, 0)),
    ("E9", "pin_memory() returns", "refuted", made(1, 1, 1, 1)),  # it pins in place
    ("E9", "pin_memory() returns", "refuted", made(1, 0, 0, 1)),  # other values, or no copy
    ("E9", "Tensors", "confirmed", collections(1, 1)),
    ("E9", "Tensors", "refuted", collections(1, 0)),
    ("E10", FROM_PINNED, "confirmed", prefetchers(98, pageable=0, kernels_first=2)),
    ("E10", FROM_PINNED, "depends", prefetchers(98, pageable=0, kernels_first=30)),
    ("E10", FROM_PINNED, "depends", prefetchers(98, pageable=30, kernels_first=0)),
    ("E10", FROM_PINNED, "depends", prefetchers(9, pageable=0, kernels_first=0)),  # nothing overlaps, whatever is done
    ("E10", FROM_PINNED, "refuted", prefetchers(98, pageable=90, kernels_first=90)),
    ("E10", FROM_PINNED, "refuted", prefetchers(98, pageable=0, kernels_first=90)),
    ("E10", FROM_PINNED, "unknown", prefetchers(98, pageable=0)),
    ("E10", NON_BLOCKING, "confirmed", prefetchers(98, blocking=0)),
    ("E10", NON_BLOCKING, "depends", prefetchers(98, blocking=30)),
    ("E10", NON_BLOCKING, "depends", prefetchers(9, blocking=0)),
    ("E10", NON_BLOCKING, "refuted", prefetchers(98, blocking=90)),
    ("E10", "The images", "confirmed", (yes("ended before the next kernel, plain loop", 1),)),
    ("E10", "The images", "refuted", (yes("ended before the next kernel, plain loop", 0),)),
    ("E10", "model(images) is a", "confirmed", waits({"plain loop": 1})),
    ("E10", "model(images) is a", "refuted", waits({"plain loop": 0})),
    ("E10", "The next batch", "confirmed", ahead(-5)),
    ("E10", "The next batch", "depends", ahead(0.5)),
    ("E10", "The next batch", "refuted", ahead(9)),
    ("E10", "So the plain", "confirmed", (percent("overlapped, plain loop", 0),)),
    ("E10", "So the plain", "depends", (percent("overlapped, plain loop", 30),)),
    ("E10", "So the plain", "refuted", (percent("overlapped, plain loop", 90),)),
    ("E10", "model(images) is no", "confirmed", waits({"plain loop": 0})),
    ("E10", "model(images) is no", "refuted", waits({"plain loop": 1})),
    ("E10", "Copies and", "confirmed", (percent("overlapped, prefetcher", 98),)),
    ("E10", "Copies and", "depends", (percent("overlapped, prefetcher", 30),)),
    ("E10", "Copies and", "refuted", (percent("overlapped, prefetcher", 2),)),
    ("E10", "Pinned memory and", "confirmed", (percent("overlapped, prefetcher", 98),)),
    ("E10", "Pinned memory and", "depends", (percent("overlapped, prefetcher", 30),)),
    ("E10", "Pinned memory and", "refuted", (percent("overlapped, prefetcher", 2),)),
    ("E10", "A prefetcher", "confirmed", prefetched(98, 10, 12)),
    ("E10", "A prefetcher", "depends", prefetched(98, 12, 12)),
    ("E10", "A prefetcher", "refuted", prefetched(2, 10, 12)),
    ("E11", "Pinned memory", "confirmed", (measured("times as fast, pinned in the child", "times", 90),)),
    ("E11", "Pinned memory", "depends", (measured("times as fast, pinned in the child", "times", 81),)),
    ("E11", "Pinned memory", "refuted", (measured("times as fast, pinned in the child", "times", 3),)),
    ("E11", "The first copy is slow", "confirmed", first_uses(1054, 13, 1050, 20, 1000)),
    ("E11", "The first copy is slow", "depends", first_uses(1054, 13, 1050, 20, 100)),
    ("E11", "The first copy is slow", "refuted", first_uses(1054, 13, 13, 1054, 1000)),
    ("E11", 'The "pinned" tensor', "confirmed", arrival(1, 0, 1)),
    ("E11", 'The "pinned" tensor', "refuted", arrival(1, 1, 1)),
    ("E12", "The pinned tensor", "confirmed", (factor("sent to the child", 1.01),)),
    ("E12", "The pinned tensor", "refuted", (factor("sent to the child", 4),)),
    ("E12", "The pinned tensor", "depends", (factor("sent to the child", 1.1),)),
    ("E12", "The object makes it slow", "confirmed", (factor("bare instead of in an object", 4),)),
    ("E12", "The object makes it slow", "refuted", (factor("bare instead of in an object", 1),)),
    ("E12", "The object makes it slow", "depends", (factor("bare instead of in an object", 1.1),)),
    ("E12", "The two programs", "confirmed", clocks(80, 1, 70, 1)),
    ("E12", "The two programs", "depends", clocks(80, 1, 2, 1.5)),
    ("E12", "The two programs", "refuted", clocks(80, 1, 1, 80)),
    ("E12", "The tensor arrives", "confirmed", child(1, 0, 0)),
    ("E12", "The tensor arrives", "refuted", child(1, 0, 1)),
    ("E12", "Pinned in the child", "confirmed", in_the_child(0.7, 2.3)),
    ("E12", "Pinned in the child", "refuted", in_the_child(2.3, 2.3)),
    ("E12", "Pinned in the child", "unknown", (ms("pinned in the child itself", 2, 0.7, 3), *in_the_child(2, 2.3)[1:])),
    ("E12", "Data in shared", "confirmed", shared(1.0, 95)),
    ("E12", "Data in shared", "refuted", shared(3.5, 1)),
    ("E12", "Data in shared", "refuted", shared(0.5, 95)),
    ("E12", "Data in shared", "refuted", shared(1.0, 1)),
    ("E12", "Data in shared", "depends", shared(1.25, 95)),
    ("E12", "Data in shared", "depends", shared(1.0, 30)),
    ("E13", "Copies of pinned memory have", "confirmed", staged(9, 9, 16 * MIB)),
    ("E13", "Copies of pinned memory have", "depends", staged(9, 40, 16 * MIB)),
    ("E13", "Copies of pinned memory have", "refuted", staged(40, 40, 16 * MIB)),
    ("E13", "Copies of pinned memory reach", "confirmed", links(55.3, 52)),
    ("E13", "Copies of pinned memory reach", "depends", links(55.3, 40)),
    ("E13", "Copies of pinned memory reach", "refuted", links(25, 25)),
    ("E13", "Copies of pinned memory reach", "unknown", links(80, 80)),
    ("E13", "Those of pageable", "confirmed", staged(9, 9)),
    ("E13", "Those of pageable", "depends", staged(9, 50)),
    ("E13", "Those of pageable", "refuted", staged(50, 50)),
    ("E13", "Those of pageable", "confirmed", (*staged(9, 9), *staged(9, 9, MIB), *untold(4 * MIB))),
    ("E13", "Those of pageable", "depends", (*staged(9, 9), *untold(4 * MIB))),
    ("E13", "Those of pageable", "depends", untold(GIB)),
    ("E13", "Those of pageable", "depends", (*staged(9, 9), *staged(9, 9, MIB), *staged(50, 50, 4 * MIB))),
    ("E13", "Pinned memory is faster", "confirmed", staged(50, 50)),
    ("E13", "Pinned memory is faster", "depends", staged(9, 50)),
    ("E13", "Pinned memory is faster", "refuted", staged(9, 9)),
    ("E13", "The GPU cannot", "confirmed", (yes("the GPU can access pageable memory", 0),)),
    ("E13", "The GPU cannot", "refuted", (yes("the GPU can access pageable memory", 1),)),
    ("E13", "Pinned memory gains", "confirmed", growing(1.4, 60)),
    ("E13", "Pinned memory gains", "depends", growing(1.4, 14.1)),
    ("E13", "Pinned memory gains", "refuted", growing(1.4, 10)),
    ("E13", "The driver stages", "confirmed", beside(95, 99, 1, 1)),
    ("E13", "The driver stages", "depends", beside(30, 99, 1, 1)),
    ("E13", "The driver stages", "depends", beside(95, 99, 1, 1, taken=0)),
    ("E13", "The driver stages", "depends", beside(95, 99, 60, 1)),
    ("E13", "The driver stages", "refuted", beside(1, 99, 1, 1)),
    ("E13", "The rates differ", "confirmed", rates(20, 20)),
    ("E13", "The rates differ", "refuted", rates(2.31, 2.35)),
    ("E13", "Pinned memory is copied by DMA", "confirmed", beside(95, 99, 1, 1)),
    ("E13", "Pinned memory is copied by DMA", "depends", beside(95, 99, 30, 1)),
    ("E13", "Pinned memory is copied by DMA", "refuted", beside(95, 99, 95, 1)),
    ("E13", "The GPU reaches", "confirmed", own_rates(1900, 55)),
    ("E13", "The GPU reaches", "depends", own_rates(110, 55)),
    ("E13", "The GPU reaches", "refuted", own_rates(70, 55)),
    ("E13", "Pinned memory makes", "confirmed", steady(1, 10)),
    ("E13", "Pinned memory makes", "refuted", steady(10, 1)),
    ("E13", "A non_blocking copy", "confirmed", (*blocked("pinned", 0.01, 0.01), *blocked("pageable", 0.01, 100))),
    ("E13", "A non_blocking copy", "depends", (*blocked("pinned", 0.01, 50), *blocked("pageable", 0.01, 100))),
    ("E13", "A non_blocking copy", "refuted", (*blocked("pinned", 0.01, 100), *blocked("pageable", 0.01, 100))),
    ("E13", "With non_blocking", "confirmed", blocked("pageable", 0.01, 0.01)),
    ("E13", "With non_blocking", "depends", blocked("pageable", 0.01, 0.03)),
    ("E13", "With non_blocking", "refuted", blocked("pageable", 0.01, 100)),
    ("E14", "In this loop", "confirmed", (percent("overlapped, as written", 90),)),
    ("E14", "In this loop", "depends", (percent("overlapped, as written", 30),)),
    ("E14", "In this loop", "refuted", (percent("overlapped, as written", 0),)),
    ("E14", "Its copies", "confirmed", waits({"without .item()": 0})),
    ("E14", "Its copies", "refuted", waits({"without .item()": 2})),
    ("E14", "Its two .item()", "confirmed", waits({"as written": 2})),
    ("E14", "Its two .item()", "refuted", waits({"as written": 0})),
    ("E14", "With batches", "confirmed", loop(12, 10)),
    ("E14", "With batches", "unknown", (ms("as written", 12), ms("without .item()", 10, 9, 13))),
    ("E14", "With batches", "refuted", loop(12, 12)),
    ("E14", "With larger", "confirmed", loop(12, 10, ", larger")),
    ("E14", "With larger", "refuted", loop(12, 12, ", larger")),
    ("E14", "The two .item()", "confirmed", leads(-0.5, 5, -1, 50)),
    ("E14", "The two .item()", "depends", leads(-0.5, -0.3, -1, 50)),  # with small batches the host is late anyway
    ("E14", "The two .item()", "refuted", leads(-0.5, -0.3, -1, -0.3)),
    ("E14", "The two .item()", "refuted", leads(4, 5, 40, 50)),
    ("E15", "A pinned allocation", "confirmed", limits(1, 1)),
    ("E15", "A pinned allocation", "refuted", limits(1, 0)),
    ("E15", "Pinning too much", "confirmed", working(10, 15, 15)),
    ("E15", "Pinning too much", "unknown", working(10, 10, 15)),  # only at the last of two steps
    ("E15", "Pinning too much", "unknown", working(10, 10, 10)),
    ("E15", "Pinned memory is locked", "confirmed", (*swapped(98, 0), *locked(0, 0, 0, 0))),
    ("E15", "Pinned memory is locked", "refuted", (*swapped(98, 98), *locked(0, 100, 0, 0))),
    ("E15", "Pinned memory is locked", "depends", (*swapped(98, 30), *locked(0, 100, 0, 0))),
    ("E15", "Pinned memory is locked", "confirmed", (*swapped(3, 0), *locked(0, 100, 0, 0))),
    ("E15", "Pinned memory is locked", "confirmed", locked(0, 100, 0, 0)),
    ("E15", "Pinned memory is locked", "confirmed", locked(0, 0, 0, 100)),
    ("E15", "Pinned memory is locked", "unknown", locked(0, 0, 0, 0)),
    ("E15", "Pinned memory is locked", "unknown", locked(100, 100, 0, 0)),
    ("E15", "It reduces the memory", "confirmed", taken(100, 0, 100)),
    ("E15", "It reduces the memory", "depends", taken(100, 100, 100)),
    ("E15", "It reduces the memory", "refuted", taken(0, 0, 100)),
    ("E15", "It reduces the memory", "unknown", taken(100, 0, 0)),
    ("E15", "It is more limited", "confirmed", (*taken(100, 0, 100), count(MORE_THAN_AVAILABLE, "yes", 1))),
    ("E15", "It is more limited", "refuted", (*taken(100, 0, 100), count(MORE_THAN_AVAILABLE, "yes", 0))),
    ("E15", "It is more limited", "refuted", (*taken(0, 0, 100), count(MORE_THAN_AVAILABLE, "yes", 1))),
    ("E15", "Each pin_memory()", "confirmed", allocated(100, 400, 400)),
    ("E15", "Each pin_memory()", "refuted", allocated(100, 400, 10)),
    ("E15", "Pinned memory costs", "confirmed", allocated(100, 400, 10)),
    ("E15", "Pinned memory costs", "refuted", allocated(400, 100, 10)),
    ("E15", "Pinned memory that", "confirmed", allocated(100, 400, 10)),
    ("E15", "Pinned memory that", "refuted", allocated(100, 400, 400)),
]
NEVER_REFUTED = (
    "In rare cases",
    "When a non_blocking",
    "Values read",
    "What is written",
    "If a kernel",
)
"""What is claimed to happen at times may happen on a machine on which it was not seen."""
SEEN_OR_NOT_KNOWN = ("Pinned memory is locked", "Pinning too much")
"""What may be so though nothing that is asked shows it."""
ON_SPREADS = ("Pinned memory makes", "Of small", "Of few")
ON_OTHERS = {"The tutorial's": ("E1", "E5"), "How much": ("E2",), "From the host's": ("E2",)}
"""What is judged by figures of other experiments, too, which get those that are given for one."""
MEASURES = {"ms", "GB/s", "%", "times"}
RANKS = {"confirmed": 0, "depends": 1, "unknown": 1, "refuted": 2}


@pytest.mark.parametrize(("number", "claim", "outcome", "figures"), CASES_OF_CLAIMS)
def test_a_verdict_follows_from_the_figures(number: str, claim: str, outcome: ClaimOutcome, figures: Figures) -> None:
    assert judged(number, claim, *figures).outcome == outcome


each_claim = pytest.mark.parametrize(("number", "claim"), JUDGED, ids=[f"{at}-{each.text}" for at, each in JUDGED])


def outcomes_of(number: str, claim: Claim) -> dict[ClaimOutcome, Figures]:
    return {
        outcome: figures
        for at, begin, outcome, figures in reversed(CASES_OF_CLAIMS)
        if at == number and claim.text.startswith(begin)
    }


@each_claim
def test_every_claim_can_turn_out_either_way(number: str, claim: Claim) -> None:
    outcomes = outcomes_of(number, claim)
    assert "confirmed" in outcomes
    otherwise = "depends" if claim.text.startswith(NEVER_REFUTED) else "refuted"
    assert ("unknown" if claim.text.startswith(SEEN_OR_NOT_KNOWN) else otherwise) in outcomes


@pytest.mark.slow
@each_claim
def test_a_verdict_flips_once_as_figures_go_from_those_that_confirm_to_those_that_refute(
    number: str, claim: Claim
) -> None:
    outcomes = outcomes_of(number, claim)
    start = outcomes["confirmed"]
    end = next(outcomes[outcome] for outcome in ("refuted", "depends", "unknown") if outcome in outcomes)
    assert [(figure.name, figure.size) for figure in start] == [(figure.name, figure.size) for figure in end]
    ranks = [
        RANKS[judged(number, claim.text, *(mixed(*pair, part / 100) for pair in zip(start, end, strict=True))).outcome]
        for part in range(101)
    ]
    assert ranks == sorted(ranks)
    assert ranks[0] == 0
    assert ranks[-1] > 0


def mixed(first: Figure, second: Figure, part: float) -> Figure:
    """Return a figure between two, so far from the first to the second."""
    median, low, high = (
        (1 - part) * getattr(first, name) + part * getattr(second, name) for name in ("median", "low", "high")
    )
    return replace(first, median=median, low=low, high=high)


@each_claim
def test_figures_whose_spreads_hold_both_outcomes_leave_it_open(number: str, claim: Claim) -> None:
    if claim.text.startswith((*NEVER_REFUTED, *SEEN_OR_NOT_KNOWN, *ON_SPREADS)):
        return
    outcomes = outcomes_of(number, claim)
    for figures in (outcomes["confirmed"], outcomes["refuted"]):
        both = [figure for figure in (*outcomes["confirmed"], *outcomes["refuted"]) if figure.size != 4 * KIB]
        least, most = min(figure.low for figure in both), max(figure.high for figure in both)
        wide = [figure if figure.size == 4 * KIB else replace(figure, low=least, high=most) for figure in figures]
        if all(figure.unit in MEASURES for figure in figures) and are_apart(figures):
            verdict = judged(number, claim.text, *wide)
            assert verdict.outcome in {"depends", "unknown"}


def are_apart(figures: Figures) -> bool:
    """Return whether no two medians are the same, nor nearly."""
    medians = sorted(figure.median for figure in figures)
    return all(more - less > 0.05 * abs(more) for less, more in pairwise(medians))


@each_claim
def test_without_figures_a_claim_is_unknown_and_says_what_is_missing(number: str, claim: Claim) -> None:
    verdict = judged(number, claim.text)
    assert verdict.outcome == "unknown"
    assert verdict.text.startswith("not measured: ")
    (other,) = (row for row in verdicts(BenchBuilder().build()) if row.claim == claim.text and row.number == number)
    assert (other.outcome, other.text) == ("unknown", "the experiment did not run")


def test_what_went_wrong_is_said_with_the_missing_figure() -> None:
    bench = BenchBuilder().add("E7", ms("blocking", 1.0), problem="out of memory").build()
    verdict = next(verdict for verdict in verdicts(bench) if verdict.number == "E7")
    assert verdict.text == "not measured: pin in threads then copy (out of memory)"


def test_a_row_has_who_claims_it_what_was_published_and_what_was_measured() -> None:
    verdict = judged("E1", "To pin a tensor", *usual(0.4, 0.2, 0.3))
    assert verdict.sources == ("tutorial",)
    assert verdict.published == "pageable.to: 369 µs; pageable.pin_memory().to: 433 µs"
    assert verdict.measured == (
        "pageable.to: 400 µs (396 to 404 µs); pageable.pin_memory().to: 200 µs (198 to 202 µs); "
        "pageable.pin_memory().to, fresh memory: 300 µs (297 to 303 µs)"
    )
    assert verdict.outcome == "refuted"
    assert verdict.differs.startswith("fresh pinned memory takes long to get")
    assert judged("E1", "To pin a tensor", *usual(0.2, 0.4, 2)).differs == ""


def test_what_was_published_for_other_sizes_says_for_which() -> None:
    bench = BenchBuilder().add("E3", *six(), sizes={"tensors": 200, "floats": 1_000_000}).build()
    verdict = next(verdict for verdict in verdicts(bench) if verdict.claim.startswith("Generally"))
    assert verdict.published.endswith("pinned, non_blocking: 300 ms (for tensors 1,000)")


@pytest.mark.parametrize(
    ("cost", "low", "high", "outcome"),
    [
        (13, 10, 16, "confirmed"),
        (4, 3.1, 9, "confirmed"),
        (4, 3, 9, "unknown"),
        (2, -9, 12, "unknown"),
        (2, -9, 3, "refuted"),
        (13, -2, 30, "unknown"),
        (-8, -12, -5, "refuted"),
    ],
)
def test_what_item_costs_is_judged_by_steps_in_turn_where_they_were_measured(
    cost: float, low: float, high: float, outcome: ClaimOutcome
) -> None:
    steps = (ms("as written", 2.8, 2.5, 3.1), ms("without .item()", 2.4, 2.2, 2.8))  # each alone: not to be told
    assert judged("E14", "With batches", *steps).outcome == "unknown"
    assert judged("E14", "With batches", *steps, share("cost of .item()", cost, low, high)).outcome == outcome


@pytest.mark.parametrize(
    ("low", "high", "outcome"), [(1.04, 2.0, "confirmed"), (1.02, 2.0, "unknown"), (0.6, 1.03, "refuted")]
)
def test_what_non_blocking_gains_is_judged_by_copies_in_turn_where_they_were_measured(
    low: float, high: float, outcome: ClaimOutcome
) -> None:
    way = "non_blocking, one synchronize"
    alone = (ms("blocking", 13, 8, 17), ms(way, 9, 7, 14))  # each alone: not to be told
    assert judged("E2", "Of many small", *alone).outcome == "unknown"
    gain = measured(f"times as fast in turn, {way}", "times", 1.03, low, high)
    assert judged("E2", "Of many small", *alone, gain).outcome == outcome


def test_what_a_copy_needs_is_told_by_copies_that_lack_it() -> None:
    figures = (*prefetchers(98, blocking=90), *waits({"prefetcher, blocking": 1}))
    assert judged("E10", NON_BLOCKING, *figures).text == (
        "of pinned copies on a side stream are under kernels: 98 % of non_blocking ones, 90 % of blocking ones, for "
        "which the host waits 1 time in a step"
    )
    assert judged("E10", FROM_PINNED, *prefetchers(98, pageable=0, kernels_first=80)).text == (
        "of copies on a side stream are under kernels: 98 % of pinned ones; of pageable ones 0 % if the copy is asked "
        "for before the kernels are launched, 80 % if after"
    )


def test_how_many_times_as_slow_is_told_of_each_case() -> None:
    text = judged("E1", AT_MOST, *pinned_at(0.3, 0.2, 2.1)).text
    assert text == f"0.667 times the time ({PINNING}); 7 times the time ({PINNING}, fresh memory)"


def test_what_a_loader_without_workers_does_is_shown_and_decides_nothing() -> None:
    verdict = judged("E9", "A loader", *workers(1, 0))
    assert verdict.outcome == "confirmed"
    assert verdict.text == f"{THREAD}, with workers: yes; {THREAD}, without workers: no"


def test_a_write_that_reaches_the_gpu_shows_that_the_data_were_on_the_host() -> None:
    claim = "When a non_blocking copy"
    for tries, outcome in ((100, "confirmed"), (0, "depends")):
        bench = BenchBuilder().add("E5").add("E6", wrong("pinned source", tries)).build()
        verdict = next(verdict for verdict in verdicts(bench) if verdict.claim.startswith(claim))
        assert verdict.outcome == outcome
        assert verdict.text.endswith(f"right after the call: {tries} of 100 wrong on the GPU (E6)")
    both = BenchBuilder().add("E5", count(ENDED, "yes", 1, 9)).add("E6", wrong("pinned source", 2))
    verdict = next(verdict for verdict in verdicts(both.build()) if verdict.claim.startswith(claim))
    assert verdict.outcome == "confirmed"
    assert verdict.text.startswith(
        "when the call returned, the pinned copy was still running in none of 9 tries; what is written"
    )


def test_how_much_longer_a_step_is_is_held_against_the_copy_itself() -> None:
    assert judged("E8", "Pinned batches", *left(5)).text == (
        "in turn, a step with a pinned non_blocking copy is 5.00 ms longer than one without a copy; the copy itself "
        "takes 5.03 ms: 99 % of it is left in the step"
    )
    text = judged("E8", "Pinned batches", *left(-1)).text
    assert "1.00 ms shorter than one without a copy" in text
    assert text.endswith("the copy itself takes 5.03 ms")
    bench = BenchBuilder().add("E8", *left(5), sizes={"rows": 2048}).build()
    verdict = next(verdict for verdict in verdicts(bench) if verdict.claim.startswith("Pinned batches"))
    assert (verdict.outcome, verdict.text) == ("unknown", "not measured: size features")


def test_threads_are_held_against_both_ways_of_the_main_one() -> None:
    assert judged("E7", "To pin in other", *pinners(100, 200, 99)).text == (
        "100 ms (pin in threads then copy) against 200 ms (pin then copy), 2 times as fast; "
        "100 ms (pin in threads then copy) against 99.0 ms (pin and copy in turn), no difference that matters"
    )


def test_what_had_ended_is_told_of_pinned_and_of_pageable_copies() -> None:
    figures = (count(ENDED, "yes", 0, 100), measured(ENDED.replace("pinned", "pageable"), "yes", 0, 0, 1))
    assert judged("E5", "When a non_blocking", *figures).text == (
        "when the call returned, the pinned copy was still running in all of 100 tries; the pageable copy had ended in "
        "some of 10"
    )


def test_the_hosts_lead_is_told_before_and_after() -> None:
    assert judged("E14", "The two .item()", *leads(-0.5, -0.3, -1, 20)).text == (
        "the next copy is queued 500 µs after (as written), 300 µs after (without .item()), 1.00 ms after (as written, "
        "larger), 20.0 ms before (without .item(), larger) the GPU has finished the work queued so far"
    )


def test_of_conclusions_it_is_said_which_hold_on_this_machine() -> None:
    assert judged("E3", "The tutorial's", *conclusions(200, 300, 420, 0, 100)).text == (
        "on this machine, and for it alone, hold: it takes at most twice as long (E1) and sent with non_blocking, "
        "values are right (E5) and read back with non_blocking, they are wrong (E5); fail: to pin first can be slower "
        "(E1); hold in some cases: non_blocking is generally faster (E3)"
    )


def test_the_way_that_doubles_a_step_stands_beside_the_best_one() -> None:
    text = judged("E8", "The way", *network("", 21, 10), ms("pageable, non_blocking", 22)).text
    assert text == (
        "a step takes 22.0 ms (pageable, non_blocking) against 10.0 ms (pinned, non_blocking), 2.2 times the time, "
        "and 10.0 ms without a copy"
    )


def test_the_texts_own_factor_stands_beside_the_one_that_decides() -> None:
    figures = (
        measured("times as fast, as written", "times", 24),
        measured("times as fast, pinned in the child", "times", 4),
    )
    verdict = judged("E11", "Pinned memory is 81", *figures)
    assert verdict.outcome == "refuted"
    assert verdict.text.endswith("; as written 24 times")
    assert verdict.published.startswith("times as fast, as written: 81.5 times")


def test_a_claim_on_two_experiments_has_the_figures_of_both() -> None:
    one, many = pinned_at(0.4, 0.2, 0.2), six(pin_and_copy_non_blocking=500)
    bench = BenchBuilder().add("E1", *one).add("E3", *many).build()
    verdict = next(verdict for verdict in verdicts(bench) if verdict.claim.startswith(SLOWER))
    assert verdict.outcome == "confirmed"  # slower for many tensors, though not for one
    assert "500 ms (pin and copy, non_blocking)" in verdict.text


def test_a_difference_is_told_with_its_figures() -> None:
    text = judged("E1", "A copy from pinned", ms("pinned.to", 0.1), ms("pageable.to", 0.4)).text
    assert text == "100 µs (pinned.to) against 400 µs (pageable.to), 4 times as fast"


def test_a_difference_within_the_spread_is_told_with_the_spread() -> None:
    text = judged("E1", "A copy from pinned", ms("pinned.to", 0.315, 0.2, 0.5), ms("pageable.to", 0.4, 0.3, 0.6)).text
    assert "a difference within the spread (200 to 500 µs; 300 to 600 µs)" in text


def test_a_hazard_that_did_not_show_may_all_the_same() -> None:
    text = judged("E5", "Values", wrong("read at once", 0)).text
    assert text == "did not show in 100 tries on this machine; it may still happen"


def test_a_link_that_the_driver_does_not_report_leaves_the_claim_open() -> None:
    unknown = Machine("NVIDIA H200", None, None, "2.11.0", "3.12.3", None, 16, None, None)
    verdict = judged("E13", "Copies of pinned memory reach", *links(55.3, 52), machine=unknown)
    assert verdict.outcome == "unknown"
    assert "55.3 GB/s" in verdict.text


def test_figures_of_nothing_are_judged_all_the_same() -> None:
    bench = BenchBuilder()
    for number, _, _, figures in CASES_OF_CLAIMS:
        bench.add(number, *(measured(figure.name, figure.unit, 0, 0, 0, figure.size) for figure in figures))
        assert verdicts(bench.build())
