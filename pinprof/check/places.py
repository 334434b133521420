"""Finds the places in the program that cause a figure: wait sites, launches of copies, findings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pinprof.analyses.copies import EXPOSED, REASONS
from pinprof.analyses.syncs import WAITS, Cost, Site
from pinprof.details import Details
from pinprof.rules import Finding, rule_of_exposure, rule_of_wait
from pinprof.rules.sums import idle_gpu, in_or_after, ops_of, within
from pinprof.trace.lines import Place, Placed
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, Bools, Int64s, rows_by, total_bytes
from pinprof.units import duration, how_many, sizes


@dataclass(frozen=True)
class CodePlace(Placed):
    """A place in the program that causes a figure; None where the trace does not tell."""

    file: str | None
    line: int | None
    function: str | None
    rule: str | None
    """The id of the rule that explains it."""
    subject: str
    """The subject without numbers: it is the same in another trace of the program."""
    message: str


def wait_places(details: Details, sites: Iterable[Site]) -> tuple[CodePlace, ...]:
    """Return the places of sites, in their order; what one line calls in libraries, and one rule explains, is one."""
    together: dict[object, list[Site]] = {}
    for number, site in enumerate(sites):
        at = (site.place, _rule(details, site)) if site.library and site.place != Place() else number
        together.setdefault(at, []).append(site)
    return tuple(site_place(details, *members) for members in together.values())


def site_place(details: Details, *sites: Site) -> CodePlace:
    """Return the place of sites, which is that of the first, with their cost per complete step."""
    first, steps, cost = sites[0], details.steps, Cost.of(site.in_steps for site in sites)
    times = steps.divisor
    causes = ", ".join(dict.fromkeys(WAITS[site.cause].label for site in sites))
    return CodePlace(
        *first.place,
        _rule(details, first),
        _subject(sites),
        f"{causes} ({ops_of(sites)}){within(sites)}: {how_many(cost.count / times)} {steps.per}; as traced, the host "
        f"waits {duration(cost.stall_ns / times)} and "
        f"{idle_gpu(len(details.devices), [(site, site.total) for site in sites])} idle for "
        f"{duration(cost.idle_ns / times)} {in_or_after([cost])} {'it' if len(sites) == 1 else 'them'}",
    )


def _rule(details: Details, site: Site) -> str | None:
    return rule_of_wait(details, int(details.syncs.rows[details.syncs.number(site)][0]))


def _subject(sites: Sequence[Site]) -> str:
    """Return what identifies waits beside their place; the numbers of all that a line calls differ from run to run."""
    site = sites[0]
    if len(sites) > 1:
        return "waits in libraries"
    library = f" in {site.library.file}:{site.library.function}" if site.library else ""
    return f"{site.cause} {site.op or site.call}{library}"


def finding_places(findings: Iterable[Finding]) -> tuple[CodePlace, ...]:
    """Return the places of findings, in their order, one for each of their sites."""
    return tuple(
        CodePlace(
            *site.evidence.place,
            finding.rule.id,
            finding.rule.title,
            f"{finding.title}: {site.evidence.text}",
        )
        for finding in findings
        for site in finding.sites
    )


def copy_places(details: Details, chosen: Bools, weight: Int64s, steps: int | None) -> tuple[CodePlace, ...]:
    """Return the places of the chosen copies of `Overlap.row`, the largest total weight first.

    It groups copies by place, direction, host memory and the reason why they are exposed. Numbers are per step, or of
    the whole trace if `steps` is None.
    """
    overlap, gpu = details.overlap, details.trace.gpu
    position = np.flatnonzero(chosen)
    rows = overlap.row[position]
    if len(rows) == 0:
        return ()
    number: dict[Place, int] = {}
    lines = (details.copy_places[place] for place in position.tolist())
    source = np.array([number.setdefault(line.place if line else Place(), len(number)) for line in lines])
    sources = list(number)
    kinds = np.stack((source, gpu.direction[rows], gpu.host_memory[rows], overlap.reason[position]))
    different, group = np.unique(kinds, axis=1, return_inverse=True)
    total = np.bincount(group.ravel(), weights=weight[position])
    places = []
    rows_by_kind = rows_by(group.ravel())
    for index in np.argsort(-total, kind="stable").tolist():
        of_kind = position[rows_by_kind[index]]
        origin, direction, memory, reason = different[:, index].tolist()
        texts = DIRECTIONS[direction], HOST_MEMORIES[memory], REASONS[reason]
        message = f"{_amount(details, of_kind, texts, steps)} ({EXPOSED[texts[2]].label})"
        subject = " ".join((*texts, "copies"))
        rule = rule_of_exposure(details, texts[2], texts[0])
        places.append(CodePlace(*sources[int(origin)], rule, subject, message))
    return tuple(places)


def _amount(details: Details, position: Int64s, kind: tuple[str, str, str], steps: int | None) -> str:
    """Return a sentence on the copies at these positions of `Overlap.row`."""
    rows, times = details.overlap.row[position], steps or 1
    known, unsized = total_bytes(details.trace.gpu.bytes[rows])
    direction, memory, _ = kind
    of = f" of {memory} memory" if memory in {"pageable", "pinned"} else ""
    per = details.steps.per if steps else "in the whole trace"
    return (
        f"{direction} copies{of}: {how_many(len(rows) / times)} {per}, "
        f"{sizes(None if known is None else known / times, unsized)}, exposed for "
        f"{duration(int(details.overlap.exposed_ns[position].sum()) / times)} of "
        f"{duration(int(details.trace.gpu.duration_ns[rows].sum()) / times)}"
    )
