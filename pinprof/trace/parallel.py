"""Reads a file block by block, on as many threads as there are cores: numpy and isal work outside of Python's lock."""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import local

import msgspec
from isal import igzip, igzip_lib

from pinprof.trace.blocks import Blocks, Stream
from pinprof.trace.events import Metadata, decode_events
from pinprof.trace.rows import Part, Shared, part_of_events
from pinprof.trace.scan import Scanner
from pinprof.trace.seams import Block, Unusual

GZIP_MAGIC = b"\x1f\x8b"
MOST_JOBS = 8
"""More threads than this wait for the one that decompresses."""

BLOCKS_ALONE = 3
"""The first blocks are small: so many are read before there are other threads, and most traces end there."""


def available_cores() -> int:
    """Return on how many cores this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_in_blocks(path: str, jobs: int) -> tuple[Metadata, list[Part], Shared] | None:
    """Return the metadata and the parts of a file, None if it is not of the form that can be read in blocks."""
    shared = Shared()
    try:
        with _opened(path) as stream:
            blocks = Blocks(stream)
            parts = list(_scanned(blocks, shared, min(jobs, MOST_JOBS)))
            ending, metadata = blocks.ending()
        parts.append(part_of_events(*decode_events(ending), shared)[0])
    except (Unusual, msgspec.MsgspecError, UnicodeDecodeError, EOFError, OSError, igzip_lib.IsalError):  # type: ignore[misc]  # the stub says it is an instance
        return None
    if not any(part.counts for part in parts):
        return None  # whether it is a trace at all is for others to tell
    return metadata, parts, shared


@contextmanager
def _opened(path: str) -> Iterator[Stream]:
    with Path(path).open("rb") as file:
        if file.read(2) == GZIP_MAGIC:
            file.seek(0)
            with igzip.open(file) as stream:  # type: ignore[no-untyped-call]
                yield stream
        else:
            file.seek(0)
            yield file


def _scanned(blocks: Blocks, shared: Shared, jobs: int) -> Iterator[Part]:
    """Return what the blocks hold, in order; no more blocks than threads wait to be read."""
    coming = iter(blocks)
    scanner = Scanner(shared)
    yield from map(scanner.scan, coming if jobs == 1 else islice(coming, BLOCKS_ALONE))
    own = local()

    def scan(block: Block) -> Part:
        if not hasattr(own, "scanner"):
            own.scanner = Scanner(shared)
        return own.scanner.scan(block)

    with ThreadPoolExecutor(jobs) as pool:  # starts its threads with the first blocks
        waiting: deque[Future[Part]] = deque()
        for block in coming:
            waiting.append(pool.submit(scan, block))
            if len(waiting) > jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
