"""One call to record or to read, and a report that shows itself: for notebooks and Python sessions."""

import html
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pinprof.compare import Comparison
from pinprof.compare import compare as compared
from pinprof.errors import PinprofError
from pinprof.measure import Profile, measure
from pinprof.outputs import write_whole
from pinprof.report import compare_json, compare_page, compare_text
from pinprof.report.console import to_text
from pinprof.report.html_report import to_html
from pinprof.report.json_report import to_json
from pinprof.rules import Findings, find
from pinprof.trace import Trace, read_trace

FRAME_HEIGHT = "800px"
"""Of the report in a notebook: the numbers, the findings and the head of the timeline on a usual screen."""


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A trace, its measurements and findings; prints as the console's text, shows as the page in a notebook."""

    trace: Trace
    profile: Profile
    findings: Findings

    def __str__(self) -> str:
        return to_text(self.profile, self.findings)

    def __repr__(self) -> str:
        return f"<pinprof report on {self.profile.path!r}: {len(self.findings)} findings; print it>"

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own."""
        return _framed(self._page(), "pinprof report")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002  IPython's protocol
        """Print the report where IPython has a terminal only."""
        printer.text(str(self))

    def html(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the page with the interactive timeline; PinprofError if `path` exists and `force` is not set."""
        _write(Path(path), self._page(), force=force)

    def json(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the report as JSON; PinprofError if `path` exists and `force` is not set."""
        _write(Path(path), to_json([(self.profile, self.findings)]), force=force)

    def _page(self) -> str:
        return to_html([(self.trace, self.profile, self.findings)])


def analyze(source: str | os.PathLike[str] | Trace) -> Report:
    """Return the report on a trace, or on the file or URL of one; TraceError if that cannot be read as a trace."""
    trace = source if isinstance(source, Trace) else read_trace(os.fspath(source))
    profile = measure(trace)
    return Report(trace, profile, find(profile, trace))


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonReport:
    """Two traces and what changed; prints as the console's text, shows as the page in a notebook."""

    before: Report
    after: Report
    comparison: Comparison

    def __str__(self) -> str:
        return compare_text.to_text(self.comparison)

    def __repr__(self) -> str:
        paths = f"{self.before.profile.path!r} and {self.after.profile.path!r}"
        return f"<pinprof comparison of {paths}: {self.comparison.verdict}; print it>"

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own."""
        return _framed(self._page(), "pinprof comparison")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002  IPython's protocol
        """Print the comparison where IPython has a terminal only."""
        printer.text(str(self))

    def html(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the page with both timelines; PinprofError if `path` exists and `force` is not set."""
        _write(Path(path), self._page(), force=force)

    def json(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the comparison as JSON; PinprofError if `path` exists and `force` is not set."""
        _write(Path(path), compare_json.to_json(self.comparison), force=force)

    def _page(self) -> str:
        return compare_page.to_html(self.before.trace, self.after.trace, self.comparison)


def compare(
    before: str | os.PathLike[str] | Trace | Report, after: str | os.PathLike[str] | Trace | Report
) -> ComparisonReport:
    """Return what changed between two traces, each a file, a URL, a Trace, or the report on one.

    TraceError if a file cannot be read as a trace.
    """
    old, new = (side if isinstance(side, Report) else analyze(side) for side in (before, after))
    sides = [(side.trace, side.profile, side.findings) for side in (old, new)]
    return ComparisonReport(old, new, compared(*sides))


def _framed(page: str, title: str) -> str:
    """Return a page in a frame of its own, so that neither its styles nor its scripts reach the notebook's."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" title="{title}" width="100%" height="{FRAME_HEIGHT}" '
        f'sandbox="allow-scripts allow-downloads" style="width: 100%; height: {FRAME_HEIGHT}; border: 0"></iframe>'
    )


def profile_step(
    fn: Callable[..., object],
    *args: Any,
    steps: int = 5,
    path: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Report:
    """Return the report on the training step `fn(*args)`, called until the step is timed and `steps` are recorded.

        pinprof.profile_step(train_step, model, batch)

    The `options` are those of `profile()`. Without `path` the trace is removed once it is read. What `fn` raises passes
    through; a trace at `path` then holds the steps that were recorded until it did, if any.

    Raises CaptureError as `profile()` does.
    """
    options = {"on_progress": _say_window, **options, "steps": steps}
    if path is not None:
        return analyze(_recorded(fn, args, Path(path), options))
    with tempfile.TemporaryDirectory(prefix="pinprof-") as folder:
        trace = _recorded(fn, args, Path(folder) / "trace.json", options)
    name = getattr(fn, "__qualname__", type(fn).__name__)
    return analyze(replace(trace, path=name))  # a name says more than the path of a file that is gone


def _recorded(fn: Callable[..., object], args: tuple[Any, ...], path: Path, options: dict[str, Any]) -> Trace:
    from pinprof.capture.profiling import profile  # noqa: PLC0415  loads torch, which reading does not need

    with profile(path, **options) as recording:
        while not recording.done:
            fn(*args)
            recording.step()
    return read_trace(recording.path)


def _say_window(window: str, step: int, of: int) -> None:
    """Name each window on the terminal as it begins; a line per step would cost the step time."""
    if step == 1 and sys.stderr.isatty():
        print(f"pinprof: {window} ({of} step{'s' * (of != 1)})", file=sys.stderr)  # noqa: T201


def _write(path: Path, text: str, *, force: bool) -> None:
    if path.exists() and not force:
        raise PinprofError(f"{path}: exists already; choose another name or overwrite it with force=True")
    write_whole(path, text)
