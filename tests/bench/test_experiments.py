"""Each experiment in a small form: on a GPU all of it; on the CPU what means something there, with what pins a copy."""

import gc
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from bench_parts import fails

from pinprof.bench import EXPERIMENTS, experiment_of
from pinprof.bench.catalogue import pinned_limits, prefetching, processes
from pinprof.bench.catalogue.bandwidth import RATES
from pinprof.bench.experiment import Experiment, Lab, free_pinned
from pinprof.bench.judge import Readings, judged
from pinprof.bench.results import Measured, Picture, recorded
from pinprof.bench.runner import timed, traced
from pinprof.workloads import copies

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
ON_THE_CPU = ("E1", "E2", "E3", "E4", "E5", "E7", "E8", "E9", "E10", "E12", "E14", "E15")
"""The others queue a long kernel, or take long to start."""
CPU = torch.device("cpu")
CANNOT_FREE = not hasattr(torch._C, "_host_emptyCache")
"""Whether this torch cannot give pinned memory back."""

# Python 3.12 and later warn of every fork in a process with threads; the loaders' workers are such forks.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:.pin_memory. argument is set as true:UserWarning"),
]
each = pytest.mark.parametrize("known", EXPERIMENTS, ids=lambda known: known.number)
each_on_the_cpu = pytest.mark.parametrize("known", [*map(experiment_of, ON_THE_CPU)], ids=lambda known: known.number)


def tiny(known: Experiment) -> dict[str, int]:
    return {name: TINY[name] for name in known.defaults()}


def names_to_judge(known: Experiment) -> set[str]:
    """Return the figures that decide the verdicts of the recorded bench, but for those of traces and of swap."""
    read = Readings(recorded())
    for claim in known.claims:
        judged(claim.holds, read)
    result = read.bench.result(known.number)
    own = {each.name for each in result.figures} if result else set()
    shown = {figure(case).name for case, figures in (known.traced or {}).items() for figure in figures}
    swapped = {name for name in own if name.startswith("swapped")}  # where there is room
    fresh = {name for name in own if name.endswith("fresh memory") and CANNOT_FREE}
    return ({measured.name for measured in read.cited} & own) - shown - swapped - fresh


ANSWERS = {
    "E5": {"read after synchronize": 0, "pinned, sent and read on the GPU": 0},
    "E6": {"pageable source": 0, "pageable source, copy then kernel": 0},
    "E9": {
        "pinned, a tensor as it is made": 0,
        "pinned, by pin_memory()": 1,
        "pinned, without pin_memory()": 0,
        "pinned, with pin_memory()": 1,
        "pinned, elements without pin_memory()": 0,
    },
    "E11": {"shared on arrival": 1},
    "E12": {"pinned in the parent": 1, "pinned in the child": 0, "pinned, bare in the child": 0},
    "E15": {"too much raises an error": 1, "the GPU works after it": 1},
}
"""What is the same on every GPU: no value is wrong in a safe form, and what is pinned where."""


@pytest.fixture
def nothing_is_pinned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let pin_memory() copy and no more: without a GPU there is no pinned memory."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", torch.Tensor.clone)
    monkeypatch.setattr(copies, "MATRIX_SIDE", 32)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host pin and copy little."""
    for name, size in (("SEEN_BYTES", 1 << 26), ("SWAPPED_BYTES", 1 << 20)):
        monkeypatch.setattr(pinned_limits, name, size)


def check(known: Experiment, made: list[Measured]) -> None:
    assert names_to_judge(known) <= {measured.name for measured in made}
    assert all(measured.low <= measured.median <= measured.high and measured.runs for measured in made)
    assert {type(value) for each in made for value in (each.median, each.low, each.high)} == {float}


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_pinned", "little_work")
@each_on_the_cpu
def test_figures_by_name_on_the_cpu(known: Experiment) -> None:
    made = list(timed(known.name, tiny(known), quick=True, device="cpu"))
    check(known, made)
    assert {(each.median, each.runs) for each in made if each.unit == "wrong"} <= {(0, TINY["tries"])}


@pytest.mark.usefixtures("nothing_is_pinned", "little_work")
def test_as_much_memory_as_the_machine_has_is_given_back() -> None:
    """With as much still mapped, no process of a later test could be forked."""
    known = experiment_of("E15")
    before = pinned_limits.kib_of("VmSize", pinned_limits.STATUS) or 0
    list(known.measure(Lab(CPU, tiny(known), quick=True)))
    assert (pinned_limits.kib_of("VmSize", pinned_limits.STATUS) or 0) - before < 1 << 20


@pytest.mark.gpu
@pytest.mark.usefixtures("little_work")
@each
def test_figures_by_name_on_the_gpu(known: Experiment) -> None:
    made = list(timed(known.name, tiny(known), quick=True))
    check(known, made)
    assert ANSWERS.get(known.number, {}).items() <= {measured.name: measured.median for measured in made}.items()


@pytest.mark.gpu
@each
def test_every_case_runs_on_the_gpu(known: Experiment) -> None:
    for run in known.steps(Lab(torch.device("cuda"), tiny(known))):
        run()
    torch.cuda.synchronize()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "waits"), [("small_tensors", 2), ("prefetching", 5), ("pinning_cost", 0)])
@pytest.mark.usefixtures("nothing_is_pinned")
def test_traces_are_recorded_and_read_on_the_cpu(name: str, waits: int) -> None:
    made = list(traced(name, tiny(experiment_of(name)), quick=True, device="cpu"))
    found = [each.median for each in made if isinstance(each, Measured) and each.unit == "waits"]
    assert found == [0.0] * waits  # nothing waits for a GPU
    assert len([each for each in made if isinstance(each, Picture)]) == len(experiment_of(name).traced or ())


@pytest.mark.gpu
@pytest.mark.parametrize("known", [known for known in EXPERIMENTS if known.traced], ids=lambda known: known.number)
def test_traces_show_their_figures_on_the_gpu(known: Experiment) -> None:
    gc.collect()  # a forked worker of E8 may not free what an earlier test has left on the GPU
    made = list(traced(known.name, tiny(known), quick=True))
    shown = {figure(case).name for case, figures in (known.traced or {}).items() for figure in figures}
    assert {each.name for each in made if isinstance(each, Measured)} == shown
    pictures = [each for each in made if isinstance(each, Picture)]
    assert [each.case for each in pictures] == [case.name for case in known.traced or ()]
    assert all({bar.row for bar in each.bars} > {"host"} and each.why for each in pictures)


@pytest.mark.gpu
def test_what_predictions_use_takes_no_half_minute() -> None:
    start = time.monotonic()
    made = list(timed(RATES.name, RATES.defaults(), quick=False))
    assert time.monotonic() - start < 12  # of two rounds, each in a new process
    assert {"staging, HtoD pageable", "pinning by a thread", "a launch", "freeing of GPU memory"} < {
        measured.name for measured in made
    }
    assert {measured.size for measured in made if measured.name == "HtoD pinned"} >= {4096, 1 << 28}


@pytest.mark.gpu
@pytest.mark.skipif(CANNOT_FREE, reason="this torch cannot give pinned memory back")
def test_pinned_memory_that_copies_no_longer_use_is_given_back_and_got_anew() -> None:
    def allocated() -> int:
        return int(torch.cuda.host_memory_stats()["num_host_alloc"])

    pageable = torch.ones(1 << 20)
    pageable.pin_memory().to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    before = allocated()
    pageable.pin_memory()
    assert allocated() == before  # torch had kept it
    free_pinned()
    pageable.pin_memory()
    assert allocated() == before + 1


@pytest.mark.slow
def test_a_spawned_process_that_fails_is_told_in_its_own_words() -> None:
    with pytest.raises(RuntimeError, match=r"^ValueError: process 0 has no GPU$"):
        processes.spawned(Lab(CPU, {"processes": 1}), fails)


def test_a_call_is_timed_without_what_comes_before_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def takes(seconds: float) -> None:
        now[0] += seconds

    class Result:
        def __del__(self) -> None:
            takes(7)

    def call() -> Result:
        takes(0.002)
        return Result()

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    lab = Lab(CPU, {})
    assert lab.hold(call, before=lambda: takes(5)) == pytest.approx(2)
    assert now[0] == pytest.approx(12.002)
    assert lab.time(lambda: takes(0.003), steps=4, before=lambda: takes(5)) == pytest.approx(3)


@pytest.mark.parametrize("late", [True, False])
def test_a_prefetcher_that_launches_kernels_first_trains_on_each_batch_in_turn(late: bool) -> None:
    seen: list[float] = []

    class Watched:
        def train(self, batch: torch.Tensor) -> None:
            seen.append(batch[0].item())

    watched: Any = Watched()
    batches = [torch.full((3,), float(number)) for number in range(3)]
    step = prefetching.kernels_first(watched, batches, Lab(CPU, {}), non_blocking=late)
    for _ in range(5):
        step()
    assert seen == [0, 1, 2, 0, 1]
