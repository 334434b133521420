"""The files that `pinprof run` writes: what they are called, and where they go."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pinprof.cli.job import command_for
from pinprof.cli.terminal import fail

if TYPE_CHECKING:
    from pinprof.capture.job import Rank

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


class Outputs(NamedTuple):
    """The files that a process writes; in a job of several ranks their names contain its rank."""

    trace: str
    page: str
    is_first: bool
    """Whether this process reports."""
    again: str
    """The command that reports on the traces of all ranks."""


def outputs_of(output: str | None, name: str, *, of_job: bool) -> Outputs:
    """Return the files of this process; makes their folder, where the user names one."""
    base, rank = _base(output, name), rank_of_job()
    trace = _path_of(base, rank)
    again = command_for(base, is_folder=_is_folder(output))
    return Outputs(trace, _page_of(base if of_job else trace), rank is None or rank.rank == 0, again)


def name_of(script: str, args: tuple[str, ...], *, module: bool) -> str:
    """Return what to call the outputs after: the script, also where a launcher starts it, or the module."""
    from pinprof.capture.children.commands import LAUNCHERS

    started = next((word for word in args if word.endswith(".py")), None) if module and script in LAUNCHERS else None
    return script.rpartition(".")[2] if module and started is None else Path(started or script).stem


def _base(output: str | None, name: str) -> Path:
    """Return the trace to write, without the number of a rank; make its folder, where it gets this name."""
    if output == "-":
        fail("standard output cannot hold a recording; name a file")
    if output is None or not _is_folder(output):
        return Path(output or name)
    folder = Path(output)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        fail(f"{output}: cannot make this folder ({error.strerror})")
    return folder / name


def _is_folder(output: str | None) -> bool:
    return output is not None and (output.endswith(("/", os.sep)) or Path(output).is_dir())


def rank_of_job() -> "Rank | None":
    """Return the rank of this process if its job has several."""
    from pinprof.capture.job import rank_of_process

    rank = rank_of_process()
    return rank if rank and rank.world_size > 1 else None


def _path_of(base: Path, rank: "Rank | None") -> str:
    from pinprof.capture.job import path_of_rank

    return str(base if rank is None else path_of_rank(base, rank.rank))


def _page_of(path: str | Path) -> str:
    return str(path).removesuffix(".gz").removesuffix(".json") + ".html"
