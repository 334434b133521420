"""`pinprof check`: a gate for CI."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinprof.cli.terminal import PIPED_WIDTH, check_outputs, fail, force_option, page_options, say, write
from pinprof.cli.traces import jobs_option, measured_traces

if TYPE_CHECKING:
    from pinprof.check import Checked, Limits

NOT_KEPT = 1
"""Exit code if a limit was not kept, and of nothing else."""
FORMATS = ("text", "github", "sarif", "junit")
PROJECT_FILE = "pyproject.toml"

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
@click.option("--config", metavar="FILE", help="Limits from [tool.pinprof.check] of this file [./pyproject.toml].")
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
    form: str,
    output: str,
    force: bool,
    **options: float | None,
) -> int:
    """Hold traces against limits, and fail if one is not kept: a gate for CI.

    TRACE is a file, a URL, - for standard input, or a folder or quoted pattern, as for pinprof report. Each limit is
    one option, or a key in the table [tool.pinprof.check] of pyproject.toml (max-hidden-syncs = 0); an option wins. A
    figure that the trace cannot tell does not keep its limit, and it is said why. With a baseline fails only what is
    new or worse: waits at new places, and limits that were kept better before; without limits every figure is compared.
    Exit status: 0 all kept, 1 a limit was not kept, 2 unusable input.

    \b
    Examples:
      pinprof check trace.json.gz --max-hidden-syncs 0 --min-overlap 0.9
      pinprof check trace.json.gz --max-exposed-ms 0.5 --format github
      pinprof check trace.json.gz --max-hidden-syncs 0 --format sarif -o pinprof.sarif
      pinprof report main.json.gz --json baseline.json
      pinprof check branch.json.gz --baseline baseline.json
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.check import judge, match_traces, measure_figures, read_baseline

    check_outputs((output,), force=force, reads=(*traces, baseline, config or PROJECT_FILE))
    limits = _limits(config, options)
    allowed = _tolerance(tolerance, baseline)
    before = read_baseline(baseline) if baseline is not None else None
    measured = [measure_figures(profile, trace, findings) for trace, profile, findings in measured_traces(traces)]
    matched = [None] * len(measured) if before is None else match_traces(measured, before)
    checked = [judge(figures, limits, old, allowed) for figures, old in zip(measured, matched, strict=True)]
    write(output, _render(checked, form, to_terminal=output == "-"))
    if not limits and before is None:
        say("No limit is set, so nothing can fail: set one, e.g. --max-hidden-syncs 0, or compare with --baseline.")
    say(f"Next: {_next(checked, traces)}")
    return NOT_KEPT if any(trace.failed for trace in checked) else 0


def _limits(config: str | None, options: dict[str, float | None]) -> "Limits":
    """Return the limits of the options, and of the project's file where no option says otherwise."""
    from dataclasses import replace

    from pinprof.check import Limits, read_config

    given = {key: value for key, value in options.items() if value is not None}
    kept = None
    if config is not None:
        kept = read_config(config)
        if kept is None:
            fail(f"{config}: has no table [tool.pinprof.check]; write one, e.g. with max-hidden-syncs = 0")
    elif Path(PROJECT_FILE).is_file():
        kept = read_config(PROJECT_FILE)
    return replace(kept or Limits(), **given)


def _tolerance(tolerance: float | None, baseline: str | None) -> float:
    from pinprof.check import DEFAULT_TOLERANCE

    if tolerance is None:
        return DEFAULT_TOLERANCE
    if baseline is None:
        fail("--tolerance is about a baseline; name one with --baseline")
    if not 0 <= tolerance < float("inf"):
        fail(f"--tolerance {tolerance}: is a share from 0 on; 0.1 is 10 %")
    return tolerance


def _render(checked: "Sequence[Checked]", form: str, *, to_terminal: bool) -> str:
    """Return the check in a format; text as wide as the terminal that it goes to."""
    if form == "github":
        from pinprof.report.github import to_github

        return to_github(checked)
    if form == "sarif":
        from pinprof.report.sarif import to_sarif

        return to_sarif(checked)
    if form == "junit":
        from pinprof.report.junit import to_junit

        return to_junit(checked)
    from pinprof.report.check_text import to_text

    width, color = page_options() if to_terminal else (PIPED_WIDTH, False)
    return to_text(checked, width=width, color=color)


def _next(checked: "Sequence[Checked]", traces: tuple[str, ...]) -> str:
    """Return the next useful command: about the first cause of a failure, else the whole report."""
    failing = (verdict for trace in checked for verdict in trace.verdicts if verdict.failed)
    rules = (place.rule for verdict in failing for place in verdict.places if place.rule)
    rule = next(rules, None)
    return f"pinprof explain {rule}" if rule else f"pinprof report {shlex.join(traces)} --html report.html"
