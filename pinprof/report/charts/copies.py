"""Charts of the copies of a trace: how much of their time is overlapped, and their rates by size."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import given
from pinprof.pci_express import Link, link_of_gpus
from pinprof.report.charts.chart import Chart, Key, layout, legend_key, line_across, points, stacked, stacked_layout
from pinprof.report.timeline.kinds import EVENT_KINDS, EXPOSED_COPY_KIND, FIRST_COPY_KIND, OVERLAPPED_COPY_KIND
from pinprof.report.words import copies_named
from pinprof.trace.tables import DIRECTIONS, DTOH, HOST_MEMORIES, HTOD, MEMCPY, Int64s, Trace
from pinprof.units import counted, duration, rate, size, sizes

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


def copy_times_chart(profile: Profile) -> Chart | None:
    """Return a chart of the time of copies by direction and host memory; None if none is known."""
    groups = [
        (group, copied, hidden)
        for group in profile.copies
        if (copied := given(group.copied)) and (hidden := given(group.hidden))
    ]
    if not groups:
        return None
    rows = [copies_named(group.direction, group.host_memory) for group, *_ in groups]
    hover = [
        f"{row}: {_counted_copies(copied.count)}, {sizes(copied.bytes, group.unsized)}"
        + (f" at {rate(copied.bandwidth_gbps)}" if copied.bandwidth_gbps else "")
        + f"; {duration(hidden.overlapped_ns)} overlapped, {duration(hidden.exposed_ns)} exposed"
        for row, (group, copied, hidden) in zip(rows, groups, strict=True)
    ]
    keys = legend_key(OVERLAPPED_COPY_KIND), legend_key(EXPOSED_COPY_KIND)
    times = [hidden.overlapped_ns for *_, hidden in groups], [hidden.exposed_ns for *_, hidden in groups]
    data = [stacked(key, of_kind, rows, hover) for key, of_kind in zip(keys, times, strict=True)]
    return Chart(data, stacked_layout(len(rows)), keys)


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
    data, keys = [], []
    for kind in np.unique(kinds).tolist():
        direction, memory = DIRECTIONS[kind // len(HOST_MEMORIES)], HOST_MEMORIES[kind % len(HOST_MEMORIES)]
        label = copies_named(direction, memory)
        members = rows[kinds == kind]
        symbol = SYMBOL_OF_MEMORY[memory] + ("-open" if direction == "DtoH" else "")
        key = Key(f"{label}: {_counted_copies(len(members))}", EVENT_KINDS[FIRST_COPY_KIND + kind].colour, symbol)
        data.append(_marks(trace, members, label, key, best, gathered=len(rows) > MAX_COPY_MARKS))
        keys.append(key)
    link = link_of_gpus(device.name for device in trace.info.devices) if crossing.any() else None
    caption = _copies_caption(rows, int((gpu.category == MEMCPY).sum()), int(copies.sum()), best, link)
    return Chart(data, _copies_shape(gpu.bytes[rows], best, link), tuple(keys), caption)


def _marks(trace: Trace, rows: Int64s, label: str, key: Key, best: float, *, gathered: bool) -> dict[str, Any]:
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
    marker = {"opacity": 0.8, "line": {"width": 2 * key.symbol.endswith("-open")}}
    return points(label, key, lengths.tolist(), np.round(speeds, 4).tolist(), hover, size=10, marker=marker)


def _copies_shape(lengths: Int64s, best: float, link: Link | None) -> dict[str, Any]:
    low, high = int(lengths.min()) / 2, int(lengths.max()) * 2
    ticks = np.unique(lengths).tolist()
    if len(ticks) > MAX_LABELLED_SIZES:
        ticks = [tick for tick in SIZE_TICKS_BYTES if low <= tick <= high][:: 2 if high / low > WIDE_SIZE_RANGE else 1]
    across = line_across(link.usual, f"{link.name}: {rate(link.usual)}") if link else {}
    top = max(best, link.usual if link else 0.0) * 1.15
    xaxis = size_axis(ticks) | {"range": [float(np.log10(low)), float(np.log10(high))]}
    return layout(180, "size of the copy", "GB/s", xaxis=xaxis, yaxis={"range": [-0.04 * top, top]}, **across)


def size_axis(ticks: Sequence[int]) -> dict[str, Any]:
    """Return an axis of sizes with these labels."""
    labels = [size(tick).replace(".00", "").replace(".0", "") for tick in ticks]
    return {"type": "log", "tickmode": "array", "tickvals": ticks, "ticktext": labels, "tickangle": 0}


def _copies_caption(rows: Int64s, copies: int, drawable: int, best: float, link: Link | None) -> str:
    reached = f"; {link.name} carries about {rate(link.usual)} from pinned memory" if link else ""
    without = f" Not drawn: {drawable - len(rows):,} without a recorded size or length." if drawable > len(rows) else ""
    without += f" Not drawn: {copies - drawable:,} that are not between host and GPU." if copies > drawable else ""
    merged = " A mark stands for all copies of about the same size and rate." if len(rows) > MAX_COPY_MARKS else ""
    return f"{_counted_copies(len(rows))}, the fastest at {rate(best)}{reached}. {SMALL_COPIES_NOTE}{merged}{without}"


def _counted_copies(count: int) -> str:
    return counted(count, "copy", "copies")
