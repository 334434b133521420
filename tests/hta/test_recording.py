import gzip
import json
from pathlib import Path

from recordings import TRACES

from pinprof.hta.recording import read_recording


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
