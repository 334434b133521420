"""A clock and a profiler for recordings in tests, and options with few steps."""

import json
from math import inf
from pathlib import Path
from typing import Any

from pinprof.capture.options import RecordingOptions
from pinprof.program.machine import Clock

MS = 1_000_000
TWO_OF_EACH = RecordingOptions(warmup=2, plain_steps=2, plain_seconds=0.0, plain_precision=inf, steps=2)


class FakeClock(Clock):
    """Moves on when told to, and notes when it was synchronized."""

    def __init__(self) -> None:
        super().__init__()
        self.time_ns = 0
        self.synchronized_at_ns: list[int] = []

    def now_ns(self) -> int:
        return self.time_ns

    def synchronize(self) -> None:
        self.synchronized_at_ns.append(self.time_ns)


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
