"""`pinprof compare`: show what changed between two traces."""

import shlex

import click

from pinprof.cli.terminal import (
    check_outputs,
    fail,
    force_option,
    json_option,
    progress,
    say,
    show_text,
    write,
)
from pinprof.cli.traces import analysing, one_trace, read, refuse_two_inputs
from pinprof.urls import STANDARD_INPUT


@click.command(short_help="Show what changed between two traces.")
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path())
@json_option("the comparison")
@click.option("--brief", is_flag=True, help="With --json: only what changed, in at most 6 kB.")
@click.option("--html", "html_file", metavar="FILE", help="Also write a page with both timelines on one time axis.")
@click.option("--full", is_flag=True, help="Print all tables: figures, copies, waits and findings.")
@force_option
def compare(
    before: str, after: str, json_file: str | None, html_file: str | None, *, brief: bool, full: bool, force: bool
) -> None:
    """Show what changed between the traces BEFORE and AFTER: the step, copies and their overlap, waits, findings.

    A difference counts if it exceeds the noise, which is the spread over the steps of the recordings. The spread of a
    step that pinprof run measured without the profiler is its 10th to its 90th percentile; that of an estimated step
    is the range of the estimate. Waits and findings match by cause, file, function and op, because lines move with
    every edit; one that is in another function of AFTER has moved. pinprof does not compare figures that a trace is not
    fit for, and says why.

    BEFORE and AFTER are each one trace: a file, a URL or - for standard input, as for pinprof report.

    \b
    Examples:
      pinprof compare before.json.gz after.json.gz
      pinprof compare before.json.gz after.json.gz --full
      pinprof compare before.json.gz after.json.gz --html compare.html
      pinprof compare before.json.gz after.json.gz --json | jq .sentence
      pinprof compare before.json.gz after.json.gz --json --brief
      ssh host cat after.json.gz | pinprof compare before.json.gz -
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.comparison import compare as compared

    if brief and not json_file:
        fail("--brief is about the JSON; add --json")
    check_outputs((json_file, html_file), force=force, reads=(before, after))
    refuse_two_inputs((before, after))
    old, new = (read(one_trace(side), analysing()) for side in (before, after))
    comparison = compared(old, new)
    if "-" not in (json_file, html_file):
        from pinprof.report.comparison.text import comparison_to_text, to_brief

        show_text(comparison_to_text if full else to_brief, comparison, end="" if full else "\n")
    if json_file:
        from pinprof.report.comparison.json import comparison_to_brief_json, comparison_to_json

        write(json_file, (comparison_to_brief_json if brief else comparison_to_json)(comparison))
    if html_file:
        from pinprof.report.comparison.page import to_html

        with progress("drawing the page"):
            page = to_html(old, new, comparison)
        write(html_file, page)
    if not json_file and not html_file and STANDARD_INPUT not in (before, after):
        say(f"Next: pinprof compare {shlex.join((before, after))} --html compare.html")
