"""The command line: parse, call, print or write; the only room that knows the terminal."""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from pinprof.errors import PinprofError, TraceError

UNUSABLE = 2
"""Exit code for unusable input and wrong usage."""


class _Commands(click.Group):
    """The commands, with errors as one line in exactly one place."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PinprofError as error:
            _fail(str(error))


def _fail(message: str) -> NoReturn:
    click.echo(f"Error: {_one_line(message)}", err=True)
    sys.exit(UNUSABLE)


def _one_line(message: str) -> str:
    return "".join(character if character.isprintable() else " " for character in message)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="pinprof")
def main() -> None:
    """Show why host-GPU copies do not hide behind kernels, and which line makes the host wait.

    \b
    Record a training script and look at it (needs a GPU to be of use):
      pinprof run train.py --epochs 1
    Look at a trace that torch.profiler's export_chrome_trace wrote:
      pinprof report trace.json.gz
      pinprof report trace.json.gz --html report.html
    """


force_option = click.option("--force", is_flag=True, help="Overwrite output files that exist.")


@main.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@click.option("--json", "json_file", metavar="FILE", help="Also write the report as JSON; - prints it instead.")
@click.option("--html", "html_file", metavar="FILE", help="Also write a page with tables and an interactive timeline.")
@force_option
def report(traces: tuple[str, ...], json_file: str | None, html_file: str | None, force: bool) -> None:
    """Measure traces: steps, copies and their overlap, waits of the host, idle time of the GPU.

    TRACE is a Kineto (Chrome) trace, .json or .json.gz, or a folder of traces. The report gives the numbers first, then
    what they mean, then what to do.

    \b
    Examples:
      pinprof report trace.json.gz
      pinprof report trace.json.gz --html report.html
      pinprof report trace.json.gz --json - | jq '.traces[0].overlap'
    """
    from pinprof.measure import measure  # noqa: PLC0415  numpy is not needed for --help
    from pinprof.report.json_report import to_json  # noqa: PLC0415
    from pinprof.rules import find  # noqa: PLC0415
    from pinprof.trace import read_trace  # noqa: PLC0415

    check_outputs([json_file, html_file], force=force)
    quiet = "-" in (json_file, html_file)
    paths = _trace_files(traces)
    measured = []
    for number, path in enumerate(paths, start=1):
        with _progress(f"reading {Path(path).name} ({number} of {len(paths)})"):
            trace = read_trace(path)
            profile = measure(trace)
            measured.append((trace, profile, find(profile, trace)))
    if not quiet:
        for _, profile, findings in measured:
            print_report(profile, findings)
    if json_file:
        _write(json_file, to_json([(profile, findings) for _, profile, findings in measured]))
    if html_file:
        from pinprof.report.html_report import to_html  # noqa: PLC0415  plotly is heavy

        with _progress("drawing the timeline"):
            page = to_html(measured)
        _write(html_file, page)
    if not quiet and not html_file:
        click.echo(f"\nNext: pinprof report {_quoted(traces)} --html report.html", err=True)


def _quoted(words: Sequence[str]) -> str:
    import shlex  # noqa: PLC0415

    return shlex.join(words)
