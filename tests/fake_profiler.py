"""A clock and a profiler for recordings in tests, and options with few steps."""

import json
from math import inf
from pathlib import Path
from typing import Any, cast

from pinprof.capture.options import RecordingOptions
from pinprof.capture.window.recording import Recording
from pinprof.program.machine import Clock, EventMark

MS = 1_000_000
TWO_OF_EACH = RecordingOptions(warmup=2, plain_steps=2, plain_seconds=0.0, plain_precision=inf, steps=2)


class FakeClock(Clock):
    """A host, which moves on when told to, and a GPU that is so far behind it as told; its marks are times."""

    def __init__(self) -> None:
        super().__init__()
        self.time_ns = 0
        self.gpu_behind_ns: int | None = None
        self.synchronized_at_ns: list[int] = []
        self.ready = 0

    def now_ns(self) -> int:
        return self.time_ns

    def synchronize(self) -> None:
        self.synchronized_at_ns.append(self.time_ns)

    def make_ready(self, marks: int = 1) -> None:
        self.ready = max(self.ready, marks)

    def mark(self) -> EventMark:
        return None if self.gpu_behind_ns is None else self.time_ns + self.gpu_behind_ns

    def between(self, start: EventMark, end: EventMark) -> int | None:
        return int(end - start) if end <= self.time_ns else None


def fake_recording(folder: Path, options: RecordingOptions, clock: Clock | None = None) -> Recording:
    """Return a recording into out.json in this folder, with a profiler and a clock of this module."""
    made, profiler = clock or FakeClock(), FakeProfiler()
    return Recording(folder / "out.json", options, cast("Any", lambda _steps: profiler), make_clock=lambda: made)


class FakeProfiler:
    """Notes what was asked of it, in order."""

    def __init__(self, *, start_fails: bool = False, stop_fails: bool = False) -> None:
        self.calls: list[str] = []
        self.metadata: dict[str, Any] = {}
        self.start_fails, self.stop_fails = start_fails, stop_fails

    def start(self) -> None:
        self.calls.append("start")
        if self.start_fails:
            raise RuntimeError("Profiler is already enabled on this thread")

    def step(self) -> None:
        self.calls.append("step")

    def stop(self) -> None:
        self.calls.append("stop")
        if self.stop_fails:
            raise RuntimeError("CUDA error: an illegal memory access\nmore lines")

    def add_metadata_json(self, key: str, value: str) -> None:
        self.calls.append("metadata")
        self.metadata[key] = json.loads(value)

    def export_chrome_trace(self, path: str) -> None:
        self.calls.append("export")
        Path(path).write_text('{"traceEvents": []}')
