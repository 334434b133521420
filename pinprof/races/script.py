"""Runs an unmodified script to its end under the guard."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from pinprof.capture.program import UserProgram, exit_as_fork, status_after
from pinprof.errors import CaptureError
from pinprof.races.watching import Guard


def run_guarded(script: str | os.PathLike[str], args: Sequence[str], guard: Guard, *, module: bool = False) -> int:
    """Run `script` as `python script args` would, or as `python -m script args`, in a guard; return its exit status.

    If the script fails, its traceback goes to standard error as Python prints it. Raises CaptureError if the script
    does not exist.
    """
    if not module and not Path(script).is_file():
        raise CaptureError(f"{script}: no such script")
    program, process = UserProgram(os.fspath(script), args, module), os.getpid()
    with program.as_main() as main, guard:
        status = _status_of(program, main)
    if os.getpid() != process:
        exit_as_fork(status)
    return status


def _status_of(program: UserProgram, main: ModuleType) -> int:
    try:
        exec(program.load(main), vars(main))  # noqa: S102  to run the user's program is the purpose
    except CaptureError:
        raise
    except BaseException as exc:  # noqa: BLE001  as python itself does
        return status_after(exc)
    return 0
