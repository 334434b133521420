"""How each wait, each kind of copies and each finding changed between two traces."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct

from pinprof.analyses.syncs.sites import Match, Site, SiteCount, match_sites
from pinprof.comparison.figures import ComparedFigure, Side, Value
from pinprof.document import Bytes, doc
from pinprof.documents.fields import Direction, Memory
from pinprof.measurement.figures import NO_SIZES, sum_in_steps, waited_in_steps, waits_in_steps
from pinprof.rules.rule import Finding
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, NONE, PAGEABLE, PINNED, Int64s

Member = TypeVar("Member", Site, Finding)
ChangeStatus: TypeAlias = Literal["gone", "new", "moved", "changed", "same"]
"""How something changed; `changed` is beyond noise."""
COPY_FIGURES = (
    ("count", "count"),
    ("bytes", "bytes"),
    ("time_ms", "ns"),
    ("exposed_ms", "ns"),
    ("bandwidth_gbps", "gbps"),
)
WAIT_FIGURES = (("per_step", "count"), ("stall_ms", "ns"), ("bubble_ms", "ns"))


@dataclass(frozen=True)
class Matched(Generic[Member]):
    """Members that match in both traces, or those of one trace; several on a side are lines of one function."""

    before: tuple[Member, ...]
    after: tuple[Member, ...]
    moved: bool

    @property
    def members(self) -> tuple[Member, ...]:
        """Those after, or those before if they are gone."""
        return self.after or self.before


@dataclass(frozen=True)
class WaitChange(Matched[Site]):
    """The sites of waits."""

    count: ComparedFigure
    stall: ComparedFigure
    bubble: ComparedFigure

    @property
    def status(self) -> ChangeStatus:
        """How it changed."""
        return _status(self.before, self.after, self.figures, moved=self.moved)

    @property
    def figures(self) -> tuple[ComparedFigure, ...]:
        """All figures, in the order of `WAIT_FIGURES`."""
        return self.count, self.stall, self.bubble


@dataclass(frozen=True)
class CopyChange:
    """The copies of one direction and host memory, per step."""

    direction: str
    host_memory: str
    count: ComparedFigure
    bytes: ComparedFigure
    time: ComparedFigure
    exposed: ComparedFigure
    rate: ComparedFigure

    @property
    def status(self) -> ChangeStatus:
        """How they changed; they do not move."""
        return _status(self.count.before.value, self.count.after.value, self.figures)

    @property
    def figures(self) -> tuple[ComparedFigure, ...]:
        """All figures, in the order of `COPY_FIGURES`."""
        return self.count, self.bytes, self.time, self.exposed, self.rate


class Repinned(Struct, frozen=True):
    """Copies whose host memory is of another kind after, per step."""

    direction: Annotated[Direction, doc("from where to where")]
    before: Annotated[Memory, doc("kind before")]
    after: Annotated[Memory, doc("kind after")]
    count: Annotated[float, doc("how many")]
    bytes: Annotated[Bytes | None, doc("how much; null where a size is not recorded")]


@dataclass(frozen=True)
class FindingChange(Matched[Finding]):
    """A rule at one place, with a finding per site; or with all its sites if it holds only before or only after."""

    saving: ComparedFigure
    """What fixing it alone saves, if there is one finding with a replay on each side."""

    @property
    def status(self) -> ChangeStatus:
        """How it changed: in its saving beyond noise, or in the number of findings."""
        if self.before and self.after and len(self.before) != len(self.after):
            return "changed"
        return _status(self.before, self.after, (self.saving,), moved=self.moved)


def _status(before: object, after: object, figures: Sequence[ComparedFigure], *, moved: bool = False) -> ChangeStatus:
    if not after:
        return "gone"
    if not before:
        return "new"
    if moved:
        return "moved"
    return "changed" if any(figure.has_changed for figure in figures) else "same"


# Waits


def wait_changes(before: Side, after: Side) -> Iterator[WaitChange]:
    """Yield how each wait of the host changed, by identity."""
    # by identity: two sites may be equal
    numbers = {id(site): number for side in (before, after) for number, site in enumerate(side.details.syncs.sites)}

    def with_costs(side: Side, counted: Sequence[SiteCount]) -> tuple[tuple[Site, ...], tuple[Value, ...]]:
        sites = tuple(site for site, _ in counted)
        return sites, _costs(side, side.details.syncs.at(numbers[id(site)] for site in sites))

    for match in match_sites(_counted(before), _counted(after)):
        for pair in _lines_apart(match):
            (sites, costs), (sites_after, costs_after) = with_costs(before, pair.before), with_costs(after, pair.after)
            yield WaitChange(sites, sites_after, pair.moved, *_compared(WAIT_FIGURES, costs, costs_after))


def _compared(
    kinds: Sequence[tuple[str, str]], before: Sequence[Value], after: Sequence[Value]
) -> Iterator[ComparedFigure]:
    for (name, unit), old, new in zip(kinds, before, after, strict=True):
        yield ComparedFigure(name, unit, old, new, more_is_better=unit == "gbps")


def _costs(side: Side, rows: Int64s) -> tuple[Value, ...]:
    details, stalls = side.details, side.details.syncs.stalls
    return (
        side.per_step(waits_in_steps(details, rows), "stalls"),
        side.per_step(waited_in_steps(details, rows, stalls.stall_ns), "stalls"),
        side.per_step(waited_in_steps(details, rows, stalls.idle_ns), "stalls", "drain", depends_on_end=True),
    )


def _counted(side: Side) -> list[SiteCount]:
    steps = side.profile.steps.divisor
    sites = [site for site in side.details.syncs.sites if site.is_wait and site.in_steps.count]
    return [(site, site.in_steps.count / steps) for site in sites]


def _lines_apart(match: Match) -> Iterator[Match]:
    """Yield the lines of a function one by one if both traces have equally many, otherwise all as one match."""
    one_place = len({site.identity for site, _ in (*match.before, *match.after)}) == 1
    if not one_place or len(match.before) != len(match.after):
        yield match
        return
    old, new = (
        sorted(sites, key=lambda counted: _line_or_none(counted[0].line)) for sites in (match.before, match.after)
    )
    yield from (Match((one,), (other,)) for one, other in zip(old, new, strict=True))


def _line_or_none(line: int | None) -> int:
    return NONE if line is None else line


# Copies


def copy_changes(before: Side, after: Side) -> Iterator[CopyChange]:
    """Yield how the copies of each direction and host memory changed."""
    kinds, kinds_after = _copy_kinds(before), _copy_kinds(after)
    for kind in sorted({*kinds, *kinds_after}):
        values, values_after = _copy_values(before, kinds.get(kind)), _copy_values(after, kinds_after.get(kind))
        figures = _compared(COPY_FIGURES, values, values_after)
        yield CopyChange(DIRECTIONS[kind[0]], HOST_MEMORIES[kind[1]], *figures)


def _copy_kinds(side: Side) -> dict[tuple[int, int], Int64s]:
    gpu, rows = side.trace.gpu, side.details.overlap.row
    inside = np.flatnonzero(side.trace.steps.holds(side.trace.links.activity_step[rows]))
    kinds = np.stack((gpu.direction[rows[inside]], gpu.host_memory[rows[inside]]))
    different, group = np.unique(kinds, axis=1, return_inverse=True)
    return {(int(kind[0]), int(kind[1])): inside[group.ravel() == number] for number, kind in enumerate(different.T)}


def _copy_values(side: Side, position: Int64s | None) -> tuple[Value, ...]:
    """Return count, bytes, time, exposed time and rate of the copies at positions of `Overlap.row`, per step."""
    overlap, gpu = side.details.overlap, side.trace.gpu
    position = np.empty(0, np.int64) if position is None else position
    rows = overlap.row[position]
    step, is_sized = side.trace.links.activity_step[rows], not (gpu.bytes[rows] == NONE).any()
    size, time = (sum_in_steps(side.trace, step, column[rows]) for column in (gpu.bytes, gpu.duration_ns))
    has_rate = (size > 0) & (time > 0) & is_sized
    unknown = Value(None, reason="" if is_sized else NO_SIZES)
    exposed = sum_in_steps(side.trace, step, overlap.exposed_ns[position])
    return (
        side.per_step(sum_in_steps(side.trace, step), "copies"),
        side.per_step(size, "copies") if is_sized else unknown,
        side.per_step(time, "copies"),
        side.per_step(exposed, "copies", "overlap", depends_on_end=True),
        side.per_step(size[has_rate] / time[has_rate], "copies") if has_rate.any() else unknown,
    )


def repinned(copies: Sequence[CopyChange]) -> Iterator[Repinned]:
    """Yield the copies that went from pageable to pinned memory, or back."""
    by_kind = {(change.direction, change.host_memory): change for change in copies}
    pageable, pinned = HOST_MEMORIES[PAGEABLE], HOST_MEMORIES[PINNED]
    for direction in dict.fromkeys(change.direction for change in copies):
        for old, new in ((pageable, pinned), (pinned, pageable)):
            lost, won = by_kind.get((direction, old)), by_kind.get((direction, new))
            if not (lost and won and lost.count.has_changed and won.count.has_changed):
                continue
            count = min(-(lost.count.difference or 0.0), won.count.difference or 0.0)
            sizes = lost.bytes.difference, won.bytes.difference
            size = None if sizes[0] is None or sizes[1] is None else max(min(-sizes[0], sizes[1]), 0.0)
            if count > 0:
                yield Repinned(direction, old, new, count, size)


# Findings


def finding_changes(before: Side, after: Side) -> Iterator[FindingChange]:
    """Yield how findings changed: whole rules, or each site, matched by function or as the single one left."""
    old, new = before.analysis.findings, after.analysis.findings
    both = {finding.rule.id for finding in old} & {finding.rule.id for finding in new}
    yield from (_finding_change((one,), ()) for one in old if one.rule.id not in both)
    yield from (_finding_change((), (one,)) for one in new if one.rule.id not in both)
    yield from _site_changes(*([one for one in findings if one.rule.id in both] for findings in (old, new)))


def _site_changes(before: Sequence[Finding], after: Sequence[Finding]) -> Iterator[FindingChange]:
    sides = [_by_place([site for finding in findings for site in finding.by_site]) for findings in (before, after)]
    places = list(dict.fromkeys((*sides[0], *sides[1])))
    by_rule: dict[str, list[tuple[tuple[Finding, ...], tuple[Finding, ...]]]] = defaultdict(list)
    for place in places:
        old, new = (tuple(side.get(place, ())) for side in sides)
        if not (old and new):
            by_rule[place[0]].append((old, new))
        elif len(old) == len(new):
            yield from (_finding_change((one,), (other,)) for one, other in zip(old, new, strict=True))
        else:
            yield _finding_change(old, new)
    for alone in by_rule.values():
        old_ones, new_ones = ([one for pair in alone for one in pair[side]] for side in (0, 1))
        if len(old_ones) == len(new_ones) == 1:
            moved = None not in {old_ones[0].evidence.function, new_ones[0].evidence.function}
            yield _finding_change((old_ones[0],), (new_ones[0],), moved=moved)
        else:
            yield from (_finding_change((one,), ()) for one in old_ones)
            yield from (_finding_change((), (one,)) for one in new_ones)


def _by_place(findings: Sequence[Finding]) -> dict[tuple[str, str | None, str | None], list[Finding]]:
    grouped: dict[tuple[str, str | None, str | None], list[Finding]] = defaultdict(list)
    for finding in sorted(findings, key=lambda finding: _line_or_none(finding.evidence.line)):
        grouped[finding.rule.id, finding.evidence.file, finding.evidence.function].append(finding)
    return dict(grouped)


def _finding_change(before: tuple[Finding, ...], after: tuple[Finding, ...], *, moved: bool = False) -> FindingChange:
    return FindingChange(before, after, moved, ComparedFigure("saving_ms", "ns", _saving(before), _saving(after)))


def _saving(findings: tuple[Finding, ...]) -> Value:
    if len(findings) != 1:
        return Value(None, reason=f"{len(findings)} findings" if findings else "no finding")
    saving = findings[0].saving
    return Value(None, reason="no replay tells") if saving is None else Value(saving.saving_ns, saving.range_ns)
