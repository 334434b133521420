"""A process that the script starts: it runs as without pinprof, and is recorded once torch is there and a step ends."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from pinprof.capture.children import followed
from pinprof.capture.choice import HOWS
from pinprof.capture.departure import told_of_departure
from pinprof.capture.ending import Ending, ending_of, finishable, is_our_doing
from pinprof.capture.faults import contained, faults
from pinprof.capture.imports import when_imported
from pinprof.capture.notes import Notes
from pinprof.capture.orders import Orders
from pinprof.capture.program import UserProgram, exit_as_fork, hide_own_frames
from pinprof.errors import CaptureError

if TYPE_CHECKING:
    from pinprof.capture.late import LateRecording
    from pinprof.capture.markers import Marks


class Child:
    """This process, watched while the block of `watched()` is open. It does not import torch by itself."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.process = os.getpid()
        self.notes = Notes(orders.notes)
        self.recording: LateRecording | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Mark the steps in the block as soon as torch is imported, and follow the processes that it starts."""
        faults.tell = self.notes.remark
        with ExitStack() as undo, followed(self.orders), told_of_departure(lambda _: self._depart()):
            when_imported("torch", lambda: undo.enter_context(self._late().placed()))
            yield

    def marks_in_script(self) -> "Marks | None":
        """Return the marks that change the script's code, if a function of it marks its steps; imports torch then."""
        if ":" in self.orders.step_marker or self.orders.step_marker in HOWS:
            return None
        import_module("torch")  # first, for its import places the marks
        return self._late().marks

    def end(self, *, failed: bool) -> bool:
        """End the recording, and note how it ended; return whether pinprof has stopped this process."""
        if self.recording is not None:
            return self.recording.end(failed=failed)
        self.notes.end(None, recorded=False, marker="", stopped=False, why=None)
        return False

    def _depart(self) -> None:
        self.end(failed=False)

    def _late(self) -> "LateRecording":
        from pinprof.capture.late import LateRecording  # noqa: PLC0415  it imports torch

        if self.recording is None:
            self.recording = LateRecording(self.orders, self.notes)
        return self.recording


class Followed:
    """What a process of `multiprocessing` runs in place of its own `run`, once."""

    def __init__(self, process: BaseProcess, orders: Orders) -> None:
        self.process = process
        self.orders = orders

    def __call__(self) -> None:
        """Run the process, and record it."""
        vars(self.process).pop("run", None)
        child = Child(self.orders)
        with child.watched():
            error = _error_of(self.process)
            if os.getpid() == child.process:
                contained(child.end)(failed=error is not None)
        if isinstance(error, SystemExit):
            raise error
        if error is not None:
            _show(self.process, error)
            raise SystemExit(1)


def _error_of(process: BaseProcess) -> BaseException | None:
    try:
        with finishable():
            process.run()
    except BaseException as exc:  # noqa: BLE001  as multiprocessing itself does
        return None if is_our_doing(exc) else exc
    return None


def _show(process: BaseProcess, error: BaseException) -> None:
    """Print an error as multiprocessing does, without pinprof's frames."""
    sys.stderr.write(f"Process {process.name}:\n")
    traceback.print_exception(hide_own_frames(error))


def main(orders: str, *, module: bool) -> None:
    """Run the script or module that the command line names, in a process of its own, and exit with its status."""
    child = Child(Orders.from_json(orders))
    program = UserProgram(sys.argv[1], sys.argv[2:], module)
    try:
        ending = _ending(program, child)
    except CaptureError as error:
        sys.exit(f"Error: {error}")
    if os.getpid() != child.process:
        exit_as_fork(ending.exit_status)
    sys.exit(ending.exit_status)


def _ending(program: UserProgram, child: Child) -> Ending:
    with program.as_main() as main, child.watched():
        ending = ending_of(program, main, child.marks_in_script())
        if os.getpid() == child.process:
            contained(child.end)(failed=bool(ending.exit_status))
    return ending
