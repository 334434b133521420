"""`pinprof whatif`, `verify` and `compare`: predict what a change saves, check that, and show what changed."""

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from pinprof.cli import inputs, terminal
from pinprof.ground.urls import STANDARD_INPUT

if TYPE_CHECKING:
    from pinprof.prediction import Prediction, Scenario
    from pinprof.replay import Replay

MIN_OPTION_VALUE, MAX_OPTION_VALUE = 1e-6, 1e9
"""The bounds of a plausible time, rate or speed."""


def _positive(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    """Refuse a number that cannot be a time, rate or speed; NaN fails every comparison."""
    if value is not None and not MIN_OPTION_VALUE <= value <= MAX_OPTION_VALUE:
        raise click.BadParameter(f"{value}: must be a number above 0")
    return value


@click.command(short_help="Predict the step after a change of the code.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--drop-syncs",
    metavar="all|PLACE",
    multiple=True,
    help="The host no longer waits anywhere (all), or at a PLACE (may be repeated): FILE:LINE or FILE:FUNCTION of your "
    "code, or of the library function that waits. The end of a path is enough.",
)
@click.option("--pin", is_flag=True, help="Copies use pinned host memory.")
@click.option(
    "--pinned-gbps",
    metavar="X",
    type=float,
    callback=_positive,
    help="Rate of pinned copies [that of --machine, else the best in the trace, else the usual rate of its GPU's "
    "link: 55 on PCIe 5.0 x16, 25 on 4.0, 12 on 3.0].",
)
@inputs.machine_option
@click.option("--non-blocking", is_flag=True, help="Copies no longer block the host.")
@click.option("--overlap-copies", is_flag=True, help="HtoD copies move one step ahead onto a stream of their own.")
@click.option("--drop-allocs", is_flag=True, help="The program neither allocates nor frees device and pinned memory.")
@click.option("--fused-optimizer", is_flag=True, help="One launch does the whole step of each optimizer.")
@click.option(
    "--cuda-graph",
    type=click.Choice(("step", "model")),
    help=(
        "CUDA graphs launch the whole step, or forward and backward. Waits and copies of pageable memory split it into "
        "several graphs; --drop-syncs all removes the waits."
    ),
)
@click.option("--host-speed", metavar="X", type=float, callback=_positive, help="The host is X times as fast.")
@click.option("--gpu-speed", metavar="X", type=float, callback=_positive, help="The kernels are X times as fast.")
@click.option("--step-ms", metavar="MS", type=float, callback=_positive, help="The step without profiler, if measured.")
@terminal.json_option("the prediction")
@terminal.force_option
def whatif(
    traces: tuple[str, ...],
    *,
    drop_syncs: tuple[str, ...],
    machine: inputs.MachineFile | None,
    step_ms: float | None,
    json_file: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Predict the step after a change of the code, by replay of the recorded program.

    pinprof replays the trace with the waits, copies and allocations that remain after the change; the range says how
    certain the prediction is. You can combine changes. Without any, pinprof compares the usual ones. For a job of
    several ranks, give all traces: its collectives wait for the slowest rank. TRACE is a file, a URL, - for standard
    input, or a folder or quoted pattern, as for pinprof report.

    \b
    Examples:
      pinprof whatif trace.json.gz
      pinprof whatif trace.json.gz --pin --non-blocking
      pinprof whatif trace.json.gz --drop-syncs train.py:42
      pinprof whatif trace.json.gz --drop-syncs all --step-ms 12.4
      pinprof whatif trace.json.gz --cuda-graph step --drop-syncs all
      pinprof whatif 'trace.rank*.json.gz' --drop-syncs all
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.prediction import predict_scenario, replay_of
    from pinprof.prediction.predict import predict_usual
    from pinprof.prediction.scenarios import changes_of
    from pinprof.report.whatif import prediction_to_json, prediction_to_text, to_overview

    terminal.check_outputs((json_file,), force=force, reads=(*traces, machine and machine.path))
    scenario, usual, machine = _scenario(drop_syncs, machine, options)
    recorded = list(inputs.read_all(inputs.expanded(traces), lambda trace, _: trace))
    inputs.say_if_of_other_gpu(machine, (trace.info for trace in recorded))
    with terminal.progress(f"replaying {len(recorded)} traces" if recorded[1:] else "replaying the trace"):
        replay = replay_of(recorded, step_ms)
        _refuse_unfit(replay)
        prediction = predict_scenario(replay, scenario)
        others = predict_usual(replay, scenario) if usual else []
    named = [(name, _options(other.scenario, machine), other) for name, other in others] or None
    ranks = [(rank.trace, changes_of(rank, prediction.scenario)) for rank in replay.ranks]
    if named is None:
        text = partial(prediction_to_text, ranks, prediction)
    else:
        text = partial(to_overview, [trace for trace, _ in ranks], prediction, named)
    terminal.print_result(text, lambda: prediction_to_json(ranks, prediction, named), json_file)
    terminal.say(f"Next: {_next(traces, prediction, named, several=len(recorded) > 1)}")


def _scenario(
    drop_syncs: tuple[str, ...], machine: inputs.MachineFile | None, options: Mapping[str, Any]
) -> "tuple[Scenario, bool, inputs.MachineFile | None]":
    """Return the scenario, whether to compare the usual ones instead, and the bench if its rates matter."""
    from msgspec.structs import replace

    from pinprof.prediction import Scenario

    given = {name: value for name, value in options.items() if value is not None}
    scenario = Scenario(drop_syncs=drop_syncs, **given)
    usual = replace(scenario, pinned_gbps=None) == Scenario()
    if not scenario.pin and not usual:
        _refuse_rates(machine, scenario)
        machine = None
    return replace(scenario, machine=machine and machine.pinning.rates), usual, machine


def _refuse_rates(machine: inputs.MachineFile | None, scenario: "Scenario") -> None:
    if scenario.pinned_gbps or (machine and not machine.is_default):
        option = "--pinned-gbps" if scenario.pinned_gbps else "--machine"
        terminal.fail(f"{option} is about copies that become pinned; add --pin")


def _refuse_unfit(replay: "Replay") -> None:
    """Refuse a trace whose doubts withhold the estimate from its report."""
    from pinprof.measurement.measure import doubts_of
    from pinprof.measurement.trust.doubt import withheld_kinds

    for rank in replay.ranks:
        reason = withheld_kinds(doubts_of(rank, replay)).estimate
        if reason:
            terminal.fail(f"{rank.trace.path}: has {reason.what}, so pinprof cannot predict a change; {reason.remedy}")


def _options(scenario: "Scenario", machine: inputs.MachineFile | None) -> str:
    words = [f"--drop-syncs {shlex.quote(place)}" for place in scenario.drop_syncs]
    flags = [name for name in scenario.__struct_fields__ if getattr(scenario, name) is True]
    words += [f"--{name.replace('_', '-')}" for name in flags]
    if scenario.cuda_graph:
        words.append(f"--cuda-graph {scenario.cuda_graph}")
    if scenario.pinned_gbps:
        words.append(f"--pinned-gbps {scenario.pinned_gbps:g}")
    return " ".join(words) + (machine.words if scenario.machine and machine else "")


def _next(
    traces: Sequence[str], now: "Prediction", named: "list[tuple[str, str, Prediction]] | None", *, several: bool
) -> str:
    """Return what to do next: to predict the change that alone saves most or, after that, to make it and verify it."""
    from pinprof.report.whatif import best_of

    if named is not None:
        best = best_of(now, named)
        return f"pinprof whatif {shlex.join(traces)} {best[1]}" if best else f"pinprof report {shlex.join(traces)}"
    if several:
        return "change the code, record it again, and run pinprof whatif on the new traces: it shows the new step"
    return f"change the code, record it again, and run: pinprof verify {shlex.join(traces)} AFTER"


@click.command(short_help="Compare a predicted saving with the measured one.")
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path())
@terminal.json_option("the comparison")
@terminal.force_option
def verify(before: str, after: str, json_file: str | None, *, force: bool) -> None:
    """Compare the saving that the trace BEFORE a fix predicts with the one measured in the trace AFTER it.

    pinprof infers from the two traces what was fixed: waits, pageable and blocking copies, copies on the stream of the
    kernels, and allocations that only BEFORE has. It replays BEFORE without them.

    \b
    Examples:
      pinprof verify before.json.gz after.json.gz
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.prediction.verification import verify as verified
    from pinprof.report.whatif import verification_to_json, verified_to_text

    terminal.check_outputs((json_file,), force=force, reads=(before, after))
    inputs.refuse_two_inputs((before, after))
    old, new = (inputs.read(inputs.one_trace(side), inputs.analysing()) for side in (before, after))
    verification = verified(old.details, old.profile, new.details, new.profile)
    text = partial(verified_to_text, old.trace, verification)
    terminal.print_result(text, lambda: verification_to_json(verification), json_file)
    terminal.say(f"Next: pinprof whatif {shlex.quote(after)}")


@click.command(short_help="Show what changed between two traces.")
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path())
@terminal.json_option("the comparison")
@click.option("--brief", is_flag=True, help="With --json: only what changed, in at most 6 kB.")
@click.option("--html", "html_file", metavar="FILE", help="Also write a page with both timelines on one time axis.")
@click.option("--full", is_flag=True, help="Print all tables: figures, copies, waits and findings.")
@terminal.force_option
def compare(
    before: str, after: str, json_file: str | None, html_file: str | None, *, brief: bool, full: bool, force: bool
) -> None:
    """Show what changed between the traces BEFORE and AFTER: the step, copies and their overlap, waits, findings.

    BEFORE and AFTER are each one trace: a file, a URL or - for standard input, as for pinprof report. A difference
    counts if it exceeds the noise: the spread over the steps of the recordings, or the range of an estimated
    step. Waits and findings match by cause, file, function and op, because lines move with every edit; one that is in
    another function of AFTER has moved.

    \b
    Examples:
      pinprof compare before.json.gz after.json.gz
      pinprof compare before.json.gz after.json.gz --html compare.html
      pinprof compare before.json.gz after.json.gz --json | jq .sentence
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.comparison import compare as compared

    if brief and not json_file:
        terminal.fail("--brief is about the JSON; add --json")
    terminal.check_outputs((json_file, html_file), force=force, reads=(before, after))
    inputs.refuse_two_inputs((before, after))
    old, new = (inputs.read(inputs.one_trace(side), inputs.analysing()) for side in (before, after))
    comparison = compared(old, new)
    if "-" not in (json_file, html_file):
        from pinprof.report.comparison.text import comparison_to_text, to_brief

        terminal.show_text(comparison_to_text if full else to_brief, comparison, end="" if full else "\n")
    if json_file:
        from pinprof.report.comparison.json import comparison_to_brief_json, comparison_to_json

        terminal.write(json_file, (comparison_to_brief_json if brief else comparison_to_json)(comparison))
    if html_file:
        from pinprof.report.comparison.page import to_html

        with terminal.progress("drawing the page"):
            page = to_html(old, new, comparison)
        terminal.write(html_file, page)
    if not json_file and not html_file and STANDARD_INPUT not in (before, after):
        terminal.say(f"Next: pinprof compare {shlex.join((before, after))} --html compare.html")
