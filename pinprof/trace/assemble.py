"""Builds a Trace of the decoded events of a file."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from pinprof.trace.decimals import nanoseconds
from pinprof.trace.events import Event, Metadata, Number
from pinprof.trace.lines import lines_of_metadata
from pinprof.trace.links import find_links, launches
from pinprof.trace.steps import find_steps
from pinprof.trace.tables import (
    CATEGORIES,
    DIRECTIONS,
    HOST_MEMORIES,
    KERNEL,
    MEMCPY,
    NONE,
    Activities,
    Bools,
    Calls,
    Device,
    HostEvents,
    Info,
    Int8s,
    Int32s,
    Int64s,
    PlainStep,
    SyncEvents,
    Trace,
)
from pinprof.trace.threads import ThreadKey, name_threads

HOST_CATEGORIES = ("cpu_op", "user_annotation", "python_function", "overhead")
CALL_CATEGORIES = ("cuda_runtime", "cuda_driver")
KNOWN_CATEGORIES = (*HOST_CATEGORIES, *CALL_CATEGORIES, *CATEGORIES, "cuda_sync")

ALIASES = {
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "runtime": "cuda_runtime",
    "driver": "cuda_driver",
    "operator": "cpu_op",
}
"""Categories that old versions of torch named otherwise."""

MAX_DISTANCE_NS = 86_400 * 10**9
"""An event further than a day from the middle of the trace has a corrupt time: CUPTI sometimes writes 0 or wraps."""

COPY_NAME = re.compile(r"memcpy\s+(\w+)(?:\s*\(([\w ]+?)\s*->\s*([\w ]+?)\))?", re.IGNORECASE)
"""`Memcpy HtoD (Pageable -> Device)`, as libkineto/src/cupti_strings.cpp composes it; ROCm writes `Host -> Device`."""


def assemble(path: str, metadata: Metadata, events: Sequence[Event], malformed: int) -> Trace:
    """Return the trace of decoded events; `malformed` entries of the file were none."""
    durations = [event for event in events if event.ph == "X"]
    labels = {
        (event.pid, event.tid): str(event.args.name).strip()
        for event in events
        if event.ph == "M" and event.name == "thread_name" and event.args and event.args.name
    }
    columns = _Columns(durations)
    ops, annotations, functions, overheads = (columns.host_events(category) for category in HOST_CATEGORIES)
    calls, gpu = columns.calls(), columns.activities()
    threads = name_threads(columns.thread_keys(), labels, ops, annotations, calls)
    launch = launches(calls, gpu)
    steps = find_steps(ops, annotations, calls, gpu, launch)
    return Trace(
        path=path,
        info=_info(metadata, gpu),
        threads=threads,
        ops=ops,
        annotations=annotations,
        functions=functions,
        calls=calls,
        gpu=gpu,
        syncs=columns.syncs(),
        overheads=overheads,
        steps=steps,
        links=find_links(ops, functions, calls, gpu, launch, steps),
        counts=dict(Counter(event.cat or "" for event in durations)),
        skipped=columns.skipped | ({"malformed": malformed} if malformed else {}),
    )


class _Columns:
    """The duration events of known categories as columns, to be taken out as tables."""

    def __init__(self, events: Sequence[Event]) -> None:
        known: dict[str, list[Event]] = {category: [] for category in KNOWN_CATEGORIES}
        for event in events:
            category = (event.cat or "").lower()
            members = known.get(ALIASES.get(category, category))
            if members is not None:
                members.append(event)
        self._events = [event for members in known.values() for event in members]
        self._category = np.repeat(np.arange(len(known)), [len(members) for members in known.values()])
        self._texts: dict[str, int] = {}
        self._name = _codes((event.name for event in self._events), self._texts)
        self._threads: dict[ThreadKey, int] = {}
        self._start, self._end, problems = _times(self._events, on_gpu=self._is(*CATEGORIES))
        self._usable = np.ones(len(self._events), bool)
        for problem in problems.values():
            self._usable &= ~problem
        self.skipped = {reason: int(problem.sum()) for reason, problem in problems.items() if problem.any()}

    def host_events(self, category: str) -> HostEvents:
        rows = self._rows(category)
        return HostEvents(*self._common(rows), thread=self._thread(rows))

    def calls(self) -> Calls:
        rows = self._rows(*CALL_CATEGORIES)
        return Calls(*self._common(rows), thread=self._thread(rows), correlation=self._arg(rows, "correlation"))

    def activities(self) -> Activities:
        rows = self._rows(*CATEGORIES)
        category = (self._category[rows] - KNOWN_CATEGORIES.index(CATEGORIES[KERNEL])).astype(np.int8)
        direction, host_memory = self._copy_kinds(rows, category == MEMCPY)
        collective, group = (self._text(rows, name) for name in ("collective", "group"))
        return Activities(
            *self._common(rows),
            category=category,
            device=self._device(rows),
            stream=self._stream(rows),
            correlation=self._arg(rows, "correlation"),
            bytes=self._arg(rows, "bytes"),
            direction=direction,
            host_memory=host_memory,
            collective=collective,
            group=group,
        )

    def syncs(self) -> SyncEvents:
        rows = self._rows("cuda_sync")
        return SyncEvents(
            *self._common(rows),
            device=self._device(rows),
            stream=self._arg(rows, "stream"),
            correlation=self._arg(rows, "correlation"),
        )

    def thread_keys(self) -> tuple[ThreadKey, ...]:
        """Return the threads in the order in which the tables taken out so far number them."""
        return tuple(self._threads)

    def _is(self, *categories: str) -> Bools:
        return np.isin(self._category, [KNOWN_CATEGORIES.index(category) for category in categories])

    def _rows(self, *categories: str) -> Int64s:
        rows = np.flatnonzero(self._is(*categories) & self._usable)
        return rows[np.lexsort((-self._end[rows], self._start[rows]))]

    def _common(self, rows: Int64s) -> tuple[tuple[str, ...], Int64s, Int64s, Int32s]:
        return tuple(self._texts), self._start[rows], self._end[rows], self._name[rows]

    def _thread(self, rows: Int64s) -> Int32s:
        return _codes(((self._events[row].pid, self._events[row].tid) for row in rows), self._threads)

    def _arg(self, rows: Int64s, name: str) -> Int64s:
        args = (self._events[row].args for row in rows)
        values = (NONE if arg is None else getattr(arg, name) for arg in args)
        return np.array(
            [value if type(value) is int and abs(value) < 1 << 63 else _as_integer(value) for value in values],
            dtype=np.int64,
        )

    def _text(self, rows: Int64s, name: str) -> Int32s:
        """Return an argument that is a text as an index into the names, -1 where there is none."""
        args = (self._events[row].args for row in rows)
        values = ("" if arg is None else str(getattr(arg, name)).strip() for arg in args)
        codes = [self._texts.setdefault(value, len(self._texts)) if value else NONE for value in values]
        return np.array(codes, dtype=np.int32)

    def _device(self, rows: Int64s) -> Int32s:
        """Return the device: of a peer-to-peer copy its source, without the argument the process id of the track."""
        device = self._arg(rows, "device")
        device = np.where(device == NONE, self._arg(rows, "from_device"), device)
        for position in np.flatnonzero(device == NONE):
            device[position] = _as_integer(self._events[rows[position]].pid)
        return np.where(np.abs(device) <= np.iinfo(np.int32).max, device, NONE).astype(np.int32)

    def _stream(self, rows: Int64s) -> Int64s:
        """Return the stream: without the argument the thread id of the track, which old versions negate."""
        stream = self._arg(rows, "stream")
        for position in np.flatnonzero(stream == NONE):
            tid = self._events[rows[position]].tid
            number = _as_integer(tid)
            stream[position] = NONE if number == NONE and tid != NONE else abs(number)
        return stream

    def _copy_kinds(self, rows: Int64s, is_copy: Bools) -> tuple[Int8s, Int8s]:
        """Return direction and host memory of each copy, -1 for other activities, parsed once per name."""
        name = self._name[rows]
        names = tuple(self._texts)
        direction, host_memory = (np.full(len(names), NONE, np.int8) for _ in range(2))
        for code in np.unique(name[is_copy]):
            direction[code], host_memory[code] = _copy_kind(names[code])
        return np.where(is_copy, direction[name], NONE), np.where(is_copy, host_memory[name], NONE)


def _as_integer(value: Number) -> int:
    """Return an id or a size that the trace may have written as text, -1 if it is none."""
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)  # type: ignore[arg-type]  # None is caught
    except (TypeError, ValueError, OverflowError):
        return NONE
    return number if abs(number) <= np.iinfo(np.int64).max else NONE


def _codes(values: Any, index: dict[Any, int]) -> Int32s:
    """Return the position of each value in `index`, which gains the values that it lacks."""
    return np.array([index.setdefault(value, len(index)) for value in values], dtype=np.int32)


def _times(events: Sequence[Event], on_gpu: Bools) -> tuple[Int64s, Int64s, dict[str, Bools]]:
    """Return start and end in ns, and which events have no usable time, by reason."""
    start, has_start = nanoseconds([bytes(event.ts) for event in events])
    duration, has_duration = nanoseconds([bytes(event.dur) for event in events])
    timed = has_start & has_duration
    lost = timed & on_gpu & (start == 0)
    negative = timed & ~lost & (duration < 0)
    timed &= ~lost & ~negative
    middle = int(np.median(start[timed])) if timed.any() else 0
    absurd = timed & ((np.abs(start - middle) > MAX_DISTANCE_NS) | (duration > MAX_DISTANCE_NS))
    problems = {
        "no_time": ~(has_start & has_duration),
        "gpu_time_lost": lost,
        "negative_duration": negative,
        "absurd_time": absurd,
    }
    return start, start + np.where(absurd, 0, duration), problems


def _copy_kind(name: str) -> tuple[int, int]:
    """Return (direction, host memory), as indices into DIRECTIONS and HOST_MEMORIES, of a copy's name."""
    match = COPY_NAME.search(name)
    direction = match[1] if match and match[1] in DIRECTIONS else "other"
    memory = "unknown"
    if match and match[2] and direction in {"HtoD", "DtoH"}:
        side = (match[2] if direction == "HtoD" else match[3]).lower()
        memory = side if side in {"pageable", "pinned"} else "unknown"
    elif direction in {"DtoD", "PtoP"}:
        memory = "none"
    return DIRECTIONS.index(direction), HOST_MEMORIES.index(memory)


def _info(metadata: Metadata, gpu: Activities) -> Info:
    distributed = _mapping(metadata.distributed)
    pinprof = _mapping(metadata.pinprof)
    properties = _decoded(metadata.devices)
    names = {
        entry["id"]: _text(entry.get("name"))
        for entry in (properties if isinstance(properties, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("id"), int)
    }
    return Info(
        rank=_integer(distributed.get("rank", pinprof.get("rank"))),
        world_size=_integer(distributed.get("world_size", pinprof.get("world_size"))),
        torch_version=_text(pinprof.get("torch_version")),
        devices=tuple(Device(int(index), names.get(int(index))) for index in np.unique(gpu.device)),
        step_marker=_text(pinprof.get("marker")),
        plain_step=_plain_step(pinprof.get("plain")),
        lines=lines_of_metadata(_decoded(metadata.lines)),
    )


def _plain_step(entry: object) -> PlainStep | None:
    try:
        return msgspec.convert(entry, PlainStep)
    except msgspec.ValidationError:
        return None


def _mapping(raw: msgspec.Raw) -> dict[str, Any]:
    value = _decoded(raw)
    return value if isinstance(value, dict) else {}


def _decoded(raw: msgspec.Raw) -> Any:
    """Return the value of a metadata key, None where it is missing or broken."""
    try:
        return msgspec.json.decode(raw) if bytes(raw) else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
