"""`pinprof export`: write the trace again with pinprof's own tracks, for Perfetto."""

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

import click

from pinprof.cli.terminal import check_outputs, fail, force_option, progress, say, show
from pinprof.cli.traces import one_trace
from pinprof.urls import shown

EXPORT_GZIP_LEVEL = 2
"""Of isal's levels 0 to 3, the best that still packs faster than Perfetto unpacks."""


@click.command(short_help="Write a trace again with pinprof's own tracks, for Perfetto.")
@click.argument("trace", type=click.Path())
@click.option(
    "-o", "output", metavar="FILE", required=True, help="The trace to write, .json.gz or .json; - is standard output."
)
@force_option
def export(trace: str, output: str, *, force: bool) -> None:
    """Write the trace again with pinprof's own tracks, to look at in Perfetto.

    Open the file at https://ui.perfetto.dev with "Open trace file", or drop it on that page. The page reads it in your
    browser: nothing is uploaded. The process "pinprof" is at its top:

    \b
      stalls     of each host thread, by cause, with the line and what the host waited for
      idle       all idle time of the GPU, by cause
      exposed    copies during which no kernel runs, with the reason

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
    from pinprof.analysis import analyse
    from pinprof.errors import TraceError
    from pinprof.report.perfetto import SLICE_CATEGORY, events, notes
    from pinprof.report.words import capitalized
    from pinprof.trace import read_trace
    from pinprof.trace.files import open_trace
    from pinprof.trace.reader.append import with_events
    from pinprof.trace.reader.unpack import Unpacked

    sentences: list[str] = []
    try:
        with progress(f"reading {Path(name).name}") as update:
            trace = replace(read_trace(file), path=name)
            if trace.counts.get(SLICE_CATEGORY):
                fail(f"{name}: already has pinprof's tracks; export the original trace")
            update(f"measuring {Path(name).name}")
            analysis = analyse(trace, None, lambda: update(f"replaying {Path(name).name}"))
            sentences += map(capitalized, notes(analysis))
        with open_trace(file) as stream, progress(f"writing {Path(output).name}"):
            ends_early = "The trace ends too early: the export stops after its last complete event"
            text = with_events(Unpacked(stream), events(analysis), lambda: sentences.append(ends_early))
            _write_text(text, output)
    except TraceError as error:
        raise TraceError(f"{name}: {str(error).removeprefix(f'{file}: ')}") from error  # a copy has another name
    for sentence in sentences:
        say(sentence)


def _write_text(text: Iterable[bytes], output: str) -> None:
    """Write a text whole or not at all, packed if the name says so; to standard output as it is."""
    from isal import igzip

    from pinprof.errors import PinprofError
    from pinprof.outputs import opened

    if output == "-":
        for piece in text:
            show(piece)
        return
    options = {"mode": "wb", "compresslevel": EXPORT_GZIP_LEVEL, "mtime": 0}
    is_packed = output.lower().endswith(".gz")
    try:
        with (
            opened(Path(output)) as plain,
            igzip.IGzipFile("", fileobj=plain, **options) if is_packed else nullcontext(plain) as file,
        ):
            cast("BinaryIO", file).writelines(text)
    except OSError as error:
        raise PinprofError(f"{output}: cannot be written ({error.strerror or error})") from error
