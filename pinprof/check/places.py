"""The places in the program that cause a figure: wait sites, launches of copies, findings."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pinprof.analyses.copies import EXPOSURES, REASONS
from pinprof.analyses.syncs.causes import WAITS
from pinprof.analyses.syncs.sites import Site
from pinprof.details import Details
from pinprof.rules.rule import Finding
from pinprof.rules.search import rule_of_exposure, rule_of_wait
from pinprof.rules.sums import Copies, copies_by_place, cost_of_waits, ops_of, within
from pinprof.trace.lines import Place, Placed
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, Bools


@dataclass(frozen=True)
class CodePlace(Placed):
    """A place in the program that causes a figure, as far as the trace shows it."""

    file: str | None
    line: int | None
    function: str | None
    rule: str | None
    subject: str
    """The cause without numbers, so that it is the same in another trace of the program."""
    message: str


def wait_places(details: Details, sites: Iterable[Site]) -> tuple[CodePlace, ...]:
    """Return the places of sites, in their order; library waits of one line and rule share a place."""
    together: dict[object, list[Site]] = {}
    for number, site in enumerate(sites):
        at = (site.place, _rule(details, site)) if site.library and site.place != Place() else number
        together.setdefault(at, []).append(site)
    return tuple(site_place(details, *members) for members in together.values())


def site_place(details: Details, *sites: Site) -> CodePlace:
    """Return the place of sites, which is that of the first, with their cost per complete step."""
    first = sites[0]
    causes = ", ".join(dict.fromkeys(WAITS[site.cause].label for site in sites))
    return CodePlace(
        *first.place,
        _rule(details, first),
        _subject(sites),
        f"{causes} ({ops_of(sites)}){within(sites)}: {cost_of_waits(details, sites)}",
    )


def _rule(details: Details, site: Site) -> str | None:
    return rule_of_wait(details, int(details.syncs.rows[details.syncs.number(site)][0]))


def _subject(sites: Sequence[Site]) -> str:
    """Return what identifies waits besides their place, without numbers, which differ from run to run."""
    site = sites[0]
    if len(sites) > 1:
        return "waits in libraries"
    library = f" in {site.library.file}:{site.library.function}" if site.library else ""
    return f"{site.cause} {site.op or site.call}{library}"


def finding_places(findings: Iterable[Finding]) -> tuple[CodePlace, ...]:
    """Return the places of findings, in their order, one for each of their sites."""
    return tuple(
        CodePlace(*site.evidence.place, finding.rule.id, finding.rule.title, f"{finding.title}: {site.evidence.text}")
        for finding in findings
        for site in finding.sites
    )


def copy_places(
    details: Details, chosen: Bools, weight: Callable[[Copies], float], steps: int | None
) -> tuple[CodePlace, ...]:
    """Return the places of the chosen copies of `Overlap.row`, the largest weight first, then by first copy.

    It groups copies by place, direction, host memory and the reason why they are exposed. Numbers are per step, or of
    the whole trace if `steps` is None.
    """
    overlap, gpu = details.overlap, details.trace.gpu
    kinds = np.stack((gpu.direction[overlap.row], gpu.host_memory[overlap.row], overlap.reason))
    per = details.steps.per if steps else "in the whole trace"
    gathered = [
        (kind.tolist(), copies)
        for kind in np.unique(kinds[:, chosen], axis=1).T
        for copies in copies_by_place(details, chosen & (kind == kinds.T).all(axis=1), steps or 1, per)
    ]
    gathered.sort(key=lambda pair: (-weight(pair[1]), pair[1].rows[0]))
    return tuple(_copy_place(details, copies, *kind) for kind, copies in gathered)


def _copy_place(details: Details, copies: Copies, direction: int, memory: int, reason: int) -> CodePlace:
    kind = DIRECTIONS[direction], HOST_MEMORIES[memory], REASONS[reason]
    of_memory = f" of {kind[1]} memory" if kind[1] in {"pageable", "pinned"} else ""
    message = f"{kind[0]} copies{of_memory}: {copies.figures} ({EXPOSURES[kind[2]].label})"
    rule = rule_of_exposure(details, kind[2], kind[0])
    return CodePlace(*copies.place, rule, f"{' '.join(kind)} copies", message)
