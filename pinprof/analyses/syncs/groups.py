"""Sites whose waits only move: without one of them, the GPU is idle after another instead."""

from collections.abc import Iterable

import numpy as np

from pinprof.analyses.syncs.stalls import Stalls
from pinprof.intervals import covered, union
from pinprof.trace.tables import NONE, Bools, Int64s, Trace, rows_by

QUIET = 0.1
"""The GPU ran dry at a wait if it is busy for at most this share of the time until work comes after the next wait."""

USUAL = 0.5
"""Two sites form one group if this share of the later one's waits follow the earlier one on a dry GPU."""


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
    waits = np.bincount(site[last], minlength=int(site.max(initial=0)) + 1)
    joined = []
    for rows in rows_by(site[last[behind]]):
        mine, later = behind[rows], int(site[last[behind[rows[0]]]])
        if len(mine) < USUAL * waits[later]:
            continue
        sites, counts = np.unique(site[last[mine - 1]], return_counts=True)
        joined.append((int(sites[counts.argmax()]), later))
    return _numbered(joined)


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
    earlier, later = last[:-1], last[1:]
    alike = stalls.device[earlier] == stalls.device[later]
    alike &= trace.calls.thread[stalls.call[earlier]] == trace.calls.thread[stalls.call[later]]
    alike &= stalls.call_step[earlier] == stalls.call_step[later]
    places = np.flatnonzero(alike)
    for mine in rows_by(stalls.device[later[places]]):
        place = places[mine]
        work = trace.gpu.of_device.get(int(stalls.device[later[place[0]]]), mine[:0])
        busy = union(trace.gpu.start_ns[work], trace.gpu.end_ns[work])
        start = stalls.awaited_end_ns[earlier[place]]
        end = stalls.awaited_end_ns[later[place]] + stalls.bubble_ns[later[place]]
        result[place + 1] = (end > start) & (covered(busy, start, end) <= QUIET * (end - start))
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
