"""Loops of ops that one call could do, and what only looks like one."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec import to_builtins
from trace_builder import AUTOGRAD, TraceBuilder

from pinprof.details import details_of
from pinprof.measurement.measure import measure
from pinprof.rules.loops import Loop, find_loops, in_one_call, place_of_loop, places_of_loops
from pinprof.rules.rule import Finding
from pinprof.rules.search import find
from pinprof.trace import Trace
from pinprof.trace.lines import OPS_KEY
from pinprof.trace.sources import Sources

Scene = Callable[[TraceBuilder, float], None]
EVERY = 20
"""Microseconds from one op to the next."""
HEAD = ("aten::linear", "aten::layer_norm", "aten::gelu")
CELL = ("aten::linear", "aten::linear", "aten::add", "aten::tanh")
JOINED_CELL = ("aten::cat", "aten::linear", "aten::sigmoid", "aten::tanh", "aten::mul")


def op(
    builder: TraceBuilder, name: str, at: float, *, thread: int = 100, kernel: float = 2, launches: bool = True
) -> None:
    builder.op(name, at, EVERY - 4, thread=thread)
    if launches:
        builder.kernel(at + 12, kernel, launch=at + 8, thread=thread)


def repeated(builder: TraceBuilder, at: float, ops: Sequence[str], times: int, *, kernel: float = 2) -> float:
    """Run ops again and again, and return when they are done."""
    for name in (*ops,) * times:
        op(builder, name, at, kernel=kernel)
        at += EVERY
    return at


def backward(
    builder: TraceBuilder, at: float, ops: Sequence[str], times: int, *, weights: int, reads: int = 0
) -> float:
    for name in (*ops,) * times:
        op(builder, name, at, thread=AUTOGRAD)
        at += EVERY
    nodes = ("TBackward0",) * reads + ("torch::autograd::AccumulateGrad",) * weights
    for node in nodes:
        builder.op(f"autograd::engine::evaluate_function: {node}", at, 2, thread=AUTOGRAD)
        at += 3
    return at


def after_backward(builder: TraceBuilder, start: float, *, ops: Sequence[str], times: int = 30) -> None:
    at = repeated(builder, start + 5, ["aten::linear"], 1)
    at = backward(builder, at, ["aten::mm"], 1, weights=1)
    repeated(builder, at, ops, times)


def samples(
    builder: TraceBuilder,
    start: float,
    *,
    ops: Sequence[str] = HEAD,
    times: int = 12,
    join: str = "aten::stack",
    reads: int = 12,
    wait: bool = False,
    modules: Callable[[int], str] | None = None,
) -> None:
    """A head that a forward pass calls for each sample; the backward pass gives its weight one gradient."""
    at = start + 5
    for number in range(times):
        begin = at
        at = repeated(builder, at, ops, 1)
        if modules:
            builder.function(f"nn.Module: {modules(number)}", begin - 2, at - begin)
        if wait:
            builder.op("aten::item", at - 3, 2)
            builder.call("cudaStreamSynchronize", at - 2.5, 1)
    op(builder, join, at)
    backward(builder, at + EVERY, ["aten::mm", "aten::mul"], times, weights=1, reads=reads)


def read(scene: Scene, metadata: dict[str, Any] | None = None, length: int = 4000) -> Trace:
    builder = TraceBuilder()
    builder.metadata |= metadata or {}
    for number, start in enumerate(range(0, 4 * length, length)):
        builder.step(number, start, length - 10)
        scene(builder, start)
    return builder.read()


def loops(scene: Scene) -> list[Loop]:
    trace = read(scene)
    return find_loops(trace, details_of(trace).syncs.stalls)


def begins_with_backward(builder: TraceBuilder, start: float, *, ops: Sequence[str]) -> None:
    """A step from one backward pass to the next: the update of the weights stands before the forward pass."""
    at = backward(builder, start + 5, ["aten::mm"], 1, weights=1)
    at = repeated(builder, at, ops, 30)
    at = repeated(builder, at, ["aten::linear"], 1)
    backward(builder, at, ["aten::mm"], 1, weights=1)


AVERAGE = partial(after_backward, ops=["aten::mul_", "aten::add_"])
BLEND = ("aten::mul", "aten::mul", "aten::add", "aten::copy_")
SIGNS = ("aten::mul", "aten::add_", "aten::sign_")
FOUND = [
    (AVERAGE, "tensors", ("aten::mul_", "aten::add_"), 30),
    (partial(after_backward, ops=["aten::clone", "aten::sign_"]), "tensors", ("aten::clone", "aten::sign_"), 30),
    (partial(after_backward, ops=["aten::linalg_vector_norm"]), "tensors", ("aten::linalg_vector_norm",), 30),
    (partial(after_backward, ops=BLEND), "tensors", BLEND, 30),
    (partial(begins_with_backward, ops=SIGNS), "tensors", SIGNS, 30),
    (samples, "module", HEAD, 12),
    (partial(samples, reads=0, modules=lambda _: "Linear_3"), "module", HEAD, 12),
    (partial(samples, ops=["aten::index", "aten::mul"]), "gather", ("aten::index", "aten::mul"), 12),
    (partial(samples, ops=["aten::sub", "aten::mean"]), "ops", ("aten::sub", "aten::mean"), 12),
    (partial(samples, ops=["aten::sum", "aten::logsumexp"]), "ops", ("aten::sum", "aten::logsumexp"), 12),
    (partial(samples, ops=["aten::lstm_cell", "aten::add"]), "cell", ("aten::lstm_cell", "aten::add"), 12),
    (partial(samples, ops=CELL, modules=lambda _: "Cell_0"), "cell", CELL, 12),
    (partial(samples, ops=JOINED_CELL, modules=lambda _: "Cell_0"), "cell", JOINED_CELL, 12),
]


@pytest.mark.parametrize(("scene", "kind", "ops", "times"), FOUND)
def test_a_loop_is_found_with_its_ops_and_how_often_it_runs(
    scene: Scene, kind: str, ops: tuple[str, ...], times: int
) -> None:
    (loop,) = loops(scene)
    assert (loop.kind, loop.ops, loop.repeats) == (kind, ops, 4 * times)


def broadcast(builder: TraceBuilder, start: float) -> None:
    """DDP copies the buffers that it has broadcast."""
    at = repeated(builder, start + 5, ["aten::linear", "c10d::broadcast_"], 1)
    repeated(builder, at, ["aten::copy_"], 30)


def micro_batches(builder: TraceBuilder, start: float) -> None:
    """Forward and backward again and again, of one model on parts of a batch."""
    at = start + 5
    for _ in range(15):
        op(builder, "aten::select", at - 4, launches=False)
        begin, at = at, repeated(builder, at, HEAD, 1)
        builder.function("nn.Module: Linear_3", begin - 2, at - begin)
        at = backward(builder, at, ["aten::mm", "aten::mul"], 1, weights=1, reads=1)
    op(builder, "aten::stack", at)


NEARLY: list[Any] = [
    micro_batches,
    partial(samples, reads=0),  # as far as is known each linear layer has a weight of its own
    partial(samples, modules="Linear_{}".format),
    partial(samples, join="aten::linear"),  # the result of one goes into the next
    partial(samples, wait=True),
    partial(samples, times=7),
    partial(samples, ops=CELL),  # as far as is known of layers
    partial(samples, ops=CELL, modules="Cell_{}".format),
    partial(samples, ops=[*CELL, "aten::layer_norm"], modules=lambda _: "Block_0"),
    partial(samples, ops=["aten::linear", "aten::linear", "aten::add", "aten::relu"]),
    partial(samples, ops=["aten::linear", "aten::gelu", "aten::add"]),  # to what the last one made
    partial(samples, ops=["aten::mul", "aten::add", "aten::tanh"], join="aten::mean"),
    partial(samples, ops=["my::op", "aten::add"], reads=0),
    partial(after_backward, ops=["aten::_foreach_mul_"]),
    broadcast,
    partial(after_backward, ops=["aten::zero_"]),
    partial(after_backward, ops=["aten::mul_", "aten::add_"], times=9),
    partial(after_backward, ops=["aten::mul", "aten::add"]),  # perhaps of what the last one made
    partial(samples, ops=["aten::linear", *SIGNS], join="aten::linear"),
]


@pytest.mark.parametrize("scene", NEARLY)
def test_what_only_looks_like_a_loop_is_none(scene: Scene) -> None:
    assert not loops(scene)


def test_the_backward_pass_of_a_loop_belongs_to_it() -> None:
    (loop,) = loops(samples)
    assert [len(run.repetitions) for run in loop.of_backward] == [12] * 4
    assert [len(run.calls) for run in loop.of_backward] == [24] * 4


@pytest.mark.parametrize(("ops", "runs"), [(60, 4), (121, 0)])
def test_a_repetition_of_the_backward_pass_may_be_longer_than_one_of_the_loop(ops: int, runs: int) -> None:
    def scene(builder: TraceBuilder, start: float) -> None:
        at = repeated(builder, start + 5, HEAD, 12)
        op(builder, "aten::stack", at)
        backward(builder, at + EVERY, [f"my::gradient_{number}" for number in range(ops)], 12, weights=1, reads=12)

    trace = read(scene, length=40_000)
    (loop,) = find_loops(trace, details_of(trace).syncs.stalls)
    assert [len(run.calls) for run in loop.of_backward] == [12 * ops] * runs


def found(scene: Scene) -> Finding:
    trace = read(scene)
    (finding,) = (finding for finding in find(measure(trace), trace) if finding.rule.id == "PIN607")
    return finding


def test_a_loop_over_tensors_saves_what_all_repetitions_but_one_take() -> None:
    finding = found(partial(after_backward, ops=["aten::mul_", "aten::add_"], times=60))
    assert "torch._foreach_mul_" in finding.fix
    assert finding.saving is not None
    assert finding.saving.saving_ns == pytest.approx(59 * 2 * EVERY * 1e3, rel=0.3)


def test_kernels_that_are_at_work_take_as_long_in_one_call() -> None:
    trace = read(partial(samples, ops=["aten::sub", "aten::mean"]))
    (loop,) = find_loops(trace, details_of(trace).syncs.stalls)
    short, long = (in_one_call(trace, [(loop.runs[0], 0.0)], limit) for limit in (2_000.0, 100.0))
    assert not short.prolonged
    assert min(begin for _, begin, _ in short.removed_times) == loop.runs[0].starts_ns[1]  # the first one stays
    assert sum(more for _, more in long.prolonged) == 22 * 2_000  # all of eleven repetitions of two kernels


def test_what_joins_the_parts_is_spared_with_the_loop() -> None:
    trace = read(samples)
    (loop,) = find_loops(trace, details_of(trace).syncs.stalls)
    joins = trace.ops.named("aten::stack".__eq__)
    times = zip(trace.ops.start_ns[joins].tolist(), trace.ops.end_ns[joins].tolist(), strict=True)
    assert [run.around for run in loop.runs] == [(each,) for each in times]


def test_what_a_model_joins_by_itself_stays() -> None:
    """A loop that begins a part of a step is not the one for which the step's other parts join tensors."""

    def joining(builder: TraceBuilder, start: float) -> None:
        at = repeated(builder, start + 5, ["aten::linear", "aten::cat", "my::op"], 8)
        at = backward(builder, at, ["aten::mm"], 1, weights=1)
        at = repeated(builder, at, ["aten::sub", "aten::mean"], 12)
        repeated(builder, at, ["aten::stack"], 1)

    (loop,) = loops(joining)
    assert loop.kind == "ops"
    assert [len(run.around) for run in loop.runs] == [1] * 4


def test_a_call_for_many_tensors_spares_none_that_joins_what_it_makes() -> None:
    def norms(builder: TraceBuilder, start: float) -> None:
        after_backward(builder, start, ops=["aten::linalg_vector_norm"])
        op(builder, "aten::stack", start + 5 + EVERY * 32 + 3)

    (loop,) = loops(norms)
    assert not any(run.around for run in loop.runs)


@pytest.mark.parametrize(
    ("ops", "advice"),
    [
        (["aten::lstm_cell", "aten::add"], "It looks like a recurrent cell"),
        (CELL, "It looks like a recurrent cell: each repetition needs the one before"),
    ],
)
def test_a_cell_is_said_to_be_sequential(ops: Sequence[str], advice: str) -> None:
    """A graph spares launches, not the kernels: these take 4 us of each 40."""
    finding = found(partial(samples, ops=ops, times=30, modules=lambda _: "Cell_0"))
    assert finding.fix.startswith(advice)
    assert finding.evidence.edits.graphed
    assert not finding.evidence.edits.prolonged


def test_the_place_of_a_loop_is_learned_from_steps_with_functions() -> None:
    def scene(builder: TraceBuilder, start: float, *, function: bool = True) -> None:
        AVERAGE(builder, start)
        if function:
            builder.function("train.py(30): average", start + 45, 1300)

    with_functions = read(scene)
    learned = places_of_loops(with_functions, details_of(with_functions).syncs.stalls, Sources("x.json"))
    assert [(place.op, place.function) for place in learned] == [("loop of aten::add_ aten::mul_", "average")]
    plain = read(partial(scene, function=False), {OPS_KEY: to_builtins(learned)})
    (loop,) = find_loops(plain, details_of(plain).syncs.stalls)
    assert place_of_loop(plain, loop, Sources("x.json")).function == "average"
