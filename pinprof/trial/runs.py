"""Runs a version of a program for its first steps: for its numbers, and under the guard; each in a fresh process."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from pinprof.ab.process import Running, running
from pinprof.ab.program import Program
from pinprof.ab.tasks import GuardCopies, GuardedRace, GuardResult, NoteNumbers, Nudged, Task
from pinprof.errors import MeasureError
from pinprof.temporary import temporary_folder

LIMIT_S = 300.0
"""A first run takes seconds; one that takes so long is stuck, or makes no steps."""
SAME_NUMBERS = {"PYTHONHASHSEED": "0", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""With these Python orders sets alike, and cuBLAS computes alike (its own documentation, `Results reproducibility`)."""


@dataclass(frozen=True)
class Look:
    """A run that looks at one thing."""

    program: Program
    task: Task

    @classmethod
    def at_numbers(cls, program: Program, steps: int, *, nudged: Nudged | None = None) -> "Look":
        """Return the run that notes what the first steps compute."""
        own = replace(program, environment={**program.environment, **SAME_NUMBERS})
        return cls(own, NoteNumbers(steps=steps, nudged=nudged))

    @classmethod
    def at_copies(cls, program: Program, steps: int) -> "Look":
        """Return the run under the guard."""
        return cls(program, GuardCopies(steps=steps))


def looked(looks: Sequence[Look], *, together: bool) -> list[Mapping[str, Any] | MeasureError]:
    """Return what each run has written, or why it has not.

    They run at the same time, or one after the other; what fails beside others runs again alone.
    """
    if not together:
        return [_alone(look) for look in looks]
    with ExitStack() as stack:
        started = [(look, *stack.enter_context(_started(look))) for look in looks]
        end = time.monotonic() + LIMIT_S
        seen = [_read(look, process, path, end) for look, process, path in started]
    return [_alone(look) if isinstance(one, MeasureError) else one for look, one in zip(looks, seen, strict=True)]


def _alone(look: Look) -> Mapping[str, Any] | MeasureError:
    with _started(look) as (process, path):
        return _read(look, process, path, time.monotonic() + LIMIT_S)


@contextmanager
def _started(look: Look) -> Iterator[tuple[Running, Path]]:
    program = look.program
    with temporary_folder("try") as folder:
        path = folder / "seen.json"
        command = program.under_worker(look.task, path)
        with running(command, program.folder, program.environment) as process:
            yield process, path


def _read(look: Look, process: Running, path: Path, end: float) -> Mapping[str, Any] | MeasureError:
    status = process.wait(max(end - time.monotonic(), 0.0))
    if status is None:
        return MeasureError(f"{look.program.name}: it has not made its steps after {LIMIT_S:.0f} s")
    if status or not path.is_file():
        return MeasureError(f"{look.program.name}: {process.why_failed(status)}")
    document: Mapping[str, Any] = json.loads(path.read_bytes())
    return document


@dataclass(frozen=True)
class Race:
    """Host memory that is used before its copy has ended."""

    rule: str
    headline: str
    certain: bool
    key: tuple[str, ...]
    """What says that a race of another version is the same one: its functions and the text of its lines."""


@dataclass(frozen=True)
class Guarded:
    """What the guard saw of a version; `why` says why it could not run."""

    races: tuple[Race, ...] = ()
    copies: int = 0
    notes: tuple[str, ...] = ()
    why: str = ""


def guarded(seen: Mapping[str, Any] | MeasureError) -> Guarded:
    """Return what the guard has written."""
    if isinstance(seen, MeasureError):
        return Guarded(why=str(seen))
    result = msgspec.convert(seen, GuardResult)
    if not result.has_gpu:
        return Guarded(notes=("torch sees no GPU, so there was no copy to follow",))
    return Guarded(tuple(map(_race, result.violations)), result.followed, tuple(result.notes))


def _race(race: GuardedRace) -> Race:
    uses = race.copy, race.access
    key = tuple(part for use in uses for part in (use.function, use.text))
    return Race(race.rule, race.headline, race.certain, (race.rule, *key))
