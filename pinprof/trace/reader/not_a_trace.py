"""Refuses files that are not traces, and guesses what they are, so that the user knows which file to give instead."""

import msgspec

from pinprof.errors import TraceError

STARTS = (
    (b"<", "an HTML or XML page; a download that needed a login ends as one"),
    (b"SQLite format 3\x00", "an SQLite database, such as nsys export writes"),
    (b"NSYS", "a report of Nsight Systems"),
    (b"NVR\x00", "a report of Nsight Compute"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it"),
    (b"BZh", "packed with bzip2; unpack it"),
    (b"\xfd7zXZ\x00", "packed with xz; unpack it"),
    (b"\x04\x22\x4d\x18", "packed with lz4; unpack it"),
    (b"\x80\x04\x95", "a pickle, such as torch.cuda.memory._dump_snapshot writes"),
    (b"\x7fELF", "a program"),
    (b"PAR1", "a Parquet file"),
    (b"\x89PNG", "a picture"),
    (b"version https://git-lfs", "a pointer of Git LFS; run git lfs pull"),
    (b'{"Type":', "an export of nsys as JSON lines"),
    (b'{"type":', "an export of nsys as JSON lines"),
)
"""The first bytes of kinds of files, and what such a file is."""
ANOTHER = "pinprof reads traces of torch.profiler: pinprof run records one"
PERFETTO = (
    "is a trace in Perfetto's own format; pinprof reads the JSON of torch.profiler: "
    "export_chrome_trace('trace.json.gz') writes it, and Perfetto's traceconv makes it of this file: "
    "traceconv json {} trace.json"
)
NAMES = (
    *((f".{name}{packed}", PERFETTO) for name in ("pftrace", "perfetto-trace") for packed in ("", ".gz")),
    (".py", "is a Python script, not a trace; to record it: pinprof run {}"),
    (".nsys-rep", f"is a report of Nsight Systems; {ANOTHER}"),
    (".qdrep", f"is a report of Nsight Systems; {ANOTHER}"),
    (".ncu-rep", f"is a report of Nsight Compute; {ANOTHER}"),
    (".ipynb", "is a notebook, not a trace; pinprof.profile records a loop in one"),
)
"""The endings of names of files, and what such a file is; {} stands for the name."""
EVENTS = "tfevents"
OF_TENSORBOARD = "is an event file of TensorBoard; the trace is a .pt.trace.json next to it, in plugins/profile"
TAR_MAGIC, TAR_AT = b"ustar", 257


def refused_name(path: str) -> str:
    """Return what a file is, by its name; empty if it may be a trace."""
    name = path.replace("\\", "/").rpartition("/")[2]
    if EVENTS in name and not name.endswith((".json", ".json.gz")):
        return OF_TENSORBOARD
    return next((what.format(path) for end, what in NAMES if name.endswith(end)), "")


def what_it_seems(data: bytes) -> str:
    """Return " (it looks like ...)" if the bytes of a file show what it is, otherwise an empty text."""
    text = data.lstrip()
    guess = next((what for start, what in STARTS if text.startswith(start)), None)
    if data[TAR_AT : TAR_AT + len(TAR_MAGIC)] == TAR_MAGIC:
        guess = "a tar archive; unpack it"
    guess = guess or _of_document(data)
    return f" (it looks like {guess})" if guess else ""


def _of_document(data: bytes) -> str | None:
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(document, dict) and "nodes" in document and "schema" in document:
        return "an execution graph, which ExecutionTraceObserver writes"
    if isinstance(document, list) and document and isinstance(document[0], list):
        return "a memory timeline, which export_memory_timeline writes"
    if isinstance(document, dict) and "segments" in document:
        return "a memory snapshot"
    if isinstance(document, dict) and str(document.get("schema", "")).startswith("pinprof."):
        return "a report of pinprof, not the trace that it is about"
    return None


WRITES = "a trace is what torch.profiler's export_chrome_trace writes"
START_BYTES = 1 << 19
"""How much of a file is looked at: a trace begins within it, whatever was written before it."""
BOM = b"\xef\xbb\xbf"
CONTROL = bytes(set(range(32)) - set(b"\t\n\r"))
MOST_CONTROL = 0.05
"""Text has a smaller share of control characters than this, however broken its names; random bytes have 11 %."""


def check_start(data: bytes) -> None:
    """Raise TraceError if no trace begins with these unpacked bytes; a file that is shorter is not judged."""
    if len(data) < START_BYTES or (_is_text(data) and _may_begin_a_trace(data)):
        return
    raise TraceError(f"is not JSON{what_it_seems(data)}; {WRITES}")


def _is_text(data: bytes) -> bool:
    return len(data) - len(data.translate(None, CONTROL)) < MOST_CONTROL * len(data)


def _may_begin_a_trace(data: bytes) -> bool:
    return data.removeprefix(BOM).lstrip().startswith((b"{", b"[")) or b'"traceEvents"' in data
