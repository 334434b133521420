"""Each experiment gives its figures by name; on the CPU those that mean something there, with tiny sizes."""

import multiprocessing
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import Queue
from typing import Any, cast
from weakref import WeakSet

import pytest
import torch
from bench_parts import fails, says_when
from recordings import TRACES
from torch.utils.data.dataloader import _BaseDataLoaderIter
from trace_builder import SIDE, TraceBuilder

from pinprof.bench.article_judges import COPIED
from pinprof.bench.catalogue import EXPERIMENTS, experiment_of
from pinprof.bench.experiment import traces_of
from pinprof.bench.results import Figure
from pinprof.bench.tutorial_judges import TENSORDICT
from pinprof.details import details_of
from pinprof.trace import Trace, read_trace
from pinprof.workloads import (
    custom_batch,
    experiments,
    hazards,
    host_memory,
    overlap,
    pinned_memory,
    pinned_share,
    pinning,
    processes,
    training,
)
from pinprof.workloads.custom_batch import PinnableBatch, PlainBatch
from pinprof.workloads.experiments import PROGRAMS, measure_once, record_case, time_experiment, trace_experiment
from pinprof.workloads.spawned_process import SpawnedProcess
from pinprof.workloads.timing import QUICK, Budget, by_call

TINY = {
    "floats": 1000,
    "tensors": 5,
    "rows": 16,
    "columns": 100,
    "tries": 2,
    "side": 64,
    "features": 32,
    "threads": 2,
    "workers": 1,
    "processes": 1,
    "least": 4096,
    "most": 65536,
    "larger": 24,
    "share": 5,
}
NAMES = {
    "E1": "pageable.to; pinned.to; pageable.pin_memory(); pageable.pin_memory().to; "
    "pageable.pin_memory().to, non_blocking; call of pageable.pin_memory(); call of pinned.to, non_blocking; "
    "kept buffer, refilled and sent; made in pageable memory, pinned and sent; made in pinned memory and sent; "
    "call of pageable.pin_memory(), 4 times as large",
    "E2": "blocking; non_blocking, one synchronize; times as fast in turn, non_blocking, one synchronize",
    "E3": "pageable, blocking; pageable, non_blocking; pinned, blocking; pinned, non_blocking; "
    "pin and copy, blocking; pin and copy, non_blocking; times as fast in turn, pageable, non_blocking; "
    "times as fast in turn, pinned, non_blocking; few, pageable, blocking; few, pageable, non_blocking; "
    "few, pinned, blocking; few, pinned, non_blocking",
    "E4": "default stream, pageable; default stream, pinned; side stream, pageable; side stream, pinned; "
    "side stream, pageable, kernels first; "
    "default stream, pageable, text's kernels; default stream, pinned, text's kernels; "
    "side stream, pageable, text's kernels; side stream, pinned, text's kernels; "
    "copy alone; two copies, the same way; two copies, both ways; transfers of one kernel",
    "E5": "read at once; read after synchronize; pageable, sent and read on the GPU; pinned, sent and read on the GPU; "
    "ended when its call returned, pageable; CPU time of other threads, pageable; "
    "ended when its call returned, pinned; CPU time of other threads, pinned",
    "E6": "pinned source, copy then kernel; pageable source, copy then kernel; "
    "pinned source; pageable source; pinned source, written after synchronize",
    "E7": "blocking; non_blocking; pin then copy; pin in threads then copy; pin and copy in turn; "
    "small, pin then copy; small, pin in threads then copy; few, pin then copy; few, pin in threads then copy",
    "E8": "pageable, blocking; pageable, non_blocking; pinned, blocking; pinned, non_blocking; no copy; "
    "cost of a pinned copy; "
    "small network, pageable, blocking; small network, pinned, non_blocking; small network, no copy; batch, N workers",
    "E9": "pinned, a tensor as it is made; pinned, by pin_memory(); pinned, what was given to pin_memory(); "
    "a copy of the same values, by pin_memory(); no copy, by pin_memory() of a pinned tensor; "
    "pinned, made with pin_memory=True; "
    "pinned, without pin_memory(); pinned, with pin_memory(); pinned, elements without pin_memory(); "
    "pinned, a list of tensors; pinned, a dictionary of tensors; pinned by a thread of its own, with workers; "
    "pinned by a thread of its own, without workers",
    "E10": "plain loop; prefetcher; prefetcher, pageable; prefetcher, pageable, kernels first; prefetcher, blocking; "
    "no copy",
    "E11": "pinned in the parent; pageable, first; pinned, second; times as fast, as written; "
    "pinned, first; pageable, second; times as fast, other order; pinned on arrival; shared on arrival; "
    "first use of CUDA; pageable, later; pinned as it arrives, later; pinned in the child, later; "
    "times as fast, pinned as it arrives; times as fast, pinned in the child",
    "E12": "pinned in the parent; "
    "pageable, as written; pinned, as written; times as fast, as written; "
    "pageable, bare, by events; pinned, bare, by events; times as fast, bare, by events; "
    "pageable, in the object, by perf_counter; pinned, in the object, by perf_counter; "
    "times as fast, in the object, by perf_counter; "
    "pinned in the child; pinned, bare in the child; pageable; pinned, sent to the child; "
    "pinned, sent bare; pinned in the child itself; call, pageable; call, pinned, sent to the child; "
    "call, pinned, sent bare; call, pinned in the child itself; "
    "times as fast, sent to the child; times as fast, bare instead of in an object",
    "E13": "HtoD pageable; HtoD pinned; DtoH pageable; DtoH pinned; DtoD; blocked, HtoD pageable; "
    "blocked, HtoD pinned; "
    + "; ".join(
        f"{what}, {way} {memory}"
        for way in ("HtoD", "DtoH")
        for memory in ("pageable", "pinned")
        for what in ("call", "host busy")
    )
    + "; taken along by the call, HtoD pageable; taken along by the call, HtoD pinned; "
    "the GPU can access pageable memory",
    "E14": "as written; without .item(); cost of .item(); as written, larger; without .item(), larger; "
    "cost of .item(), larger",
    "E15": "allocate, pageable; allocate, pinned; allocate, pinned again; too much raises an error; "
    "the GPU works after it",
}
WORKS = ("host copy", "fresh memory", "file read again")
ONCE_NAMES = {
    *(
        f"taken from the host, {when}, {memory}"
        for when in ("allocated", "written")
        for memory in ("pageable", "pinned")
    ),
    "more than is available can be allocated, pageable",
    *WORKS,
    "pinned of the host's memory",
}
FRESH_NAMES = (
    "call of pageable.pin_memory(), fresh memory; call of pageable.pin_memory(), 4 times as large, fresh memory; "
    "pageable.pin_memory(), fresh memory; "
    "pageable.pin_memory().to, fresh memory; pageable.pin_memory().to, non_blocking, fresh memory"
)
"""What E1 reports last, where torch can give pinned memory back."""
TRACED_NAMES = {
    "E2": "; ".join(
        f"{what}, {case}"
        for case in ("blocking", "non_blocking")
        for what in ("waits", "asynchronous copies", "copies asked for early")
    ),
    "E3": "copies asked for early, pinned, non_blocking; copies at once, pinned, non_blocking",
    "E4": "; ".join(f"{what}, {case}" for case in overlap.BESIDE_KERNELS for what in ("overlapped", "possible"))
    + "; copies at once, two copies, the same way; copies at once, two copies, both ways",
    "E8": "; ".join(f"{what}, {case}" for case in COPIED for what in ("waits", "overlapped", "rate")),
    "E10": "; ".join(
        f"{what}, {case}"
        for case in training.FETCHED
        for what in ("waits", "overlapped", "ahead", "ended before the next kernel")
    ),
    "E14": "; ".join(
        f"{what}, {case}" for case in experiment_of("E14").cases for what in ("waits", "overlapped", "ahead")
    ),
}
ON_THE_CPU = ("E1", "E2", "E3", "E4", "E5", "E7", "E8", "E9", "E10", "E14", "E15")

# Python 3.12 and later warn of every fork in a process with threads; the loaders' workers are such forks.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:.pin_memory. argument is set as true:UserWarning"),
]
each = pytest.mark.parametrize("number", PROGRAMS)


def tiny(number: str) -> dict[str, int]:
    return {name: TINY[name] for name in experiment_of(number).defaults()}


def names(figures: list[Figure]) -> str:
    return "; ".join(dict.fromkeys(figure.name for figure in figures))


@pytest.fixture
def nothing_is_pinned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let pin_memory() copy and no more: without a GPU there is no pinned memory."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", torch.Tensor.clone)
    monkeypatch.setattr(overlap, "SIDE", 32)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_every_experiment_of_the_catalogue_has_its_program() -> None:
    assert list(PROGRAMS) == [known.number for known in EXPERIMENTS] == list(NAMES)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_pinned")
@pytest.mark.parametrize("number", ON_THE_CPU)
def test_figures_by_name_on_the_cpu(number: str) -> None:
    made = list(time_experiment(number, tiny(number), quick=True, device="cpu"))
    assert names(made) == NAMES[number]
    assert all(figure.low <= figure.median <= figure.high and figure.runs for figure in made)
    assert {type(value) for figure in made for value in (figure.median, figure.low, figure.high)} == {float}
    assert {(figure.median, figure.runs) for figure in made if figure.unit == "wrong"} <= {(0, TINY["tries"])}


@pytest.fixture
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host work for no time on little memory, on a small host: a share of all memory is asked for."""
    for name in ("COPIED_BYTES", "FRESH_BYTES", "READ_BYTES", "CHUNK_BYTES"):
        monkeypatch.setattr(pinned_share, name, 4096)
    monkeypatch.setattr(pinned_memory, "CHUNK_BYTES", 4096)
    monkeypatch.setattr(host_memory, "total", lambda: 1 << 20)
    monkeypatch.setattr(pinned_share, "WORK", Budget(least=2, most=2, seconds=0.0))
    monkeypatch.setattr(pinned_memory, "SEEN_BYTES", 1 << 26)
    monkeypatch.setattr(host_memory, "lockable", lambda: host_memory.WITHOUT_LIMIT)


@pytest.mark.slow
@pytest.mark.usefixtures("little_work")
def test_what_is_measured_once_by_name_on_the_cpu() -> None:
    made = list(measure_once("E15", tiny("E15"), quick=True, device="cpu"))
    told = {figure.name for figure in made if not figure.name.startswith(("locked by ", "swapped out"))}
    assert told == ONCE_NAMES
    assert all(figure.low <= figure.median <= figure.high and figure.runs for figure in made)
    assert {figure.size for figure in made if figure.name == "host copy"} >= {0}
    assert list(measure_once("E13", tiny("E13"), quick=True, device="cpu")) == []


@pytest.mark.slow
@pytest.mark.parametrize(("number", "counts"), [("E2", 4), ("E14", 4), ("E8", 4), ("E10", 5), ("E1", 0)])
@pytest.mark.usefixtures("nothing_is_pinned")
def test_traces_are_recorded_and_read_on_the_cpu(number: str, counts: int) -> None:
    made = [
        part for part in trace_experiment(number, tiny(number), quick=True, device="cpu") if isinstance(part, Figure)
    ]
    assert [figure.median for figure in made] == [0.0] * counts  # nothing waits for a GPU, nothing is copied to it
    assert set(names(made).split("; ")) <= set(TRACED_NAMES.get(number, "").split("; "))


@pytest.mark.slow
def test_a_tensor_that_is_sent_to_a_process_arrives_there() -> None:
    made = list(time_experiment("E12", tiny("E12"), quick=True, device="cpu"))
    assert names(made) == NAMES["E12"]


@pytest.mark.usefixtures("nothing_is_pinned")
@pytest.mark.parametrize("number", ON_THE_CPU)
def test_cases_are_those_of_the_catalogue_and_no_loader_is_at_work_before_its_case_runs(
    number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording keeps whether the loaders at work pin: those of other cases would make that unknown."""
    at_work = WeakSet[_BaseDataLoaderIter]()
    begin = _BaseDataLoaderIter.__init__

    def noted(self: _BaseDataLoaderIter, loader: Any) -> None:
        at_work.add(self)
        begin(self, loader)

    monkeypatch.setattr(_BaseDataLoaderIter, "__init__", noted)
    cases = PROGRAMS[number].cases(torch.device("cpu"), tiny(number))
    assert (tuple(cases), len(at_work)) == (experiment_of(number).cases, 0)


@pytest.mark.slow
@pytest.mark.parametrize("number", ["E11", "E12"])
def test_each_process_that_a_tensor_is_sent_to_records_its_copies(number: str, tmp_path: Path) -> None:
    case, sizes = experiment_of(number).cases[1], {**tiny(number), "processes": 2}
    path = tmp_path / "sent.json.gz"
    written = list(record_case(number, sizes, case, str(path), device="cpu"))
    assert written == [str(trace) for trace in traces_of(path, 2)]
    assert [Path(trace).name for trace in written] == ["sent.process0.json.gz", "sent.process1.json.gz"]
    for file in written:
        trace = read_trace(file)
        assert trace.info.spawned
        assert int(trace.steps.complete.sum()) >= 4


@pytest.mark.slow
def test_a_process_of_pinprof_itself_is_not_one_of_the_program(tmp_path: Path) -> None:
    with SpawnedProcess() as process:
        (path,) = process.call(record_case, "E2", tiny("E2"), "blocking", str(tmp_path / "e.json"), "cpu", timeout_s=99)
    assert read_trace(path).info.spawned is False


@pytest.mark.slow
def test_a_spawned_process_that_fails_is_told_in_its_own_words() -> None:
    with pytest.raises(RuntimeError, match=r"^ValueError: process 0 has no GPU$"):
        list(processes._spawned({"processes": 1}, (says_when, ("early",)), (fails, ()), (says_when, ("never",))))
    assert not multiprocessing.active_children()  # the one behind it, whose turn never came


@pytest.mark.slow
def test_spawned_processes_start_together_and_run_one_call_after_the_other() -> None:
    calls = [(says_when, (name,)) for name in ("first", "second")]
    first, second = processes._spawned({"processes": 2}, *calls)
    assert [name for name, *_ in (*first, *second)] == ["first"] * 2 + ["second"] * 2
    assert max(end for *_, end in first) <= min(begin for _, begin, _ in second)


@pytest.mark.slow
def test_the_texts_program_copies_in_both_orders_and_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def call_here(sizes: Mapping[str, int], *calls: processes.Sent) -> Iterator[list[Any]]:
        for target, arguments in calls:
            answers: Queue[Any] = Queue()
            for rank in range(sizes["processes"]):
                target(rank, answers, *arguments)
            yield [answers.get() for _ in range(sizes["processes"])]

    monkeypatch.setattr(processes, "_spawned", call_here)
    made = list(time_experiment("E11", {**tiny("E11"), "processes": 2}, quick=True, device="cpu"))
    assert names(made) == NAMES["E11"]
    assert [figure.name for figure in made].count("pageable, first") == 2  # each process is as good as a round
    times = {figure.name: figure.median for figure in made if figure.runs == 1}
    ratio = times["pageable, first"] / times["pinned, second"]
    assert times["times as fast, as written"] == pytest.approx(ratio)


def test_what_is_told_of_a_plain_loop() -> None:
    """By a recording: no wait, nothing overlapped, and the next copy is asked for long before the step has ended."""
    trace = read_trace(str(TRACES / "pinned_non_blocking.json.gz"))
    read = PROGRAMS["E10"].read
    assert read is not None
    waits, overlapped, ahead, ended = (
        part for part in read("loop", trace, details_of(trace)) if isinstance(part, Figure)
    )
    assert (waits.name, waits.median, overlapped.median) == ("waits, loop", 0, 0)
    assert ahead.name == "ahead, loop"
    assert 20 < ahead.low < 30  # in ms: the host is two or three steps of 10 ms ahead, and more with each step
    assert (ended.name, ended.unit, ended.low) == ("ended before the next kernel, loop", "yes", 1)


def test_of_a_prefetcher_the_copy_runs_on_while_kernels_begin() -> None:
    trace = read_trace(str(TRACES / "experiments" / "e10.prefetcher.json.gz"))
    (ended,) = experiments._ended_before_the_next_kernel("loop", trace)
    assert ended.high == 0


@pytest.mark.parametrize(("begins", "answers"), [((50, 250), (1, 1)), ((50, 230), (0, 1)), ((30, 230), (0, 0))])
def test_a_copy_has_ended_before_the_next_kernel_if_none_launched_after_it_begins_earlier(
    begins: tuple[float, float], answers: tuple[float, float], tmp_path: Path
) -> None:
    """In each step a copy of 40 µs that begins 10 µs after its start, and two kernels launched after it."""
    builder = TraceBuilder()
    for number, (start, begin) in enumerate(zip((0, 200), begins, strict=True), start=1):
        builder.step(number, start, 190)
        builder.copy("HtoD (Pinned -> Device)", start + 10, 40, launch=start + 4)
        builder.kernel(begin, 20, launch=start + 8, stream=SIDE)
        builder.kernel(start + 90, 10, launch=start + 12)
    trace = builder.read()
    (ended,) = experiments._ended_before_the_next_kernel("loop", trace)
    assert ((ended.low, ended.high), ended.runs) == (answers, 2)


def test_without_a_kernel_after_it_nothing_is_said_of_a_copy() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 190)
    builder.kernel(0, 5, launch=0)
    builder.copy("HtoD (Pinned -> Device)", 10, 40, launch=4)
    trace = builder.read()
    assert list(experiments._ended_before_the_next_kernel("loop", trace)) == []


def test_what_kernels_could_hide_is_their_length() -> None:
    trace = read_trace(str(TRACES / "overlap_default_pageable.json.gz"))
    read = PROGRAMS["E4"].read
    assert read is not None
    _, possible, _ = read("copy", trace, details_of(trace))
    assert isinstance(possible, Figure)
    assert possible.name == "possible, copy"
    assert possible.median == pytest.approx(60, abs=1)  # 0.7 ms of kernels during a copy of 1.1 ms


ANSWERS = {
    "E5": {"read after synchronize": 0, "pinned, sent and read on the GPU": 0},
    "E6": {"pageable source": 0, "pageable source, copy then kernel": 0},
    "E11": {"pinned in the parent": 1, "pinned on arrival": 0, "shared on arrival": 1},
    "E12": {"pinned in the parent": 1, "pinned in the child": 0, "pinned, bare in the child": 0},
    "E15": {"too much raises an error": 1, "the GPU works after it": 1},
}
"""What is the same on every GPU: no value is wrong in a safe form, and what is pinned where."""


@pytest.mark.gpu
@each
def test_figures_by_name_on_the_gpu(number: str) -> None:
    made = list(time_experiment(number, tiny(number), quick=True))
    ours = [figure for figure in made if not figure.name.startswith(TENSORDICT)]
    fresh = f"; {FRESH_NAMES}" if number == "E1" and pinning.can_free_pinned() else ""
    assert names(ours) == NAMES[number] + fresh
    assert all(figure.low <= figure.median <= figure.high and figure.runs for figure in made)
    assert ANSWERS.get(number, {}).items() <= {figure.name: figure.median for figure in made}.items()


@pytest.mark.gpu
@each
def test_cases_on_the_gpu_are_those_of_the_catalogue(number: str) -> None:
    cases = PROGRAMS[number].cases(torch.device("cuda"), tiny(number))
    assert tuple(name for name in cases if not name.startswith(TENSORDICT)) == experiment_of(number).cases
    for run in cases.values():
        run()


PICTURES = {"E2": 2, "E3": 1, "E4": 9, "E8": 4, "E10": 5, "E14": 4}
"""How many cases of an experiment are drawn; of the others none."""


@pytest.mark.gpu
@pytest.mark.parametrize("number", TRACED_NAMES)
def test_traces_tell_their_figures(number: str) -> None:
    made = list(trace_experiment(number, tiny(number), quick=True))
    assert names([result for result in made if isinstance(result, Figure)]) == TRACED_NAMES[number]
    pictures = [result for result in made if not isinstance(result, Figure)]
    assert len(pictures) == PICTURES.get(number, 0)
    assert all({bar.row for bar in picture.bars} > {"host"} and picture.why for picture in pictures)


@pytest.mark.gpu
def test_only_the_batch_that_can_pin_itself_is_pinned() -> None:
    made = {figure.name: figure.median for figure in time_experiment("E9", tiny("E9"), quick=True)}
    assert made.pop("pinned, a tensor as it is made") == 0
    assert made.pop("pinned, without pin_memory()") == 0
    assert made.pop("pinned, elements without pin_memory()") == 0
    assert made.pop("pinned, what was given to pin_memory()") == 0
    assert made.pop("pinned by a thread of its own, without workers") == 0
    assert set(made.values()) == {1}


@pytest.mark.gpu
@pytest.mark.usefixtures("little_work")
def test_what_is_measured_once_by_name_on_the_gpu() -> None:
    made = list(measure_once("E15", tiny("E15"), quick=True))
    assert {figure.name for figure in made if not figure.name.startswith(("locked by ", "swapped out"))} == ONCE_NAMES
    taken = {figure.name: figure.median for figure in made if figure.name.startswith("taken from")}
    assert taken["taken from the host, allocated, pinned"] > 50 > taken["taken from the host, allocated, pageable"]


@pytest.mark.gpu
def test_only_pageable_memory_keeps_the_host_busy_and_is_taken_along() -> None:
    sizes = {"least": 16384, "most": 1 << 26}
    made = {
        figure.name: figure.median for figure in time_experiment("E13", sizes, quick=True) if figure.unit in "% yes"
    }
    assert (made["taken along by the call, HtoD pageable"], made["taken along by the call, HtoD pinned"]) == (1, 0)
    for way in ("HtoD", "DtoH"):
        assert made[f"host busy, {way} pageable"] > 50 > made[f"host busy, {way} pinned"]
        assert made[f"call, {way} pageable"] > 50 > made[f"call, {way} pinned"]


@pytest.mark.gpu
@pytest.mark.skipif(not pinning.can_free_pinned(), reason="this torch cannot give pinned memory back")
def test_pinned_memory_that_copies_no_longer_use_is_given_back_and_got_anew() -> None:
    def allocated() -> int:
        return int(torch.cuda.host_memory_stats()["num_host_alloc"])

    pageable = torch.ones(1 << 20)
    pageable.pin_memory().to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    before = allocated()
    pageable.pin_memory()
    assert allocated() == before  # torch had kept it
    pageable.pin_memory().to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    pinned_memory.free_pinned()
    before = allocated()
    pageable.pin_memory().to("cuda", non_blocking=True)
    assert allocated() == before + 1


@pytest.mark.gpu
def test_a_copy_behind_a_long_kernel_has_not_ended_when_its_call_returns() -> None:
    source = torch.ones(1 << 20).pin_memory()
    source.to("cuda")
    hazards.long_kernel()
    assert not hazards.has_ended(source.to("cuda", non_blocking=True))
    torch.cuda.synchronize()
    assert hazards.has_ended(source.to("cuda"))


def two_copies(path: Path, second: float) -> Trace:
    """Return two steps, each with two copies of 40 µs on two streams; the second begins so late. Both are queued early.

    The host asks for the first copy 4 µs after the step began, for the second 8 µs after.
    """
    builder = TraceBuilder()
    for number, start in enumerate((0, 200), start=1):
        builder.step(number, start, 190)
        builder.copy("HtoD (Pinned -> Device)", start + 10, 40, launch=start + 4)
        builder.copy("DtoH (Device -> Pinned)", start + second, 40, launch=start + 8, stream=SIDE)
    return read_trace(str(builder.write(path)))


@pytest.mark.parametrize(("second", "share"), [(10, 100), (30, 100 / 3), (50, 0), (90, 0)])
def test_copies_run_at_once_while_more_than_one_does(second: float, share: float, tmp_path: Path) -> None:
    (made,) = experiments._at_once("case", two_copies(tmp_path / "trace.json", second))
    assert (made.name, made.unit, made.runs) == ("copies at once, case", "%", 2)
    assert made.low == made.high == pytest.approx(share)


def test_a_copy_is_asked_for_early_if_the_one_before_has_not_ended() -> None:
    """Of three copies the second is queued while the first one runs, the third 2 µs after the second has ended."""
    builder = TraceBuilder()
    builder.step(1, 0, 190)
    for begin, launch in ((10, 4), (50, 8), (110, 92)):
        builder.copy("HtoD (Pinned -> Device)", begin, 40, launch=launch)
    trace = builder.read()
    (made,) = experiments._queued_early("case", trace)
    assert (made.name, made.median) == ("copies asked for early, case", 50)


def test_without_copies_nothing_is_said_of_them() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 190)
    builder.kernel(0, 5, launch=0)
    trace = builder.read()
    assert not [*experiments._at_once("case", trace), *experiments._queued_early("case", trace)]


def test_copies_on_one_stream_run_in_turn() -> None:
    """By a recording of 1000 small tensors: the last copy has ended when the host asks for the next."""
    trace = read_trace(str(TRACES / "experiments" / "e2.non_blocking-one-synchronize.json.gz"))
    made = (*experiments._at_once("case", trace), *experiments._queued_early("case", trace))
    assert [figure.high for figure in made] == [0, 0]


@pytest.mark.gpu
def test_a_prefetcher_that_blocks_overlaps_and_waits() -> None:
    sizes = {**tiny("E10"), "rows": 4096, "features": 3072}
    made = {part.name: part for part in trace_experiment("E10", sizes, quick=True) if isinstance(part, Figure)}
    assert made["overlapped, prefetcher, blocking"].median > 50
    assert made["waits, prefetcher, blocking"].median == 1
    assert made["ended before the next kernel, plain loop"].low == 1


@pytest.mark.usefixtures("nothing_is_pinned")
def test_before_each_run_with_fresh_memory_torch_gives_back_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        seen.append("pin")
        return tensor.clone()

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch._C, "_host_emptyCache", lambda: seen.append("give back"), raising=False)
    budget = Budget(least=2, most=2, seconds=0)
    made = list(pinning.pinning_in_full(torch.device("cpu"), tiny("E1"), budget))
    assert names(made).endswith(f"; {FRESH_NAMES}")
    assert seen[-30:] == ["give back", "pin"] * 15  # five figures, each of a run that is not counted and two
    assert "give back" not in seen[:-30]


def test_a_call_is_timed_without_what_comes_before_and_after_it() -> None:
    now = [0.0]

    def takes(seconds: float) -> None:
        now[0] += seconds

    class Result:
        def __del__(self) -> None:
            takes(7)

    def call() -> Result:
        takes(0.002)
        return Result()

    stopwatch = by_call(torch.device("cpu"), before=lambda: takes(5), clock=lambda: now[0])
    assert stopwatch(call) == pytest.approx(2)
    assert now[0] == pytest.approx(12.002)


@pytest.mark.parametrize(("process", "own", "percent"), [(2.0, 2.0, 0), (3.0, 2.0, 25), (1.9, 2.0, 0)])
def test_other_threads_are_as_busy_as_the_process_is_more_than_its_own(
    process: float, own: float, percent: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a copy of 4 s; the clocks of a process and of its thread are not read at the same moment."""
    for name, end in (("perf_counter", 4.0), ("process_time", process), ("thread_time", own)):
        monkeypatch.setattr(time, name, iter((10.0, 10.0 + end)).__next__)
    assert hazards.by_other_threads(torch.device("cpu"))(lambda: None) == pytest.approx(percent)


def test_what_one_kernel_needs_copied_is_the_rest_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "in_turn", lambda *_: [(3.0, 1.0, 4.0), (1.0, 2.0, 1.0)])
    (made,) = overlap.one_kernel_ported(torch.device("cpu"), {"floats": 8}, QUICK)
    assert (made.name, made.unit, made.median) == ("transfers of one kernel", "%", 68.75)  # of 87.5 % and 50 %


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_pinned")
def test_what_a_pinned_copy_costs_a_step_is_the_median_of_steps_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "in_turn", lambda *_: [(5.0, 4.0), (9.0, 5.0), (6.0, 4.0)])
    made = {figure.name: figure.median for figure in training.loader_times(torch.device("cpu"), tiny("E8"), QUICK)}
    assert made["pinned, non_blocking"] == 6
    assert made["no copy"] == 4
    assert made["cost of a pinned copy"] == 2  # of 1, 4 and 2


@pytest.mark.usefixtures("nothing_is_pinned")
@pytest.mark.parametrize(
    ("case", "order"),
    [
        ("side stream, pageable", ["copy", "kernel", "kernel"]),
        ("side stream, pageable, kernels first", ["kernel", "kernel", "copy"]),
    ],
)
def test_kernels_are_launched_after_the_copy_or_before_it(
    case: str, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = overlap.copy_overlap(torch.device("cpu"), tiny("E4"))[case]
    queued: list[str] = []

    def watch(name: str, what: str) -> None:
        def watched(tensor: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
            queued.append(what)
            return tensor

        monkeypatch.setattr(torch.Tensor, name, watched)

    watch("to", "copy")
    watch("__matmul__", "kernel")
    run()
    assert queued == order


@pytest.mark.parametrize("late", [True, False])
def test_a_prefetcher_that_launches_kernels_first_trains_on_each_batch_in_turn(late: bool) -> None:
    seen: list[float] = []

    class Watched:
        def train(self, batch: torch.Tensor) -> None:
            seen.append(batch[0].item())

    batches = [torch.full((3,), float(number)) for number in range(3)]
    step = training._kernels_first(cast("Any", Watched()), batches, torch.device("cpu"), non_blocking=late)
    for _ in range(5):
        step()
    assert seen == [0, 1, 2, 0, 1]


@pytest.fixture
def pinning_accelerator(monkeypatch: pytest.MonkeyPatch, nothing_is_pinned: None) -> None:
    """Let a DataLoader take the host for a machine with an accelerator, for which it pins: what pins does nothing."""
    for name, answer in (
        ("is_available", True),
        ("current_accelerator", torch.device("cuda")),
        ("current_device_index", 0),
        ("set_device_index", None),
    ):
        monkeypatch.setattr(torch.accelerator, name, lambda *_, answer=answer, **__: answer)


@pytest.mark.usefixtures("pinning_accelerator")
def test_a_loader_pins_in_a_thread_beside_workers_and_else_in_the_main_one() -> None:
    """By torch's own loader and the thread that it starts; only the memory is not pinned."""
    made = {figure.name: figure for figure in custom_batch.are_pinned({"rows": 4})}
    beside, alone = (made[f"pinned by a thread of its own, {which} workers"] for which in ("with", "without"))
    assert (beside.low, beside.runs) == (1, 4)  # all of four batches
    assert (alone.high, alone.runs) == (0, 4)


@pytest.mark.usefixtures("nothing_is_pinned")
def test_what_pin_memory_returns_is_held_against_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    copy, same = "a copy of the same values, by pin_memory()", "no copy, by pin_memory() of a pinned tensor"
    for pin, expected in (
        (torch.Tensor.clone, (1, 0)),  # a copy each time
        (lambda tensor: tensor, (0, 1)),  # no copy at all
        (lambda tensor: tensor + 1, (0, 0)),  # other values
    ):
        monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
        made = {figure.name: figure.median for figure in custom_batch.are_pinned({"rows": 4})}
        assert (made[copy], made[same]) == expected


@pytest.mark.usefixtures("nothing_is_pinned")
def test_a_pinnable_batch_pins_and_moves_all_that_it_holds() -> None:
    samples = [(torch.full((3,), float(number)), torch.tensor(number)) for number in range(2)]
    batch = PinnableBatch(samples).pin_memory().to("cpu", non_blocking=True)
    assert isinstance(batch, PinnableBatch)
    assert batch.inputs.tolist() == [[0.0] * 3, [1.0] * 3]
    assert batch.targets.tolist() == [0, 1]
    assert not hasattr(PlainBatch, "pin_memory")


@pytest.mark.parametrize(
    ("recording", "least", "most"),
    [("default_pageable", 0, 1), ("default_pinned", 0, 1), ("side_pageable", 0, 1), ("side_pinned", 85, 95)],
)
def test_the_share_under_kernels_is_that_of_each_copy(recording: str, least: float, most: float) -> None:
    trace = read_trace(str(TRACES / f"overlap_{recording}.json.gz"))
    read = PROGRAMS["E10"].read
    assert read is not None
    _, made, *_ = (part for part in read("copy", trace, details_of(trace)) if isinstance(part, Figure))
    assert (made.name, made.unit, made.runs) == ("overlapped, copy", "%", 5)
    assert least <= made.low <= made.median <= made.high <= most
