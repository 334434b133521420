"""Whether a wait can be removed: the code may ask for it, it may guard a copy, or the host may then wait elsewhere."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pinprof.analyses.syncs.blocking_calls import CLOCK_SKEW_NS
from pinprof.analyses.syncs.causes import HELD_UP_LAUNCHES, SYNCHRONIZE_CAUSES
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.ground.intervals import covered
from pinprof.trace.calls import ASYNC_COPY, DEVICE, EVENT, STREAM, call_kinds
from pinprof.trace.frames import is_user_file
from pinprof.trace.links import enclosing, within
from pinprof.trace.tables import DTOH, HTOD, MEMCPY, NONE, PINNED, Bools, Int64s, Trace, rows_by

VERDICTS = {"hidden": "", "explicit": "asked for", "benign": "costs nothing", "profiler": "the profiler's own"}
"""Whether the code asked for a wait, in words; hidden waits, which reports are about, have none."""

RATE_LIMITER_MARKS = frozenset({"FullyShardedDataParallel.rate_limiter"})
"""Annotations of waits that keep the host from running too far ahead (torch/distributed/fsdp/_runtime_utils.py)."""

SYNCHRONIZER_FILES = re.compile(r"(^|-packages/)torch/(cuda|_C|accelerator)/")
"""Files of the functions that a program calls to wait, and of those that they call. Recorded lines name files from the
working directory on, in which an environment may lie (`.venv/lib/python3.12/site-packages/torch/…`)."""


def verdict_on(trace: Trace, stalls: Stalls, members: Int64s, cause: str, stack: Sequence[str], limited: Bools) -> str:
    """Return `hidden`, `explicit`, `benign` or `profiler` for the waits of a site; `limited` comes from `in_limiter`.

    A wait is benign if no change of it can save time. Either it waits for room in the launch queue, which is full only
    while the GPU is behind; or it is in a limiter; or it is for an event or another stream, and kernels queued before
    kept the GPU busy during every wait of the site. Loading of code is benign, too: no later step pays for it.
    """
    if stalls.profiler[members[0]]:
        return "profiler"
    if cause in HELD_UP_LAUNCHES or stalls.kept_busy[members].all() or limited[members[0]]:
        return "benign"
    in_op = trace.links.op[stalls.call[members[0]]] != NONE
    return "explicit" if cause in SYNCHRONIZE_CAUSES and not in_op and _asked_for(stack) else "hidden"


def in_limiter(trace: Trace, call: Int64s) -> Bools:
    """Return which of the calls are made within a limiter."""
    limiter = trace.annotations.named(RATE_LIMITER_MARKS.__contains__)
    if not limiter.any():
        return np.zeros(len(call), bool)
    around = enclosing(trace.annotations, trace.calls)[call]
    return within(limiter, around, enclosing(trace.annotations, trace.annotations))


def _asked_for(stack: Sequence[str]) -> bool:
    """Return whether the user's own code called the function that waits; True without a stack."""
    for entry in stack:
        file, colon, _ = entry.partition(":") if entry.startswith("<") else entry.rpartition(":")[0].rpartition(":")
        if colon and not entry.startswith("<") and not SYNCHRONIZER_FILES.search(file):
            return is_user_file(file)
    return True


class GuardedCopies(NamedTuple):
    """Pairs of a wait and an asynchronous copy of pinned memory that it awaits, sorted by stall."""

    stall: Int64s  # row in `Stalls`
    copy: Int64s  # row in `Trace.gpu`


def guarded_copies(trace: Trace, stalls: Stalls) -> GuardedCopies:
    """Return for each synchronize the asynchronous copies of pinned memory that it awaits, except for its own copy.

    They were launched before the wait began, by any thread, had not ended then, and are on the stream that is awaited.
    Where that is not known they had ended when the wait returned.
    """
    gpu, calls = trace.gpu, trace.calls
    copies = np.flatnonzero((gpu.category == MEMCPY) & (gpu.host_memory == PINNED) & (trace.links.launch != NONE))
    copies = copies[np.isin(gpu.direction[copies], (HTOD, DTOH))]
    copies = copies[call_kinds(calls)[trace.links.launch[copies]] == ASYNC_COPY]
    waits = np.flatnonzero(np.isin(stalls.kind, (STREAM, DEVICE, EVENT)) & ~stalls.profiler)
    waits = waits[np.argsort(calls.start_ns[stalls.call[waits]], kind="stable")]
    begins = calls.start_ns[stalls.call[waits]]
    first = np.searchsorted(begins, trace.links.launched_ns[copies], side="right")
    count = np.maximum(np.searchsorted(begins, gpu.end_ns[copies] - CLOCK_SKEW_NS) - first, 0)
    copy = np.repeat(copies, count)
    stall = waits[np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())]
    stream = stalls.stream[stall]
    ended = gpu.end_ns[copy] <= calls.end_ns[stalls.call[stall]] + CLOCK_SKEW_NS
    awaited = np.where(stream == NONE, ended, gpu.stream[copy] == stream)
    awaited &= (gpu.device[copy] == stalls.device[stall]) & (stalls.copy[stall] != copy)
    order = np.argsort(stall[awaited], kind="stable")
    return GuardedCopies(stall[awaited][order], copy[awaited][order])


DRY_GPU_BUSY_SHARE = 0.1
"""The GPU ran dry at a wait if it is busy for at most this share of the time until work comes after the next wait."""

FOLLOWING_SHARE = 0.5
"""Two sites form one group if at least this share of the later one's waits follow the earlier one on a dry GPU."""


def group_sites(trace: Trace, stalls: Stalls, site: Int64s) -> dict[int, int]:
    """Return the number of the group for each site that is in one; `site` is the number of each stall's site.

    Waits that follow each other on a dry GPU are one group: removing one alone saves at most the host's time in it.
    They form a group only if the GPU is idle for longer than that after the last of them.
    """
    last, waited_ns = _last_stalls(trace, stalls)
    followers = np.flatnonzero(_follows_on_dry_gpu(trace, stalls, last))
    chain = np.cumsum(~np.isin(np.arange(len(last)), followers)) if len(last) else followers
    gpu_idles_longer = np.zeros(chain.max(initial=0) + 1, bool)
    gpu_idles_longer[chain[stalls.bubble_ns[last] > waited_ns]] = True
    followers = followers[gpu_idles_longer[chain[followers]]]
    waits = np.bincount(site[last], minlength=int(site.max(initial=0)) + 1)
    pairs = []
    for rows in rows_by(site[last[followers]]):
        following, later = followers[rows], int(site[last[followers[rows[0]]]])
        if len(following) < FOLLOWING_SHARE * waits[later]:
            continue
        sites, counts = np.unique(site[last[following - 1]], return_counts=True)
        pairs.append((int(sites[counts.argmax()]), later))
    return _numbered(pairs)


def _last_stalls(trace: Trace, stalls: Stalls) -> tuple[Int64s, Int64s]:
    """Return the waits that awaited work, by thread and start: the last stall and the length in ns of each wait.

    The call that makes a copy and the one that awaits it are one wait.
    """
    rows = np.flatnonzero(~stalls.profiler & (stalls.drain_ns + stalls.own_ns > 0))
    rows = rows[np.lexsort((trace.calls.start_ns[stalls.call[rows]], trace.calls.thread[stalls.call[rows]]))]
    copy = stalls.copy[rows]
    begins = np.ones(len(rows), bool)
    begins[1:] = (copy[1:] == NONE) | (copy[1:] != copy[:-1])
    ends = np.append(begins[1:], values=True) if len(rows) else begins
    waited = np.bincount(np.cumsum(begins) - 1, stalls.stall_ns[rows]).astype(np.int64) if len(rows) else rows
    return rows[ends], waited


def _follows_on_dry_gpu(trace: Trace, stalls: Stalls, last: Int64s) -> Bools:
    """Return for each wait whether the GPU had run dry at the one before it, in the same step of the same thread."""
    result = np.zeros(len(last), bool)
    earlier, later = last[:-1], last[1:]
    alike = stalls.device[earlier] == stalls.device[later]
    alike &= trace.calls.thread[stalls.call[earlier]] == trace.calls.thread[stalls.call[later]]
    alike &= stalls.call_step[earlier] == stalls.call_step[later]
    alike_pairs = np.flatnonzero(alike)
    for on_device in rows_by(stalls.device[later[alike_pairs]]):
        pairs = alike_pairs[on_device]
        work = trace.gpu.of_device.get(int(stalls.device[later[pairs[0]]]), on_device[:0])
        busy = trace.gpu.times(work)
        start = stalls.awaited_end_ns[earlier[pairs]]
        end = stalls.awaited_end_ns[later[pairs]] + stalls.bubble_ns[later[pairs]]
        result[pairs + 1] = (end > start) & (covered(busy, start, end) <= DRY_GPU_BUSY_SHARE * (end - start))
    return result


def _numbered(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the number of the group of each site: sites of a pair share one; a site with itself is not a pair."""
    above: dict[int, int] = {}

    def top(site: int) -> int:
        while above[site] != site:
            above[site] = site = above[above[site]]
        return site

    for one, other in pairs:
        if one != other:
            above.setdefault(one, one)
            above.setdefault(other, other)
            above[top(other)] = top(one)
    numbers: dict[int, int] = {}
    return {site: numbers.setdefault(top(site), len(numbers)) for site in above}
