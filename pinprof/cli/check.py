"""`pinprof check`: a gate for CI."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinprof.cli.terminal import PIPED_WIDTH, check_outputs, fail, force_option, page_options, say, write
from pinprof.cli.traces import each_outcome, jobs_option

if TYPE_CHECKING:
    from pinprof.check import Baseline, BaselineTrace, Checked, Limits, TraceFigures
    from pinprof.trace import Trace

FORMATS = ("text", "github", "sarif", "junit")

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


@click.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@click.option("--max-hidden-syncs", metavar="N", type=float, help="Waits per step that the code does not ask for.")
@click.option("--max-stall-ms", metavar="MS", type=float, help="Time per step that the host stands in hidden waits.")
@click.option("--max-exposed-ms", metavar="MS", type=float, help="Copy time per step beside which no kernel runs.")
@click.option("--min-overlap", metavar="SHARE", type=float, help="Share of the copy time under kernels, 0 to 1.")
@click.option("--max-pageable-bytes", metavar="N", type=float, help="Bytes per step copied from or to pageable memory.")
@click.option("--max-step-ms", metavar="MS", type=float, help="The step without profiler; pinprof run measures it.")
@click.option(
    "--baseline",
    metavar="REPORT.json",
    help="An earlier `pinprof report --json`: only what is new or worse than in it fails.",
)
@click.option("--tolerance", metavar="SHARE", type=float, help="How much worse than the baseline is the same [0.1].")
@click.option("--config", metavar="FILE", help="Limits from [tool.pinprof.check] of this file [pyproject.toml].")
@click.option("--some-ranks", is_flag=True, help="Ask for no more ranks of the job than those given.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="What to write.")
@click.option("-o", "--output", metavar="FILE", default="-", help="Where to write it; - is standard output.")
@jobs_option
@force_option
def check(
    traces: tuple[str, ...],
    *,
    baseline: str | None,
    tolerance: float | None,
    config: str | None,
    some_ranks: bool,
    form: str,
    output: str,
    force: bool,
    **options: float | None,
) -> int:
    """Hold traces against limits, and fail if one is not kept: a gate for CI.

    TRACE is a file, a URL, - for standard input, or a folder or quoted pattern, as for pinprof report. Each limit is
    one option, or a key in the table [tool.pinprof.check] of pyproject.toml (max-hidden-syncs = 0): of the nearest one
    with a table [tool.pinprof], from the working folder up to the top of the repository; an option wins. With a
    baseline fails only what is new or worse: waits at new places, and limits that were kept better before; without
    limits every figure is compared.

    Only what was judged can pass. A trace that cannot be read or has lost its end, a rank of the job of which no trace
    was given, and a limit on a figure that the trace cannot tell are unknown, with the reason and the way out. Of a
    folder that means every .json, .json.gz and .json.zst at its top: where other JSON lies there, give a pattern.

    Exit status: 0 all kept; 1 a limit was certainly not kept, whatever else is unknown; 2 none broken but something
    unknown, no limit set, or unusable input.

    \b
    Examples:
      pinprof check trace.json.gz --max-hidden-syncs 0 --min-overlap 0.9
      pinprof check run/ --max-exposed-ms 0.5 --format github
      pinprof check trace.json.gz --max-hidden-syncs 0 --format sarif -o pinprof.sarif
      pinprof report main.json.gz --json baseline.json
      pinprof check branch.json.gz --baseline baseline.json
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.analysis import analyse
    from pinprof.check import (
        NOT_JUDGED,
        NOT_KEPT,
        judge_all,
        measure_figures,
        outcome,
        read_baseline,
    )
    from pinprof.errors import TraceError

    limits, file = _limits(config, options, is_compared=baseline is not None)
    check_outputs((output,), force=force, reads=(*traces, baseline, file))
    allowed = _tolerance(tolerance, baseline)
    before = read_baseline(baseline) if baseline is not None else None

    def figures(trace: "Trace") -> "TraceFigures":
        return measure_figures(analyse(trace))

    outcomes = list(each_outcome(traces, figures))
    measured = [None if isinstance(made, TraceError) else made for _, made in outcomes]
    matched = _matched(measured, before, baseline)
    checked = judge_all(outcomes, limits, matched, allowed, some_ranks=some_ranks)
    write(output, _render(checked, form, to_terminal=output == "-"))
    status = outcome(checked)
    if status == NOT_JUDGED:
        fail(_unknown(checked), status)
    if status == NOT_KEPT and (unknown := _unknown(checked)):
        say(f"Not judged: {unknown}")
    say(f"Next: {_next(checked, traces)}")
    return status


def _limits(
    config: str | None, options: "Mapping[str, float | None]", *, is_compared: bool
) -> "tuple[Limits, str | None]":
    """Return the limits of the options, and of the project's file where no option says otherwise, and that file.

    Fails without any limit.
    """
    from dataclasses import replace

    from pinprof.check import Limits, find_config, read_config

    given = {key: value for key, value in options.items() if value is not None}
    path, kept = find_config(_working_folder()) if config is None else (config, read_config(config))
    if config is not None and kept is None:
        fail(f"{config}: has no table [tool.pinprof.check]; write one, e.g. with max-hidden-syncs = 0")
    limits = replace(kept or Limits(), **given)
    if not limits and not is_compared:
        where = f"{path} has none in [tool.pinprof.check]" if path else "no pyproject.toml here or above has any"
        fail(f"no limit is set, so nothing could fail ({where}): set one, e.g. --max-hidden-syncs 0, or use --baseline")
    return limits, str(path) if path else None


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        fail("the working folder is gone; change to one that exists")


def _tolerance(tolerance: float | None, baseline: str | None) -> float:
    from pinprof.check import DEFAULT_TOLERANCE

    if tolerance is None:
        return DEFAULT_TOLERANCE
    if baseline is None:
        fail("--tolerance is about a baseline; name one with --baseline")
    if not 0 <= tolerance <= 1:
        fail(f"--tolerance {tolerance}: is a share from 0 to 1; 0.1 is 10 %")
    return tolerance


def _matched(
    measured: "Sequence[TraceFigures | None]", before: "Baseline | None", name: str | None
) -> "Sequence[BaselineTrace | None] | None":
    """Return the counterparts of the traces in the baseline, and say in what they are unlike."""
    from pinprof.check import match_traces, remarks_on

    if before is None:
        return None
    matched = match_traces(measured, before.traces)
    for remark in remarks_on(before, measured, matched):
        say(f"Note: {name}: {remark}")
    return matched


def _unknown(checked: "Sequence[Checked]") -> str:
    """Return the first thing that could not be judged, and how many more there are; nothing if all was judged."""
    unknown = [
        f"{trace.path}: {verdict.sentence}" for trace in checked for verdict in trace.verdicts if verdict.unknown
    ]
    more = f" (and {len(unknown) - 1} more could not be judged)" if len(unknown) > 1 else ""
    return unknown[0] + more if unknown else ""


def _render(checked: "Sequence[Checked]", form: str, *, to_terminal: bool) -> str:
    """Return the check in a format; text as wide as the terminal that it goes to."""
    if form == "github":
        from pinprof.report.check.github import to_github

        return to_github(checked)
    if form == "sarif":
        from pinprof.report.check.sarif import to_sarif

        return to_sarif(checked)
    if form == "junit":
        from pinprof.report.check.junit import to_junit

        return to_junit(checked)
    from pinprof.report.check.text import to_text

    width, color = page_options() if to_terminal else (PIPED_WIDTH, False)
    return to_text(checked, width=width, color=color)


def _next(checked: "Sequence[Checked]", traces: tuple[str, ...]) -> str:
    """Return the next useful command: about the first cause of a failure, else the whole report."""
    failing = (verdict for trace in checked for verdict in trace.verdicts if verdict.failed)
    rules = (place.rule for verdict in failing for place in verdict.places if place.rule)
    rule = next(rules, None)
    return f"pinprof explain {rule}" if rule else f"pinprof report {shlex.join(traces)} --html report.html"
