"""Runs an unmodified script under the guard, to its end or for its first steps, and says what the guard found."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from pinprof.ab.tasks import GuardedRace, GuardedUse, GuardResult
from pinprof.capture.steps.marks import FirstSteps
from pinprof.document import filled
from pinprof.program.user_program import UserProgram, ending_of, exit_as_fork
from pinprof.races.violation import Violation
from pinprof.races.watching import Guard
from pinprof.trace.lines import SourceLine


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
    races = [_race(violation) for violation in guard.violations]
    return filled(GuardResult, guard, notes=list(guard.notes), violations=races)


def _race(violation: Violation) -> GuardedRace:
    copy, access = map(_use, (violation.copy, violation.access), violation.sources)
    return filled(
        GuardedRace, violation, rule=violation.rule.id, certain=violation.is_certain, copy=copy, access=access
    )


def _use(place: SourceLine, text: str) -> GuardedUse:
    return filled(GuardedUse, place, text=text)
