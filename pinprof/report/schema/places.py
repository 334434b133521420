"""Fields that several documents share: places, devices, and what rules and waits are called."""

from pinprof.report.schema.field import Fields, Record, count, maybe, text
from pinprof.trace.tables import HOST_MEMORIES

FILE = text("the file of the code, as it was recorded")
LINE = count("its line; only where it is certain")
FUNCTION = text("the function around it")
PLACE: Fields = {"file": maybe(FILE), "line": maybe(LINE), "function": maybe(FUNCTION)}
LIBRARY = Record("library", "The innermost function outside of torch, in a library that your line calls", PLACE)
DEVICE = Record("device", "A GPU", {"name": maybe(text("its name")), "index": count("its number in the process")})
FAMILIES = ("copies", "waits", "overlap", "input", "hazards", "launches", "gpu")
SEVERITIES = ("high", "medium", "low", "suspect")
SOURCES = ("measured", "given", "estimated")
BOUNDS = ("host", "gpu", "input", "communication")
THREADS = ("main", "autograd", "pin_memory", "other")
VERDICTS = ("hidden", "explicit", "benign", "profiler")
MEMORIES = HOST_MEMORIES[:-1]
"""Null stands for copies without a host side."""
