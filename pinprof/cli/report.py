"""`pinprof report` and `pinprof timeline`: what a trace shows."""

import shlex

import click

from pinprof.cli.terminal import check_outputs, force_option, say, write
from pinprof.cli.traces import jobs_option, measured_traces, one_trace, print_report, write_page

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


@click.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@click.option("--json", "json_file", metavar="FILE", help="Also write the report as JSON; - prints only that.")
@click.option("--html", "html_file", metavar="FILE", help="Also write a page with an interactive timeline.")
@jobs_option
@force_option
def report(traces: tuple[str, ...], json_file: str | None, html_file: str | None, *, force: bool) -> None:
    """Measure traces: steps, copies and their overlap, waits of the host, idle time of the GPU.

    TRACE is a Kineto (Chrome) trace, .json, .json.gz or .json.zst: a file, a URL (s3://, gs://, https://), - for
    standard input, or a folder or a quoted pattern of them, of which other files are skipped with a word. The numbers
    come first, then what they mean, then what to do. Times that the profiler inflates are never shown as the step's
    own.

    \b
    Examples:
      pinprof report trace.json.gz
      pinprof report 's3://bucket/run/*.json.gz'
      ssh host cat trace.json.gz | pinprof report -
      pinprof report trace.json.gz --html report.html
      pinprof report trace.json.gz --json - | jq '.traces[0].overlap'
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.report.json_report import to_json

    check_outputs((json_file, html_file), force=force)
    measured = list(measured_traces(traces))
    if "-" not in (json_file, html_file):
        for _, profile, findings in measured:
            print_report(profile, findings)
    if json_file:
        write(json_file, to_json([(profile, findings) for _, profile, findings in measured]))
    if html_file:
        write_page(html_file, measured)
    if not json_file and not html_file:
        say(f"Next: pinprof report {shlex.join(traces)} --html report.html")


@click.command()
@click.argument("trace", type=click.Path())
@click.option("-o", "--output", metavar="FILE", required=True, help="The page to write; - is standard output.")
@jobs_option
@force_option
def timeline(trace: str, output: str, *, force: bool) -> None:
    """Draw the interactive timeline of a trace: host threads above, GPU streams below.

    TRACE is one trace, a file, a URL or - for standard input, as for pinprof report.

    \b
    Examples:
      pinprof timeline trace.json.gz -o timeline.html
      pinprof timeline https://host/trace.json.gz -o timeline.html
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.report.html_report import timeline_page

    check_outputs((output,), force=force)
    ((recorded, profile, _),) = measured_traces([one_trace(trace)])
    write(output, timeline_page(recorded, profile))
