"""Names the cause of each wait, from the ops and Python functions around the call, and from the call itself."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pinprof.analyses.syncs.causes import CAUSE_CODE, SYNCHRONIZE_CAUSES, WAITS
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.trace.callers import user_calls
from pinprof.trace.calls import ASYNC_COPY, COPY, DEVICE, EVENT, STREAM
from pinprof.trace.collectives import is_collective
from pinprof.trace.frames import tensor_method
from pinprof.trace.lines import SourceLine
from pinprof.trace.links import follow, outermost, within
from pinprof.trace.spans.phases import nan_checks
from pinprof.trace.tables import DIRECTIONS, NONE, Bools, HostEvents, Int32s, Int64s, Trace

CAUSE_BY_OP = {op: cause for cause, row in WAITS.items() for op in row.ops}
"""The outermost of these ops around a call names the cause; `aten::_to_copy` does so only for a copy to the host."""

INDEX_OPS = frozenset({"aten::index", "aten::index_put_", "aten::_index_put_impl_"})
"""Around a `nonzero` these mean an index by a boolean mask."""

ASKING_OPS = INDEX_OPS | {
    "aten::index_put",
    "aten::nonzero_numpy",
    "aten::where",
    "aten::argwhere",
    "aten::isin",
    "aten::to",
    "aten::type_as",
}
"""Ops by which code asks for an op of `CAUSE_BY_OP`. Any other op of torch calls such an op for its own purpose:
`aten::linalg_inv` reads a number, and the user's code cannot prevent that."""

MAX_NESTED_OPS = 200  # how many nested ops around a call are looked at; no known program nests half as many

COMPILED_REGION = "Torch-Compiled Region"
"""How the name of the op around compiled code begins. A synchronize within it is torch's own, such as the one before a
CUDA graph is captured (torch/_inductor/cudagraph_trees.py); a read of a value there comes from the user's code."""

TORCH_OP_PREFIXES = ("aten::", "autograd::", "torch::autograd::")
"""How torch's own ops are named, and nodes of the autograd engine: hooks of the user's own run within them."""

CAUSE_BY_METHOD = {method: cause for cause, row in WAITS.items() for method in row.methods}
CAUSE_BY_FUNCTION_PART = tuple((part, cause) for cause, row in WAITS.items() for part in row.functions)
CAUSE_BY_CALL_KIND = {row.call_kind: cause for cause, row in WAITS.items() if row.call_kind is not None}

OPTIMIZER_FILE, OPTIMIZER_READ = "torch/optim/optimizer.py", "_get_value"
"""The function by which torch's optimizers read a number of their state, such as the step count of each parameter: it
calls `item()`, and waits if the tensor is on the GPU."""

AROUND_NEW_TENSOR = ("aten::empty", "aten::to", "aten::lift_fresh")
"""The ops of `torch.tensor(..., device="cuda")` in order; the second makes the copy (torch/csrc/utils/tensor_new.cpp).
In a trace without Python functions they distinguish it from `x.to("cuda")`."""


def name_causes(trace: Trace, stalls: Stalls, lines: Sequence[SourceLine | None] = ()) -> Int32s:
    """Return the cause of each stall as an index into CAUSES; `lines` are recorded source lines, one per stall.

    A wait that an op makes for its own purpose is `other`: fixes for code that asks for such a wait do not help there.
    """
    cause = _by_call(trace, stalls)
    of_values = np.isin(stalls.kind, (STREAM, COPY, ASYNC_COPY))
    by_op, within_op, within_library, within_compiled = _facts_of_ops(trace, stalls.call)
    by_op[(by_op == CAUSE_CODE["to_cpu"]) & (cause != CAUSE_CODE["blocking_copy_dtoh"])] = NONE
    cause = np.where((by_op != NONE) & of_values, by_op, cause)
    cause[(cause == CAUSE_CODE["blocking_copy_htod"]) & _in_new_tensor(trace, stalls.call)] = CAUSE_CODE[
        "tensor_from_host"
    ]
    synchronizes = np.isin(cause, [CAUSE_CODE[name] for name in SYNCHRONIZE_CAUSES])
    of_an_op = within_op & ((by_op != NONE) | synchronizes) | within_library | within_compiled & synchronizes
    cause[of_an_op & (of_values | synchronizes)] = CAUSE_CODE["other"]
    by_function = _by_function(trace, stalls.call)
    cause = np.where((by_function != NONE) & of_values, by_function, cause)
    waits = np.isin(stalls.kind, (STREAM, DEVICE, EVENT)) & (stalls.copy == NONE)
    cause[waits & _within_ops(trace, trace.ops.named(is_collective), stalls.call)] = CAUSE_CODE["collective"]
    for row, line in enumerate(lines):
        if line and _is_read_of_optimizer(line):
            cause[row] = CAUSE_CODE["optimizer_state"]
        elif line and line.cause in CAUSE_CODE:
            cause[row] = CAUSE_CODE[line.cause]
    checks = np.zeros(len(trace.ops), bool)
    checks[nan_checks(trace)] = True
    cause[of_values & _within_ops(trace, checks, stalls.call)] = CAUSE_CODE["nan_check"]
    cause[stalls.profiler] = CAUSE_CODE["profiler"]
    return cause.astype(np.int32)


def _by_call(trace: Trace, stalls: Stalls) -> Int32s:
    of_kind = np.full(max(CAUSE_BY_CALL_KIND) + 1, CAUSE_CODE["other"], np.int32)
    for kind, name in CAUSE_BY_CALL_KIND.items():
        of_kind[kind] = CAUSE_CODE[name]
    cause = of_kind[stalls.kind]
    direction = follow(trace.gpu.direction.astype(np.int32), stalls.copy)
    of_copies = (stalls.copy != NONE) & np.isin(stalls.kind, (STREAM, COPY, ASYNC_COPY))
    # a synchronize that waits for the same copy makes it a blocking one
    is_awaited = (stalls.copy != NONE) & np.isin(stalls.copy, stalls.copy[stalls.kind == STREAM])
    blocking = (stalls.kind != ASYNC_COPY) | is_awaited
    for name, row in WAITS.items():
        if row.copy:
            cause[of_copies & (direction == DIRECTIONS.index(row.copy)) & blocking] = CAUSE_CODE[name]
    cause[of_copies & ~blocking] = CAUSE_CODE["pageable_copy"]
    return cause


def in_library(trace: Trace, call: Int64s) -> Bools:
    """Return whether a call is made within an op of a library or an extension, and not by the user's own code there."""
    return _facts_of_ops(trace, call).within_library


class _OpFacts(NamedTuple):
    """Facts from the ops around each call, but within the innermost function of the user's own code."""

    cause: Int32s  # as an index into CAUSES; -1 where the ops show none
    within_op: Bools  # whether another op of torch makes the call for its own purpose
    within_library: Bools  # whether an op of a library or an extension is around the call
    within_compiled: Bools  # whether the call is made within code that torch compiled


def _facts_of_ops(trace: Trace, call: Int64s) -> _OpFacts:
    def name_code(name: str) -> int:
        return CAUSE_CODE[CAUSE_BY_OP[name]] if name in CAUSE_BY_OP else NONE

    ops, code = trace.ops, _per_name(trace.ops, name_code)
    index_op, asked_for = ops.named(INDEX_OPS.__contains__), ops.named(ASKING_OPS.__contains__)
    of_torch = ops.named(lambda name: name.startswith("aten::"))
    of_library = ops.named(lambda name: "::" in name and not name.startswith(TORCH_OP_PREFIXES))
    compiled = ops.named(lambda name: name.startswith(COMPILED_REGION))
    cause = np.full(len(call), NONE, np.int32)
    within_op, within_library, within_compiled = (np.zeros(len(call), bool) for _ in range(3))
    for op in _ops_around(trace, call):
        is_op = op != NONE
        named = is_op & (follow(code, op) != NONE)
        cause = np.where(named, follow(code, op), cause)
        cause[is_op & (cause == CAUSE_CODE["nonzero"]) & index_op[op]] = CAUSE_CODE["mask_index"]
        within_op |= is_op & of_torch[op] & ~asked_for[op]
        within_op[named] = False
        within_library |= is_op & of_library[op]
        within_compiled |= is_op & compiled[op]
    return _OpFacts(cause, within_op, within_library, within_compiled)


def _ops_around(trace: Trace, call: Int64s) -> Iterator[Int32s]:
    """Yield the innermost op around each call, then the one around that, and so on, -1 where there is none.

    Ops around the innermost function of the user's own code are left out, since that function may be their body. If no
    functions were recorded, all ops count.
    """
    function, op = user_calls(trace, call).function, trace.links.op[call]
    for _ in range(MAX_NESTED_OPS):
        if len(trace.functions) and len(trace.ops):
            outside = (function != NONE) & (trace.ops.start_ns[op] < trace.functions.start_ns[function])
            op = np.where(outside, NONE, op).astype(np.int32)
        if not (op != NONE).any():
            return
        yield op
        op = follow(trace.links.op_parent, op)


def _is_read_of_optimizer(line: SourceLine) -> bool:
    innermost = line.stack[0] if line.stack else ""
    return innermost.startswith(f"{OPTIMIZER_FILE}:") and innermost.endswith(f":{OPTIMIZER_READ}")


def _by_function(trace: Trace, call: Int64s) -> Int32s:
    def name_code(name: str) -> int:
        if name.startswith(f"{OPTIMIZER_FILE}(") and name.endswith(f": {OPTIMIZER_READ}"):
            return CAUSE_CODE["optimizer_state"]
        method = CAUSE_BY_METHOD.get(tensor_method(name) or "")
        return (
            CAUSE_CODE[method]
            if method
            else next((CAUSE_CODE[cause] for part, cause in CAUSE_BY_FUNCTION_PART if part in name), NONE)
        )

    code = _per_name(trace.functions, name_code)
    return follow(code, outermost(code != NONE, trace.links.function[call], trace.links.function_parent))


def _in_new_tensor(trace: Trace, call: Int64s) -> Bools:
    """Return whether the outermost op around a call stands between those of `torch.tensor`."""
    ops = trace.ops
    chained = np.zeros(len(ops), bool)
    before, copying, after = (ops.named(name.__eq__) for name in AROUND_NEW_TENSOR)
    top = np.flatnonzero(trace.links.op_parent == NONE)
    top = top[np.argsort(ops.thread[top], kind="stable")]  # the table is sorted by start
    same = ops.thread[top[1:]] == ops.thread[top[:-1]]
    chain = before[top[:-2]] & copying[top[1:-1]] & after[top[2:]] & same[:-1] & same[1:]
    chained[top[1:-1][chain]] = True
    return _within_ops(trace, chained, call)


def _within_ops(trace: Trace, flagged: Bools, call: Int64s) -> Bools:
    return within(flagged, trace.links.op[call], trace.links.op_parent)


def _per_name(events: HostEvents, code_of: Callable[[str], int]) -> Int32s:
    """Return a code per event; `code_of` is called once per name."""
    return np.fromiter(map(code_of, events.names), np.int32, len(events.names))[events.name]
