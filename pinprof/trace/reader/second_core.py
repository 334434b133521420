"""Decodes blocks of a file on a second core, while this process cuts the file and decodes the blocks in between.

The parts come back in the memory in which their blocks went. If the other process cannot decode a block, because it is
broken or the process has died, this one does: neither the result nor its errors depend on the other process.
"""

import mmap
import os
import pickle
import select
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from struct import Struct
from typing import Any

import numpy as np

from pinprof.ground.processes import Fork, has_spare_core
from pinprof.trace.reader.rows import Codes, FilePart, Shared, part_of_block
from pinprof.trace.tables import NONE

BLOCKS_ALONE = 64  # shorter files are not worth another process
SLOTS = 8  # blocks that the other process has at a time: it always finds one, and this process never waits for many
SLOT_BYTES = 1 << 19  # longer blocks, of very long events, are decoded here
MAX_SILENCE_S = 2.0
"""The other process decodes a block in a millisecond; after this time without a block, it is given up."""
MESSAGE = Struct("=II")
"""A slot, and how many bytes are in it; none for a block that the other process could not decode."""


def parts_of_blocks(blocks: Iterable[bytes], shared: Shared) -> list[FilePart]:
    """Return the contents of blocks in their order, as `part_of_block` does."""
    parts: dict[int, FilePart] = {}
    helper: _Helper | None = None
    try:
        for place, block in enumerate(blocks):
            if place == BLOCKS_ALONE and has_spare_core():
                with suppress(OSError):
                    helper = _Helper(shared)
            if not helper or not helper.takes(place, block):
                parts[place] = part_of_block(block, shared)
            if helper:
                parts.update(helper.finished(0.0))
        while helper and helper.blocks:
            parts.update(helper.finished(MAX_SILENCE_S))
    finally:
        if helper:
            helper.end()
    return [parts[place] for place in range(len(parts))]


class _Helper:
    def __init__(self, shared: Shared) -> None:
        self.blocks: dict[int, tuple[int, bytes]] = {}  # by slot: the place of a block that is given away, and its text
        self._shared = shared
        self._memory = mmap.mmap(-1, SLOTS * SLOT_BYTES)
        self._tables: tuple[Codes[Any], ...] = shared.names, shared.threads
        self._codes = [list(range(len(table))) for table in self._tables]
        """The numbers here of the texts and threads that the other process has numbered."""
        self._process = Fork(self._serve)
        self._answered = select.poll()
        self._answered.register(self._process.answers, select.POLLIN)

    def takes(self, place: int, block: bytes) -> bool:
        """Give a block away, if the other process has room for it."""
        slot = next((slot for slot in range(SLOTS) if slot not in self.blocks), NONE)
        if slot == NONE or len(block) > SLOT_BYTES or not self._process.is_alive:
            return False
        self._memory[slot * SLOT_BYTES : slot * SLOT_BYTES + len(block)] = block
        self.blocks[slot] = place, block
        self._process.give(MESSAGE.pack(slot, len(block)))
        return True

    def finished(self, timeout_s: float) -> Iterator[tuple[int, FilePart]]:
        """Yield the places and parts that are there; after this time without any, those that are missing, too."""
        if not self.blocks:
            return
        is_silent = not self._answered.poll(timeout_s * 1000)
        if is_silent and not timeout_s:
            return
        answers = b"" if is_silent else os.read(self._process.answers, SLOTS * MESSAGE.size)
        for slot, size in MESSAGE.iter_unpack(answers):
            place, block = self.blocks.pop(slot)
            text = self._memory[slot * SLOT_BYTES : slot * SLOT_BYTES + size]
            yield place, self._received(text) if size else part_of_block(block, self._shared)
        if not answers:
            self.end()
            while self.blocks:
                _, (place, block) = self.blocks.popitem()
                yield place, part_of_block(block, self._shared)

    def _received(self, answer: bytes) -> FilePart:
        """Return a part of the other process with the numbers of this one."""
        part, *new = pickle.loads(answer)  # noqa: S301  from a copy of this process
        for codes, table, added in zip(self._codes, self._tables, new, strict=True):
            codes.extend(table[value] for value in added)
        names, threads = (np.array([*codes, NONE], np.int32) for codes in self._codes)
        rows, texts = part.rows, part.rows.ids[len(self._shared.options.ids) :]
        texts[:] = names[texts]
        memory = part.memory and part.memory._replace(thread=threads[part.memory.thread])
        rows = replace(rows, name=names[rows.name], thread=threads[rows.thread])
        return replace(part, rows=rows, memory=memory)

    def end(self) -> None:
        """End the other process."""
        self._process.end()

    def _serve(self, tasks: int, answers: int) -> None:
        """Decode the blocks of tasks until these end: the other process."""
        known = list(map(len, self._tables))
        while message := os.read(tasks, MESSAGE.size):
            slot, size = MESSAGE.unpack(message)
            begin, answer = slot * SLOT_BYTES, b""
            with suppress(Exception):
                part = part_of_block(self._memory[begin : begin + size], self._shared)
                new = (tuple(islice(table, count, None)) for table, count in zip(self._tables, known, strict=True))
                answer = b"" if part.malformed or part.repaired else pickle.dumps((part, *new), pickle.HIGHEST_PROTOCOL)
            if len(answer) > SLOT_BYTES:
                answer = b""
            if answer:
                self._memory[begin : begin + len(answer)] = answer
                known = list(map(len, self._tables))
            os.write(answers, MESSAGE.pack(slot, len(answer)))
