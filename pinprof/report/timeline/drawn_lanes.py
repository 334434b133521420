"""Which lanes and steps are drawn: on a page up to a million rectangles, in plotly's figure up to 20,000 bars."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pinprof.analyses.step_parts import steps_on_gpu
from pinprof.analysis import Analysis
from pinprof.ground.intervals import Intervals, divided, union
from pinprof.ground.units import counted, duration
from pinprof.report.timeline import kinds
from pinprof.report.timeline.kinds import EXPOSED_COPY_KIND, OVERLAPPED_COPY_KIND, STEP_PART_KINDS
from pinprof.report.timeline.lane import (
    BAND_SOURCE,
    GPU_STEP_SOURCE,
    STEP_SOURCE,
    WORK_SOURCE,
    Drawing,
    HiddenEvents,
    Lane,
    first_of_blocks,
    lane_at,
    merge_narrow,
)
from pinprof.report.timeline.lanes import in_blocks, lay_out, what_is_drawn, why_no_band
from pinprof.report.timeline.steps import (
    Window,
    all_steps_text,
    step_names,
    step_range,
    usable_steps,
    whole_window,
    window_of_steps,
)
from pinprof.trace.links import work_ends
from pinprof.trace.tables import WHOLE_TRACE, Bools, Trace

MAX_PAGE_EVENTS = 1_000_000
"""Rectangles in a page. A million takes about 7 MB of it."""
FOLDED_SHARE_OF_PAGE = 0.15
"""The share of a page's rectangles for lanes that are folded at first: a recording has far more Python frames
than other events."""
FULL_STEPS_SHARE_OF_PAGE = 0.7
"""The share of a page's rectangles for the steps that are there in full."""
FINEST_MERGED_NS = 1_000
"""Merging begins with what is shorter than this."""
MAX_FIGURE_BARS = 20_000
"""Chromium without a GPU on two cores opens 20,000 bars in 0.7 s and zooms in 0.5 s; 50,000 take it 2 s each, 100,000
4 and 6 s. WebGL (`scattergl`) is not faster there, and shows the hover text at the ends of a bar only."""


@dataclass(frozen=True)
class PageDrawing(Drawing):
    """All that is drawn of a whole trace, each lane sorted by start."""

    full: tuple[int, ...]
    """Steps whose events are all there, folded lanes apart; all steps if nothing is merged."""
    folded_narrow_ns: int = 0
    """Neighbours shorter than this are merged in lanes that are folded at first; 0 if nothing is merged."""
    folded_full: tuple[int, ...] = ()
    """Steps whose events are all in the folded lanes, if some events are merged."""


def lanes_of_page(
    analysis: Analysis, view: Window, max_events: int = MAX_PAGE_EVENTS, wanted_ns: Iterable[int] = ()
) -> PageDrawing:
    """Return the lanes of a trace with at most `max_events` rectangles, unless there are more lanes.

    The steps around `wanted_ns` are kept in full. Lanes that are folded at first have a share of their own, so that
    they take nothing from the others.
    """
    trace, window = analysis.trace, whole_window(analysis.trace)
    lanes, left_out = lay_out(analysis, window, nested=True)
    for number, lane in enumerate(lanes):  # each lane is given up as soon as a sorted or thinner one takes its place
        lanes[number] = lane.by_start()
    inner = [number for number, lane in enumerate(lanes) if lane.folded]
    outer = [number for number, lane in enumerate(lanes) if not lane.folded]
    folded_limit = int(FOLDED_SHARE_OF_PAGE * max_events)
    open_limit = max_events - min(folded_limit, sum(len(lanes[number]) for number in inner))
    shown, times_ns = list(range(view.first, view.last + 1)), list(wanted_ns)
    folded_ns, folded_full = _thin(
        lanes, inner, folded_limit, window, trace, lambda limit: shown if len(shown) <= limit else []
    )
    narrow_ns, full = _thin(
        lanes, outer, open_limit, window, trace, lambda limit: _full_steps(analysis, view, limit, times_ns)
    )
    return PageDrawing(
        window, tuple(lanes), narrow_ns, tuple(left_out), full, folded_ns, folded_full if folded_ns else ()
    )


def _thin(
    lanes: list[Lane],
    numbers: list[int],
    limit: int,
    window: Window,
    trace: Trace,
    full_steps: Callable[[int], list[int]],
) -> tuple[int, tuple[int, ...]]:
    """Merge narrow events of the lanes at these places, to `limit` rectangles; keep as many steps in full as fit.

    Return the length below which events are merged, 0 if none is, and the steps in full.
    """
    total = sum(len(lanes[number]) for number in numbers)
    if total <= limit:
        return 0, tuple(range(len(trace.steps)))
    full = full_steps(int(len(trace.steps) * FULL_STEPS_SHARE_OF_PAGE * limit / total))
    spans = union(*np.array([step_range(trace, step, step) for step in full], np.int64).reshape(-1, 2).T)
    keep = {number: _within(spans, lanes[number]) for number in numbers}
    return _merge(lanes, keep, limit, window, mixed=True), tuple(full)


def _merge(
    lanes: list[Lane], keep: Mapping[int, Bools | None], limit: int, window: Window, *, mixed: bool = False
) -> int:
    """Merge events of the lanes at these places until `limit` rectangles are left, but those to `keep`.

    Return the length in ns below which they are merged: `FINEST_MERGED_NS`, or that doubled as often as needed.
    """
    narrow = FINEST_MERGED_NS
    while narrow < window.span_ns and limit < sum(
        len(first_of_blocks(lanes[number], narrow, kept, mixed=mixed)) for number, kept in keep.items()
    ):
        narrow *= 2
    for number, kept in keep.items():
        shares = STEP_PART_KINDS if mixed and lanes[number].source is BAND_SOURCE else ()
        lanes[number] = merge_narrow(lanes[number], narrow, kept, mixed=mixed, shares=shares)
    return narrow


def _full_steps(analysis: Analysis, view: Window, limit: int, wanted_ns: Iterable[int]) -> list[int]:
    """Return about `limit` steps: those of the first view, of the worst waits and copies, then the middle ones."""
    trace, syncs = analysis.trace, analysis.details.syncs
    if trace.steps.source == WHOLE_TRACE:
        return []
    cost = syncs.stalls.bubble_ns + syncs.stalls.stall_ns
    worst = [rows[cost[rows].argmax()] for rows in syncs.rows]
    overlap = analysis.details.overlap
    exposed = (np.flatnonzero(overlap.reason == code) for code in np.unique(overlap.reason))
    copies = [overlap.row[rows[overlap.exposed_ns[rows].argmax()]] for rows in exposed]
    first_choice = [*range(view.first, view.last + 1)]
    first_choice += [int(trace.steps.start_ns.searchsorted(time, side="right")) - 1 for time in wanted_ns]
    first_choice += [int(syncs.stalls.call_step[row]) for row in worst]
    first_choice += [int(trace.links.activity_step[row]) for row in copies]
    middle = (view.first + view.last) // 2
    nearest = np.argsort(np.abs(np.arange(len(trace.steps)) - middle), kind="stable").tolist()
    chosen = dict.fromkeys(step for step in (*first_choice, *nearest) if step >= 0)
    return sorted(list(chosen)[: max(limit, view.last - view.first + 1)])


def _within(spans: Intervals, lane: Lane) -> Bools:
    """Return which events begin in these spans."""
    if not len(spans.start):
        return np.zeros(len(lane), bool)
    span = np.searchsorted(spans.start, lane.start_ns, side="right") - 1
    return (span >= 0) & (lane.start_ns < spans.end[np.clip(span, 0, None)])


def lanes_that_fit(analysis: Analysis, window: Window | None = None, max_bars: int = MAX_FIGURE_BARS) -> Drawing:
    """Return the lanes of a part of a trace, by default of as many of the first complete steps as fit.

    Events are merged only if the wanted part, or a single step, has more than `max_bars` bars. A lane keeps at least
    one bar of each kind.
    """
    window = window or first_steps(analysis, max_bars)
    lanes, left_out = _lanes(analysis, window)
    if sum(map(len, lanes)) <= max_bars:
        return Drawing(window, tuple(lanes), 0, tuple(left_out))
    narrow = _merge(lanes, dict.fromkeys(range(len(lanes))), max_bars, window)
    return Drawing(window, tuple(lanes), narrow, tuple(left_out))


def first_steps(analysis: Analysis, max_bars: int) -> Window:
    """Return the part of a trace from its first complete step on with at most `max_bars` bars, at least one step.

    A trace in which no step is marked is one part.
    """
    trace, steps = analysis.trace, analysis.trace.steps
    if steps.source == WHOLE_TRACE:
        return whole_window(trace)
    usable = usable_steps(trace)
    first = int(usable[0])
    everything = window_of_steps(trace, first, int(usable[-1]))
    lanes, _ = _lanes(analysis, everything)
    starts = np.sort(np.concatenate([np.empty(0, np.int64), *(lane.start_ns for lane in lanes)]))
    ends = np.maximum.accumulate(np.maximum(steps.end_ns, work_ends(trace))[first:])[usable - first]
    fits = np.flatnonzero(np.searchsorted(starts, ends) <= max_bars)
    return window_of_steps(trace, first, int(usable[fits[-1]])) if len(fits) else window_of_steps(trace, first, first)


def _lanes(analysis: Analysis, window: Window) -> tuple[list[Lane], list[HiddenEvents]]:
    """Return the lanes of the page, with the steps on each GPU below those on the host, and with copies split.

    The next step, which the host begins before the GPU has finished the last one, is not complete and has no bar.
    """
    trace, (lanes, left_out) = analysis.trace, lay_out(analysis, window)
    marks = (lane for lane in lanes if lane.source is STEP_SOURCE)
    host = [lane.taken((lane.row >= window.first) & (lane.row <= window.last)) for lane in marks]
    others = [lane for lane in lanes if lane.source is not STEP_SOURCE]
    if not why_no_band(analysis):
        others = [with_copy_parts(trace, lane) if lane.source is WORK_SOURCE else lane for lane in others]
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
            yield lane_at(
                "Steps", label, GPU_STEP_SOURCE, start, end, np.full(len(start), kinds.STEP_KIND), step[inside]
            )


def figure_in_words(analysis: Analysis, drawing: Drawing, part: str = "") -> str:
    """Return sentences on what is drawn, merged and left out; `part` names the wanted part."""
    blocks = in_blocks(drawing.lanes, f"events shorter than {duration(drawing.narrow_ns)}")
    merged = [f"{blocks}; pinprof timeline without --plotly draws each event."] if blocks else []
    return what_is_drawn(analysis, drawing, part or _steps_remark(analysis, drawing), merged)


def _steps_remark(analysis: Analysis, drawing: Drawing) -> str:
    trace, window = analysis.trace, drawing.window
    usable, names, length = usable_steps(trace), step_names(trace), duration(window.span_ns)
    shown = usable[(usable >= window.first) & (usable <= window.last)]
    if trace.steps.source == WHOLE_TRACE or len(shown) == len(usable):
        return f"{all_steps_text(0 if trace.steps.source == WHOLE_TRACE else len(shown))}, {length}."
    named = names[window.first] + (f" to {names[window.last]}" if window.first != window.last else "")
    few = f"{named}, the first of {counted(len(usable), 'step')}, {length}"
    return f"{few}. More would be too many bars for plotly: pinprof timeline without --plotly draws all steps."


def with_copy_parts(trace: Trace, lane: Lane) -> Lane:
    """Return the lane of a stream with each copy split into overlapped and exposed parts, as in the report."""
    gpu = trace.gpu
    is_copy = gpu.is_transfer[lane.row]
    if not is_copy.any():
        return lane
    rows, others = lane.row[is_copy], ~is_copy
    of_device = gpu.of_device[int(gpu.device[rows[0]])]
    kernels = of_device[gpu.is_compute[of_device]]
    busy = union(gpu.start_ns[kernels], gpu.end_ns[kernels])
    start, end, is_overlapped, copy = divided(busy, lane.start_ns[is_copy], lane.end_ns[is_copy])
    kind = np.where(is_overlapped, OVERLAPPED_COPY_KIND, EXPOSED_COPY_KIND)
    return lane_at(
        lane.group,
        lane.label,
        lane.source,
        np.concatenate((lane.start_ns[others], start)),
        np.concatenate((lane.end_ns[others], end)),
        np.concatenate((lane.kind[others], kind)),
        np.concatenate((lane.row[others], rows[copy])),
    )
