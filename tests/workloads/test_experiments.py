"""Each experiment gives its figures by name; on the CPU those that mean something there, with tiny sizes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pinprof.bench.catalogue import EXPERIMENTS, experiment
from pinprof.bench.results import Figure
from pinprof.measure import measure
from pinprof.trace import read_trace
from pinprof.workloads import overlap
from pinprof.workloads.custom_batch import PinnableBatch, PlainBatch
from pinprof.workloads.experiments import PROGRAMS, time_experiment, trace_experiment

TRACES = Path(__file__).parents[2] / "traces"
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
}
NAMES = {
    "E1": "pageable.to; pinned.to; pageable.pin_memory(); pageable.pin_memory().to",
    "E2": "blocking; non_blocking, one synchronize",
    "E3": "pageable, blocking; pageable, non_blocking; pinned, blocking; pinned, non_blocking; "
    "pin and copy, blocking; pin and copy, non_blocking",
    "E4": "default stream, pageable; default stream, pinned; side stream, pageable; side stream, pinned",
    "E5": "read at once; read after synchronize",
    "E6": "pinned source; pageable source; pinned source, written after synchronize",
    "E7": "blocking; non_blocking; pin then copy; pin in threads then copy",
    "E8": "pageable, blocking; pageable, non_blocking; pinned, blocking; pinned, non_blocking; no copy; "
    "batch, N workers",
    "E9": "pinned, without pin_memory(); pinned, with pin_memory()",
    "E10": "plain loop; prefetcher; no copy",
    "E11": "pageable, first; pageable, later; pinned, first; pinned, later",
    "E12": "pinned in the parent; pinned in the child; pageable; pinned, sent to the child; pinned in the child itself",
    "E13": "HtoD pageable; HtoD pinned; DtoH pageable; DtoH pinned; blocked, HtoD pageable",
    "E14": "as written; without .item()",
}
TRACED_NAMES = {
    "E2": "waits, blocking; waits, non_blocking",
    "E4": "overlapped, default stream, pageable; overlapped, default stream, pinned; "
    "overlapped, side stream, pageable; overlapped, side stream, pinned",
    "E10": "overlapped, plain loop; overlapped, prefetcher",
    "E14": "waits, as written; waits, without .item()",
}
ON_THE_CPU = ("E1", "E2", "E3", "E4", "E5", "E7", "E8", "E9", "E10", "E14")

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
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_every_experiment_of_the_catalogue_has_its_program() -> None:
    assert list(PROGRAMS) == [known.number for known in EXPERIMENTS] == list(NAMES)


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


@pytest.mark.parametrize(("number", "waits"), [("E2", 2), ("E14", 2), ("E10", 0), ("E1", 0)])
@pytest.mark.usefixtures("nothing_is_pinned")
def test_traces_are_recorded_and_read_on_the_cpu(number: str, waits: int) -> None:
    found = [
        each for each in trace_experiment(number, tiny(number), quick=True, device="cpu") if isinstance(each, Figure)
    ]
    assert [(figure.unit, figure.median) for figure in found] == [("waits", 0.0)] * waits
    assert names(found) == ("" if waits == 0 else TRACED_NAMES[number])


def test_on_the_cpu_a_value_that_is_read_at_once_is_right() -> None:
    found = list(time_experiment("E5", tiny("E5"), quick=True, device="cpu"))
    assert [(figure.median, figure.runs) for figure in found] == [(0, 2), (0, 2)]


@pytest.mark.gpu
@each
def test_figures_by_name_on_the_gpu(number: str) -> None:
    found = list(time_experiment(number, tiny(number), quick=True))
    assert names(found) == NAMES[number]
    assert all(figure.low <= figure.median <= figure.high and figure.runs for figure in found)


@pytest.mark.gpu
@each
def test_cases_on_the_gpu_are_those_of_the_catalogue(number: str) -> None:
    cases = PROGRAMS[number].cases(torch.device("cuda"), tiny(number))
    assert tuple(cases) == experiment(number).cases
    for run in cases.values():
        run()


@pytest.mark.gpu
@pytest.mark.parametrize("number", TRACED_NAMES)
def test_traces_tell_their_figures(number: str) -> None:
    found = list(trace_experiment(number, tiny(number), quick=True))
    assert names([each for each in found if isinstance(each, Figure)]) == TRACED_NAMES[number]
    pictures = [each for each in found if not isinstance(each, Figure)]
    assert len(pictures) == (4 if number == "E4" else 0)
    assert all({bar.row for bar in picture.bars} > {"host"} and picture.why for picture in pictures)


@pytest.mark.gpu
@pytest.mark.parametrize(("number", "case"), [("E5", "read after synchronize"), ("E6", "pageable source")])
def test_the_safe_form_is_never_wrong(number: str, case: str) -> None:
    found = {figure.name: figure.median for figure in time_experiment(number, tiny(number), quick=True)}
    assert found[case] == 0


@pytest.mark.gpu
def test_only_the_batch_that_can_pin_itself_is_pinned() -> None:
    found = {figure.name: figure.median for figure in time_experiment("E9", tiny("E9"), quick=True)}
    assert found == {"pinned, without pin_memory()": 0, "pinned, with pin_memory()": 1}


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
    (found,) = (each for each in tell("copy", trace, measure(trace)) if isinstance(each, Figure))
    assert (found.name, found.unit, found.runs) == ("overlapped, copy", "%", 5)
    assert least <= found.low <= found.median <= found.high <= most
