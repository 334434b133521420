"""The numbers of a report as plotly figures: copies, idle time, stalls. What is withheld has none."""

from collections.abc import Sequence

import plotly.graph_objects as go

from pinprof.analyses.idle import IDLE_CAUSES
from pinprof.analyses.syncs import CAUSES
from pinprof.measurement.profile import Profile
from pinprof.report.timeline.kinds import (
    BLUE,
    GREEN,
    GREY,
    KINDS,
    ORANGE,
    SKY,
    STALL,
    VERMILLION,
    YELLOW,
)
from pinprof.report.timeline.names import literal
from pinprof.report.words import IDLE, place
from pinprof.units import NS_PER_MS, counted, duration, rate, sizes

_IDLE_COLOURS = dict(zip(IDLE_CAUSES, (SKY, YELLOW, GREEN, VERMILLION, ORANGE, GREY), strict=True))
MOST_SITES = 12
"""Waits that are drawn, those that leave the longest idle time; the rest is one bar."""


def numbers(profile: Profile) -> dict[str, go.Figure]:
    """Return a figure for each part of the report that has numbers: `copies`, `busy` and `stalls`."""
    withheld = profile.withheld.keys()
    made = {
        "copies": _copies(profile) if profile.copies and not withheld & {"copies", "overlap"} else None,
        "busy": _busy(profile) if profile.devices and not withheld & {"busy"} else None,
        "stalls": _stalls(profile) if profile.syncs.sites and not withheld & {"stalls", "drain"} else None,
    }
    return {name: figure for name, figure in made.items() if figure is not None}


def _copies(profile: Profile) -> go.Figure:
    groups = profile.copies
    rows = [f"{group.direction} {group.host_memory if group.host_memory != 'none' else ''}".strip() for group in groups]
    hover = [
        f"{counted(group.count, 'copy', 'copies')}, {sizes(group.bytes, group.unsized)}"
        + (f" at {rate(group.bandwidth_gbps)}" if group.bandwidth_gbps else "")
        + f"<br>{duration(group.overlapped_ns)} overlapped, {duration(group.exposed_ns)} exposed"
        for group in groups
    ]
    return _stacked(
        "Copy time in the trace",
        rows,
        [
            ("overlapped", GREEN, [group.overlapped_ns for group in groups], hover),
            ("exposed", VERMILLION, [group.exposed_ns for group in groups], hover),
        ],
    )


def _busy(profile: Profile) -> go.Figure:
    rows = [f"GPU {device.device}" for device in profile.devices]
    busy = [device.busy_ns for device in profile.devices]
    series = [("busy", BLUE, busy, [f"busy for {duration(time)}" for time in busy])]
    if "causes" in profile.withheld:
        idle = [device.idle_ns for device in profile.devices]
        series.append(("idle", GREY, idle, [f"idle for {duration(time)}" for time in idle]))
    else:
        for cause in IDLE_CAUSES:
            times = [dict(device.idle_by_cause).get(cause, 0) for device in profile.devices]
            if any(times):
                texts = [f"{IDLE[cause]}<br>{duration(time)}" for time in times]
                series.append((cause.replace("_", " "), _IDLE_COLOURS[cause], times, texts))
    return _stacked("Busy and idle time of the GPUs", rows, series)


def _stalls(profile: Profile) -> go.Figure:
    """Return a bar for each site, coloured as in the timeline, with what the stalls are made of."""
    sites = [site for site in profile.syncs.sites if site.verdict != "profiler"][:MOST_SITES]
    names = [_site(number, site.cause, place(site.place)) for number, site in enumerate(sites)]
    parts = (
        ("drain: for work queued before", BLUE, [site.total.drain_ns for site in sites]),
        ("own: for its own copy", ORANGE, [site.total.own_ns for site in sites]),
        ("overhead: in the call itself", GREY, [site.total.overhead_ns for site in sites]),
    )
    hover = [
        f"{counted(site.total.count, 'wait')}, {duration(site.total.stall_ns)}<br>"
        f"the GPU is idle for {duration(site.total.bubble_ns)} after them<br>{site.verdict}"
        for site in sites
    ]
    figure = _stacked("Stalls of the host", names, [(name, colour, times, hover) for name, colour, times in parts])
    figure.update_yaxes(
        tickvals=names,
        ticktext=[
            f'<span style="color:{KINDS[STALL + CAUSES.index(site.cause)].colour}">■</span> {name}'
            for site, name in zip(sites, names, strict=True)
        ],
    )
    return figure


def _site(number: int, cause: str, at: str) -> str:
    return f"{number + 1}. {cause}" + (f" at {literal(at)}" if at else "")


def _stacked(
    title: str, rows: Sequence[str], series: Sequence[tuple[str, str, Sequence[int], Sequence[str]]]
) -> go.Figure:
    """Return horizontal bars of stacked times, given in ns and shown in ms."""
    bars = [
        go.Bar(
            name=name,
            y=list(rows),
            x=[time / NS_PER_MS for time in times],
            orientation="h",
            marker={"color": colour},
            hovertext=list(hover),
            hovertemplate="%{y}, " + name + "<br>%{hovertext}<extra></extra>",
        )
        for name, colour, times, hover in series
    ]
    layout = {
        "title": {"text": title},
        "barmode": "stack",
        "height": 40 * len(rows) + 240,
        "legend": {"traceorder": "normal"},
        "xaxis": {"ticksuffix": " ms"},
        "yaxis": {"autorange": "reversed", "automargin": True},
        "hoverlabel": {"align": "left"},
    }
    return go.Figure(bars, layout)
