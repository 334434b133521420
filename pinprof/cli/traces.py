"""Traces as commands need them: read, measured, and reported on."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinprof.cli.terminal import fail, page_options, printable, progress, say, write

if TYPE_CHECKING:
    from pinprof.measure import Profile
    from pinprof.rules import Findings
    from pinprof.trace import Trace

TRACE_SUFFIXES = (".json", ".json.gz")

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


def measured_traces(paths: Sequence[str]) -> "Iterator[tuple[Trace, Profile, Findings]]":
    """Yield each trace with its measurements and findings; of a folder what is no trace is skipped with a word."""
    from pinprof.errors import TraceError
    from pinprof.measure import measure
    from pinprof.rules import find
    from pinprof.trace import read_trace

    for argument in paths:
        inside = _traces_in(argument) if Path(argument).is_dir() else None
        usable = 0
        for number, path in enumerate(inside or [argument], start=1):
            with progress(f"reading {Path(path).name}" + (f" ({number} of {len(inside)})" if inside else "")):
                try:
                    trace = read_trace(path)
                except TraceError as error:
                    if inside is None:
                        raise
                    say(f"Skipped: {printable(str(error))}")
                    continue
                profile = measure(trace)
                findings = find(profile, trace)
            usable += 1
            yield trace, profile, findings
        if not usable:
            raise TraceError(f"{argument}: no file in this folder is a trace")


def _traces_in(folder: str) -> list[str]:
    """Return the files in a folder that may be traces, by their names."""
    inside = sorted(str(path) for path in Path(folder).iterdir() if path.name.endswith(TRACE_SUFFIXES))
    if not inside:
        fail(f"{folder}: no trace in this folder; traces end in {' or '.join(TRACE_SUFFIXES)}")
    return inside


def print_report(profile: "Profile", findings: "Findings") -> None:
    """Print the report on a trace, as wide as the terminal."""
    from pinprof.report.console import to_text

    width, color = page_options()
    click.echo(to_text(profile, findings, width=width, color=color))


def write_page(path: str, measured: "Sequence[tuple[Trace, Profile, Findings]]") -> None:
    """Write the page on the traces, and say so."""
    from pinprof.report.html_report import to_html

    with progress("drawing the page"):
        page = to_html(measured)
    write(path, page)
