"""Records a program into one trace file: warm-up, plain window, then torch.profiler over a few steps."""

import os
from collections.abc import Callable, Generator
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, final

import msgspec

from pinprof.analyses.whole_run import RegularStep, timed_regular_step
from pinprof.capture.job import Agreement
from pinprof.capture.observe.journal import Journal, noticing_work
from pinprof.capture.observe.workers import WorkerSamples
from pinprof.capture.options import MIN_TIMED_STEPS, WARM_UP_STEPS, Advise, Progress, RecordingOptions, in_code
from pinprof.capture.window import lean, timing, trace_file
from pinprof.capture.window.lines import line_window, watch_window
from pinprof.ground.errors import CaptureError
from pinprof.ground.step_statistics import OTHER_STEPS
from pinprof.ground.units import NS_PER_MS
from pinprof.program.hooks import contained
from pinprof.program.machine import Clock, clock_of_program, uses_cuda
from pinprof.trace.metadata.run_log import RECORDED, RUN_KEY
from pinprof.trace.metadata.sampled_stacks import HOST_KEY, WORKER_KEY, HostProfile

SPARE_STEPS = 3  # a program is short of steps if it has only this number more left than the windows take
MAX_RESTARTS = 10  # a program whose steps change more often is recorded in whatever steps it makes
AFTER_WINDOWS = "after"  # the window of steps after all windows
OnWindow = Callable[[str, int, int], None]
"""Called at the start of every step with the name of the window, the step's number in it, and its number of steps."""
DEFAULT_OPTIONS = RecordingOptions()


def profile(
    path: str | os.PathLike[str],
    options: RecordingOptions = DEFAULT_OPTIONS,
    *,
    on_progress: OnWindow | None = None,
    **changes: Any,
) -> "Recording":
    """Return a recording, a context manager; call its `step()` at the end of every training step.

        with pinprof.profile("out.json.gz", steps=3) as p:
            for batch in loader:
                train(batch)
                p.step()

    Its options are the fields of `RecordingOptions`: an object, and `changes` of it by name. The windows are:

    - warm-up: `warmup` steps, or more until their time is steady, but at most `max_warmup`;
    - plain: `plain_steps` steps or more are timed without a profiler;
    - recorded: torch.profiler records `steps` steps, which are the trace;
    - lines, on a GPU: `line_steps` more steps show which source line calls each wait, and the trace stores these;
    - watch, on a GPU: torch's sync debug mode alone shows over `watch_steps` more steps which other lines wait;
    - later recordings, with `every=N`: after every N steps, `steps` more are recorded into `out.latest.json.gz`.

    Outside the windows the program runs at its own speed. Where the mean of the plain steps is not certain enough, more
    steps are timed: with a GPU at once, otherwise after the other windows.

    Raises TypeError for an unknown option, CaptureError at once if `path` cannot be written or exists (and `force` is
    not set), and at the end of the block if it recorded no step.
    """
    options = msgspec.structs.replace(options, **changes)
    options.check()
    target = trace_file.writable_target(Path(path), options)
    if options.every:
        trace_file.writable_target(lean.latest(target), options)
    return Recording(target, options, partial(trace_file.torch_profiler, options), on_progress=on_progress)


@final
class Recording:
    """One run through the windows, which `step()` advances; its results are `plain` and `recorded_steps`.

    `done` says that all windows are finished, `steps_seen` how many steps were counted. `plain`, and `host`, the
    samples of the main thread's Python stack, stay None if that window was omitted or cut short. `regular`, the regular
    step without a profiler, is known at the end. The file at `path` exists when `recorded_steps` is not 0. `marker`
    says what marks a step, and is stored in that file.
    """

    def __init__(
        self,
        path: Path,
        options: RecordingOptions,
        make_profiler: lean.MakeProfiler,
        *,
        make_clock: Callable[[], Clock] = clock_of_program,
        on_progress: OnWindow | None = None,
    ) -> None:
        self.path = path
        self.options = options
        self.done = False
        self.steps_seen = 0
        self.plain: timing.PlainWindow | None = None
        self.regular: RegularStep | None = None
        self.host: HostProfile | None = None
        self.marker = "p.step()"
        self.on_recorded: lean.OnRecorded = lambda _path, _step: None
        """Called after the recording, and after each later one of a long training (`every`)."""
        self.journal = Journal(make_clock)
        self._workers = WorkerSamples()
        self._on_progress = on_progress
        self._agreement: Agreement | None = None
        self.count: Callable[[], int] = lambda: self.steps_seen
        """Returns how many steps the program has made; without `join`, the calls of `step()`."""
        self._make_profiler = make_profiler
        self._restarts = 0
        self._lean = self._new_lean()
        self._window = ""
        self._watched = ExitStack()
        self._watching = False
        self._stored = False
        self._boundaries = self._run_windows()
        self.stretch = lean.Stretch(path, make_profiler, self._facts)
        self._is_abandoned = False

    def __enter__(self) -> "Recording":
        self.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        with nullcontext() if error is None else suppress(CaptureError):  # the user must see their own exception
            self.end()
        if error is None and not self.recorded_steps:
            raise CaptureError(self.why_nothing_recorded())

    def join(self, agreement: Agreement | None, count: Callable[[], int]) -> None:
        """Begin the windows with the other ranks, before the warm-up ends; `count` returns the program's steps."""
        self._agreement, self.count = agreement, count

    @property
    def recorded_steps(self) -> int:
        """How many complete steps the file has."""
        return self._lean.steps

    def watch(self) -> None:
        """Note irregular work until the end; make other changes of DataLoaders within this time only."""
        if not self._watching:
            self._watching = True
            self._watched.enter_context(noticing_work(self.journal))
            self._watched.enter_context(self._workers.sampling())

    def start(self, *, with_step: bool = True) -> None:
        """Enter the first window. The first step begins now, or at the first `step()` if not `with_step`."""
        self.watch()
        self.journal.begin(with_step=with_step)
        self._advance()

    def step(self) -> None:
        """Mark the end of a training step; once all windows are `done`, the step is only noted."""
        self.journal.end_step(AFTER_WINDOWS if self.done else self._window)
        if not self.done:
            self.steps_seen += 1
            self._advance()
        self.journal.resume()

    @property
    def may_move(self) -> bool:
        """Whether another thread may make the steps from now on: a profiler must end in the thread that started it."""
        return not (self.done or self._lean.is_open or self.recorded_steps)

    def move(self) -> None:
        """Record this thread from now on."""
        self.journal.move()
        if self.steps_seen:
            self.restart()

    def restart(self, *, discard: bool = False) -> None:
        """Begin the windows anew for other steps; end them if a step is recorded, unless to `discard` it."""
        if self._is_abandoned or self._agreement is not None or self._restarts == MAX_RESTARTS:
            return
        if self.recorded_steps == self.options.steps and self.options.every and not discard:
            return
        self._boundaries.close()
        if (self.done or self.recorded_steps) and not discard:
            self.done = True
            return
        self.done, self._restarts = False, self._restarts + 1
        self._begin_anew(with_step=False)
        self._boundaries = self._run_windows()
        self._advance()

    def _begin_anew(self, *, with_step: bool) -> None:
        """Forget all steps so far, the recorded ones, too; `with_step` says whether the next one begins now."""
        if self.recorded_steps:
            self.path.unlink(missing_ok=True)
        self.steps_seen, self.plain, self.host, self._lean = 0, None, None, self._new_lean()
        self.journal.begin_anew(with_step=with_step)

    def _new_lean(self) -> lean.LeanWindow:
        return lean.LeanWindow(self.journal, self._make_profiler, self._sections)

    def abandon(self) -> None:
        """Leave the windows for good, because no more steps will come; keep the complete steps recorded so far."""
        self._is_abandoned = True
        self._boundaries.close()

    def end(self) -> None:
        """Leave the open window, keep the complete steps, or else the stretch of time, and store the log of the run."""
        with ExitStack() as undo:  # all of it is undone, even if one part fails
            undo.callback(self._boundaries.close)
            undo.callback(self.stretch.end)
            undo.callback(self._watched.close)
            log, worker = self.journal.log(), self._workers.longest()
            self.regular = timed_regular_step(log)
        if self.recorded_steps and not self._stored:
            self._stored = True
            with trace_file.as_capture_error("the record of the run could not be stored"):
                trace_file.store(self.path, {RUN_KEY: log} | ({WORKER_KEY: worker} if worker else {}))
        elif self.stretch.is_written:
            self.marker = self.stretch.marker

    def why_nothing_recorded(self, advise: Advise = in_code) -> str:
        """Return the error for a program that ended before any step was recorded, with the options that help."""
        return self.options.why_nothing_recorded(self.steps_seen, self._window, advise)

    def _advance(self) -> None:
        progress = next(self._boundaries, None)
        if progress is None:
            return
        self._window = progress.window
        if self._on_progress is not None:
            contained(self._on_progress)(*progress)

    def _run_windows(self) -> Generator[Progress, None, None]:
        """Go through the windows, one after the other; every yield waits for the next step boundary."""
        options = yield from self._time_and_record()
        if self._recorded_others():
            self._begin_anew(with_step=True)
            options = yield from self._time_and_record()
        if options.line_steps and uses_cuda():
            yield from line_window(options.line_steps, self.path)
            yield from watch_window(options.watch_steps, self.path)
        if options.plain_steps and self._agreement is None and not uses_cuda():
            yield from timing.until_precise(
                self.journal, options, lambda seconds: seconds >= timing.HOST_TIMING_S
            )  # only now: nobody knows how many steps a program makes
        if options.every and (self._agreement is None or self._agreement.rank == 0):
            repeated = lean.RepeatedRecordings(self.journal, self._make_profiler, self.count)
            yield from repeated.record(options.every, options.steps, self.path, self.marker, self.on_recorded)
        self.done = True

    def _time_and_record(self) -> Generator[Progress, None, RecordingOptions]:
        options = yield from self._warm_up()
        self._lean.profiled = lean.program_profiles()
        if options.plain_steps:
            self.plain, self.host = yield from timing.plain_window(self.journal, options, self._is_short)
        if self._agreement is None:
            yield from timing.await_regular(self.journal, WARM_UP_STEPS + options.steps)
            yield from timing.await_end_of_profile(lean.program_profiles)
        yield from self._lean.record(options.steps, self.path, self.count)
        return options

    def _recorded_others(self) -> bool:
        """Return whether the recorded steps are far shorter than the timed ones, by the host's clock."""
        journal, plain = self.journal, self.plain
        if plain is None or plain.steps < MIN_TIMED_STEPS or self._is_short():
            return False
        if self._agreement is not None or journal.clock.is_of_gpu:
            return False
        return plain.p10_ms * NS_PER_MS * journal.steps_in(RECORDED) > OTHER_STEPS * journal.ns_in(RECORDED)

    def _warm_up(self) -> Generator[Progress, None, RecordingOptions]:
        """Warm up, and return the options of the windows to come: in a job, the same plain steps for all ranks."""
        options = self.options
        step_ns = yield from timing.warm_up(
            self.journal,
            options,
            # this process may become a rank of a job meanwhile
            lambda: not self._is_short() and (self._agreement is None or self._agreement.in_contact),
        )
        agreement = self._agreement  # a script may have become a rank in the warm-up
        if agreement is None:
            return options
        steps = options.plain_steps
        if steps and agreement.in_contact:
            steps = options.plain_steps_of(step_ns)
        agreed = int((yield from agreement.begin(self.count, str(steps), options.warmup)))
        return msgspec.structs.replace(
            options, plain_steps=agreed, plain_seconds=0.0, plain_max_seconds=inf, plain_precision=1.0
        )

    def _is_short(self) -> bool:
        """Return whether its DataLoader says that the program has too few steps left; ranks of a job never do."""
        options, left = self.options, self.journal.steps_left
        if left is None or self._agreement is not None:
            return False
        lines = WARM_UP_STEPS + options.line_steps if uses_cuda() else 0
        return left <= WARM_UP_STEPS + options.steps + lines + SPARE_STEPS

    def _sections(self) -> dict[str, str]:
        host = {HOST_KEY: msgspec.json.encode(self.host).decode()} if self.host is not None else {}
        return {"pinprof": msgspec.json.encode(self._facts(self.marker)).decode(), **host}

    def _facts(self, marker: str) -> dict[str, object]:
        """Return the facts about the program that the trace stores; `marker` says what marks its steps."""
        facts = trace_file.description(self.plain, marker) | self._lean.facts()
        return facts | ({"apart": self._agreement.why_apart} if self._agreement else {})
