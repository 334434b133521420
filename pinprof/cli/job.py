"""What `pinprof run` says about a job: which rank writes what, and the report on all ranks."""

import platform
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from pinprof.cli.report import report
from pinprof.cli.terminal import progress, say
from pinprof.units import counted

if TYPE_CHECKING:
    from pinprof.capture.job import Agreement, Written
    from pinprof.cli.machine import MachineFile
    from pinprof.errors import PinprofError
    from pinprof.report.source import Code

TRACES_WITHIN_S = 300.0
"""How long rank 0 waits for the other traces after it has written its own."""
VISIBLE_WITHIN_S = 5.0
"""How long a file that another machine wrote to a shared folder may take to appear here."""


def report_job(
    agreement: "Agreement", page: str, later: str, machine: "MachineFile | None" = None, code: "Code | None" = None
) -> bool:
    """Report on the traces of all ranks once they are written; return whether there are several.

    `later` is the command that repeats this report.
    """
    with progress("waiting for the traces of all ranks") as show:
        written = agreement.traces(TRACES_WITHIN_S, show)
        _await_visible(written)
    here = [each.path for _, each in sorted(written.items()) if each.is_here]
    for rank in range(agreement.ranks):
        _say_what_is_missing(rank, written.get(rank))
    if len(here) > 1:
        say(f"Wrote the traces of {counted(len(here), 'rank')}; to report on them again: {later}")
        report_ranks(here, page, machine, code)
    return len(here) > 1


def report_ranks(paths: "Sequence[str]", page: str, machine: "MachineFile | None", code: "Code | None") -> None:
    """Report on these traces as `pinprof report` does, and write the page."""
    hidden = code is not None and not code.quotes
    options = {"html_file": page, "machine": machine, "no_source": hidden, "force": True}
    click.get_current_context().invoke(report, traces=tuple(paths), **options)


def _await_visible(written: "dict[int, Written]") -> None:
    end = time.monotonic() + VISIBLE_WITHIN_S
    while time.monotonic() < end and any(each.path and not each.is_here for each in written.values()):
        time.sleep(0.1)


def _say_what_is_missing(rank: int, written: "Written | None") -> None:
    if written is None:
        say(f"Rank {rank}: its trace was not ready within {TRACES_WITHIN_S:.0f} s")
    elif not written.path:
        say(f"Rank {rank}: recorded nothing")
    elif not written.is_here:
        say(f"Rank {rank}: its trace is on {written.machine}, {written.path}; fetch it to report on all ranks together")


def give_up(agreement: "Agreement", error: "PinprofError") -> NoReturn:
    """End a rank without a trace so that the others can write theirs: a launcher ends all ranks if one fails."""
    if agreement.rank:
        say(f"Rank {agreement.rank}: {error}")
        sys.exit(0)
    agreement.traces(TRACES_WITHIN_S, lambda _: None)
    raise error


def say_where(output: str, local_rank: str | None) -> None:
    """Say once on each machine except the first where its ranks wrote."""
    if local_rank == "0":
        say(f"{platform.node()}: wrote {output}, and the other ranks on this machine wrote theirs beside it")


def command_for(base: Path, *, is_folder: bool) -> str:
    """Return the command that reports on the traces of all ranks."""
    from pinprof.capture.job import path_of_rank  # noqa: PLC0415  `pinprof --help` needs no torch

    return f"pinprof report {shlex.quote(f'{base.parent}/' if is_folder else str(path_of_rank(base, '*')))}"
