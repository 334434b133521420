"""Refuses files that are not traces, and guesses what they are, so that the user knows which file to give instead."""

import re
from collections.abc import Iterable

import msgspec

from pinprof.ground.errors import TraceError
from pinprof.trace.vendors import foreign_vendor

FIRST_BYTES = (
    (b"<", "an HTML or XML page; a download that needed a login ends as one"),
    (b"SQLite format 3\x00", "an SQLite database, such as nsys export and rocprofv3 write"),
    (b"NSYS", "a report of Nsight Systems"),
    (b"PK\x03\x04", "a zip archive, as torch.save writes, too; unpack it"),
    (b"BZh", "packed with bzip2; unpack it"),
    (b"\xfd7zXZ\x00", "packed with xz; unpack it"),
    *((b"\x80%c" % version, "a pickle, such as torch.cuda.memory._dump_snapshot writes") for version in range(2, 6)),
    *((mark, "text in UTF-16; iconv -f UTF-16 -t UTF-8 makes a trace of it") for mark in (b"\xff\xfe", b"\xfe\xff")),
    (b"version https://git-lfs", "a pointer of Git LFS; run git lfs pull"),
    (b'{"Type":', "an export of nsys as JSON lines"),
    (b'{"type":', "an export of nsys as JSON lines"),
)
"""The first bytes of kinds of files, and what such a file is."""
WHAT_IS_READ = "pinprof reads traces of torch.profiler: pinprof run records one"
PERFETTO = (
    "is a trace in Perfetto's own format; pinprof reads the JSON of torch.profiler: "
    "export_chrome_trace('trace.json.gz') writes it, and Perfetto's traceconv makes it of this file: "
    "traceconv json {} trace.json"
)
REFUSED_NAMES = (
    *((f".{name}{packed}", PERFETTO) for name in ("pftrace", "perfetto-trace") for packed in ("", ".gz")),
    (".py", "is a Python script, not a trace; to record it: pinprof run {}"),
    (".ipynb", "is a notebook, not a trace; pinprof.profile records a loop in one"),
)
"""The endings of names of files, and what such a file is; {} stands for the name."""
TENSORBOARD_NAME = "tfevents"
FILE_OF_TENSORBOARD = "is an event file of TensorBoard; the trace is a .pt.trace.json next to it, in plugins/profile"
TAR_MAGIC, TAR_AT = b"ustar", 257
KINETO_TOO = {
    *("gpu_user_annotation", "external_correlation", "cpu_instant_event", "cuda_event", "cuda_profiler_range"),
    *("collective_comm", "gpu_pm_counter", "trace"),
}
"""Categories of torch's events that pinprof does not read (libkineto/include/ActivityType.h)."""
TORCH_KEYS = re.compile(rb'"(?:schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds|pinprof)"')
"""Keys of files that torch.profiler writes, besides the events."""


def refused_name(path: str) -> str:
    """Return what a file is, by its name; empty if it may be a trace."""
    name = path.replace("\\", "/").rpartition("/")[2]
    if TENSORBOARD_NAME in name and not name.endswith((".json", ".json.gz")):
        return FILE_OF_TENSORBOARD
    return next((what.format(path) for end, what in REFUSED_NAMES if name.endswith(end)), "")


def what_it_seems(data: bytes) -> str:
    """Return " (it looks like ...)" if the bytes of a file show what it is, otherwise an empty text."""
    guess = _by_bytes(data) or _of_document(data)
    return f" (it looks like {guess})" if guess else ""


def _by_bytes(data: bytes) -> str:
    text = data.lstrip()
    if guess := next((what for start, what in FIRST_BYTES if text.startswith(start)), ""):
        return guess
    if data[TAR_AT:].startswith(TAR_MAGIC):
        return "a tar archive; unpack it (tar xzf, or tar xf), and name the traces in it or their folder"
    if data.startswith(b"\n") and not _is_text(data[:START_BYTES]):
        return "a protobuf, as Perfetto and TensorFlow's profiler write; traceconv json makes JSON of Perfetto's"
    return ""


def other_profiler(categories: Iterable[str], start: bytes, around: bytes) -> str:
    """Say that torch did not write a file with these categories of events, its start and its text around the events."""
    if any(name.lower() in KINETO_TOO or foreign_vendor(name) for name in categories):
        return ""
    if TORCH_KEYS.search(start) or TORCH_KEYS.search(around):
        return ""
    return f"is a trace of another program, without any event of torch.profiler; {WHAT_IS_READ}"


def _of_document(data: bytes) -> str | None:
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(document, dict) and "nodes" in document and "schema" in document:
        return "an execution graph, which ExecutionTraceObserver writes"
    if isinstance(document, list) and document and isinstance(document[0], list):
        return "a memory timeline, which export_memory_timeline writes"
    if isinstance(document, dict) and str(document.get("schema", "")).startswith("pinprof."):
        return "a report of pinprof, not the trace that it is about"
    return None


WHAT_A_TRACE_IS = "a trace is what torch.profiler's export_chrome_trace writes"
START_BYTES = 1 << 19  # how much of a file is looked at: a trace begins within it, whatever was written before it
BOM = b"\xef\xbb\xbf"
CONTROL_BYTES = bytes(set(range(32)) - set(b"\t\n\r"))
MAX_CONTROL_SHARE = 0.05
"""Text has a smaller share of control characters than this, however broken its names; random bytes have 11 %."""


def check_start(data: bytes) -> None:
    """Raise TraceError if no trace begins with these unpacked bytes; text that is shorter is not judged."""
    is_json = data.removeprefix(BOM).lstrip().startswith((b"{", b"["))
    may_be_one = len(data) < START_BYTES or (_is_text(data) and (is_json or b'"traceEvents"' in data))
    if may_be_one and (is_json or not _by_bytes(data)):
        return
    raise TraceError(f"is not JSON{what_it_seems(data)}; {WHAT_A_TRACE_IS}")


def _is_text(data: bytes) -> bool:
    return len(data) - len(data.translate(None, CONTROL_BYTES)) < MAX_CONTROL_SHARE * len(data)
