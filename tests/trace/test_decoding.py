"""Which calls of a language model a trace has, and which of them decode."""

import json

import pytest
from decoding import LARGE, PERIOD, TOKENS, answered, lookup
from trace_builder import TraceBuilder

from pinprof.trace import Trace
from pinprof.trace.tables import NONE


def decodes_of(trace: Trace) -> list[bool]:
    return trace.model_calls.decodes.tolist()


TWO_ANSWERS = [(4, 100), (4, 1), (4, 1), (4, 1), (4, 50), (4, 1), (4, 1), (4, 1)]
PHASES = [tokens == 1 for _, tokens in TWO_ANSWERS]


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("with_shapes", [False, True])
def test_each_lookup_of_tokens_is_a_call_that_takes_in_prompts_or_decodes(with_shapes: bool, positions: bool) -> None:
    trace = answered(TWO_ANSWERS, with_shapes=with_shapes, positions=positions).read()
    calls = trace.model_calls
    assert decodes_of(trace) == PHASES
    assert np_list(trace.steps.start_ns) == [PERIOD * number for number in range(8)]
    assert (trace.steps.source, trace.steps.marker) == ("model_call", "decode of a language model")
    if with_shapes:
        assert calls.requests.tolist() == [4] * 8
        assert calls.tokens.tolist() == [400, 4, 4, 4, 200, 4, 4, 4]
    else:
        assert set(calls.requests.tolist()) == set(calls.tokens.tolist()) == {NONE}


def np_list(times_ns: object) -> list[int]:
    """Return times in us from the first."""
    times = list(times_ns)  # type: ignore[call-overload]
    return [int(time - times[0]) // 1000 for time in times]


def test_decodes_are_measured_but_for_the_last_call_whose_end_is_unknown() -> None:
    steps = answered(TWO_ANSWERS).read().steps
    assert steps.complete.tolist() == [False, True, True, True, False, True, True, False]
    assert steps.whole.tolist() == [True] * 7 + [False]


def test_decodes_of_more_than_16_requests_need_shapes() -> None:
    sizes = [(32, 100), (32, 1), (32, 1), (32, 1)]
    assert decodes_of(answered(sizes).read()) == [False, True, True, True]
    assert not decodes_of(answered(sizes, with_shapes=False).read())


def compiled(*, lookups: bool = True, region: str = "Torch-Compiled Region: 0/0") -> TraceBuilder:
    """Take in a prompt without the compiler, then launch a graph for each of three tokens."""
    builder = answered([(1, 100)], with_shapes=False)
    for number in range(1, 4):
        start = PERIOD * number
        builder.op(region, start, 50)
        call = builder.call("cudaGraphLaunch", start + 20, 10)
        name = "triton_per_fused__to_copy_embedding_mean_mul_0" if lookups else "triton_poi_fused_add_0"
        for place, kernel in enumerate([name, "gemm"]):
            builder.activity("kernel", kernel, start + 40 + 10 * place, 8, correlation=call, device=0, stream=7)
    return builder


def test_compiled_code_with_a_lookup_decodes_after_a_prompt() -> None:
    assert decodes_of(compiled().read()) == [False, True, True, True]


def of_training() -> TraceBuilder:
    builder = answered(TWO_ANSWERS)
    builder.op("autograd::engine::evaluate_function: MmBackward0", 300, 20)
    return builder


def with_optimizer() -> TraceBuilder:
    builder = answered(TWO_ANSWERS)
    builder.event("user_annotation", "Optimizer.step#Adam.step", 300, 20)
    return builder


def with_a_bias_by_position() -> TraceBuilder:
    """T5 looks up a bias in each call, after its first product."""
    builder = answered(TWO_ANSWERS, with_shapes=False)
    for number in range(len(TWO_ANSWERS)):
        lookup(builder, PERIOD * number + 150, LARGE)
        builder.op("aten::bmm", PERIOD * number + 180, 10)
    return builder


@pytest.mark.parametrize(
    "builder",
    [
        pytest.param(of_training(), id="a training"),
        pytest.param(with_optimizer(), id="an optimizer"),
        pytest.param(answered([(4, 100)] * 8), id="all calls take many tokens"),
        pytest.param(answered([(4, 100), (4, 1), (4, 1)]), id="two decodes"),
        pytest.param(answered(TWO_ANSWERS, choice="aten::add"), id="no token is chosen"),
        pytest.param(answered([(4, 1)] * 8, product="gemm"), id="no prompt and no attention: a recommender"),
        pytest.param(answered([(1, 9)] * 8, with_shapes=False, choice="aten::argmax"), id="short sentences"),
        pytest.param(
            answered([(64, 1), *[(8, 1)] * 4], with_shapes=False, product="gemm"), id="a large batch, and no attention"
        ),
        pytest.param(with_a_bias_by_position(), id="two lookups per call"),
    ],
)
def test_other_programs_have_no_such_calls(builder: TraceBuilder) -> None:
    trace = builder.read()
    assert not len(trace.model_calls)
    assert trace.steps.source != "model_call"


def test_decodes_without_a_prompt_are_told_by_shapes_and_attention() -> None:
    assert decodes_of(answered([(4, 1)] * 5, choice="aten::softmax_argmax").read()) == [True] * 5


def marked(*sizes: str) -> TraceBuilder:
    """Mark calls as `pinprof run` does, in steps of one call each."""
    builder = answered([(1, 1)] * len(sizes), with_shapes=False)
    for number, size in enumerate(sizes):
        builder.step(number, PERIOD * number - 20, PERIOD - 20)
        builder.event("user_annotation", f"pinprof batch {size}", PERIOD * number - 10, 900)
    return builder


def test_marks_of_pinprof_say_the_size_of_each_call() -> None:
    calls = marked("8x1", "8x1", "8x30", "8x1", "8x1").read().model_calls
    assert calls.decodes.tolist() == [True, True, False, True, True]
    assert calls.tokens.tolist() == [8, 8, 240, 8, 8]


@pytest.mark.parametrize(
    "dims",
    [
        *([], [TOKENS], "broken", [TOKENS, "x"], [TOKENS, [4]], {"a": 1}, [TOKENS, [10**18, 10**18]]),
        *([TOKENS, [2**70, 1]], [TOKENS, [-1, 1]]),
    ],
)
def test_shapes_of_any_form_are_read(dims: object) -> None:
    builder = answered(TWO_ANSWERS, with_shapes=False)
    for event in builder.events:
        if event["name"] == "aten::embedding":
            event["args"]["Input Dims"] = json.loads(json.dumps(dims))
    assert decodes_of(builder.read()) == PHASES


def test_steps_that_the_program_marks_come_first() -> None:
    builder = answered(TWO_ANSWERS)
    for number in range(8):
        builder.step(number, PERIOD * number - 10, PERIOD - 20)
    trace = builder.read()
    assert trace.steps.source == "profiler_step"
    assert decodes_of(trace) == PHASES


def test_the_programs_own_marks_of_steps_count_more_than_calls() -> None:
    builder = answered([(4, 100), (4, 1), (4, 1), (4, 1)] * 6)
    for number in range(6):
        builder.event("user_annotation", "rollout", 4 * PERIOD * number, 4 * PERIOD - 100)
    steps = builder.read().steps
    assert (steps.source, steps.marker) == ("annotation", "rollout")
