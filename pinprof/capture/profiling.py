"""The recording of a program: warm-up, plain window, then torch.profiler over a few steps, as one trace file."""

import json
import os
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import final

import torch
from torch.profiler import ProfilerActivity

from pinprof.capture.plain import Clock, PlainBounds, PlainStep, Progress, clock_of_program, plain_window, uses_cuda
from pinprof.errors import CaptureError
from pinprof.version import VERSION

PROFILER_WARM_UP_STEPS = 2  # the first steps under a profiler pay for its start
SUFFIXES = (".json", ".json.gz")

OnProgress = Callable[[str, int, int], None]
"""Called at the start of every step, with the window's name, the step's number in it and how many it will have."""

MakeProfiler = Callable[[int], torch.profiler.profile]
"""Given how many steps to record, returns a profiler that warms up `PROFILER_WARM_UP_STEPS` steps and records those."""


@dataclass(frozen=True)
class Windows:
    """How many steps each window of a recording has."""

    warmup: int = 10
    plain: PlainBounds | None = field(default_factory=PlainBounds)
    steps: int = 5

    @property
    def needed(self) -> int:
        """The fewest steps after which all windows are finished (in time, the plain window may ask for more)."""
        return self.warmup + (self.plain.steps if self.plain else 0) + PROFILER_WARM_UP_STEPS + self.steps


def profile(  # noqa: PLR0913  options of one public call, all by keyword
    path: str | os.PathLike[str],
    *,
    steps: int = 5,
    warmup: int = 10,
    plain_steps: int = 20,
    plain_seconds: float = 1.0,
    plain_max_seconds: float = 20.0,
    with_stack: bool = False,
    record_shapes: bool = False,
    profile_memory: bool = False,
    cuda_sync_events: bool = True,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> "Recording":
    """Return a recording to be used as a context manager; call its `step()` at the end of every training step.

        with pinprof.profile("out.json.gz") as p:
            for batch in loader:
                train(batch)
                p.step()

    After `warmup` steps it times the plain step: without a profiler, at least `plain_steps` steps (0 leaves this window
    out) and `plain_seconds`, but no longer than `plain_max_seconds` once it has 3 steps. Then torch.profiler records
    `steps` steps. Outside the windows the program runs at its own speed.

    Raises CaptureError at once if `path` cannot be written or exists (and `force` is not set), and at the end of the
    block if it ended before any step was recorded.
    """
    if steps < 1 or warmup < 0 or plain_steps < 0:
        raise CaptureError(f"steps={steps}, warmup={warmup}, plain_steps={plain_steps}: record at least one step")
    plain = PlainBounds(plain_steps, plain_seconds, plain_max_seconds) if plain_steps else None
    make_profiler = partial(
        torch_profiler,
        with_stack=with_stack,
        record_shapes=record_shapes,
        profile_memory=profile_memory,
        cuda_sync_events=cuda_sync_events,
    )
    target = writable_target(Path(path), force=force)
    return Recording(target, Windows(warmup, plain, steps), make_profiler, on_progress=on_progress)


@final
class Recording:
    """One run through the windows, moved on by `step()`; what it found is in `plain` and `recorded_steps`.

    `done` says that all windows are finished, `steps_seen` how many steps were counted. `plain` stays None if that
    window was left out or cut short; the file at `path` exists once `recorded_steps` is not 0.
    """

    def __init__(
        self,
        path: Path,
        windows: Windows,
        make_profiler: MakeProfiler,
        *,
        make_clock: Callable[[], Clock] = clock_of_program,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.path = path
        self.windows = windows
        self.done = False
        self.steps_seen = 0
        self.plain: PlainStep | None = None
        self.recorded_steps = 0
        self._make_profiler = make_profiler
        self._make_clock = make_clock
        self._on_progress = on_progress
        self._boundaries = self._run_windows()

    def __enter__(self) -> "Recording":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.end()
        except CaptureError:
            if error is None:  # the user's own exception is the one to see
                raise
        if error is None and not self.recorded_steps:
            raise CaptureError(self.why_nothing_recorded())

    def start(self) -> None:
        """Enter the first window."""
        self._advance()

    def step(self) -> None:
        """Say that a training step ends here; free of cost once `done`."""
        if not self.done:
            self.steps_seen += 1
            self._advance()

    def end(self) -> None:
        """Leave the window that is open, if any; keep the complete steps recorded so far."""
        self._boundaries.close()

    def why_nothing_recorded(self) -> str:
        """Return the sentence for a program that ended before any step was recorded."""
        windows = self.windows
        plain = windows.plain.steps if windows.plain else 0
        return (
            f"the program ended after {self.steps_seen} steps, before one was recorded; {windows.needed} are needed: "
            f"{windows.warmup} warm-up, {plain} plain, {PROFILER_WARM_UP_STEPS} for the profiler to warm up and "
            f"{windows.steps} recorded. Run it longer, or ask for fewer (warmup, plain_steps, steps)"
        )

    def _advance(self) -> None:
        progress = next(self._boundaries, None)
        if progress is not None and self._on_progress is not None:
            self._on_progress(*progress)

    def _run_windows(self) -> Generator[Progress, None, None]:
        """Go through the windows, one after the other; every yield waits for the next step boundary."""
        for step in range(1, self.windows.warmup + 1):
            yield Progress("warm-up", step, self.windows.warmup)
        if self.windows.plain is not None:
            self.plain = yield from plain_window(self._make_clock(), self.windows.plain)
        yield from self._recorded_window()
        self.done = True

    def _recorded_window(self) -> Generator[Progress, None, None]:
        with _as_capture_error("the profiler did not start"):
            profiler = self._make_profiler(self.windows.steps)
            profiler.start()
        try:
            for step in range(1, PROFILER_WARM_UP_STEPS + 1):
                yield Progress("profiler warm-up", step, PROFILER_WARM_UP_STEPS)
                profiler.step()
            for step in range(1, self.windows.steps + 1):
                yield Progress("recorded", step, self.windows.steps)
                self.recorded_steps = step
                if step < self.windows.steps:
                    profiler.step()
        finally:
            self._keep(profiler)

    def _keep(self, profiler: torch.profiler.profile) -> None:
        """Stop the profiler and write the trace; without a complete step there is nothing to write."""
        steps, self.recorded_steps = self.recorded_steps, 0
        with _as_capture_error("the recording could not be finished"):
            if steps:  # metadata is taken up while the profiler records, not later
                profiler.add_metadata_json("pinprof", json.dumps(description(self.plain)))
            profiler.stop()
            if steps:
                write_trace(profiler, self.path)
        self.recorded_steps = steps


def torch_profiler(
    steps: int, *, with_stack: bool, record_shapes: bool, profile_memory: bool, cuda_sync_events: bool
) -> torch.profiler.profile:
    """Return torch's profiler for `steps` steps after its warm-up; it names them ProfilerStep#N itself."""
    activities = [ProfilerActivity.CPU]
    if uses_cuda():
        activities.append(ProfilerActivity.CUDA)
    return torch.profiler.profile(
        activities=activities,
        schedule=torch.profiler.schedule(wait=0, warmup=PROFILER_WARM_UP_STEPS, active=steps, repeat=1),
        with_stack=with_stack,
        record_shapes=record_shapes,
        profile_memory=profile_memory,
        experimental_config=_sync_events_config() if cuda_sync_events else None,
        acc_events=True,  # there is one cycle only; without this torch warns that it forgets those before
    )


def _sync_events_config() -> torch._C._profiler._ExperimentalConfig | None:
    """Return the setting that puts `cuda_sync` events into the trace, or None where this torch has no such setting."""
    try:
        return torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)  # noqa: SLF001  no public name
    except (AttributeError, TypeError):
        return None


def description(plain: PlainStep | None) -> dict[str, object]:
    """Return what pinprof stores in the trace: versions, GPU, and the step without a profiler."""
    return {
        "pinprof_version": VERSION,
        "torch_version": torch.__version__,
        "cuda_version": torch.version.cuda,
        "gpu": torch.cuda.get_device_name() if uses_cuda() else None,
        "plain": asdict(plain) if plain else None,
    }


def writable_target(path: Path, *, force: bool) -> Path:
    """Return `path`, made absolute, if a trace may be written there; raise CaptureError otherwise.

    Absolute, because the program may change its working directory before the file is written.
    """
    if not path.name.endswith(SUFFIXES):
        raise CaptureError(f"{path}: a trace's name must end in {' or '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise CaptureError(f"{path}: there is no folder {path.parent}; make it first")
    if path.exists() and not force:
        raise CaptureError(f"{path}: exists already; choose another name or overwrite it with force=True")
    return path.absolute()


def write_trace(profiler: torch.profiler.profile, path: Path) -> None:
    """Write the recorded trace to `path`, whole or not at all; a name ending in .gz is compressed."""
    with tempfile.TemporaryDirectory(prefix=".pinprof-", dir=path.parent) as folder:
        unfinished = Path(folder) / path.name
        profiler.export_chrome_trace(str(unfinished))
        unfinished.replace(path)


@contextmanager
def _as_capture_error(what: str) -> Iterator[None]:
    """Turn an error of torch or of the file system into CaptureError, in one line."""
    try:
        yield
    except (RuntimeError, OSError) as exc:
        first_line = next(iter(str(exc).splitlines()), repr(exc))
        raise CaptureError(f"{what}: {first_line}") from exc
