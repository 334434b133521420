"""Runs an unmodified script under the guard, to its end or for its first steps, and says what the guard found."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from pinprof.ab.worker import GuardResult, Race
from pinprof.capture.steps.marks import FirstSteps
from pinprof.program.user_program import UserProgram, ending_of, exit_as_fork
from pinprof.races.guard import NO_GPU, Guard
from pinprof.races.violation import Violation


def run_guarded(
    script: str | os.PathLike[str],
    args: Sequence[str],
    guard: Guard,
    *,
    module: bool = False,
    most_steps: int | None = None,
) -> int:
    """Run `script` as `python script args` would, or as `python -m script args`, in a guard; return its exit status.

    It ends after `most_steps`, if that is given. If the script fails, its traceback goes to standard error as Python
    prints it. Raises CaptureError if the script does not exist.
    """
    program, process = UserProgram.found(script, args, module=module), os.getpid()
    first = FirstSteps(most_steps) if most_steps else None
    with program.as_main() as main, ExitStack() as undo:
        if first:
            undo.enter_context(first.placed())
        undo.enter_context(guard)
        status = ending_of(program, main, None).exit_status
    if os.getpid() != process:
        exit_as_fork(status)
    if first and first.stop.times:
        sys.settrace(None)
        return 0
    return status


def result_of(guard: Guard) -> GuardResult:
    """Return what a guard found, for the program that started it."""
    notes = guard.notes if guard.has_gpu else (NO_GPU.removesuffix("."),)
    return GuardResult(tuple(map(_race, guard.violations)), guard.followed, notes)


def _race(violation: Violation) -> Race:
    places = zip((violation.copy, violation.access), violation.sources, strict=True)
    key = (violation.rule.id, *(text for place, source in places for text in (place.function, source)))
    return Race(violation.rule.id, violation.headline, violation.is_certain, key)
