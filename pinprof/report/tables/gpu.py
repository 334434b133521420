"""The tables of GPU work: kernels, copies and collectives."""

import numpy as np

from pinprof.analyses.by_name.names import Origins
from pinprof.analysis import Analysis
from pinprof.ground.intervals import length, numbered, union
from pinprof.report.tables import grid
from pinprof.report.words import cut
from pinprof.trace.callers import calling_function, outermost_op
from pinprof.trace.collectives import exposed_ns, is_collective_kernel
from pinprof.trace.lines import Place
from pinprof.trace.links import follow
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, KERNEL, NONE, Bools, Int32s, Int64s

SHARE_OF_WORK_COLUMN = grid.Field(
    "share", "of GPU work", grid.SHARE_VALUES, "the time in which GPUs work, including copies", ("total", "whole")
)
LAUNCH_COLUMNS = (grid.Field("stream", "stream"), grid.Field("op", "launched by"), *grid.ORIGIN_COLUMNS)


def kernels(analysis: Analysis) -> grid.Grid | None:
    """Return the kernels by name and stream; None without any."""
    trace = analysis.trace
    rows = np.flatnonzero((trace.gpu.category == KERNEL) & ~is_collective_kernel(trace.gpu))
    if not len(rows):
        return None
    work = _Work(analysis, rows, (trace.gpu.name,))
    return work.grid(
        "kernels",
        "Kernels",
        "Kernels by name and stream",
        (grid.Field("name", "kernel"), *grid.timed(*_share(analysis))),
    )


def _share(analysis: Analysis) -> tuple[grid.Field, ...]:
    """Return the column of shares, unless the time in which GPUs work is withheld."""
    return () if analysis.profile.withheld.busy else (SHARE_OF_WORK_COLUMN,)


def copies(analysis: Analysis) -> grid.Grid | None:
    """Return the copies by direction, host memory, size and stream; None without any, or if they are withheld."""
    trace, overlap = analysis.trace, analysis.details.overlap
    if not len(overlap.row) or analysis.profile.withheld.copies:
        return None
    gpu, rows = trace.gpu, overlap.row
    work = _Work(analysis, rows, (gpu.name, gpu.direction, gpu.host_memory, gpu.bytes))
    first = rows[work.groups.first]
    texts = {
        "name": [DIRECTIONS[code] if code >= 0 else "other" for code in gpu.direction[first].tolist()],
        "memory": [HOST_MEMORIES[code] if code >= 0 else "" for code in gpu.host_memory[first].tolist()],
    }
    texts["memory"] = ["" if text == "none" else text for text in texts["memory"]]
    sized = [size if size >= 0 else None for size in gpu.bytes[first].tolist()]
    sums = work.groups.sums(np.maximum(gpu.bytes[rows], 0))
    numbers = {"size": (sized, sized), "bytes": sums}
    exposed: tuple[grid.Field, ...] = ()
    if not analysis.profile.withheld.overlap:
        exposed = (grid.Field("exposed", "exposed", grid.TIME_VALUES, "while no kernel runs", adds=True),)
        numbers["exposed"] = work.groups.sums(overlap.exposed_ns)
    fields = (
        grid.Field("name", "direction"),
        grid.Field("memory", "host memory"),
        grid.Field("size", "size of one", grid.BYTES_VALUES),
        *grid.timed(
            *exposed,
            grid.Field("bytes", "bytes", grid.BYTES_VALUES, adds=True),
            grid.Field("rate", "rate", grid.RATE_VALUES, "", ("bytes", "total")),
        ),
    )
    note = "Copies by direction, host memory, size and stream, each listed once"
    return work.grid("copies", "Copies", note, fields, texts, numbers, {"bytes": sized})


def collectives(analysis: Analysis) -> grid.Grid | None:
    """Return the kernels of collectives by what they do, their group and stream; None without any."""
    gpu = analysis.trace.gpu
    rows = np.flatnonzero((gpu.category == KERNEL) & is_collective_kernel(gpu))
    if not len(rows):
        return None
    work = _Work(analysis, rows, (gpu.name, gpu.collective, gpu.group))
    first = rows[work.groups.first]
    called = np.where(gpu.collective != NONE, gpu.collective, gpu.name)[first]
    texts = {
        "name": [grid.short_name(gpu.names[code]) for code in called.tolist()],
        "group": [grid.short_name(gpu.names[code]) if code != NONE else "" for code in gpu.group[first].tolist()],
        "kernel": [grid.short_name(gpu.names[code]) for code in gpu.name[first].tolist()],
    }
    exposed = work.groups.sums(exposed_ns(gpu, rows))
    fields = (
        grid.Field("name", "collective"),
        *grid.timed(
            grid.Field("exposed", "exposed", grid.TIME_VALUES, "while no other kernel runs", adds=True),
            *_share(analysis),
        ),
        grid.Field("group", "ranks"),
        grid.Field("kernel", "kernel"),
    )
    note = "Collectives by name, ranks and stream; their time includes waiting for other ranks"
    return work.grid("collectives", "Collectives", note, fields, texts, {"exposed": exposed})


class _Work:
    """Rows of GPU work in groups by some keys and by stream."""

    def __init__(self, analysis: Analysis, rows: Int64s, keys: tuple[np.ndarray, ...]) -> None:
        self._analysis, self._rows = analysis, rows
        trace, gpu = analysis.trace, analysis.trace.gpu
        self._inside: Bools = trace.steps.holds(trace.links.activity_step)
        keyed = (*(key[rows] for key in keys), gpu.device[rows], gpu.stream[rows])
        self.groups = grid.EventGroups.by(keyed, gpu.duration_ns[rows], self._inside[rows])

    def grid(
        self,
        name: str,
        title: str,
        note: str,
        fields: tuple[grid.Field, ...],
        texts: dict[str, list[str]] | None = None,
        numbers: dict[str, grid.Scopes] | None = None,
        seen: dict[str, list[int | None]] | None = None,
    ) -> grid.Grid:
        """Return the table of the groups: these columns, and those of time, stream and origin."""
        gpu, groups = self._analysis.trace.gpu, self.groups
        first, longest = self._rows[groups.first], self._rows[groups.longest]
        names = [gpu.names[code] for code in gpu.name[first].tolist()]
        device, stream = gpu.device[first].tolist(), gpu.stream[first].tolist()
        several = len(gpu.of_device) > 1
        lanes = [f"stream {number}" for number in stream]
        on = [f"GPU {gpu}, {lane}" if several else lane for gpu, lane in zip(device, lanes, strict=True)]
        from_where, places = self._launchers()
        return grid.Grid(
            name,
            title,
            note,
            (*fields, *LAUNCH_COLUMNS),
            {"name": list(map(grid.short_name, names)), "stream": on, **from_where, **(texts or {})},
            {**groups.timed, **(numbers or {})},
            {"name": [cut(text) for text in names], "device": device, "stream": lanes, **(seen or {})},
            "gpu",
            (gpu.start_ns[longest], gpu.end_ns[longest]),
            places,
            (self._busy(self._inside), self._busy(np.ones(len(gpu), bool))),
        )

    def _busy(self, chosen: Bools) -> int:
        gpu = self._analysis.trace.gpu
        rows = (of_device[chosen[of_device]] for of_device in gpu.of_device.values())
        return sum(length(union(gpu.start_ns[of_device], gpu.end_ns[of_device])) for of_device in rows)

    def _launchers(self) -> tuple[dict[str, list[str]], list[Place]]:
        trace, launch = self._analysis.trace, self._analysis.trace.links.launch[self._rows]
        first, which = numbered(launch)  # a graph launch has many kernels
        calls = launch[first]
        launching = calls[calls != NONE].astype(np.int64)

        def of_rows(of_calls: Int32s) -> Int32s:
            return np.concatenate((np.full(len(calls) - len(launching), NONE, np.int32), of_calls))[which]

        op = self.groups.leading(of_rows(follow(trace.ops.name, outermost_op(trace, launching))), trace.ops.names)
        origins = Origins(trace, of_rows(calling_function(trace, launching)), self._analysis.details.sources)
        texts, places = self.groups.origins(origins)
        return {"op": op, **texts}, places
