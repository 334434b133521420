"""The journal of a run, and the work in its steps that it is told of."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fake_profiler import MS, FakeClock
from torch.utils.data import DataLoader, TensorDataset

from pinprof.capture.observe.journal import MAX_UNTIMED_STEPS, Journal, noticing_work
from pinprof.capture.window.timing import await_regular
from pinprof.program import machine
from pinprof.program.machine import CudaClock
from pinprof.trace.lines import Place
from pinprof.trace.metadata.run_log import IrregularWork


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def journal(clock: FakeClock) -> Journal:
    return Journal(lambda: clock)


def step(journal: Journal, clock: FakeClock, took_ms: float, own_ms: float = 0, window: str = "plain") -> None:
    clock.time_ns += round(took_ms * MS)
    journal.end_step(window)
    clock.time_ns += round(own_ms * MS)
    journal.resume()


def test_steps_and_what_pinprof_takes_between_them_are_told_apart(journal: Journal, clock: FakeClock) -> None:
    clock.time_ns = 5 * MS
    journal.begin(with_step=True)
    step(journal, clock, 10, own_ms=3, window="warm-up")
    step(journal, clock, 20)
    clock.time_ns += 7 * MS
    log = journal.log()
    assert log.windows == (("warm-up", 1), ("plain", 1))
    assert (log.start_up_ns, log.step_ns, log.own_ns) == (0, (10 * MS, 20 * MS), (0, 3 * MS))
    assert (log.after_ns, log.own_after_ns) == (7 * MS, 0)
    assert log.is_sound


def test_what_comes_before_the_first_end_of_a_script_is_its_start_up(journal: Journal, clock: FakeClock) -> None:
    journal.begin(with_step=False)
    step(journal, clock, 900, own_ms=1)
    step(journal, clock, 10)
    log = journal.log()
    assert (log.start_up_ns, log.step_ns, log.own_ns) == (900 * MS, (10 * MS,), (1 * MS,))


def test_the_time_of_the_gpu_is_taken_from_end_to_end_of_its_work(journal: Journal, clock: FakeClock) -> None:
    clock.gpu_behind_ns = 4 * MS
    with journal.timing_gpu():
        journal.resume()
        for behind in (30, 40):
            clock.gpu_behind_ns = behind * MS
            step(journal, clock, 1)
    assert journal.log().gpu_ns == (0, 0)  # the GPU has not come there
    clock.time_ns += 50 * MS
    step(journal, clock, 1)
    assert journal.log().gpu_ns == (27 * MS, 11 * MS, 0)
    assert journal.times_ns(1).tolist() == [11 * MS, 51 * MS]


def test_marks_are_made_before_the_first_step_that_they_time(journal: Journal, clock: FakeClock) -> None:
    step(journal, clock, 10)
    with journal.timing_gpu():
        assert clock.ready == 2 * MAX_UNTIMED_STEPS


def test_no_mark_is_made_while_steps_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Event] = []

    def make() -> Event:
        made.append(Event())
        return made[-1]

    monkeypatch.setattr(machine, "_new_event", make)
    for name, answer in (("current_device", 0), ("current_stream", None), ("is_current_stream_capturing", False)):
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    clock = CudaClock()
    clock.make_ready(4)
    for _ in range(3):
        start, end = clock.mark(), clock.mark()
        clock.make_ready()
        assert clock.between(start, end) == MS
    assert len(made) == 4


class Event:
    """A moment on a GPU, each a millisecond after the last."""

    def record(self, stream: object) -> None:
        """Take it at once."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, _: "Event") -> float:
        return 1.0


def test_work_belongs_to_the_step_in_which_it_is(journal: Journal, clock: FakeClock) -> None:
    place = Place("train.py", 3, "train")
    step(journal, clock, 1)
    journal.note_work("checkpoint", 5, place)
    clock.time_ns += MS
    journal.note_input_wait(100)
    journal.note_input_wait(10)
    step(journal, clock, 1)
    journal.note_work("evaluation", place=place)
    log = journal.log()
    assert log.work == (IrregularWork(1, "checkpoint", 5, 0), IrregularWork(2, "evaluation", 0, 0))
    assert (log.places, log.input_ns) == ((place,), (0, 110))


def wait(journal: Journal, clock: FakeClock, steps: int, took_ms: float) -> int:
    """Return how many steps the recording waits before this many regular ones."""
    waited = 0
    for _ in await_regular(journal, steps):
        waited += 1
        step(journal, clock, took_ms)
    return waited


def test_the_recording_waits_until_the_expected_evaluation_is_over(journal: Journal, clock: FakeClock) -> None:
    for number in range(1, 44):
        step(journal, clock, 200 if number % 10 == 0 else 10)
    assert wait(journal, clock, 5, 10) == 0  # seven more to the next
    assert wait(journal, clock, 7, 10) == 7
    assert journal.unavoidable is None


@pytest.fixture
def noticed(journal: Journal, no_recording: None) -> Iterator[Journal]:
    with noticing_work(journal):
        yield journal


def test_evaluation_saving_and_epochs_are_noticed_with_their_lines(
    noticed: Journal, clock: FakeClock, tmp_path: Path
) -> None:
    clock.time_ns += 10_000 * MS  # long enough for all that follows
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model.eval()
    torch.save(model.state_dict(), tmp_path / "model.pt")
    assert len(list(DataLoader(TensorDataset(torch.zeros(6, 2)), batch_size=2))) == 3
    step(noticed, clock, 1)
    log = noticed.log()
    assert [work.kind for work in log.work] == ["evaluation", "checkpoint", "epoch_end"]
    assert log.work[0].ns == 0 < log.work[1].ns
    assert [place.file for place in log.places] == ["tests/capture/test_journal.py"] * 3
    assert log.input_ns[0] > 0


def test_the_capture_of_a_graph_is_timed_from_its_begin_to_its_end(noticed: Journal, clock: FakeClock) -> None:
    for method in (torch.cuda.CUDAGraph.capture_begin, torch.cuda.CUDAGraph.capture_end):
        with suppress(Exception):  # without a GPU
            method(SimpleNamespace())  # type: ignore[arg-type]
    step(noticed, clock, 1)
    log = noticed.log()
    assert [work.kind for work in log.work] == ["graph_capture"]
    assert log.work[0].ns > 0
    assert [place.file for place in log.places] == ["tests/capture/test_journal.py"]


@pytest.mark.parametrize(("generation", "step_ms", "noted"), [(2, 3, True), (2, 100, False), (1, 3, False)])
def test_a_collection_of_all_objects_that_takes_most_of_a_step_is_noted(
    noticed: Journal, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, generation: int, step_ms: int, noted: bool
) -> None:
    own = FakeClock()
    monkeypatch.setattr("pinprof.capture.observe.stops.HOST_TIME", SimpleNamespace(perf_counter_ns=own.now_ns))
    for phase in ("start", "stop"):
        own.time_ns += 2 * MS
        gc.callbacks[-1](phase, {"generation": generation})
    step(noticed, clock, step_ms)
    assert [(work.step, work.kind, work.ns) for work in noticed.log().work] == (
        [(0, "garbage_collection", 2 * MS)] if noted else []
    )


def test_torch_is_as_before_afterwards(journal: Journal) -> None:
    before = torch.save, torch.nn.Module.eval, DataLoader.__iter__
    with noticing_work(journal):
        assert torch.save is not before[0]
    assert (torch.save, torch.nn.Module.eval, DataLoader.__iter__) == before


def test_compiling_is_noted_in_the_step_that_does_it(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    utils = pytest.importorskip("torch._dynamo.utils")
    monkeypatch.setitem(utils.counters, "frames", Counter())  # other tests ask whether anything was compiled
    journal = Journal(lambda: clock)
    step(journal, clock, 1)
    utils.counters["frames"]["total"] += 1
    step(journal, clock, 1)
    step(journal, clock, 1)
    assert [(work.step, work.kind) for work in journal.log().work] == [(1, "compile")]
