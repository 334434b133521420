"""Reads the file that W&B writes of a run without a network: its own records, in LevelDB's format of logs."""

import json
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

BLOCK, HEAD = 32768, 7
"""Bytes of a block, and of what stands before each part of a record, and before the first."""
WHOLE, LAST = 1, 4
"""Kinds of parts with which a record is complete."""
WITHIN_S = 30.0
"""How long W&B's process may take to write the rest of a run."""


@dataclass(frozen=True)
class WandbRun:
    """What a run holds."""

    folder: Path
    name: str
    project: str
    summary: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    artifacts: dict[str, dict[str, str]] = field(default_factory=dict)
    """The contents of the files of each, by name."""


def records(path: Path) -> Iterator[Any]:
    """Yield the records of a file, as W&B's own messages."""
    message = import_module("wandb.proto.wandb_internal_pb2").Record
    data, at, part = path.read_bytes(), HEAD, b""
    assert data.startswith(b":W&B")
    while at + HEAD <= len(data):
        left = BLOCK - at % BLOCK
        if left < HEAD:
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + HEAD])
        if at + HEAD + size > len(data):
            return  # is being written
        part += data[at + HEAD : at + HEAD + size]
        at += HEAD + size
        if kind in {WHOLE, LAST}:
            yield message.FromString(part)
            part = b""


def read_run(folder: Path) -> WandbRun:
    """Return what the run in a folder like offline-run-... holds."""
    rows = _finished(next(folder.glob("*.wandb")))
    of_run = next(row.run for row in rows if row.WhichOneof("record_type") == "run")
    run = WandbRun(folder, of_run.display_name, of_run.project)
    for row in rows:
        kind = row.WhichOneof("record_type")
        if kind == "summary":
            run.summary.update(_items(row.summary.update))
        elif kind == "history":
            run.history.append(_items(row.history.item))
        elif kind == "artifact":
            files = row.artifact.manifest.contents
            run.artifacts[row.artifact.type] = {file.path: Path(file.local_path).read_text() for file in files}
    return run


def _finished(path: Path) -> list[Any]:
    """Return all records of a run: `wandb.finish()` may return a moment before its process has written the last."""
    end = time.monotonic() + WITHIN_S
    while True:
        rows = list(records(path))
        if (rows and rows[-1].WhichOneof("record_type") == "exit") or time.monotonic() > end:
            return rows
        time.sleep(0.05)


def _items(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
