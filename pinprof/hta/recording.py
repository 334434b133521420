"""Reads what HTA keeps of a trace file: duration events of all categories, with more of their arguments."""

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from pinprof.errors import TraceError
from pinprof.trace.assemble import recorded_rank, usable_times
from pinprof.trace.reader import read_rows
from pinprof.trace.scan.rows import KNOWN_CATEGORIES, Rows, Wanted, joined
from pinprof.trace.scan.texts import Codes
from pinprof.trace.tables import NONE, Bools, Int64s
from pinprof.trace.threads import ThreadKey
from pinprof.urls import shown

NO_EVENTS = ("", "Trace")
"""HTA leaves out duration events of these categories; the latter is the span of the recording."""
TEXTS = ("bandwidth", "input_dims", "input_type", "input_strides")
IDS = ("stream", "correlation", "bytes", "external_id", "awaited_stream", "awaited_record")


@dataclass(frozen=True)
class EventColumns:
    """The events of a file, in its order."""

    path: str
    rank: int | None
    """As recorded."""
    metadata: dict[str, Any]
    """The keys of the file other than its events."""
    rows: Rows
    """`entry` counts the events of the file; all rows are usable."""
    end_ns: Int64s
    categories: tuple[str, ...]
    names: tuple[str, ...]
    threads: tuple[ThreadKey, ...]

    def id(self, name: str) -> Int64s:
        """Return an argument that is an integer, -1 where not recorded."""
        return self.rows.ids[IDS.index(name)]

    def text(self, name: str) -> Int64s:
        """Return an argument as an index into `names`, -1 where not recorded."""
        return self.rows.ids[len(IDS) + TEXTS.index(name)]

    def of_category(self, wanted: set[str]) -> Bools:
        """Return which rows are of one of these categories."""
        return np.array([category in wanted for category in self.categories], bool)[self.rows.category]


def read_recording(path: str, jobs: int | None = None) -> EventColumns:
    """Return what HTA keeps of a trace. Raises TraceError, with the file's name."""
    categories = Codes()
    for category in KNOWN_CATEGORIES:
        categories[category]  # known categories keep their numbers

    def code(category: str) -> int:
        number = NONE if category in NO_EVENTS else categories[category]
        return number if number <= np.iinfo(np.int8).max else NONE

    wanted = Wanted(code, first_with_ids=0, ids=IDS, texts=TEXTS)
    read = read_rows(path, wanted, jobs)
    before = np.cumsum([0, *(part.entries for part in read.parts)])
    parts = [
        replace(part.rows, entry=part.rows.entry + int(first))
        for part, first in zip(read.parts, before[:-1], strict=True)
    ]
    rows = joined(parts)
    end, usable, _ = usable_times(rows)
    if not usable.any():
        raise TraceError(f"{shown(path)}: has no duration events, which HTA needs")
    columns: list[Any] = [column[usable] for column in rows.columns()]
    return EventColumns(
        path=path,
        rank=recorded_rank(read.metadata),
        metadata=_metadata(read.around),
        rows=Rows(*[*columns, rows.ids[:, usable]]),
        end_ns=end[usable],
        categories=categories.values(),
        names=read.shared.names.values(),
        threads=read.shared.threads.values(),
    )


def _metadata(around: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(around)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return {key: value for key, value in document.items() if key != "traceEvents"} if isinstance(document, dict) else {}
