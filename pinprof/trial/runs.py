"""Runs a version of a program for its first steps: for its numbers, and under the guard; each in a fresh process."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pinprof.ab.worker import GuardCopies, GuardResult, NoteNumbers, Nudged, Program, Race, Task
from pinprof.errors import MeasureError
from pinprof.processes import Running, running
from pinprof.temporary import temporary_folder

LIMIT_S = 300.0
"""A first run takes seconds; one that takes so long is stuck, or makes no steps."""
SAME_NUMBERS = {"PYTHONHASHSEED": "0", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""With these Python orders sets alike, and cuBLAS computes alike (its own documentation, `Results reproducibility`)."""


class TaskRun(NamedTuple):
    """A run of the first steps of a version, for one task."""

    program: Program
    task: Task


def for_numbers(program: Program, steps: int, nudged: Nudged | None = None) -> TaskRun:
    """Return the run that notes what the first steps compute."""
    own = replace(program, environment={**program.environment, **SAME_NUMBERS})
    return TaskRun(own, NoteNumbers(steps=steps, nudged=nudged))


def under_guard(program: Program, steps: int) -> TaskRun:
    """Return the run that looks for races."""
    return TaskRun(program, GuardCopies(steps=steps))


def run_all(runs: Sequence[TaskRun], *, together: bool) -> list[Mapping[str, Any] | MeasureError]:
    """Return what each run has written, or why it has not.

    They run at the same time, or one after the other; what fails beside others runs again alone.
    """
    results: list[Mapping[str, Any] | MeasureError | None] = [None] * len(runs)
    if together:
        with ExitStack() as stack:
            started = [(run, *stack.enter_context(_started(run))) for run in runs]
            end = time.monotonic() + LIMIT_S
            results = [_read(run, process, path, end) for run, process, path in started]
    return [result if isinstance(result, Mapping) else _alone(run) for run, result in zip(runs, results, strict=True)]


def _alone(run: TaskRun) -> Mapping[str, Any] | MeasureError:
    with _started(run) as (process, path):
        return _read(run, process, path, time.monotonic() + LIMIT_S)


@contextmanager
def _started(run: TaskRun) -> Iterator[tuple[Running, Path]]:
    program = run.program
    with temporary_folder("try") as folder:
        path = folder / "result.json"
        command = program.worker_command(run.task, path)
        with running(command, program.folder, program.environment) as process:
            yield process, path


def _read(run: TaskRun, process: Running, path: Path, end: float) -> Mapping[str, Any] | MeasureError:
    status = process.wait(max(end - time.monotonic(), 0.0))
    if status is None:
        return MeasureError(f"{run.program.name}: it has not made its steps after {LIMIT_S:.0f} s")
    if status or not path.is_file():
        return MeasureError(f"{run.program.name}: {process.why_failed(status)}")
    document: Mapping[str, Any] = json.loads(path.read_bytes())
    return document


@dataclass(frozen=True)
class Guarded:
    """What the guard saw of a version; `why` says why it could not run."""

    races: tuple[Race, ...] = ()
    copies: int = 0
    notes: tuple[str, ...] = ()
    why: str = ""


def guarded(document: Mapping[str, Any] | MeasureError) -> Guarded:
    """Return what the guard has written."""
    if isinstance(document, MeasureError):
        return Guarded(why=str(document))
    result = msgspec.convert(document, GuardResult)
    if not result.has_gpu:
        return Guarded(notes=("torch sees no GPU, so there was no copy to follow",))
    return Guarded(result.races, result.copies, result.notes)
