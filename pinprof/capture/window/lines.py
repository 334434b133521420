"""The windows that find the lines which wait for the GPU: under a profiler, then over many steps without one."""

import sys
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import torch

from pinprof.analyses.pause_code import code_in_pauses
from pinprof.analyses.syncs.lines.recorded import learn_contexts, lines_of_stalls
from pinprof.analyses.syncs.stalls import measure_stalls
from pinprof.capture.options import Progress, RecordingOptions
from pinprof.capture.window.trace_file import as_capture_error, store, torch_profiler, warm_up_profiler
from pinprof.ground.errors import CaptureError, TraceError
from pinprof.ground.host_time import HOST_TIME
from pinprof.ground.outputs import hidden_folder
from pinprof.program.frames import called_at, callers, calling_line, codes, instructions
from pinprof.program.hooks import contained
from pinprof.program.user_program import OWN_FOLDERS
from pinprof.program.waits import noticing
from pinprof.rules.loops import places_of_loops
from pinprof.trace import read_trace
from pinprof.trace.callers import places_of_ops
from pinprof.trace.lines import (
    BACKWARD_KEY,
    CONTEXTS_KEY,
    LINE_MARK,
    OPS_KEY,
    WATCHED_KEY,
    DebugModeWaits,
    SourceLine,
    WatchedWait,
)
from pinprof.trace.metadata.run_log import WATCH_WINDOW
from pinprof.trace.sources import Sources
from pinprof.trace.spans.idle_times import python_in_nodes


class LineRecorder:
    """The waits so far by their lines; `waited()` marks a wait of the current line in the trace."""

    def __init__(self) -> None:
        self._numbers: dict[SourceLine, int] = {}

    @property
    def lines(self) -> list[SourceLine]:
        """The lines, each once; marks name a line by its index."""
        return list(self._numbers)

    def waited(self) -> None:
        """Note that the last call of the running Python code has waited, and mark it in the trace."""
        line = calling_line(sys._getframe(1))  # noqa: SLF001  the only way to a caller alone
        if line is None:
            return
        with torch.profiler.record_function(f"{LINE_MARK}{self._numbers.setdefault(line, len(self._numbers))}"):
            pass


def line_window(steps: int, path: Path) -> Generator[Progress, None, None]:
    """Learn the lines of the waits of some steps with stacks, which are discarded; a failure costs only the lines."""
    recorder = LineRecorder()
    profiler = torch_profiler(RecordingOptions(with_stack=True), steps)
    complete = False
    with suppress(CaptureError), as_capture_error("the lines were not recorded"):
        profiler.start()
        try:
            yield from warm_up_profiler(profiler)
            with noticing(contained(recorder.waited)):
                for step in range(1, steps + 1):
                    yield Progress("lines", step, steps)
                    if step < steps:
                        profiler.step()
            complete = True
        finally:
            profiler.stop()
        if complete:
            store(path, _learned(profiler, recorder, path))


def _learned(profiler: torch.profiler.profile, recorder: LineRecorder, path: Path) -> dict[str, object]:
    """Return the lines of the waits of the recorded steps, as sections of the trace file at `path`."""
    with hidden_folder(path.parent) as temporary:
        marked = temporary / "lines.json"
        profiler.export_chrome_trace(str(marked))
        try:
            trace = read_trace(marked)
        except TraceError as exc:
            raise CaptureError(str(exc)) from exc
    stalls = measure_stalls(trace)
    lines = lines_of_stalls(trace, stalls, recorder.lines)
    sources = Sources(str(path), folders=sys.path)
    code = code_in_pauses(trace, sources, python_in_nodes(trace))
    return {
        CONTEXTS_KEY: learn_contexts(trace, stalls, lines),
        OPS_KEY: [*places_of_ops(trace, sources), *places_of_loops(trace, stalls, sources)],
        BACKWARD_KEY: [place for place in code.places if place.ns] if code else [],
    }


MAX_WAITS_IN_SEQUENCES = 20_000
"""The most waits in all sequences together; a detector with 500 waits in each of 200 different steps has 100,000."""


class _Caller(NamedTuple):
    """A stack from which a wait was called, innermost first, and the line of the user's code in it."""

    line: SourceLine
    frames: tuple[tuple[CodeType, int, int], ...]  # code, offset of the instruction and line of each
    is_main: bool

    def described(self) -> WatchedWait:
        """Return the line with its stack, what was called, and the role of the thread, without any waits."""
        place = self.line.line, self.line.function
        users = next(frame for frame in self.frames if (frame[2], frame[0].co_name) == place)
        called, waited = (called_at(code, instruction) for code, instruction, _ in (users, self.frames[0]))
        return WatchedWait(self.line, called, waited, "main" if self.is_main else "other", 0, ())


class Watcher:
    """The waits so far, only counted while the program runs; make it in the main thread."""

    def __init__(self) -> None:
        self.step = 0
        self._step_of_newest_line = 0  # the step of the latest line that waited for the first time
        self._main = threading.get_ident()
        self._numbers: dict[tuple[int, ...], int | None] = {}
        self._kept_codes: list[tuple[CodeType, ...]] = []
        """The code of all frames in `_numbers`, so that no later code has the address of one of these."""
        self._callers: list[_Caller] = []
        self._steps: list[Counter[int]] = []  # per caller: how often it waited in which step
        self._sequence: list[int] = []
        self._sequences: dict[tuple[int, ...], None] | None = {}

    def waited(self) -> None:
        """Note that the last call of the running Python code has waited."""
        number = self._number(sys._getframe(1))  # noqa: SLF001  the quick way to the callers
        if number is None:
            return
        self._steps[number][self.step] += 1
        if self._callers[number].is_main:
            self._sequence.append(number)

    def end_step(self) -> None:
        """Note that a step has ended."""
        self.step += 1
        sequence, self._sequence = tuple(self._sequence), []
        if self._sequences is not None:
            self._sequences[sequence] = None
            if sum(map(len, self._sequences)) > MAX_WAITS_IN_SEQUENCES:
                self._sequences = None

    def is_enough(self, seconds: float) -> bool:
        """Return whether further steps would hardly show another line, or have taken too long."""
        steps_since = self.step - self._step_of_newest_line
        return seconds >= MAX_WATCH_S or (
            seconds >= MIN_WATCH_S and steps_since >= max(MIN_STEPS_WITHOUT_NEW_LINE, self.step / 2)
        )

    def watched(self) -> DebugModeWaits:
        """Return the waits so far."""
        steps: dict[WatchedWait, Counter[int]] = {}
        described = [caller.described() for caller in self._callers]
        for wait, of_caller in zip(described, self._steps, strict=True):
            steps.setdefault(wait, Counter()).update(of_caller)
        index = {wait: number for number, wait in enumerate(steps)}
        waits = tuple(replace(wait, waits=counts.total(), at=tuple(sorted(counts))) for wait, counts in steps.items())
        if self._sequences is None:
            return DebugModeWaits(self.step, waits)
        sequences = {tuple(index[described[number]] for number in sequence) for sequence in self._sequences}
        return DebugModeWaits(self.step, waits, tuple(sorted(sequences)))

    def _number(self, frame: FrameType) -> int | None:
        """Return the number of the caller, None if no frame around it is the user's."""
        key = instructions(frame)
        if key not in self._numbers:
            self._kept_codes.append(codes(frame))
            line = calling_line(frame)
            self._numbers[key] = None if line is None else self._add(line, frame)
        return self._numbers[key]

    def _add(self, line: SourceLine, frame: FrameType) -> int:
        programs = (caller for caller in callers(frame) if not caller.f_code.co_filename.startswith(OWN_FOLDERS))
        frames = tuple((caller.f_code, caller.f_lasti, caller.f_lineno) for caller in programs)
        self._callers.append(_Caller(line, frames, threading.get_ident() == self._main))
        self._steps.append(Counter())
        self._step_of_newest_line = self.step
        return len(self._callers) - 1


MIN_WATCH_S, MAX_WATCH_S = 4.0, 10.0
"""Watching ends between these times, as soon as lines stop to appear: a person waits for the report."""
MIN_STEPS_WITHOUT_NEW_LINE = 20
"""Lines have stopped to appear if none waited for the first time in these last steps, nor in the second half of all."""


def watch_window(steps: int, path: Path) -> Generator[Progress, None, None]:
    """Watch steps without a profiler, and store their waits in the trace at `path`; a failure costs only these."""
    if not steps:
        return
    watcher, start = Watcher(), HOST_TIME.monotonic()
    try:
        with (
            suppress(CaptureError),
            as_capture_error("the waits were not watched"),
            noticing(contained(watcher.waited)),
        ):
            while watcher.step < steps and not watcher.is_enough(HOST_TIME.monotonic() - start):
                yield Progress(WATCH_WINDOW, watcher.step + 1, steps)
                watcher.end_step()
    finally:
        with suppress(CaptureError), as_capture_error("the waits were not stored"):
            store(path, {WATCHED_KEY: watcher.watched()})
