"""The lanes of the plotly timeline: whole steps from the first complete one on, as many as a browser takes."""

import shlex
from collections.abc import Iterator
from pathlib import PurePath

import numpy as np

from pinprof.analyses.step_parts import steps_on_gpu
from pinprof.analysis import Analysis
from pinprof.intervals import divided, union
from pinprof.report.timeline import kinds
from pinprof.report.timeline.kinds import BOTH, COPY_ONLY
from pinprof.report.timeline.lane import (
    GPU_STEPS,
    STEPS,
    WORK,
    Drawing,
    HiddenEvents,
    Lane,
    lane_at,
    length_merged,
    merge_narrow,
    narrow_limit,
)
from pinprof.report.timeline.lanes import in_blocks, lay_out, what_is_drawn, why_no_band
from pinprof.report.timeline.steps import (
    Window,
    all_steps_text,
    step_names,
    usable_steps,
    whole_window,
    window_of_steps,
)
from pinprof.trace.links import work_ends
from pinprof.trace.tables import KERNEL, MEMCPY, WHOLE_TRACE, Trace
from pinprof.units import counted, duration

MAX_BARS = 20_000
"""Chromium without a GPU on two cores opens 20,000 bars in 0.7 s and zooms in 0.5 s; 50,000 take it 2 s each, 100,000
4 and 6 s. WebGL (`scattergl`) is not faster there, and shows the hover text at the ends of a bar only."""
PIXELS = 1200
"""Width of the plot on a laptop's screen."""
FRACTION = 1 / 16
"""If a single step has too many bars, events narrower than this part of a pixel of the full view are merged, so that
one can zoom in 16 times and still see each; the part doubles until what is drawn is few enough."""


def lanes_that_fit(trace: Trace, analysis: Analysis, window: Window | None = None, max_bars: int = MAX_BARS) -> Drawing:
    """Return the lanes of a part of a trace, by default of as many of the first complete steps as fit.

    Events are merged only if the wanted part, or a single step, has more than `max_bars` bars. A lane keeps at least
    one bar of each kind.
    """
    window = window or first_steps(trace, analysis, max_bars)
    lanes, left_out = _lanes(trace, analysis, window)
    if sum(map(len, lanes)) <= max_bars:
        return Drawing(window, tuple(lanes), 0, tuple(left_out))
    finest_ns = max(int(window.span_ns * FRACTION / PIXELS), 1)
    narrow = narrow_limit(
        lambda narrow: sum(length_merged(lane, narrow) for lane in lanes), max_bars, finest_ns, window
    )
    thin = tuple(merge_narrow(lane, narrow) for lane in lanes)
    return Drawing(window, thin, narrow, tuple(left_out))


def first_steps(trace: Trace, analysis: Analysis, max_bars: int) -> Window:
    """Return the part of a trace from its first complete step on with at most `max_bars` bars, at least one step.

    A trace in which no step is marked is one part.
    """
    steps = trace.steps
    if steps.source == WHOLE_TRACE:
        return whole_window(trace)
    usable = usable_steps(trace)
    first = int(usable[0])
    everything = window_of_steps(trace, first, int(usable[-1]))
    lanes, _ = _lanes(trace, analysis, everything)
    starts = np.sort(np.concatenate([np.empty(0, np.int64), *(lane.start_ns for lane in lanes)]))
    ends = np.maximum.accumulate(np.maximum(steps.end_ns, work_ends(trace))[first:])[usable - first]
    fits = np.flatnonzero(np.searchsorted(starts, ends) <= max_bars)
    return window_of_steps(trace, first, int(usable[fits[-1]])) if len(fits) else window_of_steps(trace, first, first)


def _lanes(trace: Trace, analysis: Analysis, window: Window) -> tuple[list[Lane], list[HiddenEvents]]:
    """Return the lanes of the page, with the steps on each GPU below those on the host, and with copies split.

    The next step, which the host begins before the GPU has finished the last one, is not complete and has no bar.
    """
    lanes, left_out = lay_out(trace, analysis, window)
    marks = (lane for lane in lanes if lane.source is STEPS)
    host = [lane.taken((lane.row >= window.first) & (lane.row <= window.last)) for lane in marks]
    others = [lane for lane in lanes if lane.source is not STEPS]
    if not why_no_band(analysis):
        others = [with_copy_parts(trace, lane) if lane.source is WORK else lane for lane in others]
    return [*host, *_gpu_steps(trace, window), *others], left_out


def _gpu_steps(trace: Trace, window: Window) -> Iterator[Lane]:
    """Yield a lane for each GPU with the steps of the window as it ran them, where the host marks the steps."""
    steps = trace.steps
    if steps.source == WHOLE_TRACE or not steps.on_host:
        return
    for device, rows in trace.gpu.of_device.items():
        step, start, end = steps_on_gpu(trace, rows)
        inside = window.holds(start, end) & (step >= window.first) & (step <= window.last)
        start, end = (np.clip(times[inside], window.start_ns, window.end_ns) for times in (start, end))
        if inside.any():
            label = "GPU" if len(trace.gpu.of_device) == 1 else f"GPU {device}"
            yield lane_at("Steps", label, GPU_STEPS, start, end, np.full(len(start), kinds.STEP), step[inside])


def in_words(analysis: Analysis, drawing: Drawing, part: str = "") -> str:
    """Return sentences on what is drawn, merged and left out; `part` names the wanted part.

    They say how to see the steps that do not fit.
    """
    blocks = in_blocks(drawing.lanes, f"events shorter than {duration(drawing.narrow_ns)}")
    more = f"and hovering over a block says how many it holds; {_draws_all(analysis)} each event."
    merged = [f"{blocks}, {more}"] if blocks else []
    return what_is_drawn(analysis, drawing, part or _steps_remark(analysis, drawing), merged, "the parts of copies")


def _steps_remark(analysis: Analysis, drawing: Drawing) -> str:
    trace, window = analysis.trace, drawing.window
    if trace.steps.source == WHOLE_TRACE:
        return f"{all_steps_text(0)}, {duration(window.span_ns)}."
    usable, names = usable_steps(trace), step_names(trace)
    shown = usable[(usable >= window.first) & (usable <= window.last)]
    kind = "complete step" if trace.steps.complete.any() else "step"
    but = "" if trace.steps.complete.any() else ", none complete"
    left = len(usable) - len(shown)
    if not left:
        return f"{all_steps_text(len(shown), kind)}{but}, {duration(window.span_ns)}."
    first, last = names[window.first], names[window.last]
    named, count = (first, "") if first == last else (f"{first} to {last}", f" {len(shown):,}")
    drawn = f"{named}, the first{count} of {counted(len(usable), kind)}{but}, {duration(window.span_ns)}"
    return f"{drawn}. More would be too many bars for plotly: {_draws_all(analysis)} all steps."


def _draws_all(analysis: Analysis) -> str:
    name = PurePath(analysis.profile.path).name
    return f"pinprof timeline {shlex.quote(name)} -o timeline.html (without --plotly) draws"


def with_copy_parts(trace: Trace, lane: Lane) -> Lane:
    """Return the lane of a stream with each copy split into overlapped and exposed parts, as in the report."""
    gpu = trace.gpu
    is_copy = gpu.category[lane.row] == MEMCPY
    if not is_copy.any():
        return lane
    rows, others = lane.row[is_copy], ~is_copy
    of_device = gpu.of_device[int(gpu.device[rows[0]])]
    kernels = of_device[gpu.category[of_device] == KERNEL]
    busy = union(gpu.start_ns[kernels], gpu.end_ns[kernels])
    start, end, is_overlapped, copy = divided(busy, lane.start_ns[is_copy], lane.end_ns[is_copy])
    kind = np.where(is_overlapped, BOTH, COPY_ONLY)
    return lane_at(
        lane.group,
        lane.label,
        lane.source,
        np.concatenate((lane.start_ns[others], start)),
        np.concatenate((lane.end_ns[others], end)),
        np.concatenate((lane.kind[others], kind)),
        np.concatenate((lane.row[others], rows[copy])),
    )
