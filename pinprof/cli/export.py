"""`pinprof export`: write the trace again with pinprof's own tracks, for Perfetto."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from pinprof.cli.options import jobs_option
from pinprof.cli.terminal import check_outputs, fail, force_option, progress, say, show
from pinprof.cli.traces import one_trace
from pinprof.urls import shown

GZIP_LEVEL = 2
"""Of isal's levels 0 to 3, the best that still packs faster than Perfetto unpacks."""
MEGABYTE = 10**6


@click.command(short_help="Write a trace again with pinprof's own tracks, for Perfetto.")
@click.argument("trace", type=click.Path())
@click.option(
    "-o", "--output", metavar="FILE", required=True, help="The trace to write, .json.gz or .json; - is standard output."
)
@jobs_option
@force_option
def export(trace: str, output: str, *, force: bool) -> None:
    """Write the trace again with pinprof's own tracks, to look at in Perfetto.

    Open the file at https://ui.perfetto.dev with "Open trace file", or drop it on that page. The page reads it in your
    browser: nothing is uploaded. The process "pinprof" is at its top:

    \b
      findings   each where it is at its worst, with what fixing it saves
      steps      also where Perfetto leaves out the marks of the profiler
      stalls     of each host thread, by cause, with the line and what the host waited for; an arrow leads
                 to the awaited GPU work
      bubbles    idle time of the GPU after a stall, and which stall
      idle       all idle time of the GPU, by cause
      exposed    copies during which no kernel runs, with the reason
      counters   share of the time with kernels, copies and both; GB/s of copies

    The bytes of the trace itself stay as they are. pinprof leaves out tracks for which the trace is not fit, and says
    so. TRACE is one trace, a file, a URL or - for standard input, as for pinprof report.

    \b
    Examples:
      pinprof export trace.json.gz -o annotated.json.gz
      ssh host cat trace.json.gz | pinprof export - -o annotated.json.gz
      pinprof export s3://bucket/trace.json.gz -o - | jq '.traceEvents | length'
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.trace.files import readable_twice

    check_outputs((output,), force=force, reads=(trace,))
    if output.lower().endswith(".zst"):
        fail(f"{output}: Perfetto cannot open zstd; name it .json.gz or .json")
    path = one_trace(trace)
    with readable_twice(path) as file:
        _export(file, shown(path), output)
    if output != "-":
        say(f"Wrote {output}")
        say("Next: open https://ui.perfetto.dev and drop the file on it; nothing is uploaded")


def _export(file: str, name: str, output: str) -> None:
    from dataclasses import replace

    from pinprof.analysis import analyse
    from pinprof.errors import TraceError
    from pinprof.report.perfetto import events, notes
    from pinprof.report.perfetto.tracks import CATEGORY
    from pinprof.report.words import capitalized
    from pinprof.trace import read_trace
    from pinprof.trace.files import open_trace
    from pinprof.trace.reader.append import WithEvents
    from pinprof.trace.reader.unpack import Unpacked

    with progress(f"reading {Path(name).name}") as tell:
        try:
            trace = replace(read_trace(file), path=name)
        except TraceError as error:
            raise TraceError(str(error).replace(file, name, 1)) from error  # a copy has another name
        if trace.counts.get(CATEGORY):
            fail(f"{name}: already has pinprof's tracks; export the original trace")
        tell(f"measuring {Path(name).name}")
        analysis = analyse(trace, None, lambda: tell(f"replaying {Path(name).name}"))
        remarks = notes(analysis)
    with open_trace(file) as stream:
        text = WithEvents(Unpacked(stream), lambda first: events(analysis, remarks, first))
        _write_text(_naming(name, text), output)
    for sentence in remarks:
        say(capitalized(sentence))
    if text.cut:
        say("The trace ends too early: the export stops after its last complete event")


def _naming(name: str, text: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a text, and add the name of its trace to errors."""
    from pinprof.errors import PinprofError

    try:
        yield from text
    except PinprofError as error:
        raise PinprofError(f"{name}: {error}") from error


def _write_text(text: Iterable[bytes], output: str) -> None:
    """Write a text whole or not at all, packed if the name says so; to standard output as it is."""
    from pinprof.errors import PinprofError
    from pinprof.outputs import opened

    with progress(f"writing {Path(output).name}") as tell:
        if output == "-":
            for piece in text:
                show(piece)
            return
        try:
            with opened(Path(output)) as file, _packed(file, output) as write:
                _copy(text, write, lambda done: tell(f"writing {Path(output).name}: {done / MEGABYTE:,.0f} MB"))
        except OSError as error:
            raise PinprofError(f"{output}: cannot be written ({error.strerror or error})") from error


def _copy(pieces: Iterable[bytes], write: Callable[[bytes], object], tell: Callable[[int], None]) -> None:
    done = 0
    for piece in pieces:
        write(piece)
        if done // MEGABYTE != (done + len(piece)) // MEGABYTE:
            tell(done + len(piece))
        done += len(piece)


@contextmanager
def _packed(file: BinaryIO, name: str) -> Iterator[Callable[[bytes], object]]:
    """Give a function that writes to an open file, packed if its name says so."""
    from isal import igzip

    if not name.lower().endswith(".gz"):
        yield file.write
        return
    packer: Any = igzip.IGzipFile
    with packer(filename="", mode="wb", fileobj=file, compresslevel=GZIP_LEVEL, mtime=0) as packed:
        yield packed.write
