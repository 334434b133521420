"""Programs with and without a race, on a GPU of plain objects (`fake_gpu.py`): no CUDA is needed."""

import copy
import io
import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from inspect import currentframe
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
import torch
from fake_gpu import FakeGenericStream, FakeGpu, line_of
from torch._subclasses import FakeTensorMode

from pinprof.ground.errors import UnsafeCopyError
from pinprof.races.guard import Guard, UnsafeCopyWarning


@pytest.fixture
def gpu() -> FakeGpu:
    return FakeGpu()


@pytest.fixture(autouse=True)
def nothing_compiled() -> None:
    """Other tests of this process may have compiled code: the guard says so."""
    if utils := sys.modules.get("torch._dynamo.utils"):
        utils.counters.clear()


@pytest.fixture(autouse=True)
def no_job() -> Iterator[None]:
    shows_errors = sys.excepthook
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        sys.excepthook = shows_errors  # a job puts its rank before them


def here(offset: int = 0) -> int:
    frame = currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno + offset


def copied_back(gpu: FakeGpu, *shape: int) -> torch.Tensor:
    """Return a tensor of the host to which a copy from the device runs."""
    host = torch.zeros(shape)
    return host.copy_(gpu.device_tensor(*shape), non_blocking=True)


def rules(guard: Guard) -> list[str]:
    return [race.rule.id for race in guard.violations]


def race_result_is_read(gpu: FakeGpu) -> None:
    result, host = gpu.device_tensor(100, 9), torch.zeros(100, 9)
    host.copy_(result, non_blocking=True)  # copy
    host.mean()  # access: PIN502


def race_source_is_written(_: FakeGpu) -> None:
    host = torch.ones(8, 8)
    host.to("meta", non_blocking=True)  # copy
    host.sum()
    host.zero_()  # access: PIN503


def race_transposed_source_is_written(_: FakeGpu) -> None:
    host = torch.zeros(4, 8)
    host.t().to("meta", non_blocking=True)  # copy
    host.zero_()  # access: PIN503


def race_source_is_written_where_torch_does_not_take_operators_apart(gpu: FakeGpu) -> None:
    host = torch.zeros(4, 4)
    with torch.inference_mode():
        x = torch.ones(4, 4, device="meta")
        gpu.device_tensor(1)
        host.to("meta", non_blocking=True)  # copy
        host.contiguous()
        host.reshape(-1).fill_(1)  # access: PIN503
        assert x.to("meta") is x


def race_memory_that_numpy_shares_is_written(_: FakeGpu) -> None:
    host = torch.zeros(8)
    again = torch.from_numpy(host.numpy()[2:4])
    host.to("meta", non_blocking=True)  # copy
    again.fill_(1)  # access: PIN503


def race_memory_of_another_library_is_written_though_its_tensor_is_gone(_: FakeGpu) -> None:
    of_numba = np.zeros(64, np.float32)
    torch.from_numpy(of_numba).to("meta", non_blocking=True)  # copy
    torch.from_numpy(of_numba).zero_()  # access: PIN503


def race_registered_memory_is_written(gpu: FakeGpu) -> None:
    pool = np.zeros(64, np.float32)
    gpu.c._cudart.cudaHostRegister(pool.ctypes.data, pool.nbytes, 0)
    torch.from_numpy(pool).to("meta", non_blocking=True)  # copy
    torch.from_numpy(pool).sum()
    torch.from_numpy(pool).zero_()  # access: PIN503


def race_memory_is_unregistered(gpu: FakeGpu) -> None:
    host, cudart = torch.zeros(16), gpu.c._cudart
    cudart.cudaHostRegister(host.data_ptr(), host.nbytes, 0)
    host.to("meta", non_blocking=True)  # copy
    cudart.cudaHostUnregister(host.data_ptr())  # access: PIN505


def race_event_is_recorded_before_the_copy(gpu: FakeGpu) -> None:
    result, host, event = gpu.device_tensor(4), torch.zeros(4), gpu.cuda.Event()
    event.record()
    host.copy_(result, non_blocking=True)  # copy
    event.synchronize()
    host.mean()  # access: PIN502
    event.record()
    event.synchronize()
    host.mean()


def race_ring_is_refilled_a_step_too_early(gpu: FakeGpu) -> None:
    slots = [(torch.zeros(4), gpu.cuda.Event()) for _ in range(2)]
    for step in range(10):
        slot, _ = slots[step % 2]
        _, copied = slots[1 - step % 2]
        slot.fill_(step)  # access: PIN503
        slot.to("meta", non_blocking=True)  # copy
        copied.record()


def race_one_of_a_list_is_read(gpu: FakeGpu) -> None:
    hosts, results = [torch.zeros(4), torch.zeros(2)], [gpu.device_tensor(4), gpu.device_tensor(2)]
    torch._foreach_copy_(hosts, results, non_blocking=True)  # copy
    hosts[1].mean()  # access: PIN502
    gpu.synchronize()
    hosts[0].mean()


def race_hook_reads_in_the_backward_pass(gpu: FakeGpu) -> None:
    result, host, x = gpu.device_tensor(4), torch.zeros(4), torch.ones(4, requires_grad=True)
    host.copy_(result, non_blocking=True)  # copy
    x.register_hook(lambda grad: grad + host)  # type: ignore[no-untyped-call]  # access: PIN502
    (x * 2).sum().backward()  # type: ignore[no-untyped-call]


RACES = [program for name, program in list(globals().items()) if name.startswith("race_")]
"""The line of each copy ends with `# copy`, that of the access with `# access` and the rule."""


@pytest.mark.parametrize("program", RACES)
def test_a_race_is_found_once_with_its_rule_and_both_lines(gpu: FakeGpu, program: Callable[[FakeGpu], None]) -> None:
    with Guard("collect", gpu=gpu) as guard:
        program(gpu)
    (race,) = guard.violations
    access = line_of(program, f"access: {race.rule.id}")
    assert (race.copy.line, race.access.line) == (line_of(program, "copy"), access), str(guard)
    if program is race_ring_is_refilled_a_step_too_early:
        assert race.times == 8


def test_a_race_has_what_was_copied_and_who_used_it(gpu: FakeGpu) -> None:
    with Guard("collect", gpu=gpu) as guard:
        race_result_is_read(gpu)
        gpu.current.run()  # its memory, which may be taken again, is of no copy that still runs
        race_source_is_written(gpu)
    read, written = guard.violations
    assert (read.direction, read.shape, read.nbytes, read.copy.function) == (
        "DtoH",
        (100, 9),
        3600,
        "race_result_is_read",
    )
    assert (read.action, read.had_ended, read.thread) == ("aten::mean reads", False, "MainThread")
    assert (written.direction, written.action) == ("HtoD", "aten::zero_ writes")


def right_loader_has_two_buffers(gpu: FakeGpu) -> None:
    side = gpu.stream()
    slots = [(torch.zeros(4), gpu.cuda.Event()) for _ in range(2)]
    for step in range(10):
        slot, copied = slots[step % 2]
        copied.synchronize()
        slot.fill_(step)
        with gpu.on(side):
            slot.to("meta", non_blocking=True)
            copied.record(side)
        gpu.current.wait_stream(side)


def right_freed_memory_of_torch_is_used_for_another_tensor(gpu: FakeGpu) -> None:
    host = torch.zeros(1 << 16)
    for _ in range(100):
        host.to("meta", non_blocking=True)
        del host
        gpu.current.run()
        host = torch.zeros(1 << 16)  # torch's own allocator hands out the same address
        host.fill_(1)


def right_registered_memory_is_unregistered_after_its_copy(gpu: FakeGpu) -> None:
    host, cudart = torch.zeros(16), gpu.c._cudart
    cudart.cudaHostRegister(host.data_ptr(), host.nbytes, 0)
    host.to("meta", non_blocking=True)
    gpu.synchronize()
    cudart.cudaHostUnregister(host.data_ptr())


def right_copies_of_pageable_memory_are_over_when_they_return(gpu: FakeGpu) -> None:
    host, result = gpu.pageable_tensor(4), gpu.device_tensor(4)
    host.to("meta", non_blocking=True)
    host.zero_()
    host.copy_(result, non_blocking=True)
    host.mean()


def right_copies_by_way_of_a_contiguous_tensor_are_over_for_the_host(gpu: FakeGpu) -> None:
    ring, result = torch.zeros(8, 8), gpu.device_tensor(8, 4)
    ring[:, ::2].to("meta", non_blocking=True)
    ring.zero_()
    ring[:, ::2].copy_(result, non_blocking=True)
    ring.mean()


def right_nested_tensors_are_used(_: FakeGpu) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    torch.ones(3).to("meta", non_blocking=True)
    assert (nested * 2).values().sum() == 10


def right_tensors_without_memory_are_asked_for_their_shapes(_: FakeGpu) -> None:
    with FakeTensorMode() as mode:
        torch.ones(4).to("meta", non_blocking=True)
        like = mode.from_tensor(torch.empty(4, 4, device="meta"))
        assert torch.nn.Parameter(like.detach()).t().shape == (4, 4)


RIGHT = [program for name, program in list(globals().items()) if name.startswith("right_")]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("program", RIGHT)
def test_a_program_without_a_race_is_left_alone(gpu: FakeGpu, program: Callable[[FakeGpu], None]) -> None:
    with Guard("raise", gpu=gpu) as guard:
        program(gpu)
    assert guard.violations == ()


def test_the_report_says_if_the_race_was_won(gpu: FakeGpu) -> None:
    with Guard("collect", gpu=gpu) as guard:
        host = copied_back(gpu, 4)
        gpu.current.run()
        host.mean()
    assert guard.violations[0].had_ended
    assert "The copy had in fact ended, but by luck" in str(guard)


Access = Callable[[torch.Tensor], Any]


@pytest.mark.parametrize(
    ("access", "rule"),
    [
        (lambda x: x[0, 0].item(), "PIN502"),
        (lambda x: float(x[0, 0]), "PIN502"),
        (lambda x: bool(x[0, 0]), "PIN502"),
        (lambda x: x.tolist(), "PIN502"),
        (lambda x: x.view(-1)[3:].tolist(), "PIN502"),
        (lambda x: x.numpy(), "PIN506"),
        (lambda x: x.detach().numpy(), "PIN506"),
        (np.asarray, "PIN506"),
        (np.from_dlpack, "PIN506"),
        (repr, "PIN502"),
        (lambda x: f"{x}", "PIN502"),
        (lambda x: f"{x[0, 0]:.2f}", "PIN502"),
        (lambda x: torch.save(x, io.BytesIO()), "PIN502"),
        (lambda x: torch.save({"model": {"w": x}}, io.BytesIO()), "PIN502"),
        (lambda x: pickle.dumps(x[1:]), "PIN502"),
        (copy.deepcopy, "PIN502"),
        (ForkingPickler.dumps, "PIN502"),
        (lambda x: x[:, 1] + 1, "PIN502"),
        (lambda x: x.t().contiguous(), "PIN502"),
        (lambda x: torch.stack([x, x]), "PIN502"),
        (lambda x: torch.equal(x, x), "PIN502"),
        (lambda x: torch.tensor([x[0, 0], x[1, 1]]), "PIN502"),
        (lambda x: torch.zeros(4, 4).map_(x, lambda _, b: b), "PIN502"),
        (lambda x: x.apply_(lambda value: value + 1), "PIN504"),
        (lambda x: x.add_(1), "PIN504"),
        (lambda x: torch.zeros(4, 4, out=x), "PIN504"),
        (lambda x: torch.add(torch.ones(4, 4), 1, out=x), "PIN504"),
        (lambda x: x.__setitem__((0, 0), 1), "PIN504"),
        (lambda x: x.untyped_storage().fill_(0), "PIN504"),
    ],
)
def test_everything_that_uses_a_destination_counts(gpu: FakeGpu, access: Access, rule: str) -> None:
    with Guard("collect", gpu=gpu) as guard:
        host = copied_back(gpu, 4, 4)
        access(host)
    assert rules(guard)[:1] == [rule]
    with Guard("collect", gpu=gpu) as guard:
        host = copied_back(gpu, 4, 4)
        gpu.synchronize()
        access(host)
    assert rules(guard) == []


@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support is in beta")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_the_indices_and_values_of_a_sparse_tensor_count(gpu: FakeGpu, layout: torch.layout) -> None:
    result, host = gpu.taken_over(torch.eye(4).to_sparse(layout=layout)), torch.eye(4).to_sparse(layout=layout)
    with Guard("collect", gpu=gpu) as guard:
        host.copy_(result, non_blocking=True)
        host.to_dense()
    race = guard.violations
    assert {(each.rule.id, each.copy.line, each.access.line) for each in race} == {("PIN502", here(-3), here(-2))}
    assert guard.violations[0].times == (2 if layout == torch.sparse_coo else 3)


@pytest.mark.parametrize(("training", "expected"), [(True, ["PIN503"]), (False, [])])
def test_batch_norm_writes_its_statistics_while_it_trains(gpu: FakeGpu, training: bool, expected: list[str]) -> None:
    norm = torch.nn.BatchNorm1d(8).train(training)
    assert norm.running_mean is not None
    with Guard("collect", gpu=gpu) as guard:
        norm.running_mean.to("meta", non_blocking=True)
        norm(torch.randn(4, 8))
    assert rules(guard) == expected


UNORDERED = "Record an event after the copy, on stream 0x1 of cuda:0, and let the default stream of cuda:0 wait for it"


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("wait", [False, True])
def test_a_copy_may_use_the_memory_of_another_only_behind_it(gpu: FakeGpu, wait: bool, blocking: bool) -> None:
    result, host, side = gpu.device_tensor(4), torch.zeros(4), gpu.stream()
    with Guard("collect", gpu=gpu) as guard:
        with gpu.on(side):
            host.copy_(result, non_blocking=True)
            host.to("meta", non_blocking=True)  # on the same stream
        if wait:
            gpu.current.wait_stream(side)
        host.to("meta", non_blocking=not blocking)
    if wait:
        assert rules(guard) == []
        return
    (race,) = guard.violations
    assert (race.rule.id, race.copy.line, race.access.line) == ("PIN502", here(-9), here(-5))
    assert "aten::_to_copy reads on the default stream of cuda:0" in str(race)
    assert UNORDERED in str(race)


@pytest.mark.parametrize(("to_host", "rule"), [(True, "PIN504"), (False, "PIN503")])
def test_a_copy_may_not_overwrite_what_another_uses(gpu: FakeGpu, to_host: bool, rule: str) -> None:
    result, host = gpu.device_tensor(4), torch.zeros(4)
    with Guard("collect", gpu=gpu) as guard:
        with gpu.on(gpu.stream()):
            if to_host:
                host.copy_(result, non_blocking=True)
            else:
                host.to("meta", non_blocking=True)
        host.copy_(result, non_blocking=True)
    assert rules(guard) == [rule]


@pytest.mark.parametrize(
    "look",
    [
        *(lambda x: x.shape, lambda x: x.view(-1)[1:].unsqueeze(0).expand(3, -1), lambda x: x.is_pinned()),
        *(torch.empty_like, torch.zeros_like, lambda x: x.new_ones(3), lambda x: x.data_ptr()),
        *(lambda x: x.detach().t_(), lambda x: x.untyped_storage().nbytes(), lambda x: list(x.unbind())),
    ],
)
def test_what_only_looks_at_the_outside_of_a_tensor_does_not_count(gpu: FakeGpu, look: Access) -> None:
    with Guard("collect", gpu=gpu) as guard:
        host = copied_back(gpu, 4, 4)
        look(host)
    assert rules(guard) == []


@pytest.mark.parametrize(
    "read",
    [
        *(lambda x: x.mean(), repr, lambda x: x.tolist(), lambda x: torch.save(x, io.BytesIO())),
        *(lambda x: x.to("meta", non_blocking=True), lambda x: torch.zeros(4, 4).copy_(x)),
    ],
)
def test_a_source_may_be_read(gpu: FakeGpu, read: Access) -> None:
    host = torch.ones(4, 4)
    with Guard("raise", gpu=gpu) as guard:
        host.to("meta", non_blocking=True)
        read(host)
    assert rules(guard) == []


def test_a_view_of_a_source_is_told_but_is_no_fault(gpu: FakeGpu) -> None:
    host = torch.ones(4)
    with Guard("raise", gpu=gpu) as guard:
        host.to("meta", non_blocking=True)
        host.numpy()
    assert rules(guard) == ["PIN506"]
    assert guard.is_clean
    assert "safe if it is only read" in str(guard)


def record(event: Any, *stream: Any) -> Any:
    event.record(*stream)
    return event


def chain(gpu: FakeGpu) -> None:
    second, third = gpu.stream(), gpu.stream()
    second.wait_stream(gpu.current)
    record(gpu.cuda.Event(), second).wait(third)
    third.synchronize()


def chain_of_generic_streams(gpu: FakeGpu) -> bool:
    second, third = FakeGenericStream(gpu.stream()), FakeGenericStream(gpu.stream())
    second.wait_stream(gpu.current)
    third.wait_event(second.record_event())
    return third.query()


def is_over(gpu: FakeGpu, event_or_stream: Any) -> None:
    """Ask once the stream has run."""
    gpu.current.run()
    assert event_or_stream.query()


def time_between(gpu: FakeGpu) -> None:
    first, last = record(gpu.cuda.Event()), record(gpu.cuda.Event())
    first.elapsed_time(last)


def barrier(*, async_op: bool = False) -> None:
    if not torch.distributed.is_initialized():
        store: Any = vars(torch.distributed)["HashStore"]()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    torch.distributed.barrier(async_op=async_op)


def item_on_another_stream(gpu: FakeGpu) -> None:
    with gpu.on(gpu.stream()):
        gpu.item()


def chain_the_other_way(gpu: FakeGpu) -> None:
    earlier = gpu.stream()
    gpu.current.wait_stream(earlier)
    earlier.synchronize()


def event_recorded_before(gpu: FakeGpu) -> None:
    second = FakeGenericStream(gpu.stream())
    event = second.record_event()
    second.wait_stream(gpu.current)
    event.synchronize()


def event_never_recorded(gpu: FakeGpu) -> None:
    event = gpu.cuda.Event()
    event.synchronize()
    assert event.query()


def too_early(gpu: FakeGpu) -> None:
    assert not record(gpu.cuda.Event()).query()
    assert not gpu.current.query()


End = Callable[[FakeGpu], object]
ENDS: dict[str, End] = {
    "an event": lambda gpu: record(gpu.cuda.Event()).synchronize(),
    "a generic event": lambda gpu: record(gpu.generic.Event()).synchronize(),
    "an event that is over": lambda gpu: is_over(gpu, record(gpu.cuda.Event())),
    "a generic event that is over": lambda gpu: is_over(gpu, record(gpu.generic.Event(), gpu.current)),
    "a stream that is over": lambda gpu: is_over(gpu, gpu.current),
    "a barrier": lambda _: barrier(),
    "a chain": chain,
    "a chain of generic streams": chain_of_generic_streams,
    "the time between events": time_between,
    "the device": lambda gpu: gpu.synchronize(),
    "its stream": lambda gpu: gpu.current.synchronize(),
    "an item": lambda gpu: gpu.item(),
    "a blocking copy": lambda gpu: torch.zeros(2).copy_(gpu.device_tensor(2)),
    "its generic stream": lambda gpu: FakeGenericStream(gpu.current).synchronize(),
    "an event of its generic stream": lambda gpu: FakeGenericStream(gpu.current).record_event().synchronize(),
}
NO_ENDS: dict[str, End] = {
    "an event of the host": lambda gpu: record(gpu.generic.Event("cpu"), gpu.current).synchronize(),
    "a generic event recorded before": event_recorded_before,
    "an asynchronous barrier": lambda _: barrier(async_op=True),
    "a stream that says no": too_early,
    "an event on another stream": lambda gpu: record(gpu.cuda.Event(), gpu.stream()).synchronize(),
    "an item on another stream": item_on_another_stream,
    "a chain the other way": chain_the_other_way,
    "an event never recorded": event_never_recorded,
    "nothing": lambda _: None,
    "another stream": lambda gpu: gpu.stream().synchronize(),
    "another copy": lambda gpu: torch.zeros(2).copy_(gpu.device_tensor(2), non_blocking=True),
    "a generic stream of the host": lambda gpu: FakeGenericStream(gpu.current, "cpu").synchronize(),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_what_makes_sure_that_a_copy_has_ended(gpu: FakeGpu, end: End) -> None:
    with Guard("raise", gpu=gpu):
        host = copied_back(gpu, 4)
        end(gpu)
        host.mean()


@pytest.mark.parametrize("end", NO_ENDS.values(), ids=NO_ENDS)
def test_what_does_not(gpu: FakeGpu, end: End) -> None:
    with Guard("collect", gpu=gpu) as guard:
        host = copied_back(gpu, 4)
        end(gpu)
        host.mean()
    assert rules(guard) == ["PIN502"]


@pytest.mark.parametrize("pool", [True, False])
def test_other_threads_that_begin_within_the_block_are_seen(gpu: FakeGpu, *, pool: bool) -> None:
    result, host = gpu.device_tensor(4), torch.zeros(4)

    def read() -> float:
        return host.mean().item()

    with Guard("collect", gpu=gpu) as guard:
        host.copy_(result, non_blocking=True)
        if pool:
            with ThreadPoolExecutor(1, "reader") as executor:
                executor.submit(read).result()
        else:
            thread = threading.Thread(target=read, name="reader_0")
            thread.start()
            thread.join()
    (race,) = guard.violations
    assert (race.thread, race.access.line) == ("reader_0", here(-12))
    assert "in thread reader_0" in str(guard)
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(torch._C._len_torch_dispatch_stack).result() == 0


def test_mode_warn_warns_once_at_the_line_of_the_access(gpu: FakeGpu) -> None:
    result, host = gpu.device_tensor(4), torch.zeros(4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Guard("warn", gpu=gpu):
            for _ in range(3):
                host.copy_(result, non_blocking=True)
                host.mean()
    (warning,) = caught
    assert warning.category is UnsafeCopyWarning
    assert (os.path.basename(warning.filename), warning.lineno) == (os.path.basename(__file__), here(-3))  # noqa: PTH119
    assert "PIN502" in str(warning.message)


def test_mode_raise_raises_before_the_access(gpu: FakeGpu) -> None:
    host = torch.ones(4)
    with Guard("raise", gpu=gpu):
        host.to("meta", non_blocking=True)
        with pytest.raises(UnsafeCopyError, match="PIN503"):
            host.zero_()
    assert host.tolist() == [1, 1, 1, 1]


def test_all_is_as_before_afterwards(gpu: FakeGpu) -> None:
    def state() -> list[Any]:
        return [
            torch.Tensor.numpy,
            torch.Tensor.tolist,
            vars(torch.Tensor).get("numpy"),
            torch._tensor_str._str,
            threading.Thread.__dict__["_bootstrap_inner"],
            ForkingPickler._extra_reducers[torch.Tensor],  # type: ignore[attr-defined]
            gpu.cuda.Event.record,
            gpu.c._cuda_synchronize,
            list(warnings.filters),
            gpu.sync_debug_mode,
            torch._C._len_torch_dispatch_stack(),
        ]

    before = state()
    with Guard("collect", gpu=gpu):
        torch.ones(2).to("meta", non_blocking=True)
        assert gpu.sync_debug_mode == 1
        assert state() != before
    assert state() == before


def test_guards_within_each_other_both_see(gpu: FakeGpu) -> None:
    host = torch.zeros(4)
    with Guard("collect", gpu=gpu) as outer, Guard("collect", gpu=gpu) as inner:
        host.to("meta", non_blocking=True)
        host.zero_()
        gpu.item()
        host.zero_()
    assert rules(outer) == rules(inner) == ["PIN503"]


def test_captured_copies_are_not_followed_and_that_is_said(gpu: FakeGpu) -> None:
    host = torch.zeros(4)
    with Guard("collect", gpu=gpu) as guard:
        gpu.capturing = True
        host.to("meta", non_blocking=True)
        gpu.capturing = False
        host.zero_()
    assert rules(guard) == []
    assert "CUDA graphs" in str(guard)


def test_a_forked_process_is_not_the_user_of_the_copies(gpu: FakeGpu) -> None:
    with Guard("raise", gpu=gpu):
        host = copied_back(gpu, 4)
        child = os.fork()
        if child == 0:
            try:
                host.mean()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


def test_a_clean_program_is_told_with_how_many_copies_were_followed(gpu: FakeGpu) -> None:
    with Guard("raise", gpu=gpu) as guard:
        torch.ones(3).add_(1).numpy()
    assert str(guard) == "There was no asynchronous copy between pinned memory and a GPU to follow."
    batch = torch.ones(4)
    with Guard("raise", gpu=gpu) as guard:
        for _ in range(2):
            batch.to("meta", non_blocking=True)
            gpu.c._cuda_synchronize()
    assert str(guard) == "No unsafe use of host memory was seen: 2 asynchronous copies followed."
