"""Batches of a server by phase: steps of 1000 us, each with a mark of 600 us that says the batch."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from decoding import answered
from trace_builder import AUTOGRAD, COMPUTE, TraceBuilder

from pinprof.analyses.serving import MarkedBatch, ServingPhase, batch_of
from pinprof.analysis import analyse
from pinprof.details import details_of
from pinprof.measurement.measure import measure
from pinprof.report.trace.json import trace_of
from pinprof.report.trace.page import to_html
from pinprof.report.trace.view import serving_section
from pinprof.rules.rule import Findings
from pinprof.trace import Trace

PREFILL, DECODE = "execute_context_2(512)_generation_0(0)", "execute_context_0(0)_generation_32(32)"
MIXED = "execute_context_1(100)_generation_32(32)"


@pytest.mark.parametrize(
    ("mark", "batch"),
    [
        (PREFILL, MarkedBatch("prefill", 2, 512)),
        (DECODE, MarkedBatch("decode", 32, 32)),
        (MIXED, MarkedBatch("mixed", 33, 132)),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
            MarkedBatch("decode", 32, 32),
        ),
        ("execute_new_1_cached_7", MarkedBatch("mixed", 8, None)),
        ("execute_new_0_cached_7", MarkedBatch("decode", 7, 7)),
        ("step[EXTEND bs=2 toks=4096]", MarkedBatch("prefill", 2, 4096)),
        ("step[DECODE bs=16]", MarkedBatch("decode", 16, 16)),
        ("step[DECODE bs=16 sq=16 sk=900 sqsq=16 sqsk=900]", MarkedBatch("decode", 16, 16)),
        ("step[MIXED bs=3 c=1 g=2 c_sq=100]", MarkedBatch("mixed", 3, None)),
        ("step[TARGET_VERIFY bs=4]", MarkedBatch("other", 4, None)),
        ("step[DRAFT_LOOP raw_bs=4 bs=8 topk=1]", MarkedBatch("other", 8, None)),
        ("gpu_model_runner: forward", None),
        ("scheduler.run_batch", None),
        ("step[3]", None),
    ],
)
def test_a_mark_says_the_phase_and_how_many_requests_and_tokens(mark: str, batch: MarkedBatch | None) -> None:
    assert batch_of(mark) == batch


def served(marks: Sequence[str], *, around: str = "") -> TraceBuilder:
    """Make batches in turn: decodes launch a graph of 700 us, others a kernel of 900 us; then one more kernel."""
    builder = TraceBuilder()
    for number, mark in enumerate(marks):
        start, decodes = 1000 * number, mark == DECODE
        if around:
            builder.event("user_annotation", around, start, 990)
        builder.event("user_annotation", mark, start + 2, 600)
        call = builder.call("cudaGraphLaunch" if decodes else "cudaLaunchKernel", start + 20, 10)
        length = 700 if decodes else 900
        builder.activity("kernel", "gemm", start + 40, length, correlation=call, device=0, stream=COMPUTE)
        builder.event("user_annotation", "Scheduler: process_outputs", start + 760, 200)
        builder.kernel(start + 970, 20, launch=start + 962)
    return builder


def test_batches_are_summed_by_phase() -> None:
    trace = served([PREFILL, *[DECODE] * 6, MIXED, MIXED]).read()
    prefill, decode, mixed = details_of(trace).serving
    assert decode == ServingPhase(
        name="decode",
        count=6,
        requests=32,
        tokens=32,
        step_ns=1_000_000,
        launches=2,
        graphs=1,
        idle_ns=280_000,
        fills=(("Scheduler: process_outputs", 200_000),),
    )
    assert (prefill.name, prefill.count, prefill.tokens, prefill.graphs) == ("prefill", 1, 512, 0)
    assert (mixed.name, mixed.count, mixed.requests) == ("mixed", 1, 33)  # the last batch is not complete


def test_marks_within_those_of_a_scheduler_say_the_batch() -> None:
    trace = served(["step[DECODE bs=4]"] * 5, around="scheduler.run_batch").read()
    assert trace.steps.marker == "SGLang's scheduler.run_batch"
    (phase,) = details_of(trace).serving
    assert (phase.name, phase.count, phase.requests) == ("decode", 4, 4)


def test_the_report_says_how_fast_tokens_are_made_and_what_fills_the_idle_time() -> None:
    section = serving_section(measure(served([PREFILL, *[DECODE] * 6]).read()))
    assert [fact.name for fact in section.facts] == ["prefill", "decode"]
    (brief,) = section.brief
    assert brief == (
        "Batches of decode: 1.00 ms as traced, 5 batches of 32 requests and 32 tokens, 32,000 tokens per second; 2 "
        "launches, 1 of them of CUDA graphs; no GPU work for 280 µs (28 %), of it 200 µs in Scheduler: process_outputs."
    )


def generated(*, calls_per_step: int = 0) -> Trace:
    """Make a prompt of 4 requests and 6 tokens of answers: no GPU work for 900 us per call, 60 of them in an op."""
    builder = answered([(4, 100), *[(4, 1)] * 7])
    for number in range(8 // calls_per_step if calls_per_step else 0):
        builder.step(number, 1000 * number * calls_per_step - 10, 1000 * calls_per_step - 20)
    return builder.read()


def test_calls_of_a_language_model_are_batches() -> None:
    prefill, decode = details_of(generated()).serving
    assert (prefill.name, prefill.count, prefill.requests, prefill.tokens) == ("prefill", 1, 4, 400)
    assert (decode.name, decode.count, decode.requests, decode.tokens) == ("decode", 6, 4, 4)
    assert (decode.step_ns, decode.launches, decode.graphs, decode.idle_ns) == (1_000_000, 3, 0, 985_000)
    assert dict(decode.fills) == {"Python": 925_000, "aten::argmax": 20_000, "aten::embedding": 20_000}


def test_what_other_threads_do_fills_no_idle_time() -> None:
    builder = answered([(4, 100), *[(4, 1)] * 7])
    builder.op("aten::unrelated", -10, 8010, thread=AUTOGRAD)
    builder.kernel(8020, 5, launch=8010, thread=AUTOGRAD)
    for number in range(8):
        builder.op("aten::unrelated", 1000 * number + 300, 600, thread=AUTOGRAD)
        builder.call("cudaStreamQuery", 1000 * number + 300, 600, thread=AUTOGRAD)
    (_, decode) = details_of(builder.read()).serving
    assert decode.fills == details_of(generated()).serving[1].fills


def test_a_step_with_one_call_is_its_batch_and_one_with_several_is_none() -> None:
    assert [phase.name for phase in details_of(generated(calls_per_step=1)).serving] == ["prefill", "decode"]
    assert details_of(generated(calls_per_step=4)).serving == ()


def test_without_shapes_requests_are_unknown() -> None:
    trace = answered([(4, 100), *[(4, 1)] * 7], with_shapes=False).read()
    (_, decode) = trace_of(measure(trace), Findings()).serving
    assert (decode.requests, decode.tokens, decode.count) == (None, None, 6)
    (brief,) = serving_section(measure(trace)).brief
    assert str(brief).startswith("Batches of decode: 1.00 ms as traced, 6 batches; 3 launches, none of a CUDA graph;")


@pytest.mark.parametrize(("prompt", "by_pinprof", "told"), [(1, True, True), (100, True, False), (1, False, False)])
def test_a_recording_without_a_prefill_says_how_to_get_one(prompt: int, by_pinprof: bool, told: bool) -> None:
    builder = answered([(4, prompt), *[(4, 1)] * 7])
    builder.op("aten::scaled_dot_product_attention", 150, 20)
    trace = builder.read()
    profile = measure(replace(trace, info=replace(trace.info, by_pinprof=by_pinprof)))
    assert any("pinprof run --steps" in str(note) for note in serving_section(profile).notes) is told


def test_the_page_shows_the_phases_of_a_server_and_of_a_language_model() -> None:
    for trace in served([PREFILL, *[DECODE] * 6]).read(), generated():
        assert "Prefill and decode, as traced" in to_html([analyse(trace)])
