"""Advances a recording at the end of each step, joins the ranks of its process group, and finally ends the program."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident

from pinprof.capture.job import Agreement, Rank, path_of_rank, rank_in_group, store_of_group
from pinprof.capture.window.recording import Recording
from pinprof.capture.window.trace_file import writable_target
from pinprof.errors import CaptureError, unexpected
from pinprof.program.hooks import contained, faults
from pinprof.program.user_program import POLITE_STOPS, Stop


@dataclass
class Membership:
    """The rank of a recording that began without one; `rank` and `agreement` are None as long as it has none.

    `count` returns how many steps the program has made.
    """

    recording: Recording
    count: Callable[[], int]
    force: bool
    rank: Rank | None = None
    agreement: Agreement | None = None

    def join(self) -> Agreement | None:
        """Join the other ranks of the process group, if it has several, and give the trace the name of this rank."""
        rank = rank_in_group()
        if rank is None or rank.world_size == 1:
            return None
        self.rank, self.agreement = rank, Agreement(rank, store_of_group)
        self.recording.join(self.agreement, self.count)
        self.recording.path = path_of_rank(self.recording.path, rank.rank)
        return self.agreement

    def check(self) -> None:
        """Raise CaptureError if the trace cannot be written under its new name."""
        if self.rank is not None:
            writable_target(self.recording.path, force=self.force)

    def leave(self) -> None:
        """Tell the other ranks where this one has written its trace."""
        if self.agreement is not None:
            self.agreement.leave(self.recording.path if self.recording.recorded_steps else None)


class Stepper:
    """Advances the recording at the end of every step, and ends the script when that is done or has failed.

    A rank of a job goes on until all ranks can end together, because the others would wait for it in a collective. A
    script that only evaluates goes on while children that train need it (`is_needed`).
    """

    def __init__(
        self,
        recording: Recording,
        agreement: Agreement | None,
        *,
        keep_going: bool,
        membership: Membership | None = None,
        is_training: Callable[[], bool] = lambda: True,
        is_needed: Callable[[], bool] = lambda: False,
    ) -> None:
        self.recording = recording
        self.failure: CaptureError | None = None
        self.trains = False
        """Whether the recorded steps train."""
        self.on_stop: Callable[[], None] = lambda: None
        """Called before the script is asked to end."""
        self.is_faulty = False
        """Whether pinprof itself has failed, so that nothing is recorded."""
        self.stop = Stop()
        self._thread = get_ident()
        self._agreement = agreement
        self._membership = membership
        self._keep_going = keep_going
        self._is_training = is_training
        self._is_needed = is_needed

    def end_step(self, marker: str) -> None:
        """Note the end of a step, with the name of its marker."""
        if self._membership is not None:
            self._join(self._membership)
        if self.failure is None:
            try:
                self._advance(marker)
            except CaptureError as exc:
                self._give_up(exc)
            except Exception as error:  # noqa: BLE001  an error of pinprof, not of the program
                self._give_up(self._note_fault(error))
        if self.stops or (self._may_end() and (self._agreement is None or self._agreement.ends(self.recording.place))):
            if not self.stops:
                contained(self.on_stop)()
            self.stop()

    def end(self) -> None:
        """End the recording, however the program has ended; if that fails, `failure` says why."""
        if self.stops > POLITE_STOPS:
            sys.settrace(None)
        try:
            self.recording.end()
        except CaptureError as exc:
            self.failure = self.failure or exc
        except Exception as error:  # noqa: BLE001  the program has ended, and has its exit status
            self._note_fault(error)

    def _advance(self, marker: str) -> None:
        recording = self.recording
        if self._thread != get_ident():
            self._thread = get_ident()
            recording.move()
        if recording.steps_seen and marker != recording.marker:
            recording.restart()
        if not recording.done:
            recording.marker, self.trains = marker, self._is_training()
        recording.step()

    def _note_fault(self, error: Exception) -> CaptureError:
        self.is_faulty, self.failure = True, CaptureError(unexpected(error))
        faults.note(error)
        return self.failure

    def _give_up(self, failure: CaptureError) -> None:
        """Record no more; the program runs on, unless it has to end together with the other ranks."""
        self.failure = failure
        contained(self.recording.abandon)()
        if self._agreement is None and not self.is_faulty:
            faults.say(f"Nothing more is recorded: {failure}. The program runs on")

    def _join(self, membership: Membership) -> None:
        self._membership, self._agreement = None, membership.join()
        try:
            membership.check()
        except CaptureError as exc:
            self.failure = exc

    def _may_end(self) -> bool:
        is_awaited = self._agreement is not None and self.failure is not None  # by ranks that have their recordings
        return is_awaited or (self.recording.done and not self._keep_going and (self.trains or not self._is_needed()))

    @property
    def stops(self) -> int:
        """How often it has asked the script to end."""
        return self.stop.times
