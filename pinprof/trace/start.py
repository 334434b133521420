"""Refuses what is not a trace by how it begins: a device or a pipe may never end."""

from pinprof.errors import TraceError
from pinprof.trace.guess import what_it_seems

START_BYTES = 1 << 19
"""How much of a file is looked at: a trace begins somewhere in it, whatever was written before it."""
BOM = b"\xef\xbb\xbf"
CONTROL = bytes(set(range(32)) - set(b"\t\n\r"))
MOST_CONTROL = 0.05
"""Text holds a smaller share of control characters, be its names never so broken; random bytes hold 11 %."""


def check_start(data: bytes) -> None:
    """Raise TraceError if no trace begins with these unpacked bytes; a file that ends here is not judged."""
    if len(data) < START_BYTES or (_is_text(data) and _may_begin_a_trace(data)):
        return
    raise TraceError(f"is not JSON{what_it_seems(data)}; a trace is what torch.profiler's export_chrome_trace writes")


def _is_text(data: bytes) -> bool:
    return len(data) - len(data.translate(None, CONTROL)) < MOST_CONTROL * len(data)


def _may_begin_a_trace(data: bytes) -> bool:
    return data.removeprefix(BOM).lstrip().startswith((b"{", b"[")) or b'"traceEvents"' in data
