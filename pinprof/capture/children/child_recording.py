"""Records a child, from its first step on: only then its rank is known, and with it the name of its trace."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from os import getpid
from pathlib import Path

from pinprof.capture.children.notes import ChildConfig, ChildEnd, ChildStart, Notes
from pinprof.capture.job import Agreement, Rank, agreement_of_process
from pinprof.capture.options import on_command_line
from pinprof.capture.steps.marks import Marks
from pinprof.capture.steps.stepper import Stepper
from pinprof.capture.window.recording import profile
from pinprof.ground.errors import CaptureError

RECORDED_BEFORE = "an earlier process of this rank has been recorded"


class ChildRecording:
    """The recording of this process, which begins when its first step ends."""

    def __init__(self, config: ChildConfig, notes: Notes) -> None:
        self.marks = Marks(
            config.step_marker,
            self._end_step,
            group=False,
            may_move=lambda: self._stepper is None or self._stepper.recording.may_move,
        )
        self._config = config
        self._notes = notes
        self._agreement: Agreement | None = None
        self._stepper: Stepper | None = None
        self._is_left_alone = False

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Watch the steps in the block; if a function of the script marks them, mark it in the main module."""
        with self.marks.placed(), ExitStack() as undo:
            if self.marks.function is not None:
                self.marks.function.mark_in_main(undo)
            yield

    def end(self, *, failed: bool) -> ChildEnd:
        """End the recording; return how it ended, and whether pinprof has stopped the process."""
        stepper, why = self._stepper, None
        if stepper is None:
            return ChildEnd()
        stepper.end()
        recording = stepper.recording
        recorded = bool(recording.recorded_steps)
        if not recorded:
            why = "it failed" if failed else str(stepper.failure or recording.why_nothing_recorded(on_command_line))
        if self._agreement is not None:
            self._agreement.leave(recording.path if recorded else None)
        return ChildEnd(
            recorded=recorded,
            marker=recording.marker,
            stopped=bool(stepper.stop.times) and not failed,
            why=why,
            trains=stepper.trains,
        )

    def _end_step(self, marker: str) -> None:
        if self._is_left_alone:
            return
        if self._stepper is not None:
            self._stepper.end_step(marker)
            return
        self._begin()
        if self._stepper is not None and self._stepper.failure is not None:
            self._stepper.end_step(marker)

    def _begin(self) -> None:
        agreement = agreement_of_process(self._config.inherited)
        rank = Rank(agreement.rank, agreement.ranks) if agreement else None
        start = self._notes.start(Path(self._config.path), rank)
        if start == "at work" or (start == "recorded" and self._config.keep_going):
            self._is_left_alone = True
        elif isinstance(start, ChildStart):
            self._agreement = agreement
            self._stepper = self._stepper_at(start.path, None)
        else:
            self._stepper = self._stepper_at(None, CaptureError(RECORDED_BEFORE))

    def _stepper_at(self, path: str | None, failure: CaptureError | None) -> Stepper:
        """Return a stepper of the recording at this path; without a path it records nothing, and only stops."""
        scratch = str(self._notes.folder / f"{getpid()}.json")
        try:
            recording = profile(path or scratch, self._config.options)
        except CaptureError as exc:
            recording, failure = profile(scratch, self._config.options), exc
        stepper = Stepper(
            recording, self._agreement, keep_going=self._config.keep_going, is_training=lambda: self.marks.trains
        )
        stepper.failure = failure
        recording.done = path is None  # nothing to record: it ends like a finished recording
        recording.join(self._agreement, lambda: self.marks.finder.marks_passed)
        if failure is None:
            recording.start()
        return stepper
