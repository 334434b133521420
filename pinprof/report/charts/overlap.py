"""Each step as a bar of what the GPU did: kernels alone, copies alone, both at once, nothing."""

import numpy as np

from pinprof.analyses.parts import StepParts
from pinprof.report.charts.chart import Chart, Key, bars, layout
from pinprof.report.timeline.kinds import BOTH, COLLECTIVE_ONLY, COMPUTE_ONLY, COPY_ONLY, KINDS, MEMSET_ONLY
from pinprof.report.timeline.kinds import IDLE as IDLE_KIND
from pinprof.trace.tables import Int64s
from pinprof.units import NS_PER_MS, duration, percent

MAX_BARS = 200
"""More cannot be told apart on a laptop; then a bar is the mean of several steps."""

ALL_WORK = "from its first work to its last"
"""What the bar of the only step is: that of several begins where the work of the step before ends."""
PARTS = (COMPUTE_ONLY, COLLECTIVE_ONLY, BOTH, COPY_ONLY, MEMSET_ONLY, IDLE_KIND)
"""In the order in which the parts are stacked."""


def overlap_chart(parts: StepParts, numbers: Int64s) -> Chart:
    """Return a chart of the steps of one GPU; the parts of a bar add up to its step; `numbers` are all steps'."""
    times = part_times(parts)
    gathered = -(-len(parts.step) // MAX_BARS)
    steps, numbers = len(numbers), numbers[parts.step]
    firsts = numbers[::gathered]
    lasts = numbers[np.minimum(np.arange(len(firsts)) * gathered + gathered, len(numbers)) - 1]
    names = [_steps(first, last) for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
    length = _means(parts.length_ns, gathered)
    keys, data = [], []
    for kind, time in times.items():
        if not time.any():
            continue
        label = KINDS[kind].label
        share = percent(int(time.sum()) / int(parts.length_ns.sum()))
        key = Key(f"{label}: {share}", KINDS[kind].colour, pattern=KINDS[kind].pattern)
        mean = _means(time, gathered)
        hover = [
            f"{name}: {label} {duration(part)} ({percent(part / whole)} of {duration(whole)})"
            for name, part, whole in zip(names, mean.tolist(), length.tolist(), strict=True)
        ]
        y = np.round(mean / NS_PER_MS, 6).tolist()
        data.append(bars(label, key, x=firsts.tolist(), y=y, hovertext=hover, hoverinfo="text"))
        keys.append(key)
    lasts = f"{duration(float(parts.length_ns.mean()))} {'per step in the trace' if steps > 1 else ALL_WORK}"
    caption = f"GPU {parts.device}, {lasts}: {_most(times)}.{_bars(gathered) if steps > 1 else ''}"
    ticks = {"tickmode": "array", "tickvals": firsts.tolist()} if len(firsts) <= 12 else {"tickformat": "d"}  # noqa: PLR2004
    around = {"range": [int(firsts[0]) - 0.75, int(firsts[0]) + 4.75]} if len(firsts) < 5 else {}  # noqa: PLR2004  a few bars are not made wide
    shape = layout(240, "step", "ms", barmode="stack", bargap=0.15 if len(firsts) <= 60 else 0, xaxis=ticks | around)  # noqa: PLR2004
    return Chart(caption, data, shape, tuple(keys))


def part_times(parts: StepParts) -> dict[int, Int64s]:
    """Return the times of each of PARTS, one per step."""
    alone = parts.compute_ns - parts.talking_ns
    times = (alone, parts.talking_ns, parts.both_ns, parts.copy_ns, parts.memset_ns, parts.idle_ns)
    return dict(zip(PARTS, times, strict=True))


def _bars(gathered: int) -> str:
    bar = "Each bar is a step" if gathered == 1 else f"Each bar is the mean of {gathered} steps"
    return f" {bar}: from the end of the GPU work of the step before to the end of its own."


def _most(times: dict[int, Int64s]) -> str:
    """Return the parts in words, the largest first."""
    sums = {kind: int(time.sum()) for kind, time in times.items() if time.any()}
    total = sum(sums.values())
    return ", ".join(
        f"{percent(sums[kind] / total)} {KINDS[kind].label}" for kind in sorted(sums, key=lambda kind: -sums[kind])
    )


def _steps(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _means(values: Int64s, gathered: int) -> np.ndarray:
    """Return the mean of each run of so many values; the last run may be shorter."""
    starts = np.arange(0, len(values), gathered)
    return np.add.reduceat(values, starts) / np.diff(np.append(starts, len(values)))
