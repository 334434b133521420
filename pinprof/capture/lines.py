"""Records the source line of every wait, and stores these lines in a trace."""

import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from pinprof.analyses.syncs import learn_contexts, learn_lines, line_of_each, measure_stalls
from pinprof.capture.faults import contained
from pinprof.capture.frames import nearest_line
from pinprof.capture.plain import Progress, uses_cuda
from pinprof.capture.profiler import as_capture_error, torch_profiler, warm_up_profiler
from pinprof.capture.sections import store
from pinprof.capture.waiters import frames_of_wait
from pinprof.capture.waits import noticing
from pinprof.errors import CaptureError, TraceError
from pinprof.outputs import hidden_folder
from pinprof.trace import read_trace
from pinprof.trace.lines import CONTEXTS_KEY, LINE_MARK, LINES_KEY, SourceLine


class LineRecorder:
    """The lines of the waits so far, each once; `waited()` marks in the trace that the current line has waited.

    The thread that makes it is the main thread.
    """

    def __init__(self) -> None:
        self.lines: list[SourceLine] = []
        self._numbers: dict[SourceLine, int] = {}
        self._main = threading.get_ident()

    def waited(self) -> None:
        """Note that the last call of the running Python code has waited, and mark it in the trace."""
        frames = frames_of_wait(sys._getframe(1), self._main)  # noqa: SLF001  the only way to a caller alone
        line = nearest_line((frame.f_code, frame.f_lineno) for frame in frames)
        if line is None:
            return
        number = self._numbers.setdefault(line, len(self._numbers))
        if number == len(self.lines):
            self.lines.append(line)
        with torch.profiler.record_function(f"{LINE_MARK}{number}"):
            pass

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the lines of all waits in the block, if the program uses a GPU."""
        if not uses_cuda():
            yield
            return
        with noticing(contained(self.waited)):
            yield


def line_window(steps: int, path: Path, *, with_stack: bool = True) -> Generator[Progress, None, None]:
    """Record some steps with stacks, learn the lines of their waits, and store these in the trace at `path`.

    It discards the recorded steps, which stacks and warnings slow down. A failure costs only the lines, never the
    existing trace.
    """
    recorder = LineRecorder()
    profiler = torch_profiler(steps, with_stack=with_stack)
    complete = False
    with suppress(CaptureError), as_capture_error("the lines were not recorded"):
        profiler.start()
        try:
            yield from warm_up_profiler(profiler)
            with recorder.recording():
                for step in range(1, steps + 1):
                    yield Progress("lines", step, steps)
                    if step < steps:
                        profiler.step()
            complete = True
        finally:
            profiler.stop()
        if complete:
            store(path, _learned(profiler, recorder, path.parent))


def _learned(profiler: torch.profiler.profile, recorder: LineRecorder, folder: Path) -> dict[str, object]:
    """Return the lines of the waits of a step, from the recorded steps, as sections of a trace file."""
    with hidden_folder(folder) as temporary:
        marked = temporary / "lines.json"
        profiler.export_chrome_trace(str(marked))
        try:
            trace = read_trace(marked)
        except TraceError as exc:
            raise CaptureError(str(exc)) from exc
    stalls = measure_stalls(trace)
    lines = line_of_each(trace, stalls, recorder.lines)
    return {LINES_KEY: learn_lines(trace, stalls, lines), CONTEXTS_KEY: learn_contexts(trace, stalls, lines)}
