"""`pinprof check`: fail in CI if a trace breaks a limit."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinprof.check.limits import QUANTITIES, Limits, find_config, read_config
from pinprof.cli.inputs import each_outcome
from pinprof.cli.terminal import PIPED_COLUMNS, check_outputs, fail, force_option, page_options, say, write
from pinprof.ground.errors import TraceError

if TYPE_CHECKING:
    from pinprof.check.baseline import Baseline, BaselineTrace
    from pinprof.check.figures import TraceFigures
    from pinprof.check.judge import Checked

CHECK_FORMATS = ("text", "github", "sarif", "junit")


def limit_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command an option for each figure that can have a limit."""
    for quantity in reversed(QUANTITIES.values()):
        option = click.option(f"--{quantity.name}", metavar=quantity.unit.metavar, type=float, help=quantity.help)
        command = option(command)
    return command


@click.command(short_help="Fail if a trace breaks a limit: a gate for CI.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@limit_options
@click.option(
    "--baseline",
    metavar="REPORT.json",
    help="An earlier `pinprof report --json`: the check fails only for what is new or worse.",
)
@click.option(
    "--tolerance",
    metavar="SHARE",
    type=float,
    help="The share by which a figure may be worse [0.1]; noise never counts: 20 µs, 0.1 waits, 4 KiB, 1 % of overlap.",
)
@click.option("--config", metavar="FILE", help="Read limits from [tool.pinprof.check] of this file [pyproject.toml].")
@click.option("--some-ranks", is_flag=True, help="Accept a job without the traces of all its ranks.")
@click.option("--format", "output_format", type=click.Choice(CHECK_FORMATS), default="text", show_default=True)
@click.option("-o", "output", metavar="FILE", default="-", help="Where to write it; - is standard output.")
@force_option
def check(
    traces: tuple[str, ...],
    *,
    baseline: str | None,
    tolerance: float | None,
    config: str | None,
    some_ranks: bool,
    output_format: str,
    output: str,
    force: bool,
    **options: float | None,
) -> int:
    """Check traces against limits, and fail if a trace breaks one: a gate for CI.

    TRACE is a file, a URL, - for standard input, or a folder or quoted pattern, as for pinprof report. Each limit is
    an option, or a key in the table [tool.pinprof.check] of pyproject.toml (max-hidden-syncs = 0), which an option
    overrides. With a baseline, the check fails only for what is new or worse: waits at new places, and figures that
    break their limit and are worse than in the baseline. Without limits it compares every figure.

    Only what pinprof can judge passes: a trace that cannot be read or has lost its end, a rank of the job without a
    trace, and a limit on a figure that the trace does not show are unknown. In a folder pinprof judges every .json,
    .json.gz and .json.zst at the top.

    Exit status: 0 if all limits are kept; 1 if a limit is certainly broken, whatever else is unknown; 2 if none is
    broken but something is unknown, no limit is set, or the input is unusable.

    \b
    Examples:
      pinprof check trace.json.gz --max-hidden-syncs 0 --min-overlap 0.9
      pinprof check trace.json.gz --max-hidden-syncs 0 --format sarif -o pinprof.sarif
      pinprof report main.json.gz --json baseline.json
      pinprof check branch.json.gz --baseline baseline.json
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.analysis import analyse
    from pinprof.check.baseline import read_baseline
    from pinprof.check.figures import measure_figures
    from pinprof.check.judge import NOT_JUDGED, NOT_KEPT, judge_all, outcome

    limits, file = _limits(config, options, is_compared=baseline is not None)
    check_outputs((output,), force=force, reads=(*traces, baseline, file))
    allowed = _tolerance(tolerance, baseline)
    before = read_baseline(baseline) if baseline is not None else None

    outcomes = list(each_outcome(traces, lambda trace, on_replay: measure_figures(analyse(trace, None, on_replay))))
    measured = [None if isinstance(figures, TraceError) else figures for _, figures in outcomes]
    matched = _matched(measured, before, baseline)
    checked = judge_all(outcomes, limits, matched, allowed, some_ranks=some_ranks)
    write(output, _render(checked, output_format, to_terminal=output == "-"))
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
    """Return the limits, and the project's file if it sets some; an option overrides it. Exit if no limit is set."""
    from_options = {key: value for key, value in options.items() if value is not None}
    path, from_file = find_config(_working_folder()) if config is None else (config, read_config(config))
    if config is not None and from_file is None:
        fail(f"{config}: has no table [tool.pinprof.check]; add one, e.g. with max-hidden-syncs = 0")
    limits = Limits(**((from_file or {}) | from_options))
    if not limits and not is_compared:
        file = str(path) if path else "pyproject.toml"
        fail(f"no limit is set: give one (--max-hidden-syncs 0), or --baseline, or [tool.pinprof.check] in {file}")
    return limits, str(path) if path else None


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        fail("the working folder is gone; change to one that exists")


def _tolerance(tolerance: float | None, baseline: str | None) -> float:
    from pinprof.check.judge import DEFAULT_TOLERANCE

    if tolerance is None:
        return DEFAULT_TOLERANCE
    if baseline is None:
        fail("--tolerance needs a baseline; name one with --baseline")
    if not 0 <= tolerance <= 1:
        fail(f"--tolerance {tolerance}: must be a share from 0 to 1; 0.1 is 10 %")
    return tolerance


def _matched(
    measured: "Sequence[TraceFigures | None]", before: "Baseline | None", name: str | None
) -> "Sequence[BaselineTrace | None] | None":
    """Return the baseline's counterpart of each trace, and say how the two differ."""
    from pinprof.check.baseline import match_traces, remarks_on

    if before is None:
        return None
    matched = match_traces(measured, before.traces)
    for remark in remarks_on(before, measured, matched):
        say(f"Note: {name}: {remark}")
    return matched


def _unknown(checked: "Sequence[Checked]") -> str:
    verdicts = [(trace.path, verdict) for trace in checked for verdict in trace.verdicts]
    unknown = [f"{path}: {verdict.sentence}" for path, verdict in verdicts if verdict.unknown]
    more = f" (and {len(unknown) - 1} more could not be judged)" if len(unknown) > 1 else ""
    return unknown[0] + more if unknown else ""


def _render(checked: "Sequence[Checked]", output_format: str, *, to_terminal: bool) -> str:
    if output_format != "text":
        from pinprof.report.check import to_github, to_junit, to_sarif

        return {"github": to_github, "sarif": to_sarif, "junit": to_junit}[output_format](checked)
    from pinprof.report.check import check_to_text

    width, color = page_options() if to_terminal else (PIPED_COLUMNS, False)
    return check_to_text(checked, width=width, color=color)


def _next(checked: "Sequence[Checked]", traces: tuple[str, ...]) -> str:
    """Return the next command: `explain` for the first rule that a failure names, otherwise `report`."""
    failing = (verdict for trace in checked for verdict in trace.verdicts if verdict.failed)
    rules = (place.rule for verdict in failing for place in verdict.places if place.rule)
    rule = next(rules, None)
    return f"pinprof explain {rule}" if rule else f"pinprof report {shlex.join(traces)} --html report.html"
