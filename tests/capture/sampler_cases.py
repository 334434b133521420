"""Programs so uneven that no fair sample could be mistaken, although it depends on the clock; see `test_sampler.py`."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pinprof.capture.observe.sampler import NOT_MAIN, SIGNAL_IN_USE, HostSampler, sampling
from pinprof.capture.window.recording import profile
from pinprof.trace import read_trace
from pinprof.trace.metadata.sampled_stacks import HostProfile

FAST_S = 0.001
"""Sampled much more often than usual, so that short programs do."""


@pytest.fixture(autouse=True)
def _alarm_is_free() -> Iterator[None]:
    yield
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def pure_python(seconds: float) -> int:
    end, number = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        number += 1
    return number


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def slow_operator(matrix: torch.Tensor, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        _ = matrix @ matrix


def functions(host: HostProfile) -> Counter[str]:
    """Return how many samples are in each function of this file."""
    counts: Counter[str] = Counter()
    for stack in host.stacks:
        for name in {host.frames[index].function for index in stack.frames}:
            counts[name.rpartition(".")[2]] += stack.count
    return counts


def steps_until(sampler: HostSampler, samples: int) -> Iterator[int]:
    """Yield step after step until enough samples count: on a busy machine, the first steps may be left out."""
    for step in range(300):
        yield step
        sampler.step()
        taken = sum(sample.ticks for sample in sampler.samples)
        if taken >= samples and sampler.profile().samples >= samples:  # a profile takes time, which is sampled too
            return


def test_the_time_of_python_and_of_waiting_is_seen_as_it_is() -> None:
    marks = []  # of each step, as a busy machine takes its time from either
    with sampling(FAST_S) as sampler:
        for _ in steps_until(sampler, 300):
            begin = time.perf_counter()
            pure_python(0.015)
            middle = time.perf_counter()
            sleep(0.005)
            marks.append((begin, middle, time.perf_counter()))
    host = sampler.profile()
    seen = functions(host)
    sampled = marks[-host.steps :]
    computed, waited = sum(b - a for a, b, _ in sampled), sum(c - b for _, b, c in sampled)
    assert host.samples >= 300
    assert seen["pure_python"] / host.samples == pytest.approx(computed / (computed + waited), abs=0.2)
    assert seen["sleep"] / host.samples == pytest.approx(waited / (computed + waited), abs=0.2)


def test_a_sample_has_the_line_that_runs() -> None:
    with sampling(FAST_S) as sampler:
        for _ in steps_until(sampler, 20):
            sleep(0.02)
    host = sampler.profile()
    frames = [host.frames[stack.frames[-1]] for stack in host.stacks]
    assert {(Path(frame.file).name, frame.line) for frame in frames if frame.function == "sleep"} == {
        (Path(__file__).name, sleep.__code__.co_firstlineno + 1)
    }
    assert {frame.origin for frame in frames if frame.function == "sleep"} == {"user"}


def test_a_long_operator_is_not_taken_for_the_next_call() -> None:
    matrix = torch.randn(600, 600)
    slow_operator(matrix, 0.05)
    spent = []
    with sampling(FAST_S) as sampler:
        for _ in steps_until(sampler, 100):
            begin = time.perf_counter()
            slow_operator(matrix, 0.02)
            spent.append(time.perf_counter() - begin)
    host = sampler.profile()
    share = 1e3 * sum(spent[-host.steps :]) / host.window_ms  # a busy machine lends the rest to others
    assert functions(host)["slow_operator"] >= (share - 0.2) * host.samples


def test_only_the_steps_asked_for_are_in_the_profile() -> None:
    with sampling(FAST_S) as sampler:
        for step in range(6):
            (pure_python if step % 2 else sleep)(0.02)
            sampler.step()
    odd = sampler.profile({1, 3, 5, 99})
    assert odd.steps <= 3
    assert "sleep" not in functions(odd)
    assert sampler.profile(()).samples == 0


def test_what_comes_after_the_last_step_is_no_step() -> None:
    with sampling(FAST_S) as sampler:
        begin = time.perf_counter()
        sleep(0.02)
        sampler.step()
        took_ms = (time.perf_counter() - begin) * 1e3
        pure_python(0.02)
    host = sampler.profile()
    assert "pure_python" not in functions(host)
    assert host.window_ms <= took_ms + 5


def test_without_steps_there_are_no_samples() -> None:
    with sampling(FAST_S) as sampler:
        sleep(0.02)
    assert (sampler.profile().samples, sampler.profile().steps) == (0, 0)


def test_the_signal_is_as_before_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), sampling(FAST_S):
        _ = 1 / 0


def test_the_functions_of_the_module_are_as_before() -> None:
    before = signal.signal, signal.alarm, signal.setitimer
    with sampling(FAST_S):
        assert signal.alarm is not before[1]
    assert (signal.signal, signal.alarm, signal.setitimer) == before


@pytest.fixture
def rung() -> Iterator[list[int]]:
    """The numbers of the signals that the program's own handler got."""
    numbers: list[int] = []
    yield numbers
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_a_program_with_its_own_handler_is_left_alone(rung: list[int]) -> None:
    signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    with sampling(FAST_S) as sampler:
        sleep(0.02)
        sampler.step()
    assert sampler.profile().why_not == SIGNAL_IN_USE
    assert rung == []


def test_a_timer_of_the_program_goes_on(rung: list[int]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 100.0)
    with sampling(FAST_S) as sampler:
        pass
    assert sampler.why_not == SIGNAL_IN_USE
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 50
    assert rung == []


def test_sampling_gives_way_to_a_program_that_takes_the_alarm(rung: list[int]) -> None:
    with sampling(FAST_S) as sampler:
        for _ in range(3):
            sleep(0.02)
            sampler.step()
        assert signal.signal(signal.SIGALRM, lambda number, _: rung.append(number)) == signal.SIG_DFL
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        sleep(0.03)
        sampler.step()
    host = sampler.profile()
    assert rung == [signal.SIGALRM]
    assert host.why_not == SIGNAL_IN_USE
    assert host.steps <= 3


def test_an_alarm_rings_as_it_would(rung: list[int]) -> None:
    with sampling(FAST_S) as sampler:
        assert signal.alarm(0) == 0  # nothing was set by the program
        sampler.step()
    assert sampler.profile().samples == 0
    assert rung == []


def test_other_signals_and_timers_do_not_end_it() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with sampling(FAST_S) as sampler:
        signal.signal(signal.SIGUSR1, before)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        for _ in steps_until(sampler, 1):
            sleep(0.02)
    assert sampler.why_not is None
    assert sampler.profile().samples > 0


def test_another_thread_is_not_sampled() -> None:
    profiles: list[HostProfile] = []

    def run() -> None:
        with sampling(FAST_S) as sampler:
            sleep(0.02)
            sampler.step()
        profiles.append(sampler.profile())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert (profiles[0].samples, profiles[0].why_not) == (0, NOT_MAIN)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_its_own_alarm() -> None:
    with sampling(FAST_S) as sampler:
        child = os.fork()
        if not child:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                time.sleep(5)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        sampler.step()
    assert os.WTERMSIG(status) == signal.SIGALRM


def test_the_programs_random_numbers_stay_as_they_are() -> None:
    import random  # noqa: PLC0415  its state is what is tested

    random.seed(1)
    expected = random.random()
    random.seed(1)
    with sampling(FAST_S):
        sleep(0.02)
    assert random.random() == expected


def test_system_calls_go_on_after_a_sample() -> None:
    reading, writing = os.pipe()
    threading.Timer(0.05, lambda: os.write(writing, b"x")).start()
    with sampling(FAST_S):
        assert os.read(reading, 1) == b"x"
    os.close(reading)
    os.close(writing)


@pytest.mark.filterwarnings("ignore:Dynamo does not know")
def test_torch_does_not_compile_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.convert_frame import ConvertFrame  # noqa: PLC0415  slow to load

    def step(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.001)  # here torch leaves the graph
        return x + 1

    compiled = torch.compile(step, backend="eager")
    compiled(torch.ones(2))
    seen, convert = [], ConvertFrame.__call__

    def note(self: ConvertFrame, frame: Any, *args: Any, **more: Any) -> Any:
        seen.append(frame.f_code.co_name)
        return convert(self, frame, *args, **more)

    monkeypatch.setattr(ConvertFrame, "__call__", note)
    with sampling(FAST_S) as sampler:
        for _ in steps_until(sampler, 1):
            compiled(torch.ones(2))
    assert sampler.profile().samples > 0
    assert seen == []


def test_a_sampler_that_never_began_says_nothing() -> None:
    assert HostSampler().profile().samples == 0


def test_a_recording_keeps_the_samples_in_its_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with profile(path, steps=1, warmup=1, plain_steps=20, plain_seconds=1.0, plain_precision=1) as recording:
        while not recording.done:
            sleep(0.02)
            torch.ones(2).sum()
            recording.step()
    host = read_trace(path).info.host
    assert host == recording.host
    assert host is not None
    assert functions(host)["sleep"] > host.samples / 2
    assert not any("pinprof/capture" in frame.file for frame in host.frames)


def test_a_recording_without_a_plain_window_has_none(tmp_path: Path) -> None:
    with profile(tmp_path / "trace.json", steps=1, warmup=1, plain_steps=0) as recording:
        while not recording.done:
            torch.ones(2).sum()
            recording.step()
    assert read_trace(tmp_path / "trace.json").info.host is None


@pytest.mark.gpu
def test_a_wait_for_the_gpu_in_an_operator_has_its_line() -> None:
    matrix = torch.ones(8000, 8000, device="cuda")

    def wait() -> int:
        large = (matrix @ matrix).sum() > 0
        if large:  # here it waits
            return len("more")
        return 0

    wait()
    with sampling() as sampler:
        for _ in range(30):
            wait()
            sampler.step()
    host = sampler.profile()
    lines: Counter[int | None] = Counter()
    for stack in host.stacks:
        lines[host.frames[stack.frames[-1]].line] += stack.count
    assert lines[wait.__code__.co_firstlineno + 2] > 0.9 * host.samples
