"""Make the versions of a program that a trial compares, and run their first steps."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pinprof.ab import ProgramVersion
from pinprof.ab.checkout import moved_environment
from pinprof.ab.copies import copied
from pinprof.ab.worker import GuardCopies, GuardResult, NoteNumbers, Nudged, Task, Worker, workers
from pinprof.errors import MeasureError
from pinprof.fix import PlannedChanges, ProgramChange

ORIGINAL, CHANGED = "original", "changed"
NO_FILE = "No such file or directory"
"""Python's error for a missing file."""
LIMIT_S = 300.0
"""A first run takes seconds; one that takes longer than this is stuck, or makes no steps."""
SAME_NUMBERS = {"PYTHONHASHSEED": "0", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""With these Python orders sets alike, and cuBLAS computes alike (its own documentation, `Results reproducibility`)."""


@dataclass(frozen=True)
class Command:
    """The command with which the user starts the program, the working directory, and the program's top folder."""

    words: tuple[str, ...]
    here: Path
    top: Path

    @property
    def scripts(self) -> frozenset[Path]:
        """The files that the command names."""
        files = (self.here / word for word in self.words if not word.startswith("-"))
        return frozenset(file.resolve() for file in files if file.suffix == ".py" and file.is_file())

    def moved(self, copy_top: Path) -> tuple[str, ...]:
        """Return the words of the command with the scripts of a copy."""
        return tuple(self._moved(word, copy_top) for word in self.words)

    def _moved(self, word: str, copy_top: Path) -> str:
        path = Path(word)
        if path.suffix != ".py":
            return word
        if path.is_absolute():
            return str(copy_top / path.relative_to(self.top)) if path.is_relative_to(self.top) else word
        file = (self.here / path).resolve()
        return str(file) if file.is_file() and not file.is_relative_to(self.top) else word


@dataclass
class Versions:
    """Makes each version when it is first needed; `undo` removes them."""

    command: Command
    undo: ExitStack
    changes: PlannedChanges | None = None
    _made: dict[tuple[int, ...] | None, ProgramVersion] = field(default_factory=dict)
    _copies: list[Path] = field(default_factory=list)

    def original(self) -> ProgramVersion:
        """Return the program as it is."""
        if None not in self._made:
            self._made[None] = self._program(ORIGINAL, {})
        return self._made[None]

    def changed(self, without: Iterable[ProgramChange] = (), taking: Iterable[ProgramChange] = ()) -> ProgramVersion:
        """Return the program with the proposals in `taking` and the certain changes, except those in `without`."""
        assert self.changes is not None, "changes are planned first"
        left_out, applied = list(without), list(taking)
        everything = [*self.changes.certain, *self.changes.proposals]
        if len(left_out) == len(self.changes.certain) and not applied:
            return self.original()
        key = tuple(number for number, change in enumerate(everything) if change in left_out or change in applied)
        if key not in self._made:
            name = CHANGED + (f" without {_rule_ids(left_out)}" if left_out else "")
            name += f" with {_rule_ids(applied)}" if applied else ""
            self._made[key] = self._program(name, self.changes.patches(left_out, applied).after)
        return self._made[key]

    def with_own_paths(self, text: str) -> str:
        """Return a version's output with the program's own paths, and say why a file may be missing."""
        for copy_top in self._copies:
            text = text.replace(str(copy_top), str(self.command.top))
        if NO_FILE not in text:
            return text
        return f"{text} (it ran in a copy of {self.command.top}: files outside of that need an absolute path)"

    def _program(self, name: str, changed: Mapping[Path, bytes]) -> ProgramVersion:
        command = self.command
        copy_top = self.undo.enter_context(copied(command.top, command.scripts, changed))
        self._copies.append(copy_top)
        folder = copy_top / command.here.relative_to(command.top)
        environment = moved_environment(command.top, copy_top)
        return ProgramVersion(name, command.moved(copy_top), folder, environment, (f"{command.top}/",))


def _rule_ids(changes: Sequence[ProgramChange]) -> str:
    return ", ".join(dict.fromkeys(change.rule.id for change in changes))


class TaskRun(NamedTuple):
    """A run of the first steps of a version, for one task."""

    program: ProgramVersion
    task: Task


def for_numbers(program: ProgramVersion, steps: int, nudged: Nudged | None = None) -> TaskRun:
    """Return the run that notes what the first steps compute."""
    own = replace(program, environment={**program.environment, **SAME_NUMBERS})
    return TaskRun(own, NoteNumbers(steps=steps, nudged=nudged))


def under_guard(program: ProgramVersion, steps: int) -> TaskRun:
    """Return the run that looks for races."""
    return TaskRun(program, GuardCopies(steps=steps))


def run_all(runs: Sequence[TaskRun], *, together: bool) -> list[Mapping[str, Any] | MeasureError]:
    """Return what each run has written, or why it failed.

    They run at the same time if `together`, otherwise one after the other. One that fails together runs again alone.
    """
    results = _at_once(runs) if together else [MeasureError()] * len(runs)
    return [
        result if isinstance(result, Mapping) else _at_once([run])[0] for run, result in zip(runs, results, strict=True)
    ]


def _at_once(runs: Sequence[TaskRun]) -> list[Mapping[str, Any] | MeasureError]:
    with workers(runs) as started:
        end = time.monotonic() + LIMIT_S
        return [_result(worker, end) for worker in started]


def _result(worker: Worker, end: float) -> Mapping[str, Any] | MeasureError:
    try:
        worker.finish(LIMIT_S, end)
        document: Mapping[str, Any] = json.loads(worker.output.read_bytes())
    except MeasureError as error:
        return error
    except FileNotFoundError:
        return MeasureError(f"{worker.program.name}: {worker.process.why_failed(0)}")
    return document


def guard_result(document: Mapping[str, Any] | MeasureError) -> GuardResult:
    """Return the guard's results."""
    return (
        GuardResult(why=str(document)) if isinstance(document, MeasureError) else msgspec.convert(document, GuardResult)
    )
