"""Reads a file block by block, on as many threads as there are cores: numpy and isal work outside of Python's lock."""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import local

import msgspec

from pinprof.trace.scan.rows import Part, Shared, part_of_events
from pinprof.trace.scan.salvage import salvage
from pinprof.trace.scan.scanner import Scanner
from pinprof.trace.scan.seams import Block, Unusual

MOST_JOBS = 8
"""More threads than this wait for the one that decompresses."""


def available_cores() -> int:
    """Return on how many cores this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def scanned(blocks: Iterable[Block], shared: Shared, jobs: int) -> Iterator[Part]:
    """Return what the blocks hold, in order; no more blocks than threads wait to be read."""
    jobs = min(jobs, MOST_JOBS)
    if jobs == 1:
        scanner = Scanner(shared)
        for block in blocks:
            yield _part(scanner, block, shared)
        return
    own = local()

    def scan(block: Block) -> Part:
        if not hasattr(own, "scanner"):
            own.scanner = Scanner(shared)
        return _part(own.scanner, block, shared)

    with ThreadPoolExecutor(jobs) as pool:
        waiting: deque[Future[Part]] = deque()
        for block in blocks:
            waiting.append(pool.submit(scan, block))
            if len(waiting) > jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _part(scanner: Scanner, block: Block, shared: Shared) -> Part:
    """Return what a block holds; if it is not JSON, what can be recovered event by event."""
    try:
        return scanner.scan(block)
    except (Unusual, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = salvage(bytes(block.buffer[block.begin : block.end]), is_last=False)
        return part_of_events(found.events, found.malformed, shared, repaired=found.repaired)
