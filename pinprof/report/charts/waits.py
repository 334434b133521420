"""What waits: each site that makes the host wait, with the idle time of the GPU after it; and idle time by cause."""

from pinprof import hues
from pinprof.analyses.idle import IDLE
from pinprof.analyses.syncs import WAITS
from pinprof.measurement.known import given
from pinprof.measurement.profile import Profile, WaitSite
from pinprof.report.charts.chart import Chart, Key, bars, ending, key_of, labelled_rows, stacked, stacked_layout
from pinprof.report.timeline.kinds import COMPUTE_ONLY, KINDS
from pinprof.report.timeline.kinds import IDLE as IDLE_KIND
from pinprof.report.words import PARTS, in_short
from pinprof.units import duration, ms, percent

MAX_SITES = 10
"""More are in the table."""
LONGEST = 44
"""Characters of a place that fit a phone."""
DRAIN = Key(f"host waits: {PARTS['drain']}", hues.WAIT)
OWN = Key(f"host waits: {PARTS['own']}", hues.COPY_OUT[0], pattern="/")
OVERHEAD = Key(f"host waits: {PARTS['rest']}", hues.CALL, pattern="-")
BUSY = Key("busy", KINDS[COMPUTE_ONLY].colour)
BUBBLE = Key("GPU idle after it", hues.IDLE, pattern="\\")
STALLS_AND_SAVINGS = (
    "A stall costs nothing while the GPU works on what was queued before. A fix may save more than the idle time: "
    "after a stall the host has no lead, so later launches are late, too."
)
IDLE_BY_CAUSE = "What a GPU does while it is idle, from its first work to its last."


def syncs_chart(profile: Profile) -> Chart | None:
    """Return a chart of the waits per complete step, the longest bubble first; None if no step has any."""
    count, per = profile.steps.count, profile.steps.per
    sites = sorted(profile.waits, key=lambda wait: (-wait[1].idle_ns, -wait[1].stall_ns))
    if not sites or not count:
        return None
    costs = [cost for _, cost in sites[:MAX_SITES]]
    data = []
    for key, times, place in (
        (DRAIN, [cost.drain_ns for cost in costs], 0.0),
        (OWN, [cost.own_ns for cost in costs], 0.0),
        (OVERHEAD, [cost.overhead_ns for cost in costs], 0.0),
        (BUBBLE, [cost.idle_ns for cost in costs], 0.3),
    ):
        hover = [f"{key.label}: {duration(time / count)} {per}" for time in times]
        x = [ms(time / count) for time in times]
        y = [number + place for number in range(len(costs))]
        data.append(bars(key.label, key, x=x, y=y, orientation="h", width=0.26, hover=hover))
    labels = [site_label(site) for site, _ in sites[:MAX_SITES]]
    shape = labelled_rows(labels, f"ms {per}", row=58, above=0.15, edges=(0.6, 0.55), barmode="stack")
    left = f" The {MAX_SITES} costliest of {len(sites)} places are drawn." if len(sites) > MAX_SITES else ""
    return Chart(STALLS_AND_SAVINGS + left, data, shape, (DRAIN, OWN, OVERHEAD, BUBBLE))


def site_label(site: WaitSite) -> str:
    """Return the cause and the place of waits, as short as a phone needs it."""
    known = [str(at) for at in (site.place, site.library and in_short(site.library)) if at and str(at)]
    where = " > ".join(known) or site.op or site.call
    return f"{WAITS[site.cause].plain}: {ending(where, LONGEST)}"


def idle_chart(profile: Profile, *, with_busy: bool = False) -> Chart | None:
    """Return a chart of the idle time by cause, a bar for each GPU, after the busy time if wanted; None without any.

    Where causes are withheld, idle time is one part.
    """
    gpus = [(gpu, time) for gpu in profile.gpus if (time := given(gpu.time)) and time.span_ns]
    parts = [(BUSY, [time.busy_ns for _, time in gpus])] if with_busy else []
    if profile.withheld.causes:
        parts.append((key_of(IDLE_KIND), [time.idle_ns for _, time in gpus]))
    else:
        prefix = "idle: " if with_busy else ""
        by_gpu = [dict(given(gpu.idle_by_cause) or ()) for gpu, _ in gpus]
        causes = [
            (Key(f"{prefix}{cause.does}", cause.colour, pattern=cause.pattern), times)
            for name, cause in IDLE.items()
            if any(times := [causes.get(name, 0) for causes in by_gpu])
        ]
        parts += sorted(causes, key=lambda part: -sum(part[1]))
    if not any(sum(times) for _, times in parts):
        return None
    data = []
    rows = [f"GPU {time.device} " for _, time in gpus]
    for key, times in parts:
        hover = [
            f"GPU {time.device}, {key.label}: {duration(part)} ({percent(part / time.span_ns)} of its time)"
            for (_, time), part in zip(gpus, times, strict=True)
        ]
        data.append(stacked(key, times, rows, hover))
    return Chart(IDLE_BY_CAUSE, data, stacked_layout(len(gpus)), tuple(key for key, _ in parts))
