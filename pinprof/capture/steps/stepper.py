"""Advances a recording at the end of each step, joins the ranks of its process group, and finally ends the program."""

from collections.abc import Callable, Hashable
from threading import get_ident

from pinprof.capture.job import Agreement, Rank, path_of_rank, rank_in_group, store_of_group
from pinprof.capture.options import NS_PER_S
from pinprof.capture.window.recording import Recording
from pinprof.capture.window.trace_file import writable_target
from pinprof.ground.errors import CaptureError, unexpected
from pinprof.program.ending import Stop
from pinprof.program.hooks import contained, faults

NO_OPTIMIZER = "no optimizer has stepped"  # why something else marks the steps


class Stepper:
    """Advances the recording at the end of every step, and ends the script when that is done or has failed.

    A rank of a job goes on until all ranks can end together, because the others would wait for it in a collective. A
    recording that began without a rank `may_join` those of the process group that the script makes before its first
    step ends; `rank` is None as long as it has none. A script that only evaluates goes on while children that train
    need it (`is_needed`). All recorded and timed steps are of one `kind`. If better steps may follow within
    `awaits_better_s` seconds, the script goes on until then, and the first of them begins the recording anew.
    """

    def __init__(
        self,
        recording: Recording,
        agreement: Agreement | None,
        *,
        keep_going: bool,
        may_join: bool = False,
        is_training: Callable[[], bool] = lambda: True,
        is_needed: Callable[[], bool] = lambda: False,
        kind: Callable[[], Hashable] = lambda: None,
        awaits_better_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.recording = recording
        self.rank: Rank | None = None
        self.failure: CaptureError | None = None
        self.trains = False  # whether the recorded steps train
        self.on_stop: Callable[[], None] = lambda: None  # called before the script is asked to end
        self.on_wait: Callable[[], None] = lambda: None
        """Called at the end of each step that only shows whether better ones follow."""
        self.is_faulty = False  # whether pinprof itself has failed, so that nothing is recorded
        self.stop = Stop()
        self._thread = get_ident()
        self._agreement = agreement
        self._may_join = may_join
        self._keep_going = keep_going
        self._is_training = is_training
        self._is_needed = is_needed
        self._kind_now = kind
        self._awaits_better_s = awaits_better_s
        self._kind: Hashable = None  # the kind of the recorded steps, and the name of their marker
        self._is_best = True  # whether no better steps may follow the recorded ones
        self._began_ns = 0  # when the first step of that kind ended

    def end_step(self, marker: str) -> None:
        """Note the end of a step, with the name of its marker."""
        if self._may_join:
            self._join()
        if self.failure is None:
            try:
                self._advance(marker)
            except CaptureError as exc:
                self._give_up(exc)
            except Exception as error:  # noqa: BLE001  an error of pinprof, not of the program
                self._give_up(self._note_fault(error))
        if self.stop.times or (
            self.may_end() and (self._agreement is None or self._agreement.ends(self.recording.count()))
        ):
            if not self.stop.times:
                contained(self.on_stop)()
            self.stop()
        elif self.recording.done and not self._is_best and not self._keep_going:
            contained(self.on_wait)()

    def end(self) -> None:
        """End the recording, however the program has ended; if that fails, `failure` says why."""
        try:
            self.recording.end()
        except CaptureError as exc:
            self.failure = self.failure or exc
        except Exception as error:  # noqa: BLE001  the program has ended, and has its exit status
            self._note_fault(error, "")

    def leave(self) -> None:
        """Tell the other ranks of the recording where this one has written its trace."""
        if self.rank is not None and self._agreement is not None:
            self._agreement.leave(self.recording.path if self.recording.recorded_steps else None)

    def _advance(self, marker: str) -> None:
        recording = self.recording
        if self._thread != get_ident():
            self._thread = get_ident()
            recording.move()
        kind, is_best = (self._kind_now(), marker), not self._awaits_better_s()
        if kind != self._kind:
            if recording.steps_seen:
                recording.restart(discard=is_best and not self._is_best)
            if recording.done:
                return  # steps of another kind than the recorded ones
            self._kind, self._is_best, self._began_ns = kind, is_best, recording.journal.clock.now_ns()
        if not recording.done:
            recording.marker, self.trains = marker if is_best else f"{marker}; {NO_OPTIMIZER}", self._is_training()
        recording.step()

    def _note_fault(self, error: Exception, then: str = ". The program runs on") -> CaptureError:
        self.is_faulty, self.failure = True, CaptureError(unexpected(error))
        faults.note(error, then)
        return self.failure

    def _give_up(self, failure: CaptureError) -> None:
        """Record no more; the program runs on, unless it has to end together with the other ranks."""
        self.failure = failure
        contained(self.recording.abandon)()
        if self._agreement is None and not self.is_faulty:
            faults.say(f"Nothing more is recorded: {failure}. The program runs on")

    def _join(self) -> None:
        """Join the other ranks of the process group, if it has several, and give the trace the name of this rank."""
        self._may_join = False
        rank, recording = rank_in_group(), self.recording
        if rank is None or rank.world_size == 1:
            return
        self.rank, self._agreement = rank, Agreement(rank, store_of_group)
        recording.join(self._agreement, recording.count)
        recording.path = path_of_rank(recording.path, rank.rank)
        try:
            writable_target(recording.path, recording.options)
        except CaptureError as exc:
            self.failure = exc

    def may_end(self) -> bool:
        """Return whether nothing more is wanted of the program."""
        # ranks that have their recordings wait for this one
        is_awaited = self._agreement is not None and self.failure is not None
        if is_awaited or self._keep_going or not self.recording.done:
            return is_awaited
        seconds = (self.recording.journal.clock.now_ns() - self._began_ns) / NS_PER_S
        return (self._agreement is not None or seconds >= self._awaits_better_s()) and (
            self.trains or not self._is_needed()
        )
