"""What is known of a script of other people: where it is, how it starts, and what a step of it is."""

from dataclasses import dataclass

from pinprof.errors import PinprofError
from scripts.examination.edits import Edit


@dataclass(frozen=True)
class Program:
    """One script as it stands in its repository.

    `repository` is its folder next to the others, `folder` the working folder in it. `command` follows `python`.
    `paths` are folders of the repository that its users put on PYTHONPATH. `data` names the makers of what it
    reads, `maker@place` where the place matters. A step ends with each `calls_per_step`-th call of `marker`.
    `terminal`: it asks its terminal for its size. `unchecked`: torchvision does not compare checksums, which
    made-up data cannot have. `launcher` stands between `python` and the command. `repairs` let it run with the
    libraries of today, on a small machine.
    """

    name: str
    repository: str
    command: tuple[str, ...]
    folder: str = "."
    paths: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    marker: str = "optimizer"
    calls_per_step: int = 1
    gpus: int = 1
    terminal: bool = False
    unchecked: bool = False
    launcher: tuple[str, ...] = ()
    pinprof_options: tuple[str, ...] = ()
    repairs: tuple[Edit, ...] = ()


class UnknownProgramError(PinprofError, ValueError):
    """No program has this name."""
