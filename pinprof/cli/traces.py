"""Traces as commands need them: read, measured, and reported on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from functools import wraps
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from pinprof.cli.machine import MachineFile, say_if_of_other_gpu
from pinprof.cli.terminal import fail, page_options, progress, say, show, write
from pinprof.urls import STANDARD_INPUT, shown

if TYPE_CHECKING:
    from pinprof.analysis import Analysis
    from pinprof.errors import TraceError
    from pinprof.measurement.profile import Profile
    from pinprof.ranks import RankPart
    from pinprof.rules import Findings
    from pinprof.trace import Trace

    Measured = Sequence[tuple[str, RankPart]]
    """Files, and what was measured of each."""

Made = TypeVar("Made")
JOBS = "pinprof.jobs"
"""Where the number of threads that read a trace is kept for the command that runs."""

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


def _keep_jobs(context: click.Context, _option: click.Parameter, value: int | None) -> None:
    context.meta[JOBS] = value


jobs_option = click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    expose_value=False,
    callback=_keep_jobs,
    help="Threads that read a trace, or processes for several traces [one per core].",
)


def analyses(arguments: Sequence[str], machine: MachineFile | None = None) -> "Iterator[Analysis]":
    """Yield what was measured and found of each trace; see `each_trace`."""
    from pinprof.analysis import analyse

    def made(trace: "Trace") -> "Analysis":
        say_if_of_other_gpu(machine, [trace.info])
        return analyse(trace, machine and machine.pinning)

    return each_trace(arguments, made)


def each_trace(arguments: Sequence[str], make: "Callable[[Trace], Made]") -> Iterator[Made]:
    """Yield what is made of each trace; of a folder or a pattern what is no trace is skipped with a word."""
    from pinprof.errors import TraceError
    from pinprof.trace.files import trace_files

    _refuse_two_inputs(arguments)
    for argument in arguments:
        paths = trace_files(argument)
        is_named = paths == [argument]
        usable = 0
        for _, outcome in _outcomes(paths, make, is_named=is_named):
            if isinstance(outcome, TraceError):
                if is_named:
                    raise outcome
                say(f"Skipped: {outcome}")
                continue
            usable += 1
            yield outcome
        if not usable:
            raise TraceError(f"{shown(argument)}: none of the files here is a trace")


def each_outcome(
    arguments: Sequence[str], make: "Callable[[Trace], Made]"
) -> "Iterator[tuple[str, Made | TraceError]]":
    """Yield for each trace its name, and what is made of it, or why it could not be read: nothing is skipped."""
    from pinprof.errors import TraceError
    from pinprof.trace.files import trace_files

    _refuse_two_inputs(arguments)
    for argument in arguments:
        try:
            paths = trace_files(argument)
        except TraceError as error:
            yield shown(argument), error
            continue
        yield from _outcomes(paths, make, is_named=paths == [argument])


def _outcomes(
    paths: Sequence[str], make: "Callable[[Trace], Made]", *, is_named: bool
) -> "Iterator[tuple[str, Made | TraceError]]":
    from pinprof.errors import TraceError
    from pinprof.trace import read_trace

    for number, path in enumerate(paths, start=1):
        name = PurePath(shown(path)).name
        outcome: Made | TraceError
        with progress(f"reading {name}" + ("" if is_named else f" ({number} of {len(paths)})")):
            try:
                outcome = make(read_trace(path, click.get_current_context().meta.get(JOBS)))
            except TraceError as error:
                outcome = error
        yield shown(path), outcome


def _refuse_two_inputs(arguments: Sequence[str]) -> None:
    if list(arguments).count(STANDARD_INPUT) > 1:
        fail("standard input can be read once; name the other traces")


def files_of(arguments: Sequence[str]) -> list[str]:
    """Return the files that the arguments stand for."""
    from pinprof.trace.files import trace_files

    return [path for argument in arguments for path in trace_files(argument)]


class JobOptions(NamedTuple):
    """What a command was told of the traces of a job."""

    scheduler: str | None
    rank_from: str | None
    run: int | None


def job_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options about the traces of a job to a command, which gets them as `job`."""

    @wraps(command)
    def with_job(*args: Any, scheduler: str | None, rank_from: str | None, run: int | None, **options: Any) -> None:
        command(*args, job=JobOptions(scheduler, rank_from, run), **options)

    for option in reversed((SCHEDULER, RANK_FROM, RUN)):
        with_job = option(with_job)
    return with_job


SCHEDULER = click.option("--scheduler", metavar="ADDRESS", help="Measure on the Dask cluster of this scheduler.")
RANK_FROM = click.option(
    "--rank-from",
    metavar="PATTERN",
    help="Regular expression whose group is the rank in a trace's path, or 'order': ranks are as the files follow one "
    "another  [what the trace says, else rank or worker with a number in the path].",
)
RUN = click.option(
    "--run",
    metavar="N",
    type=click.IntRange(min=1),
    help="Of several runs the Nth  [the one with most ranks; of several such the last recorded].",
)


def say_what_is_in_vain(job: JobOptions) -> None:
    """Say which options of a job mean nothing, since there are not several files."""
    given = [f"--{name.replace('_', '-')}" for name, value in job._asdict().items() if value is not None]
    if given:
        say(f"Without several files there is no job: {' and '.join(given)} changed nothing")


def chosen_job(measured: "Measured", job: JobOptions) -> "tuple[Measured, list[str]] | None":
    """Return those of the traces that are the ranks of one job, and what is to be known of that; None without a job."""
    from pinprof.errors import TraceError
    from pinprof.ranks.runs import job_of, numbered

    try:
        parts = numbered([part for _, part in measured], job.rank_from)
        chosen = job_of(parts, job.run)
    except TraceError as error:
        if job.rank_from or job.run:
            raise
        say(f"Not the ranks of one job: {error}")
        return None
    file_of = {id(part): file for (file, _), part in zip(measured, parts, strict=True)}
    return [(file_of[id(part)], part) for part in chosen.parts], chosen.remarks


def measured_ranks(paths: Sequence[str], job: JobOptions, machine: MachineFile | None = None) -> "Measured":
    """Return each file with what was measured of it, in this order; what is no trace is skipped with a word."""
    from pinprof.errors import PinprofError, TraceError
    from pinprof.pool import cluster, measure_files
    from pinprof.ranks.runs import checked_pattern

    checked_pattern(job.rank_from)
    client = cluster(job.scheduler) if job.scheduler else None
    jobs, pinning = click.get_current_context().meta.get(JOBS), machine and machine.pinning
    found = {}
    with (
        closing(client) if client else nullcontext(),
        closing(measure_files(paths, jobs, client, pinning)) as outcomes,
        progress(f"measuring {len(paths)} traces") as update,
    ):
        for done, (path, outcome) in enumerate(outcomes, start=1):
            update(f"measuring: {done} of {len(paths)} traces")
            if isinstance(outcome, PinprofError):
                say(f"Skipped: {outcome}")
            else:
                found[path] = outcome
    if not found:
        raise TraceError(f"{shown(paths[0])}: neither this nor any of the {len(paths) - 1} other files is a trace")
    say_if_of_other_gpu(machine, (part.profile.info for part in found.values()))
    return [(path, found[path]) for path in paths if path in found]


def one_trace(argument: str) -> str:
    """Return the file of the only trace that an argument stands for, for what is about one trace."""
    from pinprof.trace.files import trace_files

    paths = trace_files(argument)
    if len(paths) > 1:
        fail(f"{shown(argument)}: has {len(paths)} traces, and this is about one; name it, e.g. {shown(paths[0])}")
    return paths[0]


def print_report(profile: "Profile", findings: "Findings") -> None:
    """Print the report on a trace, as wide as the terminal."""
    from pinprof.report.trace.text import to_text

    width, color = page_options()
    show(to_text(profile, findings, width=width, color=color) + "\n")


def write_page(path: str, measured: "Sequence[Analysis]") -> None:
    """Write the page on the traces, and say so."""
    from pinprof.report.trace.page import to_html

    with progress("drawing the page"):
        page = to_html(measured)
    write(path, page)
