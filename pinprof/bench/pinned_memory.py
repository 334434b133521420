"""E15: the cost and the limits of pinned memory: claims of the texts, and their judges."""

from pinprof.bench.experiment import GIB, MIB, OURS, PROCESSES, TUTORIAL, Claim, Experiment, Size
from pinprof.bench.figures import MATTERS, Order, order, shown
from pinprof.bench.judging import (
    BARELY,
    HIDDEN,
    ClaimJudgement,
    Measured,
    MissingError,
    against,
    all_pairs_by_size,
    answers,
    decide,
    reverse,
)
from pinprof.bench.processes_judges import at_most_of_sizes
from pinprof.bench.results import Figure
from pinprof.units import size

LAST_STEPS = 2
"""Work counts as slower if it is so at this many of the last steps of pinned memory."""
WORKS = ("host copy", "fresh memory", "file read again")
"""Work of the host that is timed while memory is pinned."""
WITNESSES = ("VmLck", "VmPin", "smaps", "VmFlags", "Mlocked", "Unevictable")
"""Counters and flags by which Linux shows that memory is locked."""


def slows_the_host(measured: Measured) -> ClaimJudgement:
    """Judge whether some work of the host is slower while memory is pinned; unknown if none is, as more may slow it.

    Work is slower if it is so at the last two steps, up to the most that was pinned: one slow step may have another
    cause.
    """
    shares = measured.by_size("pinned of the host's memory")
    steps = [_with_pinned(measured, share.size) for share in shares]
    measured.asked.extend((*(figure for pair in steps[-1] for figure in pair), shares[-1]))
    slower = [{pinned.name for pinned, nothing in step if _is_slower(pinned, nothing)} for step in steps]
    why = f"with {shown(shares[-1])} of the host's memory pinned: " + "; ".join(
        f"{pinned.name} {shown(pinned)}, with nothing pinned {shown(nothing)}" for pinned, nothing in steps[-1]
    )
    if stays := set.intersection(*slower[-LAST_STEPS:]):
        return ClaimJudgement(
            "confirmed", f"{why}; {' and '.join(sorted(stays))} is slower from {shown(shares[-LAST_STEPS:][0])} on"
        )
    return ClaimJudgement(
        "unknown", f"{why}; nothing stays slower up to that, the most that room and time allowed here"
    )


def _with_pinned(measured: Measured, pinned: int | None) -> list[tuple[Figure, Figure]]:
    """Return the times of each work with this much memory pinned, and with none. Raises MissingError."""
    return [(measured.at(name, pinned), measured.at(name, 0)) for name in WORKS]


def _is_slower(pinned: Figure, nothing: Figure) -> bool:
    return pinned.low > nothing.high and pinned.median > (1 + MATTERS) * nothing.median


def is_locked(measured: Measured) -> ClaimJudgement:
    """Judge by the share that Linux swaps out on request; on a host without swap, by Linux's counters of locked pages.

    A counter must count pinned memory and not pageable memory. If none does, it is unknown: a driver may hold pages
    that no counter counts.
    """
    pinned, pageable = (measured.maybe(f"swapped out when asked, {memory}") for memory in ("pinned", "pageable"))
    if pinned and pageable and pageable.low >= HIDDEN:
        why = f"asked to swap it out, Linux takes {shown(pageable)} of pageable memory and {shown(pinned)} of pinned"
        return decide(why, confirmed=pinned.high <= BARELY, refuted=pinned.low >= HIDDEN)
    pairs = [
        (name, pinned, pageable)
        for name in WITNESSES
        if (pinned := measured.maybe(f"locked by {name}, pinned"))
        and (pageable := measured.maybe(f"locked by {name}, pageable"))
    ]
    if not pairs:
        raise MissingError("what Linux reports of locked memory")
    why = "; ".join(f"{name}: {shown(pinned)} pinned, {shown(pageable)} pageable" for name, pinned, pageable in pairs)
    witnesses = [name for name, pinned, pageable in pairs if pinned.low >= HIDDEN and pageable.high <= BARELY]
    if witnesses:
        return ClaimJudgement("confirmed", f"{' and '.join(witnesses)} say so of its bytes ({why})")
    return ClaimJudgement(
        "unknown", f"nothing that Linux reports shows it ({why}): a driver may hold pages without counting"
    )


def takes_memory_at_once(measured: Measured) -> ClaimJudgement:
    """Judge whether pinned memory is taken from the host's available memory when allocated, and pageable is not."""
    pinned, pageable = (measured(f"taken from the host, allocated, {memory}") for memory in ("pinned", "pageable"))
    written = measured("taken from the host, written, pageable")
    why = (
        f"of its bytes {shown(pinned)} are gone from MemAvailable once it is allocated; of pageable memory "
        f"{shown(pageable)}, {shown(written)} once it is written"
    )
    if written.median < HIDDEN:
        return ClaimJudgement("unknown", f"{why}: here MemAvailable does not tell what is taken")
    confirmed = pinned.low >= HIDDEN and pageable.high <= BARELY
    return decide(why, confirmed=confirmed, refuted=pinned.high <= BARELY)


def is_more_limited(measured: Measured) -> ClaimJudgement:
    """Judge whether pinned memory must fit into available RAM, while more pageable memory can be allocated."""
    more = measured("more than is available can be allocated, pageable")
    outcome, why = takes_memory_at_once(measured)
    why = f"{why}; more pageable memory than is available can be allocated: {shown(more)}"
    return ClaimJudgement("refuted" if outcome == "confirmed" and not more.high else outcome, why)


def always_anew(measured: Measured) -> ClaimJudgement:
    """Judge whether pinned memory costs as much the next time as the first time."""
    return reverse(again_is_cheap(measured))


def costs_more(measured: Measured) -> ClaimJudgement:
    """Judge whether pinned memory costs more to get than pageable memory, at most of the sizes."""
    return _at_most_sizes(measured, "allocate, pinned", "allocate, pageable", "more")


def again_is_cheap(measured: Measured) -> ClaimJudgement:
    """Judge whether pinned memory costs less the next time than the first time, at most of the sizes."""
    return _at_most_sizes(measured, "allocate, pinned again", "allocate, pinned", "less")


def _at_most_sizes(measured: Measured, first: str, second: str, expected: Order) -> ClaimJudgement:
    pairs = all_pairs_by_size(measured, first, second)
    relations = [order(*pair) for pair in pairs]
    measured.asked.extend(pairs[-1])
    why = f"{size(pairs[-1][0].size or 0)}: {against(*pairs[-1])}"
    if len(pairs) > 1:
        why += f"; {'dearer' if expected == 'more' else 'cheaper'} beyond the spread at {relations.count(expected)} of "
        why += f"{len(pairs)} sizes"
    return at_most_of_sizes([relations], expected, why)


PINNED_MEMORY = Experiment(
    "E15",
    "pinned_limits",
    "what pinned memory costs by size, what happens if too much is asked for, and what it costs other host work",
    (
        Claim(
            "A pinned allocation may fail, and the error can be handled",
            (PROCESSES,),
            answers({"too much raises an error": True, "the GPU works after it": True}),
        ),
        Claim(
            "Pinning too much memory makes the machine slower",
            (PROCESSES, TUTORIAL),
            slows_the_host,
            differs=(
                "while enough memory is left, nothing is slower; the text says that only the machine's own work "
                "shows how much is too much"
            ),
        ),
        Claim("Pinned memory is locked: it cannot be swapped out", (TUTORIAL, PROCESSES), is_locked),
        Claim(
            "It reduces the memory that is available to the system and to other programs",
            (PROCESSES,),
            takes_memory_at_once,
        ),
        Claim("It is more limited than pageable memory: by the RAM at hand", (TUTORIAL,), is_more_limited),
        Claim(
            "Each pin_memory() gets its memory anew, by cudaHostAlloc",
            (TUTORIAL,),
            always_anew,
            differs="torch keeps pinned memory that is given back, and hands it out again",
        ),
        Claim("Pinned memory costs more to get than pageable memory", (OURS,), costs_more),
        Claim("Pinned memory that torch has had before costs little to get again", (OURS,), again_is_cheap),
    ),
    sizes=(
        Size("least", MIB, "bytes of the smallest allocation", of_text=False),
        Size("most", GIB, "bytes of the largest one", quick=64 * MIB, of_text=False),
        Size("share", 50, "percent of the host's memory pinned at most, within room and time", quick=5, of_text=False),
    ),
    cases=("allocate, pageable", "allocate, pinned", "allocate, pinned again"),
    changed="the text warns of it and has no program for it",
)
