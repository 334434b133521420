"""Records the source line of every wait, from torch's own warnings and from wrappers around the rest."""

import gzip
import os
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import torch

from pinprof.analyses.syncs import STACK_DEPTH, learn_lines, measure_stalls
from pinprof.capture.plain import Progress, uses_cuda
from pinprof.capture.profiler import as_capture_error, torch_profiler, warm_up_profiler
from pinprof.capture.program import OWN_FOLDER
from pinprof.capture.replaced import replaced
from pinprof.errors import CaptureError, TraceError
from pinprof.outputs import unfinished
from pinprof.trace import read_trace
from pinprof.trace.lines import LINE_MARK, LINES_KEY, RecordedLines, SourceLine

SYNC_WARNING = "called a synchronizing CUDA operation"
"""What torch's sync debug mode says, as soon as control is back in Python (c10/cuda/CUDAFunctions.cpp)."""

PROTOTYPE_WARNING = "Synchronization debug mode is a prototype feature"
"""What it says when it is turned on."""

INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class LineRecorder:
    """The lines of the waits seen so far, each once; `waited()` marks in the trace that the present line has waited."""

    def __init__(self) -> None:
        self.lines: list[SourceLine] = []
        self._numbers: dict[SourceLine, int] = {}

    def waited(self) -> None:
        """Note that a call just made by the running Python code has waited, and mark it in the trace."""
        line = _calling_line(sys._getframe(1))  # noqa: SLF001  the only way to a caller without building a whole stack
        if line is None:
            return
        number = self._numbers.setdefault(line, len(self._numbers))
        if number == len(self.lines):
            self.lines.append(line)
        with torch.profiler.record_function(f"{LINE_MARK}{number}"):
            pass

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the lines of all waits of the block; torch's modes and functions are as before after it."""
        if not uses_cuda():
            yield
            return
        with ExitStack() as undo:
            undo.enter_context(self._warned())
            for holder, name, waits in _uncovered():
                undo.enter_context(replaced(holder, name, self._noting(waits)))
            yield

    @contextmanager
    def _warned(self) -> Iterator[None]:
        """Take the warnings of torch's sync debug mode; others go where they always go."""
        mode = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings():
            show = warnings.showwarning

            def take(message: Warning | str, *details: Any, **more: Any) -> None:
                if SYNC_WARNING in str(message):
                    self.waited()
                else:
                    show(message, *details, **more)

            warnings.showwarning = take
            warnings.filterwarnings("always", message=f".*{SYNC_WARNING}")
            warnings.filterwarnings("ignore", message=f".*{PROTOTYPE_WARNING}")
            try:
                torch.cuda.set_sync_debug_mode("warn")
                yield
            finally:
                torch.cuda.set_sync_debug_mode(mode)

    def _noting(self, waits: Callable[..., bool]) -> Callable[[Any], Any]:
        """Return what makes a function note the line after each call that `waits` says may wait."""

        def change(function: Any) -> Any:
            @wraps(function)
            def noted(*args: Any, **more: Any) -> Any:
                result = function(*args, **more)
                if waits(result, *args, **more):
                    self.waited()
                return result

            return noted

        return change


def _uncovered() -> Iterator[tuple[Any, str, Callable[..., bool]]]:
    """Yield (holder, name, condition) of the functions that wait without a warning of the sync debug mode."""
    yield torch._C, "_cuda_synchronize", _always  # noqa: SLF001  what torch.cuda.synchronize calls, however imported
    yield torch._C, "_cuda_emptyCache", _always  # noqa: SLF001
    yield torch.cuda.Event, "synchronize", _always
    if not _has_compiled():  # compiled code guards on the methods of Tensor: it would compile again
        for name in ("to", "cuda", "cpu", "copy_"):
            yield torch.Tensor, name, _copies_pageable_memory


def _has_compiled() -> bool:
    """Return whether torch.compile has compiled anything in this program."""
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and bool(utils.counters["frames"])


def _always(*_: object, **__: object) -> bool:
    return True


def _copies_pageable_memory(
    result: Any, source: torch.Tensor, *args: Any, non_blocking: bool = False, **_: Any
) -> bool:
    """Return whether a copy that should not block was one between the GPU and pageable memory, which blocks."""
    if not (non_blocking or any(arg is True for arg in args)):
        return False  # a blocking copy is warned of
    other = args[0] if args and isinstance(args[0], torch.Tensor) else result
    if not isinstance(other, torch.Tensor) or source.device.type == other.device.type:
        return False
    host = source if source.device.type == "cpu" else other
    return host.device.type == "cpu" and not host.is_pinned()


def _calling_line(frame: FrameType | None) -> SourceLine | None:
    """Return the line of the user's code nearest to a frame; None if no frame is the user's."""
    stack: list[str] = []
    found: tuple[str, int, str] | None = None
    while frame is not None and len(stack) < STACK_DEPTH:
        code = frame.f_code
        if not code.co_filename.startswith(OWN_FOLDER) and code.co_filename != warnings.__file__:
            file = _shown(code.co_filename)
            stack.append(f"{file}:{frame.f_lineno}:{code.co_name}")
            if found is None and _is_users(code.co_filename):
                found = file, frame.f_lineno, code.co_name
        frame = frame.f_back
    return SourceLine(*found, stack=tuple(stack)) if found else None


def _is_users(file: str) -> bool:
    return not file.startswith((*INSTALLED, "<")) and f"{os.sep}site-packages{os.sep}" not in file


def _shown(file: str) -> str:
    """Return a file's name as people know it: from the working directory, else from the entry of `sys.path`."""
    for folder in (str(Path.cwd()), *sys.path):
        if folder and file.startswith(folder.rstrip(os.sep) + os.sep):
            return file[len(folder.rstrip(os.sep)) + 1 :]
    return file


def line_window(steps: int, path: Path, *, with_stack: bool = True) -> Generator[Progress, None, None]:
    """Record some steps with stacks, learn the lines of their waits, and store these in the trace at `path`.

    The recorded steps are thrown away: stacks slow them, and warnings stand between them. What goes wrong costs the
    lines only, never the trace that is there.
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
            add_lines(path, _learned(profiler, recorder, path.parent))


def _learned(profiler: torch.profiler.profile, recorder: LineRecorder, folder: Path) -> tuple[RecordedLines, ...]:
    """Return the lines of a step's waits, from the recorded steps."""
    with tempfile.TemporaryDirectory(prefix=".pinprof-", dir=folder) as temporary:
        marked = Path(temporary) / "lines.json"
        profiler.export_chrome_trace(str(marked))
        try:
            trace = read_trace(marked)
        except TraceError as exc:
            raise CaptureError(str(exc)) from exc
    return learn_lines(trace, measure_stalls(trace), recorder.lines)


def add_lines(path: Path, lines: tuple[RecordedLines, ...]) -> None:
    """Store the lines in a trace file, as one more key before all that torch wrote."""
    open_trace = gzip.open if path.name.endswith(".gz") else open
    with unfinished(path) as temporary:
        with open_trace(path, "rb") as recorded:
            text = recorded.read()
        entry = msgspec.json.encode({LINES_KEY: lines}).removesuffix(b"}")
        with open_trace(temporary, "wb") as written:
            written.write(entry + b",\n" + text.lstrip().removeprefix(b"{"))
