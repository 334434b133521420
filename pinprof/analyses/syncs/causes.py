"""Why the host waited, in the user's terms: from the ops and Python functions around a call, and the call itself."""

from collections.abc import Callable, Sequence

import numpy as np

from pinprof.analyses.syncs.stalls import Stalls
from pinprof.trace.calls import ASYNC_COPY, COPY, DEVICE, EVENT, FREE, HOST_MEMORY, MALLOC, STREAM
from pinprof.trace.lines import SourceLine
from pinprof.trace.links import follow
from pinprof.trace.tables import DIRECTIONS, NONE, HostEvents, Int32s, Int64s, Trace

CAUSES = (
    "item",
    "bool",
    "tolist",
    "to_cpu",
    "print",
    "nonzero",
    "mask_index",
    "masked_select",
    "unique",
    "repeat_interleave",
    "equal",
    "blocking_copy_htod",
    "blocking_copy_dtoh",
    "pageable_copy",
    "tensor_from_host",
    "device_synchronize",
    "stream_synchronize",
    "event_synchronize",
    "device_malloc",
    "device_free",
    "host_alloc",
    "other",
)
CODE = {cause: code for code, cause in enumerate(CAUSES)}

OF_OP = {
    "aten::item": "item",
    "aten::_local_scalar_dense": "item",
    "aten::is_nonzero": "bool",
    "aten::nonzero": "nonzero",
    "aten::masked_select": "masked_select",
    "aten::unique_dim": "unique",
    "aten::_unique": "unique",
    "aten::_unique2": "unique",
    "aten::unique_consecutive": "unique",
    "aten::repeat_interleave": "repeat_interleave",
    "aten::equal": "equal",
}
"""The outermost of these ops around a call names the cause."""

INDEX_OPS = frozenset({"aten::index", "aten::index_put_", "aten::_index_put_impl_"})
"""Around a `nonzero` these mean an index by a boolean mask."""

OF_FUNCTION: tuple[tuple[str, str], ...] = (
    ("<built-in method tolist of Tensor", "tolist"),
    ("<built-in method cpu of Tensor", "to_cpu"),
    ("<built-in method tensor of type", "tensor_from_host"),
    ("<built-in method as_tensor of type", "tensor_from_host"),
    ("torch/_tensor_str.py", "print"),
)
"""Beginnings of the names of Python functions; they say more than the ops inside."""

OF_KIND = {
    STREAM: "stream_synchronize",
    DEVICE: "device_synchronize",
    EVENT: "event_synchronize",
    MALLOC: "device_malloc",
    FREE: "device_free",
    HOST_MEMORY: "host_alloc",
}
EXPLICIT = frozenset({"device_synchronize", "stream_synchronize", "event_synchronize"})
"""Causes that the program asked for by name, when no op is around."""


def name_causes(trace: Trace, stalls: Stalls, lines: Sequence[SourceLine | None] = ()) -> Int32s:
    """Return the cause of each stall as an index into CAUSES; `lines` are recorded source lines, one per stall."""
    cause = _by_call(trace, stalls)
    by_op = _by_op(trace, stalls.call)
    cause = np.where((by_op != NONE) & np.isin(stalls.kind, (STREAM, COPY, ASYNC_COPY)), by_op, cause)
    by_function = _by_function(trace, stalls.call)
    cause = np.where((by_function != NONE) & (stalls.kind != DEVICE), by_function, cause)
    for row, line in enumerate(lines):
        if line and line.cause in CODE:
            cause[row] = CODE[line.cause]
    return cause.astype(np.int32)


def _by_call(trace: Trace, stalls: Stalls) -> Int32s:
    """Return the cause that the call itself and its copy tell."""
    of_kind = np.full(max(OF_KIND) + 1, CODE["other"], np.int32)
    for kind, name in OF_KIND.items():
        of_kind[kind] = CODE[name]
    cause = of_kind[stalls.kind]
    direction = follow(trace.gpu.direction.astype(np.int32), stalls.copy)
    blocking = (stalls.kind != ASYNC_COPY) | _is_awaited(stalls)
    for code, name in enumerate(DIRECTIONS[:2]):
        cause[(direction == code) & blocking] = CODE[f"blocking_copy_{name.lower()}"]
    cause[(stalls.copy != NONE) & ~blocking] = CODE["pageable_copy"]
    return cause


def _is_awaited(stalls: Stalls) -> np.ndarray:
    """Return per stall whether a synchronize waits for the same copy: then it was a blocking copy."""
    return (stalls.copy != NONE) & np.isin(stalls.copy, stalls.copy[stalls.kind == STREAM])


def _by_op(trace: Trace, call: Int64s) -> Int32s:
    def name_code(name: str) -> int:
        return CODE[OF_OP[name]] if name in OF_OP else NONE

    code = _per_name(trace.ops, name_code)
    index_op = trace.ops.named(INDEX_OPS.__contains__)
    cause = np.full(len(call), NONE, np.int32)
    op = trace.links.op[call]
    while (op != NONE).any():
        cause = np.where(follow(code, op) != NONE, follow(code, op), cause)
        masked = (cause == CODE["nonzero"]) & (follow(index_op.astype(np.int32), op) == 1)
        cause[masked] = CODE["mask_index"]
        op = follow(trace.links.op_parent, op)
    return cause


def _by_function(trace: Trace, call: Int64s) -> Int32s:
    def name_code(name: str) -> int:
        return next((CODE[cause] for start, cause in OF_FUNCTION if name.startswith(start)), NONE)

    code = _per_name(trace.functions, name_code)
    cause = np.full(len(call), NONE, np.int32)
    function = trace.links.function[call]
    while (function != NONE).any():
        cause = np.where(follow(code, function) != NONE, follow(code, function), cause)
        function = follow(trace.links.function_parent, function)
    return cause


def _per_name(events: HostEvents, code_of: Callable[[str], int]) -> Int32s:
    """Return a code per event, asked for once per name."""
    return np.fromiter(map(code_of, events.names), np.int32, len(events.names))[events.name]
