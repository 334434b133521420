"""What holds the step up, for programs: waits of the host, batches, copies, and idle time of the GPU."""

from collections.abc import Iterable, Iterator, Sequence

from pinprof.analyses.syncs import Stalled
from pinprof.document import filled, maybe_ms
from pinprof.documents import waits as documents
from pinprof.documents.fields import library
from pinprof.measurement.figures import LOADER, SYNCS
from pinprof.measurement.known import Known, KnownOrWithheld, given
from pinprof.measurement.profile import CopySums, GpuSums, Profile, WaitSite
from pinprof.report.trace.waits import SeenWait, seen_elsewhere
from pinprof.units import ms


def syncs_of(profile: Profile) -> documents.Syncs:
    """Return where the host waits for the GPU."""
    waits = [site for site in profile.sites if site.is_wait]
    total = _together(profile, (site.total for site in waits))
    return documents.Syncs(
        count=total.count if total else None,
        per_step=given(SYNCS.of(profile)),
        stall_ms=ms(total.stall_ns) if total else None,
        sites=[_site(profile, site) for site in profile.sites],
        groups=_groups(profile),
        watched_steps=profile.info.watched.steps if profile.info.watched else None,
        seen_elsewhere=[_seen(wait) for wait in seen_elsewhere(profile)],
    )


def _site(profile: Profile, site: WaitSite) -> documents.Site:
    total, whole = given(site.total), given(site.total_cost)
    return filled(
        documents.Site,
        site,
        library=library(site.library),
        count=total.count if total else None,
        per_step=_per_step(profile, given(site.in_steps)),
        stall_ms=ms(total.stall_ns) if total else None,
        drain_ms=ms(whole.drain_ns) if whole else None,
        own_ms=ms(whole.own_ns) if whole else None,
        bubble_ms=ms(whole.idle_ns) if whole else None,
    )


def _groups(profile: Profile) -> list[documents.Group]:
    """Return the groups of sites whose waits only move if one of them is removed alone, each with its sums."""
    members: dict[int, list[int]] = {}
    for index, site in enumerate(profile.sites):
        if site.group is not None:
            members.setdefault(site.group, []).append(index)
    return [_group(profile, number, indices) for number, indices in sorted(members.items())]


def _group(profile: Profile, number: int, indices: Sequence[int]) -> documents.Group:
    sites = [profile.sites[index] for index in indices]
    together, costs = _together(profile, (site.total for site in sites)), [given(site.total_cost) for site in sites]
    idle = None if None in costs else sum(cost.idle_ns for cost in costs if cost)
    stall = ms(together.stall_ns) if together else None
    return documents.Group(group=number, sites=indices, stall_ms=stall, bubble_ms=maybe_ms(idle))


def _seen(wait: SeenWait) -> documents.Seen:
    """Return waits that only watching saw."""
    return filled(documents.Seen, wait, count=wait.waits, per_step=wait.waits / wait.of if wait.of else None)


def _together(profile: Profile, costs: Iterable[KnownOrWithheld[Stalled]]) -> Stalled | None:
    """Return what waits cost together; None if that is withheld, also where there is none."""
    if profile.withheld.stalls:
        return None
    known = [cost.value for cost in costs if isinstance(cost, Known)]
    return Stalled(sum(cost.count for cost in known), sum(cost.stall_ns for cost in known))


def _per_step(profile: Profile, in_steps: Stalled | None) -> float | None:
    """Return how many waits there are per step; None without complete steps, and where that is withheld."""
    count = profile.steps.count
    return in_steps.count / count if in_steps and count and not profile.withheld.per_step else None


def loader_of(profile: Profile) -> documents.Loader:
    """Return what the DataLoader costs."""
    return filled(documents.Loader, profile.loader, per_step_ms=maybe_ms(given(LOADER.of(profile))))


def copies_of(group: CopySums) -> documents.Copies:
    """Return the copies of one direction and host memory."""
    copied, hidden = given(group.copied), given(group.hidden)
    return documents.Copies(
        direction=group.direction,
        host_memory=None if group.host_memory == "none" else group.host_memory,
        count=copied.count if copied else None,
        bytes=copied.bytes if copied else None,
        unsized=group.unsized,
        time_ms=ms(copied.time_ns) if copied else None,
        overlapped_ms=ms(hidden.overlapped_ns) if hidden else None,
        exposed_ms=ms(hidden.exposed_ns) if hidden else None,
        bandwidth_gbps=copied.bandwidth_gbps if copied else None,
        host_blocked_ms=maybe_ms(given(group.host_blocked_ns)),
    )


def overlap_of(profile: Profile) -> documents.Overlap:
    """Return how much of the copy time kernels hide."""
    overlap = given(profile.overlap)
    return documents.Overlap(
        copy_ms=maybe_ms(given(profile.copy_ns)),
        overlapped_ms=ms(overlap.overlapped_ns) if overlap else None,
        exposed_ms=ms(overlap.exposed_ns) if overlap else None,
        fraction=overlap.fraction if overlap else None,
        reasons=[
            documents.Exposed(given(row.reason), given(row.count), maybe_ms(given(row.exposed_ns)))
            for row in profile.exposed
        ],
    )


def idle_of(gpu: GpuSums) -> Iterator[documents.Idle]:
    """Yield the idle time of a GPU by cause; where causes are withheld, of no cause."""
    if isinstance(gpu.idle_by_cause, Known):
        yield from (documents.Idle(gpu.device, cause, ms(time)) for cause, time in gpu.idle_by_cause.value)
    else:
        time = given(gpu.time)
        yield documents.Idle(gpu.device, None, ms(time.idle_ns) if time else None)
