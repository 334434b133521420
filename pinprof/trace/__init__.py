"""Reads Kineto traces into tables: `read_trace(path) -> Trace`."""

from pinprof.trace.reader.read import read_trace
from pinprof.trace.tables import Trace

__all__ = ["Trace", "read_trace"]
