"""Builds the Trace of what was read of a file."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

import numpy as np

from pinprof.ground.errors import TraceError
from pinprof.trace import tables
from pinprof.trace.calls import call_kind
from pinprof.trace.links import RecordedWork, find_links, launches
from pinprof.trace.metadata.info import Cut
from pinprof.trace.metadata.recorded import recorded_info, recorded_run
from pinprof.trace.reader.events import Number
from pinprof.trace.reader.rows import (
    CALL_CATEGORIES,
    FIRST_WITH_IDS,
    HOST_CATEGORIES,
    ID_ARGUMENTS,
    KNOWN_CATEGORIES,
    TEXT_ARGUMENTS,
    FileContent,
    FilePart,
    Rows,
    Shared,
    as_integer,
    by_appearance,
    joined,
)
from pinprof.trace.spans.model_calls import find_model_calls
from pinprof.trace.spans.steps import find_steps
from pinprof.trace.tables import NONE, Activities, Bools, Calls, HostEvents, Int8s, Int32s, Int64s, MemoryUse, Trace
from pinprof.trace.threads import TORCH_MARK, ThreadKey, name_threads
from pinprof.trace.vendors import COPY_DIRECTIONS

MAX_DISTANCE_NS = 86_400 * 10**9
"""An event further than a day from the middle of the trace has a corrupt time: CUPTI sometimes writes 0 or wraps."""
NO_STREAM = 2**32 - 1  # what CUPTI records of a wait that is for no stream; most versions of Kineto write it as -1
COPY_NAME = re.compile(r"memcpy\s+(\w+)(?:\s*\(([\w ]+)->([\w ]+)\))?", re.IGNORECASE)
"""`Memcpy HtoD (Pageable -> Device)`, as libkineto/src/cupti_strings.cpp composes it; ROCm writes `Host -> Device`."""
LONGEST_COPY_NAME_CHARS = 1000  # only this many characters of a copy's name are searched for its kind
CPU_DEVICE_TYPE = 0  # the host's memory among the types of devices of c10/core/DeviceType.h
MAX_TRACKS, MAX_GPUS = 20_000, 1024
"""No recorded process has more threads and streams, or GPUs; each costs a millisecond."""
MAX_COPY_BYTES = 1 << 40
"""A larger size of a copy is corrupt: no device has this much memory. The sum of 8 million such sizes fits int64."""
DIRECTION_OF_TEXT = {direction.lower(): direction for direction in tables.DIRECTIONS} | COPY_DIRECTIONS
OTHER_DIRECTION = tables.DIRECTIONS.index("other")
Recorded = TypeVar("Recorded")
KIND_OF_CATEGORY: dict[str, tables.EventKind] = {
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "memset",
    "cuda_sync": "wait",
    "cpu_op": "op",
}
"""What an event of a category was, as `Trace.skipped_kinds` calls it."""


def assemble(path: str, read: FileContent) -> Trace:
    """Return the trace of a file's content, whose parts are emptied to spare memory. Raises TraceError."""
    parts = read.parts
    by_category = sum((part.counts for part in parts), Counter[str]())
    labels = {thread: label for part in parts for thread, label in part.labels.items()}
    malformed, repaired = sum(part.malformed for part in parts), sum(part.repaired for part in parts)
    numbers = [number for part in parts for number in part.op_numbers]
    lookups = _by_row(parts, [part.lookups for part in parts])
    input_sizes = _by_row(parts, [part.input_sizes for part in parts])
    columns = _Columns(parts, read.shared)
    parts.clear()
    ops, annotations, functions, overheads = (columns.host_events(category) for category in HOST_CATEGORIES)
    calls, gpu, syncs, memory = columns.calls(), columns.activities(), columns.syncs(), columns.memory()
    if len(read.shared.threads) > MAX_TRACKS or len(np.unique(gpu.device)) > MAX_GPUS:
        raise TraceError(f"{path}: has more threads, streams or GPUs than any process")
    shapes, sizes = columns.by_op(lookups), columns.by_op(input_sizes)
    skipped, skipped_kinds = columns.not_usable(malformed)
    cut = Cut(read.cut, columns.last_ns) if read.cut else None
    absurd_sizes, keys = columns.absurd_sizes, columns.threads
    del columns  # the tables have what is needed of it; to find links takes as much memory again
    work = RecordedWork(ops, annotations, functions, calls, gpu, launches(calls, gpu))
    model_calls = find_model_calls(work, shapes)
    steps = _before(cut, find_steps(work, model_calls))
    return Trace(
        path=path,
        info=recorded_info(read.metadata, gpu),
        threads=name_threads(keys, labels, ops, annotations, calls),
        ops=ops,
        annotations=annotations,
        functions=functions,
        calls=calls,
        gpu=gpu,
        syncs=syncs,
        overheads=overheads,
        steps=steps,
        links=find_links(work, steps),
        counts=dict(sorted(by_category.items())),
        skipped=skipped,
        skipped_kinds=skipped_kinds,
        repaired=repaired,
        trailing=read.trailing,
        cut=cut,
        absurd_sizes=absurd_sizes,
        run=recorded_run(read.metadata),
        memory=memory,
        input_sizes=sizes,
        model_calls=model_calls,
        numbered_ops=max(numbers) - min(numbers) + 1 if numbers else 0,
    )


def _by_row(parts: list[FilePart], recorded: list[Mapping[int, Recorded]]) -> dict[int, Recorded]:
    """Return what is recorded of rows of the parts by row of all of them."""
    begins = accumulate((len(part.rows) for part in parts), initial=0)
    return {
        begin + row: value for begin, of_part in zip(begins, recorded, strict=False) for row, value in of_part.items()
    }


def _before(missing_end: Cut | None, steps: tables.Steps) -> tables.Steps:
    """Return the steps, complete only up to the end of a cut file: torch writes GPU work and launches last, by time."""
    if missing_end is None or missing_end.last_ns is None:
        return steps
    return replace(steps, complete=steps.complete & (steps.end_ns <= missing_end.last_ns))


class _Columns:
    def __init__(self, parts: list[FilePart], shared: Shared) -> None:
        rows = joined(part.rows for part in parts)
        rows = replace(rows, category=_with_marks(rows, shared))
        self._file = rows
        self._memory = [part.memory for part in parts if part.memory]
        self._end, usable, self._skipped = usable_times(rows)
        self._usable = usable
        self._rows_of = [np.flatnonzero((rows.category == index) & usable) for index in range(len(KNOWN_CATEGORIES))]
        self._place_of_ids = np.cumsum(rows.category >= FIRST_WITH_IDS, dtype=np.int32) - 1
        texts, keys = tuple(shared.names), tuple(shared.threads)
        is_used = np.zeros(len(texts), bool)
        for codes in (rows.name, *rows.ids[len(ID_ARGUMENTS) :]):
            is_used[codes[codes != NONE]] = True
        names = np.array(sorted(np.flatnonzero(is_used).tolist(), key=texts.__getitem__), np.int64)
        self._names, self._name = tuple(texts[code] for code in names), _inverse(names, len(texts))
        by_key = sorted(range(len(keys)), key=lambda code: (*map(str, keys[code]), *map(repr, keys[code])))
        self._rank = _inverse(np.array(by_key, np.int32), len(keys))
        on_host = [self._rows(category) for category in HOST_CATEGORIES] + [self._rows(*CALL_CATEGORIES)]
        self._ops = on_host[HOST_CATEGORIES.index("cpu_op")]
        threads = by_appearance([rows.thread[table] for table in on_host], len(keys))
        self.threads: tuple[ThreadKey, ...] = tuple(keys[code] for code in threads)
        """The host threads, in the order in which the tables number them."""
        last = np.flatnonzero(usable)[-1:]
        of_gpu = [KNOWN_CATEGORIES.index(category) for category in (*CALL_CATEGORIES, *tables.GPU_CATEGORIES)]
        self.last_ns = int(rows.start_ns[last[0]]) if np.isin(rows.category[last], of_gpu).any() else None
        """When the last event of the file began, if it is GPU work or its launch."""
        self._thread = _inverse(threads, len(keys))
        self._keys: tuple[ThreadKey, ...] = keys
        self._gpu = self._rows(*tables.GPU_CATEGORIES)
        size = self._id(self._gpu, "bytes")
        self._is_absurd = (size < NONE) | (size > MAX_COPY_BYTES)
        self.absurd_sizes = int(self._is_absurd.sum())  # how many sizes of GPU work are impossible

    def not_usable(self, malformed: int) -> tuple[dict[str, int], dict[tables.EventKind, int]]:
        """Return how many events are not usable, by why and by what they were; `malformed` ones have no row."""
        rows = np.flatnonzero(~self._usable & (self._file.category >= 0))
        categories, names = self._file.category[rows].tolist(), self._name[self._file.name[rows]].tolist()
        kinds: dict[tables.EventKind, int] = dict(Counter(map(self._kind, categories, names)))
        if not malformed:
            return self._skipped, kinds
        return self._skipped | {"malformed": malformed}, kinds | {"unknown": malformed}

    def _kind(self, category: int, name: int) -> tables.EventKind:
        text = KNOWN_CATEGORIES[category]
        if text in CALL_CATEGORIES:
            return "wait" if call_kind(self._names[name]) != NONE else "call"
        return KIND_OF_CATEGORY.get(text, "host")

    def by_op(self, recorded: Mapping[int, Recorded]) -> dict[int, Recorded]:
        """Return what is recorded of rows of the file by row of the ops."""
        ops = np.flatnonzero(np.isin(self._ops, list(recorded)))
        return {op: recorded[row] for op, row in zip(ops.tolist(), self._ops[ops].tolist(), strict=True)}

    def host_events(self, category: str) -> HostEvents:
        rows = self._rows(category)
        return HostEvents(*self._common(rows), thread=self._thread[self._file.thread[rows]])

    def calls(self) -> Calls:
        rows = self._rows(*CALL_CATEGORIES)
        thread = self._thread[self._file.thread[rows]]
        return Calls(*self._common(rows), thread=thread, correlation=self._id(rows, "correlation"))

    def activities(self) -> Activities:
        rows = self._gpu
        category = (self._file.category[rows] - KNOWN_CATEGORIES.index(tables.GPU_CATEGORIES[tables.KERNEL])).astype(
            np.int8
        )
        direction, host_memory = self._copy_kinds(rows, category == tables.MEMCPY)
        collective, group, message = (self._text(rows, name) for name in ("collective", "group", "message"))
        return Activities(
            *self._common(rows),
            category=category,
            device=self._device(rows),
            stream=self._stream(rows),
            correlation=self._id(rows, "correlation"),
            bytes=np.where(self._is_absurd, NONE, self._id(rows, "bytes")),
            direction=direction,
            host_memory=host_memory,
            collective=collective,
            group=group,
            message=message,
        )

    def syncs(self) -> tables.SyncEvents:
        rows = self._rows("cuda_sync")
        stream = self._id(rows, "stream")
        return tables.SyncEvents(
            *self._common(rows),
            device=self._device(rows),
            stream=np.where(stream == NO_STREAM, NONE, stream),
            correlation=self._id(rows, "correlation"),
        )

    def memory(self) -> MemoryUse:
        """Return the events of memory; those outside of all other events have corrupt times."""
        if not self._memory:
            return MemoryUse()
        thread, at_ns, timed = (np.concatenate(columns) for columns in list(zip(*self._memory, strict=True))[:3])
        kind, device, allocated, reserved = np.concatenate([part.numbers for part in self._memory], axis=1)
        start, end = self._file.start_ns[self._usable], self._end[self._usable]
        if len(start):
            timed = timed & (at_ns >= start.min()) & (at_ns <= end.max())
        rows = np.flatnonzero(
            timed & (allocated >= 0) & (allocated <= MAX_COPY_BYTES) & (device <= np.iinfo(np.int32).max)
        )
        rows = rows[np.lexsort((self._rank[thread[rows]], at_ns[rows]))]
        return MemoryUse(
            at_ns=at_ns[rows],
            device=np.where(kind[rows] == CPU_DEVICE_TYPE, tables.HOST_DEVICE, device[rows]).astype(np.int32),
            allocated=allocated[rows],
            reserved=np.where((reserved[rows] < 0) | (reserved[rows] > MAX_COPY_BYTES), NONE, reserved[rows]),
            thread=self._thread[thread[rows]],
        )

    def _rows(self, *categories: str) -> Int64s:
        chosen = [self._rows_of[KNOWN_CATEGORIES.index(category)] for category in categories]
        rows = np.concatenate(chosen)
        return rows[_order(self._file.start_ns[rows], self._end[rows], self._rank[self._file.thread[rows]])]

    def _common(self, rows: Int64s) -> tuple[tuple[str, ...], Int64s, Int64s, Int32s]:
        return self._names, self._file.start_ns[rows], self._end[rows], self._name[self._file.name[rows]]

    def _id(self, rows: Int64s, name: str) -> Int64s:
        return self._file.ids[ID_ARGUMENTS.index(name), self._place_of_ids[rows]].astype(np.int64)

    def _text(self, rows: Int64s, name: str) -> Int32s:
        """Return an argument that is a text as an index into the names, -1 where there is none."""
        code = self._file.ids[len(ID_ARGUMENTS) + TEXT_ARGUMENTS.index(name), self._place_of_ids[rows]]
        return np.where(code == NONE, NONE, self._name[code]).astype(np.int32)

    def _device(self, rows: Int64s) -> Int32s:
        """Return the device, of a peer-to-peer copy its source; without the argument, the process id of the track."""
        device = self._id(rows, "device")
        device = np.where(device == NONE, self._id(rows, "from_device"), device)
        of_track = np.array([as_integer(pid) for pid, _ in self._keys], np.int64)
        unknown = np.flatnonzero(device == NONE)
        device[unknown] = of_track[self._file.thread[rows[unknown]]]
        return np.where(np.abs(device) <= np.iinfo(np.int32).max, device, NONE).astype(np.int32)

    def _stream(self, rows: Int64s) -> Int64s:
        """Return the stream, also as torch's backend keeps it for graphs; else the thread id, which may be negated."""
        stream = self._id(rows, "own_stream")
        stream = np.where(stream == NONE, self._id(rows, "stream"), stream)
        of_track = np.array([_stream_of_track(tid) for _, tid in self._keys], np.int64)
        unknown = np.flatnonzero(stream == NONE)
        stream[unknown] = of_track[self._file.thread[rows[unknown]]]
        return stream

    def _copy_kinds(self, rows: Int64s, is_copy: Bools) -> tuple[Int8s, Int8s]:
        """Return direction and host memory of each copy, by its arguments or else its name; -1 for other activities."""
        name, by_args = self._name[self._file.name[rows]], self._text(rows, "copy")
        direction, host_memory = (np.full(len(self._names), NONE, np.int8) for _ in range(2))
        for code in np.unique(np.concatenate((name[is_copy], by_args[is_copy & (by_args != NONE)]))):
            direction[code], host_memory[code] = _copy_kind(self._names[code])
        text = np.where((by_args != NONE) & (direction[by_args] != OTHER_DIRECTION), by_args, name)
        return np.where(is_copy, direction[text], NONE), np.where(is_copy, host_memory[text], NONE)


def _with_marks(rows: Rows, shared: Shared) -> Int8s:
    """Return the categories of rows, in which torch's own marks are annotations, as versions after 1.10 record them."""
    is_mark = np.fromiter((TORCH_MARK.match(name) is not None for name in shared.names), bool, len(shared.names))
    op, annotation = map(KNOWN_CATEGORIES.index, ("cpu_op", "user_annotation"))
    return np.where((rows.category == op) & is_mark[rows.name], annotation, rows.category).astype(np.int8)


def _inverse(order: Int64s, count: int) -> Int32s:
    places = np.full(count, NONE, np.int32)
    places[order] = np.arange(len(order))
    return places


def _order(start: Int64s, end: Int64s, track: Int32s) -> Int64s:
    """Return the order of a table: by start, the longer range first, then by track, then as in the file."""
    order = np.argsort(start, kind="stable")
    same = np.diff(start[order]) == 0
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    members = order[tied]
    order[tied] = members[np.lexsort((track[members], -end[members], start[members]))]
    return order


def _stream_of_track(tid: Number) -> int:
    number = as_integer(tid)
    return NONE if number == NONE and tid != NONE else abs(number)


def usable_times(rows: Rows) -> tuple[Int64s, Bools, dict[str, int]]:
    """Return the ends in ns, which events have a usable time, and how many have none, by reason."""
    start, duration = rows.start_ns, rows.duration_ns
    on_gpu = np.isin(rows.category, [KNOWN_CATEGORIES.index(category) for category in tables.GPU_CATEGORIES])
    lost = rows.timed & on_gpu & (start == 0)
    negative = rows.timed & ~lost & (duration < 0)
    usable = rows.timed & ~lost & ~negative
    middle = int(np.median(start[usable])) if usable.any() else 0
    absurd = usable & ((np.abs(start - middle) > MAX_DISTANCE_NS) | (duration > MAX_DISTANCE_NS))
    problems = {"no_time": ~rows.timed, "gpu_time_lost": lost, "negative_duration": negative, "absurd_time": absurd}
    skipped = {reason: int(problem.sum()) for reason, problem in problems.items() if problem.any()}
    return start + np.where(absurd, 0, duration), usable & ~absurd, skipped


def _copy_kind(name: str) -> tuple[int, int]:
    """Return (direction, host memory), as indices into DIRECTIONS and HOST_MEMORIES, of a copy's name."""
    match = COPY_NAME.search(name[:LONGEST_COPY_NAME_CHARS])
    direction = DIRECTION_OF_TEXT.get(match[1].lower(), "other") if match else "other"
    memory = "unknown"
    if match and match[2] and direction in {"HtoD", "DtoH"}:
        side = (match[2] if direction == "HtoD" else match[3]).strip().lower()
        memory = side if side in {"pageable", "pinned"} else "unknown"
    elif direction in {"DtoD", "PtoP"}:
        memory = "none"
    return tables.DIRECTIONS.index(direction), tables.HOST_MEMORIES.index(memory)
