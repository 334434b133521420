"""What pinprof stores in a trace file beside the trace."""

import gzip
import json
from pathlib import Path

import pytest

from pinprof.capture.sections import store


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
