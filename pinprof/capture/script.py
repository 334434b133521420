"""Records an unmodified script: it runs as under `python`, and its steps advance the recording."""

import os
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import getpid
from pathlib import Path

import msgspec

from pinprof.analyses.whole_run import RegularStep
from pinprof.capture.children.child import followed, reporting_departure
from pinprof.capture.children.notes import ENDED_EARLY, ChildConfig, ChildRun, Notes, notes_folder
from pinprof.capture.children.waiting import StuckScript, end_children
from pinprof.capture.job import Agreement, Rank, leave_job
from pinprof.capture.options import RecordingOptions, on_command_line, recordable_of
from pinprof.capture.steps.marks import Marks
from pinprof.capture.steps.sources import BACKWARD_CALLS, BATCH_DRAWS, OPTIMIZER_STEPS
from pinprof.capture.steps.stepper import Stepper
from pinprof.capture.steps.watchdog import Watchdog
from pinprof.capture.window.lean import OnRecorded
from pinprof.capture.window.recording import OnWindow, Recording, profile
from pinprof.ground.errors import CaptureError, TooFewSteps
from pinprof.ground.outputs import shortest
from pinprof.program.ending import Ending, ending_of
from pinprof.program.hooks import faults
from pinprof.program.user_program import INTERRUPTED, UserProgram, exit_as_fork, join_threads

MARK_STEPS = (
    "mark them yourself: call pinprof.step() at the end of each, or name the function that makes one with --step-marker"
)
FAULTY = "Nothing was recorded, because pinprof itself failed"
THREADS_END_WITHIN_S = 5.0
"""How long to wait for threads that make steps, after the program was stopped: each ends at its next one."""
CHILDREN_WAIT_S = 300.0
"""How long to wait for processes that still record when the script has ended; ranks of a job get the same time."""
CHILDREN_WAIT_AFTER_FAILURE_S = 10.0  # the same if the script has failed or was stopped


@dataclass(frozen=True)
class ScriptRun:
    """How a script ended, and its recording."""

    path: Path | None  # None if no step was recorded
    regular: RegularStep | None  # the regular step without a profiler; None where it was not timed
    marker: str
    stopped: bool  # whether pinprof ended it after its windows
    exit_status: int
    children: tuple[ChildRun, ...] = ()  # the processes it started that made steps
    remarks: tuple[str, ...] = ()  # what could not be followed
    trains: bool = True  # whether its own steps train; a loop that only draws batches or calls modules evaluates
    steps: int = 0  # how many steps it made itself


def run_script(  # noqa: PLR0913  options of one call, all by keyword
    script: str | os.PathLike[str],
    args: Sequence[str],
    *,
    path: str | os.PathLike[str],
    module: bool = False,
    step_marker: str = "auto",
    keep_going: bool = False,
    agreement: Agreement | None = None,
    on_progress: OnWindow | None = None,
    on_recorded: OnRecorded | None = None,
    options: RecordingOptions = RecordingOptions(),  # noqa: B008  frozen
) -> ScriptRun:
    """Run `script` like `python script args` or `python -m script args`, and record it; return how it ended.

    `step_marker` says what marks the steps: `auto`, `loader` (a batch drawn from a DataLoader), `optimizer`,
    `backward`, `module` (a call of the outermost one), or a function: its name in the script, or
    `module:name`. After half a minute of work in which nothing marks a step, it records a stretch of time.
    `on_recorded` is called with each trace (several with `every`), and the number of the last step.
    `options` are those of `profile()`. After the windows it stops the script at the end of a step, or lets it finish if
    `keep_going`; ranks of a job stop by their `agreement`. If the script fails, its traceback goes to standard error as
    Python prints it, and the recorded steps are kept. The processes that it starts are recorded alike, each into a
    trace of its own next to `path`.

    Raises CaptureError if the script or function does not exist, and TooFewSteps if a script ended without failure
    before a step was recorded.
    """
    program = UserProgram.at(script, args, module=module)
    if options.warmup < 1:
        raise CaptureError(
            "warmup=0: the first step of a script includes its start; keep at least one step for warm-up"
        )
    recording = profile(path, options, on_progress=on_progress)
    recording.on_recorded = on_recorded or recording.on_recorded
    of_child = msgspec.structs.replace(options, every=0)  # it has nobody to tell
    with notes_folder() as folder:
        config = ChildConfig(str(recording.path), step_marker, keep_going, of_child, str(folder))
        recorder = _Recorder(recording, config, agreement)
        if on_progress is not None:
            recorder.stepper.on_stop = partial(on_progress, "end", 0, 0)
            recorder.stepper.on_wait = partial(on_progress, "optimizer", 0, 0)
        with recorder.following() as ended:
            ending = recorder.run(program)
            ended(ending)
            run = recorder.outcome(ending)
    is_recorded = run.path or any(child.path for child in run.children)
    if not is_recorded and not run.exit_status and not recorder.stepper.is_faulty:
        if run.children:
            reasons = "; ".join(dict.fromkeys(f"{child.name}: {child.why}" for child in run.children))
            raise CaptureError(f"the script started processes that made steps, and none was recorded. {reasons}")
        raise TooFewSteps(recorder.why_nothing_recorded(), recordable_of(recording.steps_seen))
    rank = recorder.stepper.rank
    return _as_its_own(run, recording.path) if rank is None else _among_ranks(run, rank)


class _Recorder:
    """Records one script: finds its steps, advances its recording, ends it, and follows the processes it starts."""

    def __init__(self, recording: Recording, config: ChildConfig, agreement: Agreement | None) -> None:
        alone, notes = agreement is None, Notes(config.notes)
        self.recording, self.notes, self.config = recording, notes, config
        self.stepper = Stepper(
            recording,
            agreement,
            keep_going=config.keep_going,
            may_join=alone,
            is_training=lambda: self.marks.trains,
            is_needed=lambda: bool(notes.running),
            kind=lambda: self.marks.finder.kind,
            awaits_better_s=lambda: self.marks.awaits_optimizer_s,
        )
        self.marks = Marks(
            config.step_marker,
            self.stepper.end_step,
            group=alone,
            may_move=lambda: recording.may_move,
            stop=self.stepper.stop,
        )
        self.watchdog = Watchdog(
            self.marks,
            self.stepper,
            may_stop=alone and not config.keep_going,  # other ranks may wait for this one
            body=ending_of.__code__,
            waits_for_others=lambda: bool(notes.running) or notes.have_trained,
        )
        recording.join(agreement, lambda: self.marks.finder.marks_passed)

    @contextmanager
    def following(self) -> Iterator[Callable[[Ending], None]]:
        """Follow the processes of a script in the block, which gets a function to call when the script has ended."""
        notes, keep_going = self.notes, self.config.keep_going

        def ended(ending: Ending) -> None:
            if stuck.interrupted:
                notes.remark("The script waited for children that pinprof had stopped, so pinprof stopped it, too")
            if ending.stopped:
                # for ranks that were stopped at the same step
                notes.wait(CHILDREN_WAIT_AFTER_FAILURE_S, first_step_s=0.0)
            end_children(stop=ending.stopped or ending.exit_status == INTERRUPTED)
            notes.wait(CHILDREN_WAIT_AFTER_FAILURE_S if ending.exit_status or ending.stopped else CHILDREN_WAIT_S)

        stuck = StuckScript(lambda: not keep_going and notes.are_stopped, notes.remove)
        try:
            with stuck.watched(), followed(self.config, stuck), reporting_departure(self._leave):
                yield ended
        finally:
            notes.remove()

    def run(self, program: UserProgram) -> Ending:
        """Run the program in the recording, and end the recording however the program ends."""
        stepper, process, threads_before = self.stepper, getpid(), threading.enumerate()
        self.recording.watch()
        try:
            with program.as_main() as main, self.marks.placed():
                self.recording.start(with_step=False)
                with self.watchdog.awake():
                    ending = ending_of(program, main, self.marks.change)
                    if getpid() == process and stepper.stop.times:
                        join_threads(self.marks.threads, THREADS_END_WITHIN_S)
                    elif getpid() == process:  # as python does at its exit
                        join_threads(before=threads_before)
            if getpid() != process:
                exit_as_fork(ending.exit_status)
            stepper.end()
            if stepper.stop.times and not ending.exit_status:
                ending = Ending(0, stopped=True)
                leave_job()
            if stepper.failure is not None and not stepper.is_faulty and not ending.exit_status:
                raise stepper.failure
        finally:
            self.stepper.leave()
        return ending

    def outcome(self, ending: Ending) -> ScriptRun:
        """Return how the script ended, and what was recorded."""
        recording = self.recording
        has_trace = bool(recording.recorded_steps) or recording.stretch.is_written
        return ScriptRun(
            path=recording.path if has_trace else None,
            regular=recording.regular,
            marker=recording.marker,
            stopped=ending.stopped,
            exit_status=ending.exit_status,
            children=self.notes.children(),
            remarks=(*self.notes.remarks(), *([FAULTY] if self.stepper.is_faulty and not has_trace else [])),
            trains=self.stepper.trains,
            steps=recording.count(),
        )

    def _leave(self, how: str) -> None:
        """End the recording of a program that leaves its process at once, and say whether there is a trace."""
        recording = self.recording
        recording.end()
        self.stepper.leave()
        self.notes.remove()
        if recording.recorded_steps:
            path = shortest(recording.path)
            faults.say(f"The program {how}; wrote {path}. Next: pinprof report {shlex.quote(path)}")
        else:
            faults.say(f"The program {how} before a step was recorded; pinprof does not see what comes after")

    def why_nothing_recorded(self) -> str:
        """Return why a script that ended without failure was not recorded, and the way out."""
        recording, marks = self.recording, self.marks
        if recording.steps_seen:
            chosen = not marks.finder.source.is_certain and recording.steps_seen < recording.options.needed
            uncounted = ". The first few steps, before it was clear what marks a step, do not count" if chosen else ""
            return recording.why_nothing_recorded(on_command_line) + uncounted
        if marks.function is not None:
            return (
                f"no step was seen between two calls of {marks.step_marker}; name a function that is called every step"
            )
        events = marks.finder.event_counts
        if not events.total():
            return (
                "the program drew no batch from a DataLoader and made no optimizer step or call of backward, so no "
                f"step was recorded; {MARK_STEPS}"
            )
        return (
            f"the program ended after {events[OPTIMIZER_STEPS]} optimizer steps, {events[BACKWARD_CALLS]} calls of "
            f"backward and {events[BATCH_DRAWS]} batches, too few to tell what one training step is. Run it longer, or "
            f"{MARK_STEPS}"
        )


def _among_ranks(run: ScriptRun, rank: Rank) -> ScriptRun:
    own = ChildRun(run.path, *rank, run.marker, run.stopped, None if run.path else ENDED_EARLY, run.trains)
    return replace(run, path=None, children=tuple(sorted((own, *run.children), key=ChildRun.place)))


def _as_its_own(run: ScriptRun, path: Path) -> ScriptRun:
    """Return the run of a script that only started another one; the trace of that one moves to the script's path."""
    recorded = [child for child in run.children if child.path]
    if run.path or len(recorded) != 1 or recorded[0].path is None or recorded[0].rank is not None:
        return run
    recorded[0].path.replace(path)
    others = tuple(child for child in run.children if not child.path)
    return replace(run, path=path, marker=recorded[0].marker, children=others, trains=recorded[0].trains)
