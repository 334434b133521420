"""Each site that makes the host wait as two bars: the stall and its parts, and the idle time of the GPU after it."""

from collections.abc import Sequence

from pinprof.analyses.syncs import Cost
from pinprof.measurement.profile import Profile
from pinprof.measurement.sums import WaitSite
from pinprof.phrases import wait_label
from pinprof.report.charts.chart import Chart, Key, bars, layout
from pinprof.report.timeline import hues
from pinprof.report.words import idle_after, in_short
from pinprof.rules.sums import in_or_after
from pinprof.units import duration, ms

MAX_SITES = 10
"""More are in the table."""
LONGEST = 44
"""Characters of a place that fit a phone."""
ROW = 58
"""Pixels of one site."""
DRAIN = Key("host waits: for earlier work", hues.WAIT)
OWN = Key("host waits: for its own copy", hues.COPY_OUT[0], pattern="/")
OVERHEAD = Key("host waits: in the call", hues.CALL, pattern="-")
BUBBLE = Key("GPU idle after it", hues.IDLE, pattern="\\")


def syncs_chart(profile: Profile) -> Chart | None:
    """Return a chart of the waits per complete step, the longest bubble first; None if no step has any."""
    count = profile.steps.count
    sites = list(profile.waits)
    if not sites or not count:
        return None
    sites.sort(key=lambda each: (-each[1].idle_ns, -each[1].stall_ns))
    drawn = sites[:MAX_SITES]
    data = []
    for key, times, place in (
        (DRAIN, [cost.drain_ns for _, cost in drawn], 0.0),
        (OWN, [cost.own_ns for _, cost in drawn], 0.0),
        (OVERHEAD, [cost.overhead_ns for _, cost in drawn], 0.0),
        (BUBBLE, [cost.idle_ns for _, cost in drawn], 0.3),
    ):
        hover = [f"{key.label}: {duration(time / count)} {profile.steps.per}" for time in times]
        x = [ms(time / count) for time in times]
        y = [number + place for number in range(len(drawn))]
        data.append(bars(key.label, key, x=x, y=y, orientation="h", width=0.26, hovertext=hover, hoverinfo="text"))
    label = {"x": 0, "xanchor": "left", "xref": "paper", "showarrow": False, "yanchor": "bottom"}
    labels = [{**label, "y": number - 0.15, "text": site_label(site)} for number, (site, _) in enumerate(drawn)]
    shape = layout(
        ROW * len(drawn) + 70,
        f"ms {profile.steps.per}",
        "",
        barmode="stack",
        annotations=labels,
        yaxis={"visible": False, "range": [len(drawn) - 0.45, -0.6]},
        xaxis={"rangemode": "tozero"},
    )
    return Chart(_caption(profile, sites), data, shape, (DRAIN, OWN, OVERHEAD, BUBBLE))


def _caption(profile: Profile, sites: Sequence[tuple[WaitSite, Cost]]) -> str:
    count = profile.steps.count
    stall = sum(cost.stall_ns for _, cost in sites) / count
    bubble = sum(cost.idle_ns for _, cost in sites) / count
    which, when = idle_after(profile, (site for site, _ in sites)), in_or_after(cost for _, cost in sites)
    left = f" The {MAX_SITES} costliest of {len(sites)} places are drawn." if len(sites) > MAX_SITES else ""
    return (
        f"As traced, the host spends {duration(stall)} {profile.steps.per} in calls that wait, and {which} idle for "
        f"{duration(bubble)} {when} them. A stall costs nothing while the GPU works on what was queued before. A fix "
        "may save more than the idle time: after a stall the host has no lead, so later launches are late, "
        f"too.{left}"
    )


def site_label(site: WaitSite) -> str:
    """Return the cause and the place of waits, as short as a phone needs it."""
    known = [str(at) for at in (site.place, site.library and in_short(site.library)) if at and str(at)]
    where = " > ".join(known) or site.op or site.call
    where = where if len(where) <= LONGEST else "\u2026" + where[1 - LONGEST :]
    return f"{wait_label(site.cause)}: {where}"
