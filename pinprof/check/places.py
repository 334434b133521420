"""Where in the program a figure comes from: sites of waits, launches of copies, findings."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pinprof.analyses.overlap import REASONS
from pinprof.analyses.syncs import Site
from pinprof.analyses.syncs.places import user_function
from pinprof.measure import Profile
from pinprof.rules import Finding
from pinprof.trace.frames import frame
from pinprof.trace.links import follow
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, NONE, Bools, Int64s, Trace
from pinprof.units import duration, size

RULE_OF_CAUSE = {
    **dict.fromkeys(("item", "bool", "tolist", "print", "equal"), "PIN201"),
    **dict.fromkeys(("nonzero", "mask_index", "masked_select", "unique", "repeat_interleave"), "PIN202"),
    **dict.fromkeys(("blocking_copy_htod", "blocking_copy_dtoh", "to_cpu", "tensor_from_host"), "PIN102"),
    **dict.fromkeys(("device_synchronize", "stream_synchronize", "event_synchronize"), "PIN203"),
    **dict.fromkeys(("device_malloc", "device_free", "host_alloc"), "PIN303"),
    "pageable_copy": "PIN103",
}
"""The rule that explains a cause of a stall; a rule finds only what leaves the GPU idle, a limit counts every wait."""

RULE_OF_REASON = {("pageable", "HtoD"): "PIN101", ("pageable", "DtoH"): "PIN101", ("same_stream", "HtoD"): "PIN301"}
"""The rule that explains why copies of one direction are exposed; `launched_late` is PIN302 in every direction."""

Source = tuple[str | None, int | None, str | None]
"""File, line and function."""


@dataclass(frozen=True)
class Place:
    """A place in the program that is behind a figure; None where the trace does not tell."""

    file: str | None
    line: int | None
    function: str | None
    rule: str | None
    """The id of the rule that explains it."""
    subject: str
    """What it is about, without numbers: the same in another trace of the same program."""
    message: str


def site_place(site: Site, steps: int) -> Place:
    """Return the place of a site, with its cost per complete step."""
    cost, times = site.in_steps, max(steps, 1)
    return Place(
        site.file,
        site.line,
        site.function,
        RULE_OF_CAUSE.get(site.cause),
        f"{site.cause} {site.op or site.call}",
        f"{site.op or site.call} ({site.cause}): {cost.count / times:.3g} per step, the host waits "
        f"{duration(cost.stall_ns / times)} and the GPU is idle for {duration(cost.bubble_ns / times)} after it",
    )


def finding_places(findings: Iterable[Finding]) -> tuple[Place, ...]:
    """Return the places of findings, in their order."""
    return tuple(
        Place(
            finding.evidence.file,
            finding.evidence.line,
            finding.evidence.function,
            finding.rule.id,
            finding.rule.title,
            f"{finding.rule.title}: {finding.evidence.text}",
        )
        for finding in findings
    )


def copy_places(trace: Trace, profile: Profile, chosen: Bools, weight: Int64s, steps: int | None) -> tuple[Place, ...]:
    """Return where the chosen copies of `Overlap.row` are made, the largest total weight first.

    Copies are told apart by place, direction, host memory and the reason why they are exposed. Numbers are per step, or
    of the whole trace if `steps` is None.
    """
    overlap, gpu = profile.overlap, trace.gpu
    position = np.flatnonzero(chosen)
    rows = overlap.row[position]
    if len(rows) == 0:
        return ()
    sources, source = _sources(trace, profile, rows)
    kinds = np.stack((source, gpu.direction[rows], gpu.host_memory[rows], overlap.reason[position]))
    different, group = np.unique(kinds, axis=1, return_inverse=True)
    total = np.bincount(group.ravel(), weights=weight[position])
    places = []
    for index in np.argsort(-total, kind="stable").tolist():
        mine = position[group.ravel() == index]
        origin, direction, memory, reason = different[:, index].tolist()
        texts = DIRECTIONS[direction], HOST_MEMORIES[memory], REASONS[reason]
        message = f"{_amount(profile, trace, mine, texts, steps)} ({texts[2].replace('_', ' ')})"
        subject = " ".join((*texts, "copies"))
        rule = "PIN302" if texts[2] == "launched_late" else RULE_OF_REASON.get((texts[2], texts[0]))
        file, line, function = sources[int(origin)]
        places.append(Place(file, line, function, rule, subject, message))
    return tuple(places)


def _amount(profile: Profile, trace: Trace, position: Int64s, kind: tuple[str, str, str], steps: int | None) -> str:
    """Return a sentence on the copies at these positions of `Overlap.row`."""
    rows, times = profile.overlap.row[position], steps or 1
    sizes = trace.gpu.bytes[rows]
    direction, memory, _ = kind
    of = f" of {memory} memory" if memory in {"pageable", "pinned"} else ""
    return (
        f"{direction} copies{of}: {len(rows) / times:.3g} {'per step' if steps else 'in the whole trace'}, "
        f"{size(int(sizes[sizes != NONE].sum()) / times)}, exposed for "
        f"{duration(int(profile.overlap.exposed_ns[position].sum()) / times)} of "
        f"{duration(int(trace.gpu.duration_ns[rows].sum()) / times)}"
    )


def _sources(trace: Trace, profile: Profile, rows: Int64s) -> tuple[list[Source], Int64s]:
    """Return the places from which copies were launched, and per copy the index of its place.

    The recorded line of the wait for the copy is the best place, else the innermost function of the user's own code
    around the launch.
    """
    index: dict[Source, int] = {(None, None, None): 0}
    stalls, lines = profile.syncs.stalls, profile.syncs.lines
    by_wait = np.full(len(trace.gpu), NONE, np.int64)
    for row in np.flatnonzero(stalls.copy != NONE).tolist():
        line = lines[row]
        if line is not None:
            by_wait[stalls.copy[row]] = index.setdefault((line.file, line.line, line.function), len(index))
    launch = trace.links.launch[rows]
    launched = np.flatnonzero(launch != NONE)
    name = np.full(len(rows), NONE, np.int64)
    name[launched] = follow(trace.functions.name, user_function(trace, launch[launched].astype(np.int64)))
    source = by_wait[rows]
    for code in np.unique(name[(source == NONE) & (name != NONE)]).tolist():
        place = frame(trace.functions.names[code])
        if place:
            key = (place.file, None, place.function)
            source[(source == NONE) & (name == code)] = index.setdefault(key, len(index))
    return list(index), np.where(source == NONE, 0, source)
