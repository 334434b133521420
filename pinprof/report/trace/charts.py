"""The charts of the page on a trace, each for a section of the report, with the numbers behind them."""

from collections.abc import Iterator

from pinprof.analyses.step_parts import StepParts
from pinprof.analysis import Analysis
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import Doubt, Withheld
from pinprof.report.charts.chart import Chart, chart_html
from pinprof.report.charts.copies import copies_chart
from pinprof.report.charts.steps import idle_chart, overlap_chart, part_times, steps_chart, syncs_chart
from pinprof.report.elements import Column, Markup, lines, note, number_columns, table
from pinprof.report.flame import fragment as flame
from pinprof.report.flame import host_flame, waits_flame
from pinprof.report.timeline.kinds import KINDS
from pinprof.report.timeline.steps import shown_numbers
from pinprof.report.trace.kinds import kinds_figure
from pinprof.report.trace.waits import MAX_ROWS
from pinprof.report.words import not_shown
from pinprof.trace.tables import Int64s
from pinprof.units import between, duration

MAX_GPUS = 4
"""GPUs of a trace with a chart of their steps."""
COPIES, SIZES, SITES, GPUS, STEPS, LENGTHS = 4, 3, 2, 2, 3, 5
"""The least numbers of each with which a chart shows more than the numbers next to it."""
FEW = 10
"""The most steps whose lengths are listed."""


def charts_of(section: str, analysis: Analysis) -> Markup:
    """Return the charts of a section of the report by its name; empty if it has none."""
    profile = analysis.profile
    if section == "copies":
        chart = None if profile.withheld.copies else copies_chart(analysis.trace)
        sizes = {size for series in chart.data for size in series["x"]} if chart else ()
        return lines((_unshown(profile.withheld.copies), _chart(chart if len(sizes) >= SIZES else None, COPIES)))
    if section == "kernels":
        return kinds_figure(profile)
    if section == "waits":
        why, graph = profile.withheld, waits_flame(profile)
        unshown = _unshown(why.stalls, why.drain, why.per_step)
        return lines((unshown, _chart(syncs_chart(profile), SITES), flame(graph) if graph else ""))
    if section == "host" and profile.host is not None:
        graph = host_flame(profile)
        return flame(graph) if graph else Markup()
    if section == "idle":
        why = profile.withheld
        chart = None if why.busy or why.causes else idle_chart(profile)
        return lines((_unshown(why.busy, why.causes), _chart(chart, GPUS)))
    return Markup()


def overlap_of_steps(analysis: Analysis) -> Iterator[Markup]:
    """Yield how each step divides, drawn and in numbers, if there is GPU work."""
    profile = analysis.profile
    if not profile.gpus:
        return
    if isinstance(profile.mean_steps, Withheld):
        yield _unshown(profile.mean_steps.reason)
        return
    parts, numbers = analysis.details.parts, shown_numbers(analysis.trace)
    for of_device in parts[:MAX_GPUS]:
        in_numbers = parts_table(of_device, numbers, profile.steps.whole)
        chart = _chart(overlap_chart(of_device, numbers), STEPS)
        yield chart
        yield (
            Markup("<details><summary>The same in numbers</summary>{}</details>").format(in_numbers)
            if chart
            else in_numbers
        )
    if len(parts) > MAX_GPUS:
        yield note(f"The first {MAX_GPUS} of {len(parts)} GPUs are drawn.")


def lengths_of_steps(analysis: Analysis) -> Iterator[Markup]:
    """Yield how long the steps are, as a chart and by each way to measure them."""
    profile = analysis.profile
    yield _unshown(profile.withheld.step)
    if not profile.withheld.step:
        parts = () if isinstance(profile.mean_steps, Withheld) else analysis.details.parts
        longest = max(parts, key=lambda of_device: int(of_device.length_ns.sum()), default=None)
        yield _chart(steps_chart(analysis.trace, profile, longest), LENGTHS)
    yield _steps_table(profile)


def _steps_table(profile: Profile) -> Markup:
    """Return how long the steps are, by each way to measure them."""
    steps = profile.steps
    worked = "time in which the busiest GPU worked, without copies of pageable memory"
    named = (
        (
            ("host", steps.host_ns, "median time between the starts of consecutive steps on the host"),
            ("GPU", steps.device_ns, "mean time between the ends of the GPU work of consecutive steps"),
            ("GPU work", steps.busy_ns, f"mean {worked}"),
        )
        if steps.count > 1
        else (
            ("host", steps.host_ns, "time from its start on the host to its end, or to the next step"),
            ("GPU", steps.device_ns, "time from its first work of a GPU to the end of its last"),
            ("GPU work", steps.busy_ns, worked),
        )
    )
    rows = [(name, duration(time), meaning) for name, time, meaning in named if time is not None]
    lengths_ns = steps.host_lengths_ns.tolist()
    if len(lengths_ns) > 1:
        few = len(lengths_ns) <= FEW
        lengths = ", ".join(map(duration, lengths_ns)) if few else between(min(lengths_ns), max(lengths_ns))
        rows.append(("each", lengths, "from the start of one complete step to the next one's"))
    columns = [Column(steps.whole), *number_columns("time"), Column("meaning")]
    only = "The complete step" if steps.whole == "step" else "The whole trace"
    cost = "as traced, with the profiler's cost in"
    caption = f"Complete steps {cost} them" if steps.count > 1 else f"{only} {cost} it"
    return table(caption, columns, rows) if rows else Markup()


def parts_table(parts: StepParts, numbers: Int64s, whole: str = "step") -> Markup:
    """Return how the time of each step divides on a GPU; `numbers` are those of all steps.

    `whole` is what counts as a step: `StepTimes.whole`.
    """
    named = part_times(parts)
    columns = [Column(whole), *number_columns("length", *(KINDS[kind].label for kind in named))]
    times = (parts.length_ns, *named.values())
    rows = zip(numbers[parts.step].tolist(), *(time.tolist() for time in times), strict=True)
    cells = [(f"{step}", *(duration(time) for time in row)) for step, *row in list(rows)[:MAX_ROWS]]
    first = f", the first {MAX_ROWS} of {len(parts.step)}" if len(parts.step) > MAX_ROWS else ""
    which = "Each complete step" if whole == "step" else "The whole trace"
    return table(f"{which} on GPU {parts.device} as traced{first}; the parts add up to its length", columns, cells)


def _chart(chart: Chart | None, fewest: int) -> Markup:
    """Return a chart as HTML; empty if all of its series have fewer values than `fewest`."""
    longest = max((len(series["x"]) for series in chart.data), default=0) if chart else 0
    return chart_html(chart) if chart and longest >= fewest else Markup()


def _unshown(*reasons: Doubt | None) -> Markup:
    reason = not_shown(*reasons)
    return note(f"The chart is {reason}.") if reason else Markup()
