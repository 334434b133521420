"""pinprof: why host-GPU copies do not hide behind kernels, and what makes the host wait.

with pinprof.profile("trace.json.gz") as p:     # records a training loop
    for batch in loader:
        train(batch)
        p.step()

trace = pinprof.read_trace("trace.json.gz")     # tables; `trace.gpu.to_pandas()`
profile = pinprof.measure(trace)                # steps, copies, overlap, waits, idle time
findings = pinprof.find(profile, trace)         # what to do about it

pinprof.analyze("trace.json.gz")                # all of it, as a report that shows itself in a notebook
pinprof.profile_step(train_step, model, batch)  # the same of a step that is called and recorded here
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pinprof.errors import CaptureError, PinprofError, TraceError
from pinprof.measure import Profile, measure
from pinprof.rules import Finding, find
from pinprof.trace import Trace, read_trace

if TYPE_CHECKING:
    from pinprof.capture.markers import step
    from pinprof.capture.profiling import profile
    from pinprof.notebook import Report, analyze, profile_step

__all__ = [
    "CaptureError",
    "Finding",
    "PinprofError",
    "Profile",
    "Report",
    "Trace",
    "TraceError",
    "analyze",
    "find",
    "measure",
    "profile",
    "profile_step",
    "read_trace",
    "step",
]

_ROOMS = {
    "Report": "pinprof.notebook",
    "analyze": "pinprof.notebook",
    "profile": "pinprof.capture.profiling",
    "profile_step": "pinprof.notebook",
    "step": "pinprof.capture.markers",
}
"""Where the names are that are imported when first asked for: torch, plotly and rich are slow to load, and reading and
measuring a trace need none of them."""


def __getattr__(name: str) -> Any:
    """Import one of the names in `_ROOMS`."""
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)
