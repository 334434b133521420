"""What pinprof stores in a trace file besides the trace."""

import gzip
import json
from pathlib import Path

import pytest
import torch

from pinprof.capture.window.trace_file import as_capture_error, store, write_trace
from pinprof.ground.errors import CaptureError


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_sections_stand_on_the_first_line_and_replace_those_of_the_same_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    opened = gzip.open if name.endswith(".gz") else open
    with opened(path, "wb") as file:
        file.write(b'{\n  "schemaVersion": 1,\n  "traceEvents": []\n}')

    store(path, {"pinprof_lines": [1], "pinprof_run": {"steps": 3}})
    store(path, {"pinprof_run": {"steps": 4}, "pinprof_host": None})

    with opened(path, "rb") as file:
        text = file.read()
    assert json.loads(text) == {
        "pinprof_lines": [1],
        "pinprof_run": {"steps": 4},
        "pinprof_host": None,
        "schemaVersion": 1,
        "traceEvents": [],
    }
    assert text.count(b"pinprof_run") == 1


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_trace_that_torch_could_not_write_is_not_a_file_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    profiler = torch.profiler.profile()
    monkeypatch.setattr(profiler, "export_chrome_trace", lambda _: None)
    with pytest.raises(CaptureError, match="torch could not write its trace"), as_capture_error("no"):
        write_trace(profiler, tmp_path / name)
