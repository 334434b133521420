"""`pinprof export`: the trace again with pinprof's tracks, whole or not at all."""

import gzip
import json
from pathlib import Path

import pytest
from command_line import invoke, is_one_line_error
from recordings import TRACES

from pinprof.ground.errors import TraceError

RECORDED = TRACES / "loss_item.stack.json.gz"


def test_a_trace_is_written_with_tracks_and_the_way_on_is_said(trace: Path, tmp_path: Path) -> None:
    result = invoke("export", trace, "-o", tmp_path / "out.json.gz")
    assert result.exit_code == 0
    assert result.stdout == ""
    *_, wrote, following = result.stderr.splitlines()
    assert wrote == f"Wrote {tmp_path / 'out.json.gz'}"
    assert following == "Next: open https://ui.perfetto.dev and drop the file on it; nothing is uploaded"
    events = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))["traceEvents"]
    assert events[: 4 * 5] == json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    assert {"exposed: pageable", "pageable_copy"} <= {
        event["name"] for event in events if event.get("cat") == "pinprof"
    }
    invoke("export", trace, "-o", tmp_path / "again.json.gz")
    assert (tmp_path / "again.json.gz").read_bytes() == (tmp_path / "out.json.gz").read_bytes()


def test_a_plain_name_gives_a_plain_file_and_a_dash_standard_output(trace: Path, tmp_path: Path) -> None:
    assert invoke("export", trace, "-o", tmp_path / "out.json").exit_code == 0
    printed = invoke("export", trace, "-o", "-")
    assert printed.exit_code == 0
    assert printed.stdout_bytes == (tmp_path / "out.json").read_bytes()
    assert json.loads(printed.stdout)["traceEvents"]
    assert invoke("export", "-", "-o", "-", given=trace.read_bytes()).stdout_bytes == printed.stdout_bytes
    assert "Wrote" not in printed.stderr
    assert "Next" not in printed.stderr


def test_a_trace_that_was_cut_off_is_closed_and_said(tmp_path: Path) -> None:
    data = gzip.decompress(RECORDED.read_bytes())
    (tmp_path / "cut.json").write_bytes(data[: len(data) * 9 // 10])
    result = invoke("export", tmp_path / "cut.json", "-o", tmp_path / "out.json")
    assert result.exit_code == 0
    assert "stops after its last complete event" in result.stderr
    assert json.loads((tmp_path / "out.json").read_text())["traceEvents"]


def test_nothing_is_left_behind_if_it_fails_half_way(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: bytes) -> None:
        raise TraceError("ends in the middle")

    monkeypatch.setattr("pinprof.trace.reader.append._split", fail)
    result = invoke("export", trace, "-o", tmp_path / "out.json.gz")
    assert is_one_line_error(result)
    assert f"{trace}: ends in the middle" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json.gz"]
