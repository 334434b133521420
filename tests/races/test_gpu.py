"""The guard on a GPU: programs with a race, whose rule and lines must be found, and programs without one.

In a program with a race the line of the copy ends with `# copy`, that of the access with `# access` and the rule.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from fake_gpu import line_of

from pinprof.races.guard import Guard
from pinprof.workloads import WORKLOADS, Workload

pytestmark = pytest.mark.gpu

LONG = 200_000_000
"""Cycles of a kernel that is still running when the host comes to the next lines: about 0.1 s."""

Program = Callable[[], object]
cuda: Any = torch.cuda


def sleep() -> None:
    cuda._sleep(LONG)


def pinned(*shape: int) -> torch.Tensor:
    return torch.ones(shape, pin_memory=True)


# Programs with a race


def race_read_of_a_result() -> None:
    x = torch.ones(100, 999_999, dtype=torch.float64, device="cuda")
    host = x.to("cpu", non_blocking=True)  # copy
    host.mean()  # access: PIN502


def race_event_on_the_wrong_stream() -> None:
    x, side, copied = torch.ones(1024, 1024, device="cuda"), cuda.Stream(), cuda.Event()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        sleep()
        host = x.to("cpu", non_blocking=True)  # copy
    copied.record()
    copied.synchronize()
    host.sum()  # access: PIN502


def race_torch_event_recorded_too_early() -> None:
    x, copied = torch.ones(1024, 1024, device="cuda"), torch.Event("cuda")
    sleep()
    copied.record()
    host = x.to("cpu", non_blocking=True)  # copy
    copied.synchronize()
    host.sum()  # access: PIN502


def race_unregistered_too_early() -> None:
    source, cudart = torch.ones(1 << 20), cuda.cudart()
    assert int(cudart.cudaHostRegister(source.data_ptr(), source.nbytes, 0)) == 0
    try:
        source.to("cuda", non_blocking=True)  # copy
    finally:
        cudart.cudaHostUnregister(source.data_ptr())  # access: PIN505


RACES: tuple[Program, ...] = tuple(value for name, value in list(globals().items()) if name.startswith("race_"))


@pytest.fixture(autouse=True)
def settled() -> Iterator[None]:
    cuda.synchronize()
    yield
    cuda.synchronize()


@pytest.mark.parametrize("program", RACES)
def test_a_race_is_found_with_its_rule_and_both_lines(program: Program) -> None:
    with Guard("collect") as guard:
        program()
    print(guard)  # noqa: T201  it shows most if the test fails
    (violation,) = guard.violations
    access = line_of(program, f"access: {violation.rule.id}")
    assert (violation.copy.line, violation.access.line) == (line_of(program, "copy"), access), str(guard)
    assert violation.copy_ns is not None
    assert violation.copy_ns > 0
    assert violation.copy.file.endswith("test_gpu.py")


def test_the_report_says_whether_the_copy_had_ended_and_how_long_it_took() -> None:
    x = torch.ones(256, 1024, 1024, device="cuda")  # 1 GiB: 19 ms at 55 GB/s
    with Guard("collect") as guard:
        host = x.to("cpu", non_blocking=True)
        host[0, 0, :8].sum()
        again = x[0].to("cpu", non_blocking=True)
        while not all(mark.has_ended() for mark in marks(guard)):
            pass
        again.sum()
    early, late = guard.violations
    print(guard)  # noqa: T201
    assert (early.had_ended, late.had_ended) == (False, True)
    assert early.copy_ns is not None
    assert 5e6 < early.copy_ns < 5e9


def marks(guard: Guard) -> list[Any]:
    assert guard._watch is not None
    return [copy.mark for copy in guard._watch._pending]


# Programs without one


def record_and_await(event: Any) -> None:
    event.record()
    event.synchronize()


def poll(stream: Any) -> None:
    while not stream.query():
        pass


ENDS: dict[str, Callable[[torch.Tensor], object]] = {
    "synchronize": lambda _: cuda.synchronize(),
    "the accelerator's synchronize": lambda _: torch.accelerator.synchronize(),
    "the stream": lambda _: cuda.current_stream().synchronize(),
    "an event": lambda _: record_and_await(cuda.Event()),
    "a generic event": lambda _: record_and_await(torch.Event("cuda")),
    "polling": lambda _: poll(cuda.current_stream()),
    "an item": lambda x: x[0, 0].item(),
    "nonzero": lambda x: x.nonzero(),
    "a blocking copy": lambda x: x[0].cpu(),
    "a blocking copy to the device": lambda _: torch.ones(5).cuda(),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_what_makes_sure_that_a_copy_has_ended(end: Callable[[torch.Tensor], object]) -> None:
    x = torch.ones(1024, 1024, device="cuda")
    with Guard("collect") as guard:
        sleep()
        host = x.to("cpu", non_blocking=True)
        end(x)
        assert host.sum() == 1024 * 1024
    assert guard.violations == (), str(guard)


def right_result_after_a_chain() -> None:
    side, last, x = cuda.Stream(), cuda.Stream(), torch.ones(1024, 1024, device="cuda")
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        host = x.to("cpu", non_blocking=True)
        done = side.record_event()
    last.wait_event(done)
    cuda.current_stream().wait_stream(last)
    cuda.current_stream().synchronize()
    host.sum()


def right_result_after_a_chain_of_torch_streams() -> None:
    x, side, last = torch.ones(1024, 1024, device="cuda"), *(torch.Stream(device="cuda") for _ in range(2))
    side.wait_stream(torch.accelerator.current_stream())
    with side:
        host = x.to("cpu", non_blocking=True)
    last.wait_event(side.record_event())
    while not last.query():
        pass
    host.sum()


def right_pageable_memory() -> None:
    source, host = torch.ones(1024, 1024), torch.ones(1024, 1024)
    x = source.to("cuda", non_blocking=True)
    source.zero_()
    host.copy_(x, non_blocking=True)
    host.sum()


RIGHT: tuple[Program, ...] = tuple(value for name, value in list(globals().items()) if name.startswith("right_"))


@pytest.mark.parametrize("program", RIGHT)
def test_a_program_without_a_race_is_left_alone(program: Program) -> None:
    with Guard("collect") as guard:
        program()
    assert guard.violations == (), str(guard)


@pytest.mark.parametrize("workload", WORKLOADS, ids=[workload.name for workload in WORKLOADS])
def test_the_workloads_have_no_race(workload: Workload) -> None:
    with Guard("collect") as guard, workload.build(torch.device("cuda"), 0.1) as step:
        for _ in range(6):
            step()
    assert guard.violations == (), str(guard)


def test_a_graph_runs_and_its_copies_are_said_not_to_be_seen() -> None:
    source, target = pinned(64), torch.zeros(64, device="cuda")

    def capture() -> Any:
        graph: Any = cuda.CUDAGraph()
        with cuda.graph(graph):
            target.copy_(source, non_blocking=True)
        return graph

    try:
        capture()
    except RuntimeError as exc:
        pytest.skip(f"torch does not capture it, with or without a guard: {exc}")
    with Guard("collect") as guard:
        capture().replay()
        source.zero_()
    assert guard.violations == (), str(guard)
    assert any("CUDA graphs" in note for note in guard.notes)


def test_a_race_while_a_graph_is_captured_does_not_end_the_capture() -> None:
    x, y, host, side = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda"), pinned(64), cuda.Stream()
    with Guard("collect") as guard:
        graph: Any = cuda.CUDAGraph()
        with cuda.graph(graph):
            y.add_(x)
            with cuda.stream(side):  # not a part of the graph
                host.copy_(x, non_blocking=True)
            host.sum()
        graph.replay()
    assert [(race.rule.id, race.had_ended, race.copy_ns) for race in guard.violations] == [("PIN502", False, None)]
    assert y.sum().item() == 64


@pytest.fixture
def compiler() -> Iterator[Any]:
    """torch.compile, without a trace of its use afterwards: other tests would take their waits for compiled ones."""
    yield torch.compile
    torch._dynamo.utils.counters.clear()


def test_compiled_code_runs_and_is_said_not_to_be_seen(compiler: Any) -> None:
    compiled = compiler(torch.nn.functional.gelu, backend="aot_eager")
    with Guard("collect") as guard:
        host = compiled(torch.ones(64, device="cuda")).to("cpu", non_blocking=True)
        host.sum()
    assert [violation.rule.id for violation in guard.violations] == ["PIN502"], str(guard)
    assert any("torch.compile" in note for note in guard.notes)


def test_torch_is_as_before_afterwards() -> None:
    def state() -> list[Any]:
        return [
            *(cuda.get_sync_debug_mode(), cuda.Event.record, cuda.Event.synchronize, cuda.Stream.synchronize),
            *(vars(torch.Event)["synchronize"], vars(torch.Stream)["wait_stream"]),
            *(vars(torch._C)["_cuda_synchronize"], torch.Tensor.numpy, torch._C._len_torch_dispatch_stack()),
        ]

    before = state()
    with contextlib.suppress(ZeroDivisionError), Guard("collect"):
        pinned(4).to("cuda", non_blocking=True)
        assert state() != before
        _ = 1 / 0
    assert state() == before
