"""`pinprof report` and `pinprof timeline`: what a trace shows."""

import shlex
from typing import TYPE_CHECKING

import click

from pinprof.cli.terminal import check_outputs, force_option, page_options, say, write
from pinprof.cli.traces import (
    JobOptions,
    chosen_job,
    files_of,
    job_options,
    jobs_option,
    measured_ranks,
    measured_traces,
    one_trace,
    print_report,
    write_page,
)
from pinprof.urls import STANDARD_INPUT

if TYPE_CHECKING:
    from pinprof.ranks import RankPart

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


@click.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@click.option("--json", "json_file", metavar="FILE", help="Also write the report as JSON; - prints only that.")
@click.option("--html", "html_file", metavar="FILE", help="Also write a page with an interactive timeline.")
@job_options
@jobs_option
@force_option
def report(
    traces: tuple[str, ...], json_file: str | None, html_file: str | None, *, job: JobOptions, force: bool
) -> None:
    """Measure traces: steps, copies and their overlap, waits of the host, idle time of the GPU.

    TRACE is a Kineto (Chrome) trace, .json, .json.gz or .json.zst: a file, a URL (s3://, gs://, https://), - for
    standard input, or a folder or a quoted pattern of them, of which other files are skipped with a word. The numbers
    come first, then what they mean, then what to do. Times that the profiler inflates are never shown as the step's
    own.

    Several traces that are the ranks of one job are compared: who holds up the others, by how much, and with what. Then
    follows the report on that rank. They are measured side by side, in processes of this machine or on a Dask cluster,
    whose workers read them themselves; one that cannot be read is skipped with a word. Of several runs in one folder
    (the traces tell when they were recorded) one is shown.

    \b
    Examples:
      pinprof report trace.json.gz
      pinprof report 's3://bucket/run/*.json.gz'
      ssh host cat trace.json.gz | pinprof report -
      pinprof report trace.json.gz --html report.html
      pinprof report trace.json.gz --json - | jq '.traces[0].overlap'
      pinprof report run/ --json job.json
      pinprof report 'run/gpu*.json' --rank-from 'gpu(.*).json'
      pinprof report 's3://bucket/run/*.json.gz' --scheduler tcp://10.0.0.1:8786
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.report.json_report import to_json

    check_outputs((json_file, html_file), force=force)
    files = files_of(traces)
    if len(files) > 1 and STANDARD_INPUT not in files and _several(files, json_file, html_file, job):
        return
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


def _several(files: list[str], json_file: str | None, html_file: str | None, job: JobOptions) -> bool:
    """Report on several files, and tell whether that is done: a page of traces that are no job needs them whole."""
    from pinprof.ranks import compare_ranks, number_of
    from pinprof.report.json_report import to_json
    from pinprof.report.ranks_text import to_text

    parts = measured_ranks(files, job)
    chosen = chosen_job(parts, job)
    if chosen is None:
        return not html_file and _one_by_one(parts, json_file)
    parts = chosen
    ranks = compare_ranks(parts)
    shown_rank = ranks.slowest_rank if ranks.slowest_rank is not None else ranks.rows[0].rank
    part = next(part for place, part in enumerate(parts) if number_of(part, place) == shown_rank)
    if "-" not in (json_file, html_file):
        width, color = page_options()
        click.echo(to_text(ranks, parts, width=width, color=color))
        print_report(part.profile, part.findings)
    if json_file:
        write(json_file, to_json([(each.profile, each.findings) for each in parts], ranks))
    if html_file:
        write_page(html_file, list(measured_traces([part.profile.path])))
    if not json_file:
        say(f"Next: pinprof report {shlex.join(files[:1])}{' ...' * (len(files) > 1)} --json job.json")
    return True


def _one_by_one(parts: "list[RankPart]", json_file: str | None) -> bool:
    from pinprof.report.json_report import to_json

    if json_file != "-":
        for part in parts:
            print_report(part.profile, part.findings)
    if json_file:
        write(json_file, to_json([(part.profile, part.findings) for part in parts]))
    return True


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
