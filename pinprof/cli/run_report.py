"""What `pinprof run` reports at its end: on this process, on the ranks of its job, and on children of the script."""

import os
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from pinprof.cli.inputs import MachineFile, analysing, print_report, read, write_page
from pinprof.cli.report import report
from pinprof.cli.script import Outputs
from pinprof.cli.terminal import progress, say, say_written
from pinprof.ground.host_time import HOST_TIME
from pinprof.ground.outputs import shortest
from pinprof.ground.units import counted

if TYPE_CHECKING:
    from pinprof.analysis import Analysis
    from pinprof.capture.children.notes import ChildRun
    from pinprof.capture.job import Agreement
    from pinprof.capture.script import ScriptRun
    from pinprof.ground.errors import PinprofError
    from pinprof.report.source import Code

TRACES_WITHIN_S = 300.0
"""How long rank 0 waits for the other traces after it has written its own."""
VISIBLE_WITHIN_S = 5.0
"""How long a file that another machine wrote to a shared folder may take to appear here."""
MAX_CHILDREN_NAMED = 4


def report_outcome(
    outcome: "ScriptRun",
    outputs: Outputs,
    agreement: "Agreement | None",
    machine: MachineFile | None,
    code: "Code",
    *,
    job_report: bool,
) -> None:
    """Report on what was recorded: by this process, or by those that the script started."""
    from pinprof.report.findings.views import whatif_command

    if only_children_train(outcome) or (not outcome.path and traces_of(outcome.children)):
        _report_children(outcome.children, outputs, machine, code)
        if outcome.path:
            path = shortest(outcome.path)
            say(f"The script itself trains nothing; its own steps: pinprof report {shlex.quote(path)}")
    elif outcome.path and not outputs.is_first:
        if os.environ.get("LOCAL_RANK") == "0":  # on each other machine once
            node, trace = platform.node(), outputs.trace
            say(f"{node}: wrote {trace}, and the other ranks on this machine wrote theirs next to it")
    elif outcome.path and (agreement is None or not (job_report and report_job(agreement, outputs, machine, code))):
        analysis = _report(outputs, machine, code)
        _say_others(outcome.children)
        _say_what_is_missing(outcome.children)
        if agreement is not None and not (job_report and agreement.in_contact):
            say(f"Next, once all ranks have written theirs: {outputs.again}")
        elif command := whatif_command(analysis.profile, analysis.findings):
            say(f"Try the change before you make it: {command}")


def _report(outputs: Outputs, machine: MachineFile | None, code: "Code") -> "Analysis":
    path = outputs.trace
    analysis = read(path, analysing(machine))
    print_report(analysis, code, has_page=True)
    write_page(outputs.page, [analysis], code)
    marker = analysis.profile.info.step_marker
    say(f"Wrote {path} (steps marked by: {marker}; --step-marker chooses another) and {outputs.page}")
    return analysis


def say_verdict(path: Path, step: int) -> None:
    """Say in a line why the steps of this recording are slow; a long training has several recordings."""
    from pinprof.notebook import load
    from pinprof.report.trace.first_screen import first_screen
    from pinprof.report.trace.verdict import headline

    report = load(path)
    say(f"Step {step}: {headline(first_screen(report.profile, report.analysis.findings))}")


def report_job(agreement: "Agreement", outputs: Outputs, machine: MachineFile | None, code: "Code") -> bool:
    """Report on the traces of all ranks once they are written; return whether there are several."""
    with progress("waiting for the traces of all ranks") as show:
        written = agreement.traces(TRACES_WITHIN_S, show)
        end = HOST_TIME.monotonic() + VISIBLE_WITHIN_S
        while HOST_TIME.monotonic() < end and any(trace.path and not trace.is_here for trace in written.values()):
            HOST_TIME.sleep(0.1)
    paths = [trace.path for _, trace in sorted(written.items()) if trace.is_here]
    for rank in range(agreement.ranks):
        trace = written.get(rank)
        if trace is None:
            say(f"Rank {rank}: its trace was not ready within {TRACES_WITHIN_S:.0f} s")
        elif not trace.path:
            say(f"Rank {rank}: recorded nothing")
        elif not trace.is_here:
            say(f"Rank {rank}: its trace is on {trace.machine}, {trace.path}; fetch it to report on all ranks together")
    if len(paths) > 1:
        _report_ranks(paths, outputs, machine, code)
    return len(paths) > 1


def _report_ranks(paths: "Sequence[str]", outputs: Outputs, machine: MachineFile | None, code: "Code") -> None:
    say(f"Wrote the traces of {counted(len(paths), 'rank')}; to report on them again: {outputs.again}")
    options = {"html_file": outputs.page, "machine": machine, "no_source": not code.quotes, "force": True}
    click.get_current_context().invoke(report, traces=tuple(paths), **options)


def give_up(agreement: "Agreement", error: "PinprofError") -> NoReturn:
    """End a rank without a trace so that the others can write theirs: a launcher ends all ranks if one fails."""
    if agreement.rank:
        say(f"Rank {agreement.rank}: {error}")
        sys.exit(0)
    agreement.traces(TRACES_WITHIN_S, lambda _: None)
    raise error


def _report_children(
    children: "Sequence[ChildRun]", outputs: Outputs, machine: MachineFile | None, code: "Code"
) -> None:
    """Report on the ranks that the script started, as on those of a launcher; without ranks, on each child."""
    _say_what_is_missing(children)
    paths = traces_of([child for child in children if child.rank is not None])
    if len(paths) > 1:
        _report_ranks(paths, outputs, machine, code)
        _say_others([child for child in children if child.rank is None])
        return
    shown = traces_of(sorted(children, key=lambda child: not child.trains))[:MAX_CHILDREN_NAMED]
    analyses = [read(path, analysing(machine)) for path in shown]
    for analysis in analyses:
        print_report(analysis, code, has_page=True)
    write_page(outputs.page, analyses, code)
    say_written([*shown, outputs.page])
    _say_others([child for child in children if child.path and shortest(child.path) not in shown])


def _say_what_is_missing(children: "Sequence[ChildRun]") -> None:
    """Name the children that made steps and were not recorded, and the ranks without any process here."""
    for child in children:
        if child.path is None:
            say(f"{child.name}: recorded nothing ({child.why})")
    known_ranks = {child.rank for child in children if child.rank is not None}
    world_size = max((child.world_size or 0 for child in children), default=0)
    missing = [str(rank) for rank in range(world_size) if rank not in known_ranks]
    if missing:
        noun = "Rank" if len(missing) == 1 else "Ranks"
        say(f"{noun} {', '.join(missing)} of {world_size}: no step ran on this machine")


def traces_of(children: "Sequence[ChildRun]") -> list[str]:
    """Return the traces that were written."""
    return [shortest(child.path) for child in children if child.path]


def only_children_train(outcome: "ScriptRun") -> bool:
    """Return whether the script has no recorded step that trains, but processes that it started have."""
    is_training = outcome.path is not None and outcome.trains
    return not is_training and any(child.path and child.trains for child in outcome.children)


def _say_others(children: "Sequence[ChildRun]") -> None:
    paths = traces_of(children)
    if paths:
        number = counted(len(paths), "child of the script", "children of the script")
        say(f"Wrote the traces of {number}, too. Next: pinprof report {shlex.join(paths)}")
