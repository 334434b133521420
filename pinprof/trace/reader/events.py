"""The shape of an event and of the metadata in a Kineto trace file, as far as pinprof reads them."""

import math
from collections.abc import Iterable
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec

from pinprof.trace.lines import BACKWARD_KEY, CONTEXTS_KEY, LINES_KEY, OPS_KEY, WATCHED_KEY
from pinprof.trace.metadata.run_log import RUN_KEY
from pinprof.trace.metadata.sampled_stacks import HOST_KEY, WORKER_KEY
from pinprof.trace.tables import NONE

NOT_EVENTS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of decoding a text that is not JSON, or does not hold the expected events."""
NO_TEXT: Final = msgspec.Raw()
Number: TypeAlias = int | float | str | None
"""A number as a trace may write it: ROCm writes `"stream": "0x0"` and `"bytes": "9216"`."""
BYTES_OF_DTYPE: Final = {
    **dict.fromkeys(("double", "long int", "long", "c10::complex<float>"), 8),
    **dict.fromkeys(("float", "int", "unsigned int"), 4),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short int", "short"), 2),
    **dict.fromkeys(("bool", "unsigned char", "signed char", "c10::Float8_e4m3fn", "c10::Float8_e5m2"), 1),
}
"""Bytes of an element, by torch.profiler's name of its type."""
MAX_DIMENSIONS: Final = 64  # no tensor of torch has more


class Args(msgspec.Struct, gc=False):
    """The `args` of an event."""

    device: Number = NONE
    from_device: Number = msgspec.field(default=NONE, name="fromDevice")
    stream: Number = NONE
    own_stream: Number = msgspec.field(default=NONE, name="original_stream")
    correlation: Number = NONE
    bytes: Number = NONE
    name: Number = ""
    collective: Number = msgspec.field(default="", name="Collective name")
    group: Number = msgspec.field(default="", name="Process Group Ranks")
    dtype: Number = ""
    elements_in: Number = msgspec.field(default=NONE, name="In msg nelems")
    elements_out: Number = msgspec.field(default=NONE, name="Out msg nelems")
    group_size: Number = msgspec.field(default=NONE, name="Group size")
    copy_kind: Number = msgspec.field(default="", name="copy kind")
    copy_from: Number = msgspec.field(default="", name="src kind")
    copy_to: Number = msgspec.field(default="", name="dst kind")
    number: Number = msgspec.field(default=NONE, name="Ev Idx")
    external_id: Number = msgspec.field(default=NONE, name="External id")
    awaited_stream: Number = msgspec.field(default=NONE, name="wait_on_stream")
    awaited_record: Number = msgspec.field(default=NONE, name="wait_on_cuda_event_record_corr_id")
    bandwidth: Number = msgspec.field(default="", name="memory bandwidth (GB/s)")
    input_dims: msgspec.Raw = msgspec.field(default=NO_TEXT, name="Input Dims")
    input_type: msgspec.Raw = msgspec.field(default=NO_TEXT, name="Input type")
    input_strides: msgspec.Raw = msgspec.field(default=NO_TEXT, name="Input Strides")
    allocated: Number = msgspec.field(default=NONE, name="Total Allocated")
    reserved: Number = msgspec.field(default=NONE, name="Total Reserved")
    device_type: Number = msgspec.field(default=NONE, name="Device Type")
    device_id: Number = msgspec.field(default=NONE, name="Device Id")

    @property
    def message(self) -> str:
        """The message of a collective: type, elements in and out, and number of ranks; empty for other work."""
        if self.collective == "":
            return ""
        return f"{self.dtype} {self.elements_in} {self.elements_out} {self.group_size}"

    @property
    def copy(self) -> str:
        """Kineto's name of a copy with these arguments; empty without them."""
        return f"Memcpy {self.copy_kind} ({self.copy_from} -> {self.copy_to})" if self.copy_kind != "" else ""

    @property
    def input_sizes(self) -> frozenset[int] | None:
        """The bytes of each tensor among the inputs of an op; None if its shapes are not recorded."""
        try:
            shapes = msgspec.json.decode(bytes(self.input_dims) or b"[]", type=list[Any])
            types = msgspec.json.decode(bytes(self.input_type) or b"[]", type=list[str])
        except NOT_EVENTS:
            return None
        tensors = (
            (shape, BYTES_OF_DTYPE[name])
            for shape, name in zip(shapes, types, strict=False)
            if name in BYTES_OF_DTYPE and isinstance(shape, list) and len(shape) <= MAX_DIMENSIONS
        )
        sizes = (math.prod(shape) * width for shape, width in tensors if all(isinstance(side, int) for side in shape))
        return frozenset(sizes) if shapes else None


NO_ARGS: Final = Args()


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`; times stay decimal texts, which hold digits that a float would lose."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: Number = ""
    tid: Number = ""
    ts: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    dur: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    args: Args | None = None


class ExactEvent(Event, gc=False):
    """An event whose args are not decoded."""

    args: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]


class TimedEvent(ExactEvent, gc=False):
    """An event whose times are numbers, which may have lost digits, and whose args are not decoded."""

    ts: int | float = math.nan  # type: ignore[assignment]
    dur: int | float = math.nan  # type: ignore[assignment]


class Metadata(msgspec.Struct):
    """The keys of the file other than `traceEvents`; each may hold anything, and come before or after the events."""

    distributed: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="distributedInfo")
    devices: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="deviceProperties")
    base: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="baseTimeNanoseconds")
    memory: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="profile_memory")
    pinprof: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    lines: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name=LINES_KEY)
    contexts: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name=CONTEXTS_KEY)
    backward: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name=BACKWARD_KEY)
    ops: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name=OPS_KEY)
    watched: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name=WATCHED_KEY)
    host: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name=HOST_KEY)
    worker: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name=WORKER_KEY)
    run: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name=RUN_KEY)


class LooseFile(Metadata):
    """A trace file whose events are decoded singly."""

    events: list[msgspec.Raw] | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="traceEvents")


def decode_timed_events(data: bytes) -> list[TimedEvent]:
    """Return the events of a JSON list if all are of the usual form. Raises an error of msgspec."""
    return _TIMED_EVENTS.decode(data)


def decode_exact_events(data: bytes) -> list[ExactEvent]:
    """Return the same events with the texts of their times. Raises an error of msgspec."""
    return _EXACT_EVENTS.decode(data)


def decode_arguments(events: Iterable[ExactEvent]) -> list[Args]:
    """Return the args of events. Raises an error of msgspec if some are not of the usual form."""
    return [args or NO_ARGS for args in _ARGUMENTS.decode(b"[%b]" % b",".join(map(attrgetter("args"), events)))]


def decode_events(data: bytes) -> tuple[list[Event], int]:
    """Return the events of a JSON list, and how many of its entries are not events. Raises an error of msgspec."""
    with suppress(msgspec.ValidationError, UnicodeDecodeError):  # something is not of the usual form
        return _EVENTS.decode(data), 0
    return decode_each(_ENTRIES.decode(data))


def decode_event(data: bytes | msgspec.Raw) -> Event | None:
    """Return the event in a JSON text, None if it is not one; only the kind of flow events is read."""
    try:
        kind = _PHASE.decode(data).ph
        if kind in {"", "X", "M"}:
            return _EVENT.decode(data)
    except NOT_EVENTS:
        return None
    with suppress(*NOT_EVENTS):
        return _EVENT.decode(data) if kind == "i" else Event(ph="other")
    return Event(ph="other")


def decode_each(entries: list[msgspec.Raw]) -> tuple[list[Event], int]:
    """Return the entries that are events, and how many are not; only the kind of flow events is read."""
    events = [event for event in map(decode_event, entries) if event is not None]
    return events, len(entries) - len(events)


class _Phase(msgspec.Struct, gc=False):
    ph: str = ""


_PHASE = msgspec.json.Decoder(_Phase)
_EVENT = msgspec.json.Decoder(Event)
_TIMED_EVENTS = msgspec.json.Decoder(list[TimedEvent])
_EXACT_EVENTS = msgspec.json.Decoder(list[ExactEvent])
_ARGUMENTS = msgspec.json.Decoder(list[Args | None])
_EVENTS = msgspec.json.Decoder(list[Event])
_ENTRIES = msgspec.json.Decoder(list[msgspec.Raw])
