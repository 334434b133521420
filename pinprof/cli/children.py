"""What `pinprof run` says about the processes that a script started: the report on them, and what is missing."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinprof.cli.job import report_ranks
from pinprof.cli.machine import MachineFile
from pinprof.cli.terminal import say
from pinprof.cli.traces import analysing, print_report, read, write_page
from pinprof.outputs import shortest
from pinprof.units import counted

if TYPE_CHECKING:
    from pinprof.capture.children.notes import ChildRun
    from pinprof.capture.script import ScriptRun
    from pinprof.report.source import Code


SHOWN = 4
"""The most children without ranks to report on at once."""


def report_children(
    children: "Sequence[ChildRun]",
    page: str,
    of_ranks: str,
    machine: MachineFile | None = None,
    code: "Code | None" = None,
) -> None:
    """Report on the ranks that the script started, as on those of a launcher; without ranks, on each child.

    `of_ranks` is the command that repeats the report on all ranks.
    """
    say_what_is_missing(children)
    ranks = [child for child in children if child.rank is not None]
    paths = traces_of(ranks)
    if len(paths) > 1:
        say(f"Wrote the traces of {counted(len(paths), 'rank')}; to report on them again: {of_ranks}")
        report_ranks(paths, page, machine, code)
        _say_others([child for child in children if child.rank is None])
        return
    shown = traces_of(sorted(children, key=lambda child: not child.trains))[:SHOWN]
    analyses = [read(path, analysing(machine)) for path in shown]
    for analysis in analyses:
        print_report(analysis, code=code)
    write_page(page, analyses, code)
    say(f"Wrote {', '.join(shown)}")
    _say_others([child for child in children if child.path and shortest(child.path) not in shown])


def say_where_children(children: "Sequence[ChildRun]") -> None:
    """Name the traces of children beside that of the script, and what is missing."""
    _say_others(children)
    say_what_is_missing(children)


def say_what_is_missing(children: "Sequence[ChildRun]") -> None:
    """Name the children that made steps and were not recorded, and the ranks that nobody has heard of."""
    for child in children:
        if child.path is None:
            say(f"{child.name}: recorded nothing ({child.why})")
    known = {child.rank for child in children if child.rank is not None}
    world_size = max((child.world_size or 0 for child in children), default=0)
    missing = [str(rank) for rank in range(world_size) if rank not in known]
    if missing:
        what = "Rank" if len(missing) == 1 else "Ranks"
        say(f"{what} {', '.join(missing)} of {world_size}: no process here made a step of it")


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
        what = counted(len(paths), "child of the script", "children of the script")
        say(f"Wrote the traces of {what}, too. Next: pinprof report {shlex.join(paths)}")
