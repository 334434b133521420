"""What a wait of the host consists of; groups of wait sites, by the user's line or by the library function."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pinprof.analyses.syncs.causes import WAITS
from pinprof.analyses.syncs.removal import VERDICTS
from pinprof.analyses.syncs.sites import BareSite, WaitCost
from pinprof.ground.units import counted
from pinprof.measurement.profile import WaitSite
from pinprof.measurement.trust.doubt import given
from pinprof.report.words import place, short_place
from pinprof.trace.lines import Place


class WaitPart(NamedTuple):
    """A part of a wait of the host, or the idle time after it."""

    key: str
    label: str
    """What the host waits for; the parts of a wait follow "the host waits"."""
    meaning: str
    time_ns: Callable[[WaitCost], int]


WAIT_PARTS = (
    WaitPart("drain", "for earlier work", "waiting for work that was queued before", lambda cost: cost.drain_ns),
    WaitPart("own", "for its own copy", "waiting for the call's own copy", lambda cost: cost.own_ns),
    WaitPart("rest", "in the call", "the call itself", lambda cost: cost.overhead_ns),
    WaitPart("idle", "GPU idle after", "until the GPU's next work", lambda cost: cost.idle_ns),
)
BY_LINE, BY_LIBRARY = "line", "library"
"""The ways to group sites."""


@dataclass(frozen=True)
class WaitGroup:
    """Sites of one line or library function, the costliest first; or a site alone."""

    at: Place
    """The user's line, or the library's function."""
    sites: tuple[WaitSite, ...]

    @property
    def cause(self) -> str:
        """The cause of all of them in plain words, or how many causes there are."""
        causes = {site.cause for site in self.sites}
        return WAITS[self.sites[0].cause].label if len(causes) == 1 else counted(len(causes), "cause")


def group_waits(sites: Iterable[WaitSite], by: str = BY_LINE) -> list[WaitGroup]:
    """Return sites grouped by BY_LINE or BY_LIBRARY, the longest idle time first, then the longest stall.

    Waits in libraries form groups, along with other waits at their line; any other site stands alone.
    """
    listed = list(sites)
    place_of = PLACE_OF_SITE[by]
    in_libraries = {place_of(site) for site in listed if site.library} - {Place()}
    together: dict[object, list[WaitSite]] = {}
    for number, site in enumerate(listed):
        at = place_of(site)
        together.setdefault(at if at in in_libraries else number, []).append(site)
    groups = [WaitGroup(place_of(members[0]), tuple(members)) for members in together.values()]
    return sorted(groups, key=_rank)


def cause_with_verdict(site: BareSite) -> str:
    """Return the cause of a site's waits in plain words, and whether the code asked for them."""
    verdict = VERDICTS[site.verdict]
    return WAITS[site.cause].label + (f" ({verdict})" if verdict else "")


def _function(site: WaitSite) -> Place:
    """Return the library's function around a site, or the user's place where the user's own function waits."""
    return site.library._replace(line=None) if site.library else site.place


PLACE_OF_SITE: Mapping[str, Callable[[WaitSite], Place]] = {BY_LINE: lambda site: site.place, BY_LIBRARY: _function}
"""The place that all sites of a group share, by the way of grouping."""


def _rank(group: WaitGroup) -> tuple[int, int]:
    costs = [cost for site in group.sites if (cost := given(site.total_cost))]
    return -sum(cost.idle_ns for cost in costs), -sum(cost.stall_ns for cost in costs)


def place_in_group(site: WaitSite) -> str:
    """Return what distinguishes a site of one line: the library function that waits."""
    return f"in {place(short_place(site.library))}" if site.library else "by itself"


def called_from_several(sites: Sequence[WaitSite]) -> bool:
    """Return whether grouping by library adds anything up: some function is called from several places."""
    callers: dict[Place, set[Place]] = {}
    for site in sites:
        if site.library:
            callers.setdefault(_function(site), set()).add(site.place)
    return any(len(places) > 1 for places in callers.values())
