"""Sites whose waits only move: without one of them, the GPU stays idle after another all the same."""

import numpy as np

from pinprof.analyses.syncs.stalls import Stalls
from pinprof.intervals import covered, union
from pinprof.trace.tables import NONE, Bools, Int64s, Trace

QUIET = 0.1
"""The GPU ran dry at a wait if it is busy for at most this share of the time until work comes after the next wait."""

USUAL = 0.5
"""Two sites are one group if this share of the waits of the later one follow the earlier one on a dry GPU."""


def group_sites(trace: Trace, stalls: Stalls, site: Int64s) -> dict[int, int]:
    """Return the number of the group for each site that is in one; `site` is the number of each stall's site.

    Waits that follow each other on a dry GPU are one group: removing one alone saves at most the time that the host
    stood in it. It counts only if the GPU is idle for longer than that after the last of them.
    """
    last, waited_ns = _waits(trace, stalls)
    behind = np.flatnonzero(_follows_on_dry_gpu(trace, stalls, last))
    spell = np.cumsum(~np.isin(np.arange(len(last)), behind)) if len(last) else behind
    moves = np.zeros(spell.max(initial=0) + 1, bool)
    moves[spell[stalls.bubble_ns[last] > waited_ns]] = True
    behind = behind[moves[spell[behind]]]
    groups: dict[int, int] = {}
    for later in np.unique(site[last[behind]]).tolist():
        mine = behind[site[last[behind]] == later]
        if len(mine) < USUAL * (site[last] == later).sum():
            continue
        earlier = int(np.bincount(site[last[mine - 1]]).argmax())
        if earlier != later:
            _join(groups, earlier, later)
    return groups


def _waits(trace: Trace, stalls: Stalls) -> tuple[Int64s, Int64s]:
    """Return the waits that awaited work, by thread and start: the last stall of each, and its length in ns.

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
    for device in np.unique(stalls.device[last]):
        mine = trace.gpu.device == device
        busy = union(trace.gpu.start_ns[mine], trace.gpu.end_ns[mine])
        earlier, later = last[:-1], last[1:]
        start, end = stalls.awaited_end_ns[earlier], stalls.awaited_end_ns[later] + stalls.bubble_ns[later]
        alike = (stalls.device[earlier] == device) & (stalls.device[later] == device)
        alike &= trace.calls.thread[stalls.call[earlier]] == trace.calls.thread[stalls.call[later]]
        alike &= stalls.call_step[earlier] == stalls.call_step[later]
        dry = (end > start) & (covered(busy, start, end) <= QUIET * (end - start))
        result[1:] |= alike & dry
    return result


def _join(groups: dict[int, int], one: int, other: int) -> None:
    """Put two sites, and the groups that they are in, into one group: that with the smallest number."""
    numbers = {groups[site] for site in (one, other) if site in groups}
    number = min(numbers, default=max(groups.values(), default=-1) + 1)
    for site, joined in groups.items():
        if joined in numbers:
            groups[site] = number
    groups[one] = groups[other] = number
