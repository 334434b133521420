"""The numbers of a report as plotly figures: copies, idle time, stalls. What is withheld has none."""

from collections.abc import Sequence

import plotly.graph_objects as go

from pinprof.analyses.idle import IDLE
from pinprof.analyses.syncs import WAITS
from pinprof.measurement.known import given
from pinprof.measurement.profile import Profile
from pinprof.report.charts.chart import Key, bars, escaped
from pinprof.report.charts.looks import dressed
from pinprof.report.charts.waits import DRAIN, OVERHEAD, OWN, site_label
from pinprof.report.elements import Markup
from pinprof.report.flame import host_flame, icicle
from pinprof.report.timeline.kinds import BOTH, COMPUTE_ONLY, COPY_ONLY, KINDS
from pinprof.report.timeline.kinds import IDLE as IDLE_KIND
from pinprof.units import NS_PER_MS, counted, duration, rate, sizes

Bars = tuple[Key, Sequence[int], Sequence[str]]
"""A series: its name and looks, times, and what hovering says of them."""
OVERLAPPED = Key(KINDS[BOTH].label, KINDS[BOTH].colour)
EXPOSED = Key(KINDS[COPY_ONLY].label, KINDS[COPY_ONLY].colour, pattern="/")
BUSY = Key("busy", KINDS[COMPUTE_ONLY].colour)
TITLE_HEIGHT = 100
"""Pixels above and below a figure."""
MOST_SITES = 12
"""Waits that are drawn, those that leave the longest idle time; the rest is one bar."""


def numbers(profile: Profile) -> dict[str, go.Figure]:
    """Return a figure for each part of the report that has numbers: `copies`, `busy`, `stalls` and `host`."""
    made = {"copies": _copies(profile), "busy": _busy(profile), "stalls": _stalls(profile), "host": _host(profile)}
    return {name: dressed(figure) for name, figure in made.items() if figure is not None}


def _copies(profile: Profile) -> go.Figure | None:
    groups = [
        (group, copied, hidden)
        for group in profile.copies
        if (copied := given(group.copied)) and (hidden := given(group.hidden))
    ]
    if not groups:
        return None
    rows = [
        f"{group.direction} {group.host_memory if group.host_memory != 'none' else ''}".strip() for group, *_ in groups
    ]
    hover = [
        Markup("{}, {}{}<br>{} overlapped, {} exposed").format(
            counted(copied.count, "copy", "copies"),
            sizes(copied.bytes, group.unsized),
            f" at {rate(copied.bandwidth_gbps)}" if copied.bandwidth_gbps else "",
            duration(hidden.overlapped_ns),
            duration(hidden.exposed_ns),
        )
        for group, copied, hidden in groups
    ]
    return _stacked(
        "Copy time in the trace",
        rows,
        [
            (OVERLAPPED, [hidden.overlapped_ns for *_, hidden in groups], hover),
            (EXPOSED, [hidden.exposed_ns for *_, hidden in groups], hover),
        ],
    )


def _busy(profile: Profile) -> go.Figure | None:
    gpus = [(gpu, time) for gpu in profile.gpus if (time := given(gpu.time))]
    if not gpus:
        return None
    rows = [f"GPU {gpu.device}" for gpu, _ in gpus]
    busy = [time.busy_ns for _, time in gpus]
    series: list[Bars] = [(BUSY, busy, [f"busy for {duration(time)}" for time in busy])]
    if profile.withheld.causes:
        idle = [time.idle_ns for _, time in gpus]
        series.append((Key("idle", KINDS[IDLE_KIND].colour), idle, [f"idle for {duration(time)}" for time in idle]))
    else:
        for name, cause in IDLE.items():
            times = [dict(given(gpu.idle_by_cause) or ()).get(name, 0) for gpu, _ in gpus]
            if any(times):
                texts = [Markup("{}<br>{}").format(cause.why, duration(time)) for time in times]
                series.append((Key(f"idle: {cause.does}", cause.colour, pattern=cause.pattern), times, texts))
    return _stacked("Busy and idle time of the GPUs", rows, series)


def _stalls(profile: Profile) -> go.Figure | None:
    """Return a bar for each site, coloured as in the timeline, with what the stalls are made of."""
    costs = ((site, given(site.total_cost)) for site in profile.sites if site.verdict != "profiler")
    sites = [(site, cost) for site, cost in costs if cost][:MOST_SITES]
    if not profile.sites or profile.withheld.stalls or profile.withheld.drain:
        return None
    names = [Markup.escape(f"{number + 1}. {site_label(site)}") for number, (site, _) in enumerate(sites)]
    parts = (
        (DRAIN, [cost.drain_ns for _, cost in sites]),
        (OWN, [cost.own_ns for _, cost in sites]),
        (OVERHEAD, [cost.overhead_ns for _, cost in sites]),
    )
    hover = [
        Markup("{}, {}<br>the GPU is idle for {} after them<br>{}").format(
            counted(cost.count, "wait"), duration(cost.stall_ns), duration(cost.idle_ns), site.verdict
        )
        for site, cost in sites
    ]
    figure = _stacked("Stalls of the host", names, [(key, times, hover) for key, times in parts])
    figure.update_yaxes(
        tickvals=names,
        ticktext=[
            Markup('<span style="color:{}">■</span> {}').format(WAITS[site.cause].colour, name)
            for (site, _), name in zip(sites, names, strict=True)
        ],
    )
    return figure


def _host(profile: Profile) -> go.Figure | None:
    """Return the icicle of the host's sampled stacks."""
    graph = host_flame(profile)
    if graph is None:
        return None
    chart = icicle(graph)
    height = chart.layout["height"] + TITLE_HEIGHT
    return go.Figure(escaped(chart.data), {"title": {"text": "Where the host's time goes"}, "height": height})


def _stacked(title: str, rows: Sequence[str], series: Sequence[Bars]) -> go.Figure:
    """Return horizontal bars of stacked times, given in ns and shown in ms."""
    drawn = [
        go.Bar(
            bars(
                key.label,
                key,
                y=list(rows),
                x=[time / NS_PER_MS for time in times],
                orientation="h",
                hovertext=list(hover),
                hovertemplate="%{y}, " + key.label + "<br>%{hovertext}<extra></extra>",
            )
        )
        for key, times, hover in series
    ]
    layout = {
        "title": {"text": title},
        "barmode": "stack",
        "height": 40 * len(rows) + 240,
        "legend": {"traceorder": "normal"},
        "xaxis": {"title": {"text": "ms in the trace"}},
        "yaxis": {"autorange": "reversed", "showgrid": False},
    }
    return go.Figure(drawn, layout)
