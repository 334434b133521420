"""Reads the metadata of a trace file: what torch and pinprof stored besides the events."""

from typing import Any

import msgspec
import numpy as np

from pinprof.document import converted
from pinprof.trace.lines import OpPlace, RecordedLines, backward_of_metadata, contexts_of_metadata, watched_of_metadata
from pinprof.trace.metadata.info import Device, HostMemory, Info, Made, PlainStep, UnreadGradients
from pinprof.trace.metadata.run_log import RunLog, run_of_metadata
from pinprof.trace.metadata.sampled_stacks import host_of_metadata
from pinprof.trace.reader.events import Metadata
from pinprof.trace.tables import Activities

MAX_VALUE_BYTES = 4 << 20  # longer values are ignored; the longest known (5,000 sampled stacks) has half of that


def recorded_info(metadata: Metadata, gpu: Activities) -> Info:
    """Return the metadata of a trace; `gpu` are its activities: the metadata name their devices."""
    distributed, pinprof = _mapping(metadata.distributed), _mapping(metadata.pinprof)
    properties = _decoded(metadata.devices)
    devices = {
        entry["id"]: (_text(entry.get("name")), _integer(entry.get("computeMajor")))
        for entry in (properties if isinstance(properties, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("id"), int)
    }
    return Info(
        rank=recorded_rank(metadata),
        world_size=_integer(distributed.get("world_size", pinprof.get("world_size"))),
        base_ns=_integer(_decoded(metadata.base)),
        torch_version=_text(pinprof.get("torch_version")),
        devices=tuple(Device(int(index), *devices.get(int(index), (None, None))) for index in np.unique(gpu.device)),
        machine=tuple(name for name, _ in devices.values() if name),
        step_marker=_text(pinprof.get("marker")),
        plain_step=converted(pinprof.get("plain"), PlainStep),
        steps_before=_integer(pinprof.get("steps_before")),
        lines=converted(_decoded(metadata.lines), tuple[RecordedLines, ...]) or (),
        contexts=contexts_of_metadata(_decoded(metadata.contexts)),
        backward=backward_of_metadata(_decoded(metadata.backward)),
        op_places=converted(_decoded(metadata.ops), tuple[OpPlace, ...]) or (),
        watched=watched_of_metadata(_decoded(metadata.watched)),
        loaders_pin=converted(pinprof.get("loaders_pin"), bool),
        tries_convolutions=converted(pinprof.get("tries_convolutions"), bool),
        made=converted(pinprof.get("made"), Made),
        host_memory=converted(pinprof.get("host_memory"), HostMemory),
        profiled=converted(pinprof.get("profiled"), bool) or False,
        unread=converted(pinprof.get("unread"), UnreadGradients),
        spawned=converted(pinprof.get("spawned"), bool),
        by_pinprof=bool(pinprof),
        host=host_of_metadata(_decoded(metadata.host)),
        worker=host_of_metadata(_decoded(metadata.worker)),
        with_memory=bool(_decoded(metadata.memory)),
    )


def recorded_rank(metadata: Metadata) -> int | None:
    """Return the rank that a file names as its own."""
    return _integer(_mapping(metadata.distributed).get("rank", _mapping(metadata.pinprof).get("rank")))


def recorded_run(metadata: Metadata) -> RunLog | None:
    """Return the log of the run; None if pinprof did not record the trace."""
    return run_of_metadata(_decoded(metadata.run))


def _mapping(raw: msgspec.Raw) -> dict[str, Any]:
    value = _decoded(raw)
    return value if isinstance(value, dict) else {}


def _decoded(raw: msgspec.Raw) -> Any:
    """Return the value of a metadata key, None where it is missing or broken, too long, or has too large a number."""
    text = memoryview(raw)
    try:
        value = msgspec.json.decode(text) if 0 < len(text) <= MAX_VALUE_BYTES else None
        return value if _fits(value) else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _fits(value: object) -> bool:
    if isinstance(value, dict | list):
        return all(map(_fits, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, int | float) or abs(value) < 1 << 63


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
