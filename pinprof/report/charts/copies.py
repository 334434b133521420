"""The chart of the copies of a trace: their rates by size."""

from collections.abc import Sequence

import numpy as np

from pinprof.ground.units import counted, duration, rate, size
from pinprof.pci_express import Link, link_of_gpus
from pinprof.report.charts.chart import Axis, Chart, Key, Label, PlotMarks, round_axis
from pinprof.report.timeline.kinds import EVENT_KINDS, FIRST_COPY_KIND
from pinprof.report.words import copies_named
from pinprof.trace.tables import DIRECTIONS, DTOH, HOST_MEMORIES, HTOD, MEMCPY, Int64s, Trace

MAX_COPY_MARKS = 2000
"""The most marks; more would hide each other, and make the page slow and large."""
CELLS_PER_OCTAVE, CELLS_PER_BEST_RATE = 12, 60
"""The grid on which more copies are merged: cells for a doubling of the size, and for the best rate."""
SYMBOL_OF_MEMORY = {"pageable": "x", "pinned": "circle", "unknown": "square", "none": "diamond"}
MAX_LABELLED_SIZES = 3
"""The most sizes that have a label each."""
WIDE_SIZE_RANGE = 4**8
"""A range of sizes with a larger factor has every other label only."""
SIZE_TICKS_BYTES = tuple(4**power for power in range(1, 18))
"""Sizes in bytes with a label, if they are in the range."""
SMALL_COPIES_NOTE = "Small copies are slower: their start takes most of the time."


def copies_chart(trace: Trace) -> Chart | None:
    """Return a chart of the copies whose size and length are recorded; None if there are none.

    If some are between host and GPU, only these are drawn.
    """
    gpu = trace.gpu
    copies = gpu.category == MEMCPY
    crossing = copies & np.isin(gpu.direction, (HTOD, DTOH))
    if crossing.any():
        copies = crossing  # copies within a GPU are far faster, and would leave little of the axis to the others
    rows = np.flatnonzero(copies & (gpu.bytes > 0) & (gpu.duration_ns > 0))
    if len(rows) == 0:
        return None
    kinds = gpu.direction[rows].astype(np.int64) * len(HOST_MEMORIES) + gpu.host_memory[rows]
    best = float((gpu.bytes[rows] / gpu.duration_ns[rows]).max())
    marks = []
    for kind in np.unique(kinds).tolist():
        direction, memory = DIRECTIONS[kind // len(HOST_MEMORIES)], HOST_MEMORIES[kind % len(HOST_MEMORIES)]
        label = copies_named(direction, memory)
        members = rows[kinds == kind]
        symbol = SYMBOL_OF_MEMORY[memory] + ("-open" if direction == "DtoH" else "")
        key = Key(f"{label}: {_counted_copies(len(members))}", EVENT_KINDS[FIRST_COPY_KIND + kind].colour, symbol)
        marks.append(_marks(trace, members, label, key, best, gathered=len(rows) > MAX_COPY_MARKS))
    link = link_of_gpus(device.name for device in trace.info.devices) if crossing.any() else None
    top = max(best, link.usual if link else 0.0) * 1.15
    return Chart(
        _copies_caption(rows, int((gpu.category == MEMCPY).sum()), int(copies.sum()), best, link),
        150,
        _axis_of_sizes(gpu.bytes[rows]),
        round_axis(-0.04 * top, top, "GB/s"),
        marks=marks,
        keys=[one.key for one in marks],
        lines=[link.usual] if link else [],
        labels=[Label(f"{link.name}: {rate(link.usual)}", 1, link.usual, "end")] if link else [],
    )


def _marks(trace: Trace, rows: Int64s, label: str, key: Key, best: float, *, gathered: bool) -> PlotMarks:
    """Return the marks of copies of one kind; if `gathered`, a mark is for all of about the same size and rate."""
    gpu = trace.gpu
    count = np.ones(len(rows), np.int64)
    if gathered:
        speed = gpu.bytes[rows] / gpu.duration_ns[rows]
        cell = np.stack(
            (np.round(np.log2(gpu.bytes[rows]) * CELLS_PER_OCTAVE), np.round(speed / best * CELLS_PER_BEST_RATE))
        )
        _, first, count = np.unique(cell, axis=1, return_index=True, return_counts=True)
        rows = rows[first]
    lengths, times = gpu.bytes[rows], gpu.duration_ns[rows]
    speeds = lengths / times
    hover = [
        f"{label}, {size(number)} in {duration(time)}: {rate(speed)}"
        + (f"; {copies:,} like this" if copies > 1 else "")
        for number, time, speed, copies in zip(
            lengths.tolist(), times.tolist(), speeds.tolist(), count.tolist(), strict=True
        )
    ]
    return PlotMarks(key, lengths.tolist(), np.round(speeds, 4).tolist(), hover, size=10)


def _axis_of_sizes(lengths: Int64s) -> Axis:
    low, high = int(lengths.min()) / 2, int(lengths.max()) * 2
    ticks = np.unique(lengths).tolist()
    if len(ticks) > MAX_LABELLED_SIZES:
        ticks = [tick for tick in SIZE_TICKS_BYTES if low <= tick <= high][:: 2 if high / low > WIDE_SIZE_RANGE else 1]
    return size_axis(low, high, ticks)


def size_axis(low: float, high: float, ticks: Sequence[int]) -> Axis:
    """Return a logarithmic axis of sizes in bytes, with labels at these."""
    labels = tuple((tick, size(tick).replace(".00", "").replace(".0", "")) for tick in ticks)
    return Axis(float(np.log10(low)), float(np.log10(high)), "size of the copy", labels, is_log=True)


def _copies_caption(rows: Int64s, copies: int, drawable: int, best: float, link: Link | None) -> str:
    reached = f"; {link.name} carries about {rate(link.usual)} from pinned memory" if link else ""
    without = f" Not drawn: {drawable - len(rows):,} without a recorded size or length." if drawable > len(rows) else ""
    without += f" Not drawn: {copies - drawable:,} that are not between host and GPU." if copies > drawable else ""
    merged = " A mark stands for all copies of about the same size and rate." if len(rows) > MAX_COPY_MARKS else ""
    return f"{_counted_copies(len(rows))}, the fastest at {rate(best)}{reached}. {SMALL_COPIES_NOTE}{merged}{without}"


def _counted_copies(count: int) -> str:
    return counted(count, "copy", "copies")
