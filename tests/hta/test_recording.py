import gzip
import json
from pathlib import Path

import pytest
from recordings import TRACES

from pinprof.hta.recording import read_recording
from pinprof.trace.reader import blocks


@pytest.mark.slow
@pytest.mark.parametrize("block_bytes", [2000, 20_000, 4 << 20])
@pytest.mark.parametrize("name", ["mask_loss", "loss_item.stack"])
def test_rows_tell_which_entries_of_the_file_they_are(
    name: str, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
    path = TRACES / f"{name}.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    expected = {place: event for place, event in enumerate(events) if event["ph"] == "X" and event["cat"] != "Trace"}
    recording = read_recording(str(path))
    assert recording.rows.entry.tolist() == list(expected)
    assert [recording.names[code] for code in recording.rows.name] == [event["name"] for event in expected.values()]
    args = [event.get("args", {}) for event in expected.values()]
    assert recording.id("external_id").tolist() == [arg.get("External id", -1) for arg in args]
    bandwidths = [str(arg.get("memory bandwidth (GB/s)", "")) for arg in args]
    assert [recording.names[code] if code >= 0 else "" for code in recording.text("bandwidth")] == bandwidths


def test_rows_tell_their_entries_in_a_file_read_in_one_piece(tmp_path: Path) -> None:
    path = TRACES / "mask_loss.json.gz"
    document = json.loads(gzip.decompress(path.read_bytes()))
    events = [dict(reversed(event.items())) for event in document["traceEvents"]]  # none begins with "ph"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document | {"traceEvents": events}))
    one, two = read_recording(str(path)), read_recording(str(other))
    assert one.rows.entry.tolist() == two.rows.entry.tolist()
    assert one.rows.start_ns.tolist() == two.rows.start_ns.tolist()
    assert one.metadata == two.metadata
