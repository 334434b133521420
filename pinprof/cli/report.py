"""`pinprof report` and `pinprof timeline`: what a trace shows."""

import shlex
from typing import TYPE_CHECKING

import click

from pinprof.cli.hta import hta_of, print_hta
from pinprof.cli.machine import MachineFile, machine_option
from pinprof.cli.terminal import check_outputs, force_option, page_options, progress, say, show, write
from pinprof.cli.traces import (
    JobOptions,
    analyses,
    chosen_job,
    files_of,
    job_options,
    jobs_option,
    measured_ranks,
    one_trace,
    print_report,
    say_what_is_in_vain,
    write_page,
)
from pinprof.urls import STANDARD_INPUT

if TYPE_CHECKING:
    from pinprof.analysis import Analysis
    from pinprof.cli.traces import Measured

NAMED = 4
"""Traces that the next command names."""

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


@click.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@click.option("--json", "json_file", metavar="FILE", help="Also write the report as JSON; - prints only that.")
@click.option("--html", "html_file", metavar="FILE", help="Also write a page: charts, an interactive timeline.")
@click.option("--hta", "with_hta", is_flag=True, help="Also the breakdowns of HolisticTraceAnalysis, also in JSON.")
@machine_option
@job_options
@jobs_option
@force_option
def report(
    traces: tuple[str, ...],
    json_file: str | None,
    html_file: str | None,
    *,
    with_hta: bool,
    machine: MachineFile | None,
    job: JobOptions,
    force: bool,
) -> None:
    """Measure traces: steps, copies and their overlap, waits of the host, idle time of the GPU.

    TRACE is a Kineto (Chrome) trace, .json, .json.gz or .json.zst: a file, a URL (s3://, gs://, https://), - for
    standard input, or a folder or a quoted pattern of them, of which other files are skipped with a word. The numbers
    come first, then what they mean, then what to do. Times that the profiler inflates are never shown as the step's
    own.

    Several traces that are the ranks of one job are compared: who holds up the others, by how much, and with what. Then
    follows the report on that rank. They are measured side by side, in processes of this machine or on a Dask cluster,
    whose workers read them themselves; one that cannot be read is skipped with a word. Of several runs in one folder
    (the traces tell when they were recorded) one is shown. The page of a job shows all ranks in one figure.

    \b
    Examples:
      pinprof report trace.json.gz
      pinprof report 's3://bucket/run/*.json.gz'
      ssh host cat trace.json.gz | pinprof report -
      pinprof report trace.json.gz --html report.html
      pinprof report trace.json.gz --json - | jq '.traces[0].overlap'
      pinprof report trace.json.gz --hta
      pinprof report trace.json.gz --machine bench.json
      pinprof report run/ --html job.html --json job.json
      pinprof report 'run/gpu*.json' --rank-from 'gpu(.*).json'
      pinprof report 's3://bucket/run/*.json.gz' --scheduler tcp://10.0.0.1:8786
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.report.trace.json import to_json

    check_outputs((json_file, html_file), force=force, reads=(*traces, machine and machine.path))
    files = files_of(traces)
    if len(files) > 1 and STANDARD_INPUT not in files:
        _several(files, json_file, html_file, job, machine, with_hta=with_hta)
    else:
        hta = hta_of([(path, None) for path in files]) if with_hta else {}
        measured = list(analyses(traces, machine))
        if "-" not in (json_file, html_file):
            for each in measured:
                print_report(each.profile, each.findings)
            print_hta(hta)
        if json_file:
            write(json_file, to_json([(each.profile, each.findings) for each in measured], hta=hta))
        if html_file:
            write_page(html_file, measured)
        say_what_is_in_vain(job)
    if not json_file and not html_file and STANDARD_INPUT not in files:  # which can be read once
        named = f"{shlex.join(traces[:1])} ..." if len(traces) > NAMED else shlex.join(traces)
        say(f"Next: pinprof report {named}{machine.words if machine else ''} --html report.html")


def _several(
    files: list[str],
    json_file: str | None,
    html_file: str | None,
    job: JobOptions,
    machine: MachineFile | None,
    *,
    with_hta: bool,
) -> None:
    """Report on several files: as the ranks of a job if they are that, else one by one."""
    from pinprof.report.trace.json import to_json

    measured = measured_ranks(files, job, machine)
    of_job = chosen_job(measured, job)
    if of_job:
        _job(*of_job, json_file, html_file, with_hta=with_hta)
        return
    parts = [part for _, part in measured]
    hta = hta_of([(path, None) for path, _ in measured]) if with_hta else {}
    if "-" not in (json_file, html_file):
        for part in parts:
            print_report(part.profile, part.findings)
        print_hta(hta)
    if json_file:
        write(json_file, to_json([(part.profile, part.findings) for part in parts], hta=hta))
    if html_file:
        write_page(html_file, _whole(measured))


def _job(
    measured: "Measured", choice: list[str], json_file: str | None, html_file: str | None, *, with_hta: bool
) -> None:
    from pinprof.ranks import compare_ranks, number_of
    from pinprof.report.job.page import to_html
    from pinprof.report.job.text import to_text
    from pinprof.report.trace.json import to_json

    parts = [part for _, part in measured]
    ranks = compare_ranks(parts, choice)
    for remark in choice if "-" in (json_file, html_file) else ():
        say(remark)
    numbers = [number_of(part, place) for place, part in enumerate(parts)]
    path, part = measured[numbers.index(ranks.shown_rank)]
    hta = hta_of([(each, number) for (each, _), number in zip(measured, numbers, strict=True)]) if with_hta else {}
    if "-" not in (json_file, html_file):
        width, color = page_options()
        show(to_text(ranks, parts, width=width, color=color) + "\n")
        print_report(part.profile, part.findings)
        print_hta(hta)
    if json_file:
        write(json_file, to_json([(each.profile, each.findings) for each in parts], ranks, hta))
    if html_file:
        (entry,) = _whole([(path, part)])
        with progress("drawing the page"):
            page = to_html(ranks, parts, entry)
        write(html_file, page)


def _whole(measured: "Measured") -> "list[Analysis]":
    """Return what a page needs of traces that were measured: their rows too, so they are read again."""
    return list(analyses([path for path, _ in measured]))


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
    from pinprof.report.trace.page import timeline_page

    check_outputs((output,), force=force, reads=(trace,))
    (analysis,) = analyses([one_trace(trace)])
    write(output, timeline_page(analysis))
