"""Stores in a trace file what pinprof learned beside the trace: keys on its first line, before all that torch wrote."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from pinprof.capture.packed import trace_file
from pinprof.outputs import unfinished

OPENING = b'{"pinprof_'
"""The first line of a trace file in which something is stored begins like this."""


def store(path: Path, sections: Mapping[str, object]) -> None:
    """Store sections in a trace file; a section of the same name is replaced. Their names begin with `pinprof_`."""
    with unfinished(path) as temporary:
        with trace_file(path, "rb") as recorded:
            text = recorded.read().lstrip()
        stored: dict[str, object] = {}
        if text.startswith(OPENING):
            first, _, text = text.partition(b",\n")
            stored = msgspec.json.decode(first + b"}")
        line = msgspec.json.encode(stored | dict(sections)).removesuffix(b"}")
        with trace_file(temporary, "wb") as written:
            written.write(line + b",\n" + text.removeprefix(b"{"))
