"""Each experiment gives its figures by name; on the CPU those that mean something there, with tiny sizes."""

import gc
import multiprocessing
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import torch
from bench_parts import fails, says_when
from recordings import TRACES
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pinprof.bench.catalogue import EXPERIMENTS, experiment
from pinprof.bench.experiment import traces_of
from pinprof.bench.results import Figure
from pinprof.bench.tutorial_judges import TENSORDICT
from pinprof.details import details_of
from pinprof.trace import read_trace
from pinprof.workloads import limits, overlap, processes, training
from pinprof.workloads.apart import Apart
from pinprof.workloads.custom_batch import PinnableBatch, PlainBatch
from pinprof.workloads.experiments import PROGRAMS, record_case, time_experiment, trace_experiment

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
    "held": 65536,
}
NAMES = {
    "E1": "pageable.to; pinned.to; pageable.pin_memory(); pageable.pin_memory().to; "
    "pageable.pin_memory().to, non_blocking",
    "E2": "blocking; non_blocking, one synchronize",
    "E3": "pageable, blocking; pageable, non_blocking; pinned, blocking; pinned, non_blocking; "
    "pin and copy, blocking; pin and copy, non_blocking",
    "E4": "default stream, pageable; default stream, pinned; side stream, pageable; side stream, pinned; "
    "default stream, pageable, text's kernels; default stream, pinned, text's kernels; "
    "side stream, pageable, text's kernels; side stream, pinned, text's kernels; "
    "copy alone; two copies, the same way; two copies, both ways",
    "E5": "read at once; read after synchronize; pageable, sent and read on the GPU; pinned, sent and read on the GPU",
    "E6": "pinned source, copy then kernel; pageable source, copy then kernel; "
    "pinned source; pageable source; pinned source, written after synchronize",
    "E7": "blocking; non_blocking; pin then copy; pin in threads then copy; small, pin then copy; "
    "small, pin in threads then copy; few, pin then copy; few, pin in threads then copy",
    "E8": "pageable, blocking; pageable, non_blocking; pinned, blocking; pinned, non_blocking; no copy; "
    "batch, N workers",
    "E9": "pinned, a tensor as it is made; pinned, by pin_memory(); pinned, made with pin_memory=True; "
    "pinned, without pin_memory(); pinned, with pin_memory(); pinned, elements without pin_memory(); "
    "pinned, a list of tensors; pinned, a dictionary of tensors; pinned by a thread of its own",
    "E10": "plain loop; prefetcher; prefetcher, pageable; no copy",
    "E11": "pinned in the parent; pageable, first; pinned, second; times as fast, as written; "
    "pinned, first; pageable, second; times as fast, other order; pinned on arrival; shared on arrival; "
    "first use of CUDA; pageable, later; pinned as it arrives, later; pinned in the child, later; "
    "times as fast, pinned as it arrives; times as fast, pinned in the child",
    "E12": "pinned in the parent; pinned in the child; pinned, bare in the child; pageable; pinned, sent to the child; "
    "pinned, sent bare; pinned in the child itself",
    "E13": "HtoD pageable; HtoD pinned; DtoH pageable; DtoH pinned; DtoD; blocked, HtoD pageable; blocked, HtoD pinned",
    "E14": "as written; without .item(); cost of .item(); as written, larger; without .item(), larger; "
    "cost of .item(), larger",
    "E15": "allocate, pageable; allocate, pinned; allocate, pinned again; too much raises an error; "
    "the GPU works after it; host copy, nothing pinned; host copy, much pinned",
}
TRACED_NAMES = {
    "E2": "waits, blocking; asynchronous copies, blocking; waits, non_blocking; asynchronous copies, non_blocking",
    "E4": "; ".join(f"{what}, {case}" for case in overlap.BESIDE_KERNELS for what in ("overlapped", "possible")),
    "E8": "; ".join(f"{what}, {case}" for case in training.LOADED for what in ("waits", "overlapped", "rate")),
    "E10": "; ".join(f"{what}, {case}" for case in training.FETCHED for what in ("waits", "overlapped", "ahead")),
    "E14": "; ".join(f"{what}, {case}" for case in experiment("E14").cases for what in ("waits", "overlapped")),
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
    return {name: TINY[name] for name in experiment(number).defaults()}


def names(figures: list[Figure]) -> str:
    return "; ".join(dict.fromkeys(figure.name for figure in figures))


@pytest.fixture
def nothing_is_pinned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let pin_memory() copy and no more: without a GPU there is no pinned memory."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", torch.Tensor.clone)
    monkeypatch.setattr(overlap, "SIDE", 32)
    monkeypatch.setattr(limits, "COPIED_BYTES", 4096)
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
    found = list(time_experiment(number, tiny(number), quick=True, device="cpu"))
    assert names(found) == NAMES[number]
    assert all(figure.low <= figure.median <= figure.high and figure.runs for figure in found)
    assert {type(value) for figure in found for value in (figure.median, figure.low, figure.high)} == {float}


@pytest.mark.usefixtures("nothing_is_pinned")
@pytest.mark.parametrize("number", ON_THE_CPU)
def test_cases_on_the_cpu_are_those_of_the_catalogue(number: str) -> None:
    assert tuple(PROGRAMS[number].cases(torch.device("cpu"), tiny(number))) == experiment(number).cases


@pytest.mark.slow
@pytest.mark.parametrize(("number", "counts"), [("E2", 4), ("E14", 4), ("E8", 4), ("E10", 3), ("E1", 0)])
@pytest.mark.usefixtures("nothing_is_pinned")
def test_traces_are_recorded_and_read_on_the_cpu(number: str, counts: int) -> None:
    found = [
        each for each in trace_experiment(number, tiny(number), quick=True, device="cpu") if isinstance(each, Figure)
    ]
    assert [figure.median for figure in found] == [0.0] * counts  # nothing waits for a GPU, nothing is copied to it
    assert set(names(found).split("; ")) <= set(TRACED_NAMES.get(number, "").split("; "))


@pytest.mark.slow
def test_on_the_cpu_a_value_that_is_read_at_once_is_right() -> None:
    found = list(time_experiment("E5", tiny("E5"), quick=True, device="cpu"))
    assert [(figure.median, figure.runs) for figure in found] == [(0, 2)] * 4


@pytest.mark.slow
def test_a_tensor_that_is_sent_to_a_process_arrives_there() -> None:
    found = list(time_experiment("E12", tiny("E12"), quick=True, device="cpu"))
    assert names(found) == NAMES["E12"]


@pytest.mark.usefixtures("nothing_is_pinned")
@pytest.mark.parametrize("number", ["E8", "E9", "E14"])
def test_no_loader_is_at_work_before_its_case_runs(number: str) -> None:
    """A recording keeps whether the loaders at work pin: those of other cases would make that unknown."""

    def at_work() -> int:
        return sum(issubclass(type(thing), _BaseDataLoaderIter) for thing in gc.get_objects())

    before = at_work()
    cases = PROGRAMS[number].cases(torch.device("cpu"), tiny(number))
    assert (tuple(cases), at_work()) == (experiment(number).cases, before)


@pytest.mark.slow
@pytest.mark.parametrize("number", ["E11", "E12"])
def test_each_process_that_a_tensor_is_sent_to_records_its_copies(number: str, tmp_path: Path) -> None:
    case, sizes = experiment(number).cases[1], {**tiny(number), "processes": 2}
    path = tmp_path / "sent.json.gz"
    written = list(record_case(number, sizes, case, str(path), device="cpu"))
    assert written == [str(each) for each in traces_of(path, 2)]
    assert [Path(each).name for each in written] == ["sent.process0.json.gz", "sent.process1.json.gz"]
    for each in written:
        trace = read_trace(each)
        assert trace.info.spawned
        assert int(trace.steps.complete.sum()) >= 4


def test_a_process_of_pinprof_itself_is_not_one_of_the_program(tmp_path: Path) -> None:
    with Apart() as apart:
        (path,) = apart.call(record_case, "E2", tiny("E2"), "blocking", str(tmp_path / "e2.json"), "cpu", timeout_s=120)
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
    found = list(time_experiment("E11", {**tiny("E11"), "processes": 2}, quick=True, device="cpu"))
    assert names(found) == NAMES["E11"]
    assert [figure.name for figure in found].count("pageable, first") == 2  # each process is as good as a round
    times = {figure.name: figure.median for figure in found if figure.runs == 1}
    ratio = times["pageable, first"] / times["pinned, second"]
    assert times["times as fast, as written"] == pytest.approx(ratio)


def test_what_is_told_of_a_plain_loop() -> None:
    """By a recording: no wait, nothing overlapped, and the next copy is asked for long before the step has ended."""
    trace = read_trace(str(TRACES / "pinned_non_blocking.json.gz"))
    tell = PROGRAMS["E10"].tell
    assert tell is not None
    waits, overlapped, ahead = (each for each in tell("loop", trace, details_of(trace)) if isinstance(each, Figure))
    assert (waits.name, waits.median, overlapped.median) == ("waits, loop", 0, 0)
    assert ahead.name == "ahead, loop"
    assert 20 < ahead.low < 30  # in ms: the host is two or three steps of 10 ms ahead, and more with each step


def test_what_kernels_could_hide_is_their_length() -> None:
    trace = read_trace(str(TRACES / "overlap_default_pageable.json.gz"))
    tell = PROGRAMS["E4"].tell
    assert tell is not None
    _, possible, _ = tell("copy", trace, details_of(trace))
    assert isinstance(possible, Figure)
    assert possible.name == "possible, copy"
    assert possible.median == pytest.approx(60, abs=1)  # 0.7 ms of kernels beside a copy of 1.1 ms


@pytest.mark.gpu
@each
def test_figures_by_name_on_the_gpu(number: str) -> None:
    found = list(time_experiment(number, tiny(number), quick=True))
    ours = [figure for figure in found if not figure.name.startswith(TENSORDICT)]
    assert names(ours) == NAMES[number]
    assert all(figure.low <= figure.median <= figure.high and figure.runs for figure in found)


@pytest.mark.gpu
@each
def test_cases_on_the_gpu_are_those_of_the_catalogue(number: str) -> None:
    cases = PROGRAMS[number].cases(torch.device("cuda"), tiny(number))
    assert tuple(name for name in cases if not name.startswith(TENSORDICT)) == experiment(number).cases
    for run in cases.values():
        run()


@pytest.mark.gpu
@pytest.mark.parametrize("number", TRACED_NAMES)
def test_traces_tell_their_figures(number: str) -> None:
    found = list(trace_experiment(number, tiny(number), quick=True))
    assert names([each for each in found if isinstance(each, Figure)]) == TRACED_NAMES[number]
    pictures = [each for each in found if not isinstance(each, Figure)]
    assert len(pictures) == (8 if number == "E4" else 0)
    assert all({bar.row for bar in picture.bars} > {"host"} and picture.why for picture in pictures)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("number", "case"),
    [
        ("E5", "read after synchronize"),
        ("E5", "pinned, sent and read on the GPU"),
        ("E6", "pageable source"),
        ("E6", "pageable source, copy then kernel"),
    ],
)
def test_the_safe_form_is_never_wrong(number: str, case: str) -> None:
    found = {figure.name: figure.median for figure in time_experiment(number, tiny(number), quick=True)}
    assert found[case] == 0


@pytest.mark.gpu
def test_only_the_batch_that_can_pin_itself_is_pinned() -> None:
    found = {figure.name: figure.median for figure in time_experiment("E9", tiny("E9"), quick=True)}
    assert found.pop("pinned, a tensor as it is made") == 0
    assert found.pop("pinned, without pin_memory()") == 0
    assert found.pop("pinned, elements without pin_memory()") == 0
    assert found.pop("pinned by a thread of its own") == 0  # without workers there is none
    assert set(found.values()) == {1}


@pytest.mark.gpu
def test_only_what_is_pinned_in_the_child_is_pinned_there() -> None:
    found = {figure.name: figure.median for figure in time_experiment("E12", tiny("E12"), quick=True)}
    assert (found["pinned in the parent"], found["pinned in the child"], found["pinned, bare in the child"]) == (
        1,
        0,
        0,
    )
    again = {figure.name: figure.median for figure in time_experiment("E11", tiny("E11"), quick=True)}
    assert (again["pinned in the parent"], again["pinned on arrival"], again["shared on arrival"]) == (1, 0, 1)


@pytest.mark.gpu
def test_too_much_pinned_memory_is_an_error_that_leaves_the_gpu_working() -> None:
    found = {figure.name: figure.median for figure in time_experiment("E15", tiny("E15"), quick=True)}
    assert (found["too much raises an error"], found["the GPU works after it"]) == (1, 1)


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
    tell = PROGRAMS["E10"].tell
    assert tell is not None
    _, found, _ = (each for each in tell("copy", trace, details_of(trace)) if isinstance(each, Figure))
    assert (found.name, found.unit, found.runs) == ("overlapped, copy", "%", 5)
    assert least <= found.low <= found.median <= found.high <= most
