"""pinprof: why host-GPU copies do not hide behind kernels, and what makes the host wait.

with pinprof.profile("trace.json.gz") as p:     # records a training loop
    for batch in loader:
        train(batch)
        p.step()

trace = pinprof.read_trace("trace.json.gz")     # tables; `trace.gpu.to_pandas()`
profile = pinprof.measure(trace)                # steps, copies, overlap, waits, idle time
findings = pinprof.find(profile, trace)         # what to do about it

pinprof.predict(trace, pinprof.Scenario(pin=True))    # the step after a change of the code, by replay

report = pinprof.load("trace.json.gz")          # all of it, as a report that shows itself in a notebook
report.step_ms, report.step_range_ms, report.verdict
report.events                                   # each kernel, copy, call and op: a pandas DataFrame, in ms
report.kernels, report.waits, report.findings   # sums by name or line; and ops, steps, phases, idle, gpu, memory
report.whatif(drop_syncs="all").saving_ms       # the options of `pinprof whatif`
report.scalars()                                # its numbers by name, for a tracker of experiments
report.save("report.html")                      # or .json

pinprof.load("run/").ranks                      # the ranks of a job side by side
pinprof.compare("before.json.gz", "after.json.gz")  # what changed between two, the same way
pinprof.timeline(trace)                         # the timeline as a plotly figure, to be restyled
pinprof.profile_step(train_step, model, batch)  # the same of a step that is called and recorded here

with pinprof.guard():                           # finds host memory that is used before its copy has ended
    train(model, loader)

pinprof.step()                                  # ends a step in a script that `pinprof run` records

PYTEST_DONT_REWRITE: pytest loads pinprof's plugin, and would warn if the package is imported before pytest begins.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pinprof.ground.errors import CaptureError, PinprofError, TraceError, UnsafeCopyError
from pinprof.version import VERSION

if TYPE_CHECKING:
    from pinprof.capture.steps.sources import step
    from pinprof.capture.window.recording import profile
    from pinprof.measurement.measure import measure
    from pinprof.measurement.profile import Profile
    from pinprof.notebook import ComparisonReport, JobReport, Report, compare, load, profile_step, timeline
    from pinprof.prediction import Scenario, predict
    from pinprof.races.guard import Guard, UnsafeCopyWarning, guard
    from pinprof.rules.rule import Finding
    from pinprof.rules.search import find
    from pinprof.trace import Trace, read_trace

__version__ = VERSION

__all__ = [
    "CaptureError",
    "ComparisonReport",
    "Finding",
    "Guard",
    "JobReport",
    "PinprofError",
    "Profile",
    "Report",
    "Scenario",
    "Trace",
    "TraceError",
    "UnsafeCopyError",
    "UnsafeCopyWarning",
    "compare",
    "find",
    "guard",
    "load",
    "measure",
    "predict",
    "profile",
    "profile_step",
    "read_trace",
    "step",
    "timeline",
]

_NAMES_IN = {
    "pinprof.capture.steps.sources": ("step",),
    "pinprof.capture.window.recording": ("profile",),
    "pinprof.measurement.measure": ("measure",),
    "pinprof.measurement.profile": ("Profile",),
    "pinprof.notebook": ("ComparisonReport", "JobReport", "Report", "compare", "load", "profile_step", "timeline"),
    "pinprof.prediction": ("Scenario", "predict"),
    "pinprof.races.guard": ("Guard", "UnsafeCopyWarning", "guard"),
    "pinprof.rules.rule": ("Finding",),
    "pinprof.rules.search": ("find",),
    "pinprof.trace": ("Trace", "read_trace"),
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names}
"""The modules of the names that are imported on first use: torch, plotly and rich are slow to load, and reading and
measuring a trace need none of them; the plugin, which pytest loads in every run, does not even need numpy."""


def __getattr__(name: str) -> Any:
    """Import one of the names in `_MODULE_OF`, or the module `hta`."""
    if name == "hta":
        return import_module("pinprof.hta")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet."""
    return sorted({*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__", "hta"})
