"""The noted run in a trace file."""

from pathlib import Path
from typing import Any

import pytest
from trace_builder import TraceBuilder

from pinprof.capture.window.trace_file import store
from pinprof.trace import read_trace
from pinprof.trace.metadata.run_log import RUN_KEY, IrregularWork, RunLog, run_of_metadata

LOG = RunLog(1, (("plain", 2),), (3, 4), (0, 0), (1, 0), (0, 5), 6, work=(IrregularWork(1, "checkpoint", 2),))


def test_it_is_read_as_it_was_stored(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 10, launch=0)
    path = builder.write(tmp_path / "t.json.gz")
    assert read_trace(path).run is None
    store(path, {RUN_KEY: LOG})
    assert read_trace(path).run == LOG


@pytest.mark.parametrize(
    "change",
    [
        {"step_ns": [3]},
        {"step_ns": [3, -4]},
        {"step_ns": [3, 10**30]},
        {"gpu_ns": ["x", 1]},
        {"windows": [["plain", 3]]},
        {"windows": [["plain", -1], ["plain", 3]]},
        {"work": [{"step": 9, "kind": "checkpoint"}]},
        {"work": [{"step": 0, "kind": "checkpoint", "place": 5}]},
        {"after_ns": None},
        {"after_ns": 1e400},
        {"later": {"steps": -1}},
    ],
)
def test_a_malformed_one_is_none(change: dict[str, Any]) -> None:
    sound = {
        "start_up_ns": 1,
        "windows": [["plain", 2]],
        "step_ns": [3, 4],
        "own_ns": [0, 0],
        "input_ns": [0, 0],
        "gpu_ns": [0, 0],
        "after_ns": 1,
    }
    assert run_of_metadata(sound) is not None
    assert run_of_metadata(sound | change) is None
