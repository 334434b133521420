"""Finds the calls of a language model that answers requests, one per token of an answer, and which of them decode.

Kineto does not name these calls. Each begins with a lookup of its tokens in a table (`aten::embedding`), whose shapes
say how many requests and tokens there are. Without shapes the lookup's kernel says whether there are few. Where
pinprof recorded the program, its own marks say it.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from pinprof.trace.links import RecordedWork
from pinprof.trace.spans.one_time_work import REGION_PREFIX
from pinprof.trace.tables import NONE, Activities, Bools, HostEvents, Int64s, ModelCalls
from pinprof.trace.threads import BACKWARD_OP, OPTIMIZER_MARK
from pinprof.trace.vendors import ANY_ATTENTION, ANY_SOFTMAX, FUSED_LOOKUP, LARGE_LOOKUP, SMALL_LOOKUP, TOKEN_CHOICE

EMBEDDING_OP: Final = "aten::embedding"
BATCH_MARK: Final = "pinprof batch "
"""Begins pinprof's own marks of the calls of a model; requests and tokens of each follow, as `8x1`."""
BATCH_IN_MARK: Final = re.compile(rf"{BATCH_MARK}([1-9]\d{{0,8}})x([1-9]\d{{0,8}})")
PRODUCT_OP: Final = re.compile(r"aten::(?:mm|addmm|bmm|baddbmm|linear|matmul|convolution|_scaled_mm)")
"""Ops that every call of a model has: between two lookups without any, the call is the same."""
MAX_BATCH_TOKENS: Final = 10**9  # a larger number of requests or tokens is corrupt
MIN_DECODES: Final = 3
"""Fewer calls that decode, in a row where their sizes are unknown, do not show that a program makes tokens singly."""


def find_model_calls(recorded: RecordedWork, shapes: Mapping[int, bytes]) -> ModelCalls:
    """Return the calls of a language model if some surely decode; `shapes`: `Input Dims` of lookups by row of ops."""
    ops, annotations, gpu = recorded.ops, recorded.annotations, recorded.gpu
    marked = np.flatnonzero(annotations.named(BATCH_IN_MARK.fullmatch))
    if not len(marked) and not ops.named(EMBEDDING_OP.__eq__).any():
        return no_model_calls()
    if ops.named(BACKWARD_OP.match).any() or annotations.named(OPTIMIZER_MARK.match).any():
        return no_model_calls()
    if len(marked):
        marked = outer(annotations, marked[of_busiest(annotations, marked)])
        marks = (BATCH_IN_MARK.fullmatch(annotations.name_of(row)) for row in marked.tolist())
        sizes = [(int(mark[1]), int(mark[1]) * int(mark[2])) for mark in marks if mark]
        found = _calls_at(annotations, marked, sizes)
    else:
        found = _calls_by_lookups(recorded, shapes)
    is_known = bool(len(found)) and bool((found.requests != NONE).all())
    has_prompts = not found.decodes.all()
    is_sure = _has(ops, gpu, ANY_ATTENTION) or (has_prompts and is_known and _has(ops, gpu, ANY_SOFTMAX))
    is_sure &= has_prompts or is_known
    decodes = int(found.decodes.sum()) if is_known else _longest_run(found.decodes)
    return found if is_sure and decodes >= MIN_DECODES and _has(ops, gpu, TOKEN_CHOICE) else no_model_calls()


def no_model_calls() -> ModelCalls:
    """Return what a trace has of a program that does not run a language model, or trains one."""
    numbers = np.zeros(0, np.int64)
    return ModelCalls(numbers, numbers, numbers > 0, numbers, numbers)


def outer(events: HostEvents, rows: Int64s) -> Int64s:
    """Return the rows that begin when all earlier rows have ended."""
    reach = np.maximum.accumulate(events.end_ns[rows])[:-1]
    return rows[np.concatenate(([True], events.start_ns[rows[1:]] >= reach))] if len(rows) else rows


def of_busiest(events: HostEvents, rows: Int64s) -> Bools:
    """Return which of the rows are of the thread that has most of them."""
    thread = events.thread[rows]
    return thread == np.bincount(thread).argmax()


def _has(ops: HostEvents, gpu: Activities, what: re.Pattern[str]) -> bool:
    return any(bool(table.named(what.search).any()) for table in (ops, gpu))


def _longest_run(flags: Bools) -> int:
    ends = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return int((ends[1::2] - ends[::2]).max(initial=0))


def _calls_at(events: HostEvents, rows: Int64s, sizes: Sequence[tuple[int, int]]) -> ModelCalls:
    """Return the calls at rows of one thread, of these sizes: requests, and tokens of all of them."""
    requests, tokens = np.array(sizes, np.int64).reshape(-1, 2).T
    decodes, thread = (tokens == requests) & (requests != NONE), int(events.thread[rows].max(initial=NONE))
    return ModelCalls(events.start_ns[rows], events.end_ns[rows], decodes, requests, tokens, thread)


def _calls_by_lookups(recorded: RecordedWork, shapes: Mapping[int, bytes]) -> ModelCalls:
    """Return a call for each first lookup, and for each call of compiled code that has one in it."""
    ops, is_lookup = recorded.ops, recorded.ops.named(EMBEDDING_OP.__eq__)
    begins = np.flatnonzero(is_lookup | ops.named(lambda name: name.startswith(REGION_PREFIX)))
    begins = begins[of_busiest(ops, begins)]
    lookups, regions = begins[is_lookup[begins]], outer(ops, begins[~is_lookup[begins]])
    # the lookups in the table with most of them that have a product since the one before
    used = [str(dims[0]) if (dims := _dims(shapes.get(row))) else "" for row in lookups.tolist()]
    lookups = lookups[np.array(used) == max(used, key=used.count, default="")]
    products = ops.start_ns[ops.named(PRODUCT_OP.fullmatch)]
    lookups = lookups[np.diff(np.searchsorted(products, ops.start_ns[lookups]), prepend=-1) > 0]
    regions = regions[_launches(recorded, FUSED_LOOKUP, regions)]
    begins = outer(ops, np.sort(np.concatenate((lookups, regions))))
    sizes = [_size_of(shapes.get(row)) for row in begins.tolist()]
    found = _calls_at(ops, begins, sizes)
    few, many = _launches(recorded, SMALL_LOOKUP, begins), _launches(recorded, LARGE_LOOKUP, begins)
    is_region = np.isin(begins, regions)
    by_kernel = (few & ~many) | (is_region & many.any())
    return replace(found, decodes=np.where(found.requests == NONE, by_kernel, found.decodes))


def _launches(recorded: RecordedWork, kernel: re.Pattern[str], around: Int64s) -> Bools:
    """Return which of these ops, none within another, launch such a kernel."""
    ops, calls = recorded.ops, recorded.calls
    launching = recorded.launch[recorded.gpu.named(kernel.search) & (recorded.launch != NONE)]
    place = np.searchsorted(ops.start_ns[around], calls.start_ns[launching], side="right") - 1
    launching, place = launching[place >= 0], place[place >= 0]
    op = around[place]
    is_inside = (calls.start_ns[launching] < ops.end_ns[op]) & (calls.thread[launching] == ops.thread[op])
    flags: Bools = np.zeros(len(around), bool)
    flags[place[is_inside]] = True
    return flags


def _size_of(text: bytes | None) -> tuple[int, int]:
    """Return requests and tokens of a lookup; -1 where its shapes do not say them."""
    indices = dims[1] if len(dims := _dims(text)) > 1 else []
    if len(indices) != 2 or not all(0 < side <= MAX_BATCH_TOKENS for side in indices):  # noqa: PLR2004  a row per request
        return NONE, NONE
    return indices[0], indices[0] * indices[1]


def _dims(text: bytes | None) -> list[list[int]]:
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(text or b"[]", type=list[list[int]])
    return []
