"""pinprof: why host-GPU copies do not hide behind kernels, and what makes the host wait.

with pinprof.profile("trace.json.gz") as p:     # records a training loop
    for batch in loader:
        train(batch)
        p.step()

trace = pinprof.read_trace("trace.json.gz")     # tables; `trace.gpu.to_pandas()`
profile = pinprof.measure(trace)                # steps, copies, overlap, waits, idle time
findings = pinprof.find(profile, trace)         # what to do about it
"""

from typing import TYPE_CHECKING, Any

from pinprof.errors import CaptureError, PinprofError, TraceError
from pinprof.measure import Profile, measure
from pinprof.rules import Finding, find
from pinprof.trace import Trace, read_trace

if TYPE_CHECKING:
    from pinprof.capture.profiling import profile

__all__ = [
    "CaptureError",
    "Finding",
    "PinprofError",
    "Profile",
    "Trace",
    "TraceError",
    "find",
    "measure",
    "profile",
    "read_trace",
]


def __getattr__(name: str) -> Any:
    """Import `profile` when it is first asked for: torch is slow to load, and reading a trace does not need it."""
    if name != "profile":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pinprof.capture.profiling import profile  # noqa: PLC0415

    return profile
