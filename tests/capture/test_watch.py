"""Waits that are watched without a profiler: their lines, how often they come, and what was called."""

import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from trace_builder import TraceBuilder

from pinprof.analyses.syncs.sites import measure_syncs
from pinprof.capture.options import Progress
from pinprof.capture.window import lines
from pinprof.capture.window.lines import Watcher, watch_window
from pinprof.capture.window.recording import profile
from pinprof.program.waits import SYNC_WARNING, taking_warnings
from pinprof.trace import read_trace
from pinprof.trace.lines import DebugModeWaits, period


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notice waits by warnings alone, as there may be no GPU."""
    monkeypatch.setattr(lines, "noticing", taking_warnings)


def item() -> None:
    warnings.warn(SYNC_WARNING, stacklevel=1)


def recorded(folder: Path) -> Path:
    builder = TraceBuilder()
    builder.kernel(0, 10, launch=0)
    return builder.write(folder / "out.json.gz")


def run(window: Generator[Progress, None, None], step: Callable[[int], None], steps: int) -> int:
    """Run a program with this number of steps in a window; return how many steps it made in it."""
    for step_number in range(steps + 1):
        if next(window, None) is None:
            return step_number
        if step_number < steps:
            step(step_number)
    window.close()
    return steps


def watched(path: Path) -> DebugModeWaits:
    watched_waits = read_trace(path).info.watched
    assert watched_waits is not None
    return watched_waits


@pytest.mark.usefixtures("warned")
def test_a_wait_every_ten_steps_is_found_with_its_period(tmp_path: Path) -> None:
    path = recorded(tmp_path)

    def step(number: int) -> None:
        warnings.warn(SYNC_WARNING, stacklevel=1)
        if number % 10 == 3:
            warnings.warn(SYNC_WARNING, stacklevel=1)

    steps = run(watch_window(40, path), step, 100)
    watched_waits = watched(path)
    assert (steps, watched_waits.steps) == (40, 40)
    always, tenth = watched_waits.waits
    assert (always.at, always.waits) == (tuple(range(40)), 40)
    assert (tenth.at, tenth.waits) == ((3, 13, 23, 33), 4)
    assert always.line.line is not None
    assert tenth.line.line == always.line.line + 2
    assert (tenth.called, tenth.waited, tenth.thread) == ("warn", "warn", "main")
    assert period(tenth.at, watched_waits.steps) == 10
    assert set(watched_waits.sequences or ()) == {(0,), (0, 1)}


@pytest.mark.usefixtures("warned")
def test_a_program_that_ends_before_is_stored_as_far_as_it_was_seen(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    window = watch_window(200, path)
    run(window, lambda _: item(), 7)
    watched_waits = watched(path)
    assert (watched_waits.steps, watched_waits.waits[0].at) == (7, tuple(range(7)))


@pytest.mark.usefixtures("warned")
def test_what_waits_after_the_last_step_is_of_no_watched_step(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    window = watch_window(200, path)
    next(window)
    next(window)
    item()
    window.close()
    watched_waits = watched(path)
    assert (watched_waits.steps, watched_waits.waits[0].at) == (1, (1,))
    assert watched_waits.sequences == ((),)


@pytest.mark.usefixtures("warned")
@pytest.mark.parametrize(("first_at", "steps"), [(0, 39), (30, 60), (37, 74), (45, 39)])
def test_it_ends_when_no_line_has_waited_for_the_first_time_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_at: int, steps: int
) -> None:
    path, clock = recorded(tmp_path), iter(range(1000))
    monkeypatch.setattr(lines, "HOST_TIME", SimpleNamespace(monotonic=lambda: next(clock) / 10))
    assert run(watch_window(200, path), lambda number: item() if number == first_at else None, 200) == steps


def test_a_failure_costs_only_what_was_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def failing(_: Callable[[], None]) -> Iterator[None]:
        raise RuntimeError("no CUDA")
        yield

    path = recorded(tmp_path)
    monkeypatch.setattr(lines, "noticing", failing)
    assert not list(watch_window(5, path))
    assert len(read_trace(path).gpu) == 1
    path.unlink()
    monkeypatch.setattr(lines, "noticing", taking_warnings)
    assert len(list(watch_window(2, path))) == 2


def test_the_line_of_the_user_and_what_waited_in_a_library_are_told_apart() -> None:
    watcher = Watcher()
    module = torch.nn.Module()
    with taking_warnings(watcher.waited):
        module.apply(partial(warnings.warn, SYNC_WARNING, UserWarning, 1))
        watcher.end_step()
    (wait,) = watcher.watched().waits
    assert wait.line.function == "test_the_line_of_the_user_and_what_waited_in_a_library_are_told_apart"
    assert (wait.called, wait.waited) == ("apply", "fn")
    assert "module.py" in wait.line.stack[0]


@pytest.mark.parametrize(
    ("at", "steps", "expected"),
    [
        ((), 10, None),
        ((3,), 10, None),
        ((0,), 1, None),
        ((0, 1, 2, 3), 4, 1),
        ((3, 13, 23), 30, 10),
        ((50, 150), 200, 100),
        ((50, 60), 200, None),  # it stops
        ((150, 160), 170, None),  # it begins late
        ((3, 13, 24), 30, None),
    ],
)
def test_a_period_is_one_where_all_gaps_agree(at: tuple[int, ...], steps: int, expected: int | None) -> None:
    assert period(at, steps) == expected


class Loop:
    """A training loop on a GPU, whose reads come in different steps."""

    def __init__(self) -> None:
        device = torch.device("cuda")
        self.weight = torch.randn(64, 64, device=device, requires_grad=True)
        self.batch = torch.randn(64, 64, device=device)
        self.steps = 0

    def step(self) -> None:
        loss = (self.batch @ self.weight).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        self.weight.grad = None
        if self.steps % 10 == 0:
            loss.item()  # every ten steps
        if self.steps % 20 == 7:
            self.evaluate()
        self.steps += 1

    @torch.no_grad()
    def evaluate(self) -> None:
        for _ in range(3):
            float((self.batch @ self.weight).mean())  # in evaluation


def marked(text: str) -> int:
    text_lines = Path(__file__).read_text().splitlines()
    (number,) = (number for number, line in enumerate(text_lines, start=1) if line.endswith(f"  # {text}"))
    return number


@pytest.mark.gpu
def test_reads_now_and_then_are_found_on_a_gpu(tmp_path: Path) -> None:
    path, loop = tmp_path / "out.json.gz", Loop()
    with profile(path, steps=5, warmup=3, plain_steps=3, plain_seconds=0.0) as recording:
        while not recording.done:
            loop.step()
            recording.step()
    watched_waits = watched(path)
    assert watched_waits.steps == 200
    of_line = {wait.line.line: wait for wait in watched_waits.waits}
    tenth, evaluated = of_line[marked("every ten steps")], of_line[marked("in evaluation")]
    assert (period(tenth.at, 200), tenth.waits, tenth.called) == (10, 20, "item")
    assert (period(evaluated.at, 200), evaluated.waits, evaluated.called) == (20, 30, "float")
    assert set(of_line) == {marked("every ten steps"), marked("in evaluation")}
    in_trace = {site.line for site in measure_syncs(read_trace(path)).sites if site.cause == "item"}
    assert in_trace <= set(of_line)


class Reading(torch.nn.Module):
    """A module that reads a value, as one of the user's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(x.sum())  # in a replica


@pytest.mark.gpu
def test_a_wait_under_data_parallel_has_its_line_on_a_gpu() -> None:
    model = torch.nn.DataParallel(Reading().cuda(), device_ids=[0])
    watcher = Watcher()
    from pinprof.program.waits import noticing  # noqa: PLC0415  it starts CUDA

    with noticing(watcher.waited):
        model(torch.ones(3, device="cuda"))
    assert marked("in a replica") in {wait.line.line for wait in watcher.watched().waits}


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_read_after_a_compiled_function_has_its_line_on_a_gpu() -> None:
    from pinprof.program.waits import noticing  # noqa: PLC0415

    compiled = torch.compile(lambda x: (x * 2).sum())
    x = torch.ones(64, device="cuda")
    compiled(x)
    watcher = Watcher()
    with noticing(watcher.waited):
        compiled(x).item()  # after a compiled function
    (wait,) = watcher.watched().waits
    assert (wait.line.line, wait.waited) == (marked("after a compiled function"), "item")
