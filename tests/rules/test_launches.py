"""Rules of the host's launches, each with a scene that fires it and one that nearly does."""

from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from decoding import LARGE, SMALL, lookup
from fitting import fitting
from host_builder import host_profile
from trace_builder import AUTOGRAD, COMPUTE, TraceBuilder
from trace_parts import Scene, all_of, event, kernel, op, scene_of

from pinprof.analyses.host_samples import CalledLine, HostSums, LibraryCall, measure_host
from pinprof.measurement.measure import measure
from pinprof.report.trace.json import traces_to_json
from pinprof.rules.catalogue.pin603_python_code import CODE_NOT_SEEN, NO_REMEDY_KNOWN
from pinprof.rules.rule import Finding, Findings
from pinprof.rules.search import RULES, find
from pinprof.trace import Trace
from pinprof.trace.lines import PauseCode, Place
from pinprof.trace.metadata.run_log import CompilerNote, RunLog

STEPS = 4


def launching(
    builder: TraceBuilder, start: float, *, count: int = 30, kernel: float = 2, begin: float = 10, every: float = 30
) -> None:
    """Ops of 28 us that each launch a kernel after 20 us; the last ends at 918 us."""
    for number in range(count):
        at = start + begin + every * number
        builder.op("aten::add", at, every - 2)
        builder.kernel(at + every - 6, kernel, launch=at + 20)


def small_kernels(builder: TraceBuilder, start: float, **changes: Any) -> None:
    launching(builder, start, **changes)
    builder.op("aten::mul", start + 910, 75)


def one_long_launch(builder: TraceBuilder, start: float) -> None:
    """Add ten quick launches, and one that takes 700 us: not the number of launches makes the GPU wait."""
    builder.op("aten::mul", start + 5, 980)
    for number in range(10):
        builder.kernel(start + 60 + 3 * number, 2, launch=start + 10 + 3 * number)
    correlation = builder.call("cudaLaunchKernel", start + 250, 700)
    builder.activity("kernel", "gemm", start + 965, 2, correlation=correlation, device=0, stream=COMPUTE)


def looping_optimizer(builder: TraceBuilder, start: float, *, begin: float = 205, length: float = 700) -> None:
    """Small kernels; an optimizer launches those from 6 to 29."""
    small_kernels(builder, start)
    builder.event("user_annotation", "Optimizer.step#Adam.step", start + begin, length)


def pausing(builder: TraceBuilder, start: float) -> None:
    launching(builder, start, count=2, begin=250)
    builder.op("aten::mul", start + 700, 285)
    builder.kernel(start + 720, 265, launch=start + 710)


pausing_beside_a_kernel = scene_of(
    all_of(pausing),
    kernel(310, 445, launch=300),
    kernel(985, 270, launch=715),  # until the next step's first
)


def op_on_the_host(builder: TraceBuilder, start: float, name: str = "aten::sort") -> None:
    launching(builder, start, count=2, begin=250)
    builder.op(name, start + 310, 600)
    builder.op("aten::mul", start + 911, 74)
    builder.kernel(start + 930, 40, launch=start + 915)


def long_op_that_launches(builder: TraceBuilder, start: float) -> None:
    op_on_the_host(builder, start)
    builder.kernel(start + 420, 450, launch=start + 410)


def compiled(builder: TraceBuilder, start: float, *, version: int, compiles: float) -> None:
    """A step in which code is looked up, compiled for so long, and run."""
    builder.op("TorchDynamo Cache Lookup", start + 5, 20)
    if compiles:
        builder.op("entire_frame_compile", start + 29, compiles + 2)
        builder.op("_compile.compile_inner (dynamo_timed)", start + 30, compiles)
        builder.event("user_annotation", "bytecode_tracing (dynamo_timed)", start + 40, compiles / 2)
    builder.op(f"Torch-Compiled Region: 0/{version}", start + 640, 100)
    builder.kernel(start + 660, 320, launch=start + 650)
    builder.op("aten::add", start + 740, 248)


def compiling_again(builder: TraceBuilder, start: float) -> None:
    compiled(builder, start, version=round(start / 1000), compiles=600)


def compiling_once(builder: TraceBuilder, start: float) -> None:
    compiled(builder, start, version=0, compiles=0 if start else 600)


def capturing(builder: TraceBuilder, start: float, *, again: bool = True) -> None:
    """A step that launches a graph, and records it before."""
    if again or not start:
        builder.call("cudaStreamBeginCapture_v2", start + 20, 2)
        builder.op("aten::add", start + 30, 400)
        builder.call("cudaStreamEndCapture", start + 450, 10)
        builder.call("cudaGraphInstantiateWithFlags", start + 470, 100)
    correlation = builder.call("cudaGraphLaunch", start + 700, 10)
    builder.activity("kernel", "gemm", start + 720, 260, correlation=correlation, device=0, stream=7)
    builder.op("aten::add", start + 800, 188)


def warming_up(builder: TraceBuilder, start: float) -> None:
    """Code is compiled in the first step, and graphs are recorded in the second, as torch does."""
    capturing(builder, start, again=start == 1000)
    if not start:
        builder.op("_compile.compile_inner (dynamo_timed)", start + 571, 120)


TO_WEIGHT = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


def norms(
    builder: TraceBuilder, start: float, *, kernel: float = 2, op: str = "aten::linalg_vector_norm", count: int = 25
) -> None:
    """A step that takes the norm of each gradient behind backward."""
    launching(builder, start, count=3)
    builder.op("autograd::engine::evaluate_function: MmBackward0", start + 110, 40, thread=AUTOGRAD)
    builder.kernel(start + 140, 4, launch=start + 120, thread=AUTOGRAD)
    for number in range(count):
        at = start + 160 + 30 * number
        builder.op(op, at, 28)
        builder.kernel(at + 24, kernel, launch=at + 20)
    builder.op("aten::mul", start + 915, 70)


def zeroing(
    builder: TraceBuilder, start: float, *, op: str = "aten::zero_", mark: str = "zero_grad", passes: int = 1
) -> None:
    """Gradients are set to zero for 300 us; each backward pass behind it adds to ten of them."""
    builder.event("user_annotation", f"Optimizer.{mark}#SGD.{mark}", start + 5, 305)
    for number in range(10):
        at = start + 10 + 30 * number
        builder.op(op, at, 28)
        builder.kernel(at + 24, 2, launch=at + 20)
    for place in range(passes):
        begin = start + 315 + 300 * place
        builder.op("aten::linear", begin, 30)
        builder.kernel(begin + 28, 2, launch=begin + 20)
        for number in range(10):
            at = begin + 40 + 25 * number
            builder.op(TO_WEIGHT, at, 23, thread=AUTOGRAD)
            builder.op("torch::autograd::AccumulateGrad", at + 1, 21, thread=AUTOGRAD)
            builder.op("aten::add_", at + 2, 18, thread=AUTOGRAD)
            builder.kernel(at + 19, 2, launch=at + 15, thread=AUTOGRAD)
    builder.op("aten::mul", start + 920, 65)


def read(scene: Scene, first: int = 0) -> Trace:
    builder = TraceBuilder()
    for number in range(STEPS):
        builder.step(first + number, 1000 * number, 990)
        scene(builder, 1000 * number)
    return builder.read()


@cache
def found(scene: Scene) -> Findings:
    trace = read(scene)
    return find(measure(trace), trace)


FIRES = [
    *((small_kernels, "PIN601"), (looping_optimizer, "PIN602"), (pausing, "PIN603"), (op_on_the_host, "PIN604")),
    *((compiling_again, "PIN605"), (capturing, "PIN605"), (norms, "PIN607")),
    (zeroing, "PIN611"),
]
NEARLY = [
    (partial(small_kernels, kernel=30), "PIN601"),
    (one_long_launch, "PIN601"),
    (partial(small_kernels, count=3, every=300), "PIN601"),
    (pausing, "PIN601"),
    (op_on_the_host, "PIN601"),
    (partial(looping_optimizer, begin=805, length=100), "PIN602"),
    (pausing_beside_a_kernel, "PIN603"),
    (small_kernels, "PIN603"),
    (long_op_that_launches, "PIN604"),
    (compiling_again, "PIN604"),
    (compiling_again, "PIN603"),
    (compiling_again, "PIN601"),
    (compiling_once, "PIN605"),
    (partial(compiled, version=0, compiles=0), "PIN605"),
    (partial(capturing, again=False), "PIN605"),
    (warming_up, "PIN605"),
    (partial(norms, kernel=28), "PIN607"),
    (partial(norms, op="aten::_foreach_norm"), "PIN607"),
    (partial(norms, count=15), "PIN607"),
    (small_kernels, "PIN607"),
    (partial(zeroing, op="aten::add_"), "PIN611"),
    (partial(zeroing, mark="step"), "PIN611"),
]


@pytest.mark.parametrize(("scene", "rule"), FIRES)
def test_a_rule_finds_what_it_is_for(scene: Scene, rule: str) -> None:
    (finding,) = [finding for finding in found(scene) if finding.rule.id == rule]
    assert finding.saving is not None
    assert finding.saving.saving_ns > 0


@pytest.mark.parametrize("passes", [1, 2])
def test_only_the_first_backward_pass_adds_to_zeros(passes: int) -> None:
    (finding,) = (finding for finding in found(partial(zeroing, passes=passes)) if finding.rule.id == "PIN611")
    assert finding.evidence.text == (
        "zero_grad fills gradients with zeros, and backward adds to 10 of them, per step: 460 µs of the host as "
        "traced, and 40.0 µs of the GPU"
    )


@pytest.mark.parametrize(("scene", "rule"), NEARLY)
def test_a_near_miss_is_not_found(scene: Scene, rule: str) -> None:
    assert rule not in {finding.rule.id for finding in found(scene)}


NOTED_BY_RUN = {"PIN608", "PIN609", "PIN612", "PIN613"}
"""What `pinprof run` notes: `tests/capture/test_stops.py` and `test_compiler.py` have both."""


def test_every_rule_of_launches_has_both() -> None:
    assert (
        {rule for _, rule in FIRES}
        == {rule for _, rule in NEARLY}
        == {rule.id for rule in RULES if rule.family == "launches"} - NOTED_BY_RUN
    )


def test_launches_are_counted_by_phase() -> None:
    (finding,) = [finding for finding in found(small_kernels) if finding.rule.id == "PIN601"]
    assert finding.evidence.text.startswith(
        "30 launches per step (forward 30), one per 30.0 µs of host time, as traced; half of the kernels take less "
        "than 2.00 µs; the GPU is idle for "
    )
    first, second, *_ = found(looping_optimizer)
    assert first.rule.id == "PIN602"  # what launches less comes before a graph
    assert "forward 6, optimizer 24)" in second.evidence.text


def waiting(builder: TraceBuilder, start: float, *, times: int) -> None:
    small_kernels(builder, start)
    for number in range(times):
        builder.op("aten::item", start + 308 + 30 * number, 2)
        builder.call("cudaStreamSynchronize", start + 308.5 + 30 * number, 1)


def starting(builder: TraceBuilder, start: float, *, call: str) -> None:
    """Wait in the first step only."""
    small_kernels(builder, start)
    if not start:
        builder.op("aten::item" if "Sync" in call else "aten::empty", start + 308, 2)
        builder.call(call, start + 308.5, 1)


def of_inductor(builder: TraceBuilder, start: float) -> None:
    small_kernels(builder, start)
    for number in range(4):
        builder.kernel(start + 26 + 30 * number, 2, launch=start + 21 + 30 * number, name="triton_poi_fused_add_0")


in_a_region = scene_of(op("Torch-Compiled Region: 0/0", 5, 600), all_of(small_kernels))


def of_a_triton_programmer(builder: TraceBuilder, start: float) -> None:
    small_kernels(builder, start)
    for number in range(4):
        builder.kernel(start + 26 + 30 * number, 2, launch=start + 21 + 30 * number, name="_fwd_kernel")


def varying(builder: TraceBuilder, start: float) -> None:
    small_kernels(builder, start)
    builder.kernel(start + 26, 2, launch=start + 21, name=f"kernel_of_step_{start:.0f}")


def with_a_graph(builder: TraceBuilder, start: float) -> None:
    in_a_region(builder, start)
    correlation = builder.call("cudaGraphLaunch", start + 31, 2)
    for number in range(2):
        at = start + 40 + 2 * number
        builder.activity("kernel", "gemm", at, 2, correlation=correlation, device=0, stream=COMPUTE)


of_a_server = scene_of(all_of(in_a_region), event("user_annotation", "execute_context_0(0)_generation_8(8)", 0, 990))


def decoding(builder: TraceBuilder, start: float) -> None:
    """Answer a prompt of the first step, by hand."""
    small_kernels(builder, start)
    lookup(builder, int(start) + 940, SMALL if start else LARGE)
    builder.op("aten::mm", start + 972, 3)
    builder.op("aten::scaled_dot_product_attention", start + 976, 3)
    builder.op("aten::argmax", start + 980, 5)


BY_HAND, BY_GENERATE = "written in place", 'cache_implementation="static"'
EITHER, ONE_GRAPH = "fuses kernels and launches", "one CUDA graph"


@pytest.mark.parametrize(
    ("scene", "told", "not_told"),
    [
        (small_kernels, (EITHER, ONE_GRAPH), ("wait",)),
        (of_a_triton_programmer, (EITHER, ONE_GRAPH), ()),
        (
            partial(waiting, times=16),
            (EITHER, "graphs of the parts between waits; one graph of the step needs the 16 waits in it removed first"),
            (ONE_GRAPH,),
        ),
        (partial(starting, call="cudaMalloc"), (EITHER, ONE_GRAPH), ("wait",)),
        (
            partial(starting, call="cudaStreamSynchronize"),
            ("one graph of the step needs the waits in some steps removed first",),
            (ONE_GRAPH,),
        ),
        (partial(waiting, times=1), ("needs the wait in it removed first",), (ONE_GRAPH,)),
        (varying, (EITHER, "one graph of the step needs the same kernels in each step"), (ONE_GRAPH, "wait")),
        (of_inductor, ("reduce-overhead", "graph_breaks", ONE_GRAPH), (EITHER,)),
        (in_a_region, ("reduce-overhead", "graph_breaks", ONE_GRAPH), (EITHER,)),
        (with_a_graph, ("outside of the CUDA graphs", "graph_breaks"), (EITHER, "reduce-overhead")),
        (of_a_server, ("--enforce-eager",), (EITHER, "reduce-overhead", ONE_GRAPH)),
        (decoding, (BY_HAND, ONE_GRAPH, BY_GENERATE, "more requests"), (EITHER, "enforce-eager")),
    ],
)
def test_what_to_do_follows_from_what_the_program_does_already(
    scene: Scene, told: tuple[str, ...], not_told: tuple[str, ...]
) -> None:
    (finding,) = [finding for finding in found(scene) if finding.rule.id == "PIN601"]
    assert [text for text in told if text not in finding.fix] == []
    assert [text for text in not_told if text in finding.fix] == []


def copying_in_a_loop(builder: TraceBuilder, start: float, *, size: int) -> None:
    pausing(builder, start)
    for number in range(32):
        copied = start + 320 + 10 * number
        builder.copy("HtoD (Pinned -> Device)", copied + 2, 2, launch=copied, size=size)


def python_of(trace: Trace, *lines: CalledLine, **kinds: int) -> list[Finding]:
    """Return what is found of Python where 100 samples are of these kinds, and called by these lines."""
    of_kinds: Any = tuple(kinds.items())
    host = HostSums(100, 0, STEPS, 1.0, of_kinds, lines, (), ())
    return [finding for finding in find(replace(measure(trace), host=host), trace) if finding.rule.id == "PIN603"]


@pytest.mark.parametrize(
    ("scene", "samples", "advice"),
    [
        (pausing, 90, NO_REMEDY_KNOWN),
        (pausing, 60, NO_REMEDY_KNOWN),
        (pausing, 9, CODE_NOT_SEEN),  # no line takes long
        (partial(copying_in_a_loop, size=4000), 90, "Pack the many small copies into one"),
        (partial(copying_in_a_loop, size=4_000_000), 90, NO_REMEDY_KNOWN),
    ],
)
def test_what_a_sampled_line_launches_is_not_advised_to_be_left_out(scene: Scene, samples: int, advice: str) -> None:
    """A call in C is sampled as the line that makes it, so its Python may be the ops that the step needs."""
    line = CalledLine("train.py", 7, "main", (("user", samples),))
    (finding,) = python_of(read(scene), line, user=samples, torch=100 - samples)
    assert finding.fix.startswith(advice)


@pytest.mark.parametrize(("line", "told"), [("for batch in loader:", False), ("weights = exp(ages)", True)])
def test_memory_that_is_freed_where_a_loader_is_asked_is_no_python(line: str, *, told: bool, tmp_path: Path) -> None:
    """Workers share batches: unmapping one takes the host milliseconds, at the line that binds the next."""
    scene = scene_of(
        all_of(small_kernels),
        event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 1, 3),
    )
    source = tmp_path / "train.py"
    source.write_text(line)
    called = CalledLine(str(source), 1, "main", (("user", 60),))
    assert bool(python_of(read(scene), called, user=60, torch=40)) is told


def calling(builder: TraceBuilder, start: float, *, inner: tuple[str, ...]) -> None:
    """The pause from 308 to 700 us is in these functions, one within the other."""
    pausing(builder, start)
    builder.function("train.py(5): main", start + 1, 985)
    for depth, name in enumerate(inner):
        builder.function(name, start + 312 + depth, 380 - 2 * depth)


PACKAGES = "/opt/lib/python3.12/site-packages"


@pytest.mark.parametrize(
    ("inner", "where", "advice"),
    [
        ((), "559 µs of 559 µs in main()", NO_REMEDY_KNOWN),
        (("train.py(90): weights",), "380 µs of 559 µs in weights()", NO_REMEDY_KNOWN),
        (
            (
                f"{PACKAGES}/transformers/a.py(1): floating_point_ops",
                f"{PACKAGES}/transformers/b.py(1): num_parameters",
            ),
            "380 µs of 559 µs in main(), in transformers floating_point_ops → num_parameters",
            "Keep what it returns",
        ),
        ((f"{PACKAGES}/tqdm/std.py(1): refresh",), "in main(), in tqdm refresh", "Update the progress bar less often"),
        (("logging/__init__.py(1): info",), "in main(), in logging info", "Log every N steps."),
        (("torch/optim/adam.py(1): _init_group",), "in torch _init_group", "torch.compile of optimizer.step"),
        ((f"{PACKAGES}/lightning/loop.py(1): advance",), "in lightning advance", NO_REMEDY_KNOWN),
    ],
)
def test_a_pause_names_the_code_that_runs_in_it(inner: tuple[str, ...], where: str, advice: str) -> None:
    (finding,) = [finding for finding in found(partial(calling, inner=inner)) if finding.rule.id == "PIN603"]
    assert where in finding.evidence.text
    assert finding.fix.startswith(advice)
    assert finding.evidence.file == "train.py"
    assert "pinprof run" not in finding.fix


def test_a_pause_in_torch_alone_is_no_python() -> None:
    backward = "<built-in method run_backward of torch._C._EngineBase object at 0x1>"

    def waiting_in_torch(builder: TraceBuilder, start: float) -> None:
        pausing(builder, start)
        builder.function("train.py(5): main", start + 1, 985)
        builder.function(backward, start + 5, 980)

    assert "PIN603" not in [finding.rule.id for finding in found(waiting_in_torch)]


@pytest.mark.parametrize(("imports", "told"), [(0, True), (90, False)])
def test_a_sampled_line_names_the_library_but_for_imports(imports: int, told: bool) -> None:
    call = LibraryCall("tqdm", "refresh", "format_meter")
    line = CalledLine("train.py", 7, "main", (("library", 90),), ((call, 90 - imports),), imports)
    findings = python_of(read(small_kernels), line, library=90, torch=10)
    texts = [(finding.evidence.text, finding.fix) for finding in findings]
    where = (
        "without the profiler it is in Python for 90 % of the step: 90 % at train.py:7 in tqdm refresh → format_meter"
    )
    assert texts == (
        [(where, "Update the progress bar less often: tqdm(..., mininterval=1), and set_postfix() every N steps.")]
        if told
        else []
    )


def reading_in_a_library(builder: TraceBuilder, start: float, *, stack: tuple[str, ...]) -> None:
    """A kernel that is read in the library's function, and a long pause behind it."""
    builder.kernel(start + 10, 100, launch=start + 2)
    builder.op("aten::item", start + 20, 100)
    builder.call("cudaStreamSynchronize", start + 25, 90)
    builder.kernel(start + 900, 20, launch=start + 890)
    at = {"file": "train.py", "line": 7, "function": "main", "stack": list(stack), "cause": "item"}
    builder.metadata["pinprof_lines"] = [{"op": "aten::item", "thread": "main", "at": [at]}]


@pytest.mark.parametrize(("read_at", "told"), [(31, False), (32, True)])
def test_samples_of_a_librarys_line_that_waits_are_waits(read_at: int, told: bool) -> None:
    """Without the profiler it waits longer than in the trace. Another line of the same function is Python."""
    stack = (f"lib/trainer.py:{read_at}:log", "train.py:7:main")
    trace = read(partial(reading_in_a_library, stack=stack))
    profile = host_profile((60, "train.py:7:main > lib/trainer.py:31:log"), (40, "torch/nn/linear.py:5:forward"))
    findings = find(replace(measure(trace), host=measure_host(profile)), trace)
    (text,) = [finding.evidence.text for finding in findings if finding.rule.id == "PIN603"]
    assert ("it is in Python for 60 % of the step: 60 % at train.py:7" in text) is told


@pytest.mark.parametrize(
    ("counts", "named"),
    [((40, 25, 25), "in json dumps"), ((60, 15, 15), "in json dumps → a"), ((30, 0, 0), "train.py:7")],
)
def test_the_samples_of_a_librarys_function_count_together(counts: tuple[int, ...], named: str) -> None:
    libraries = tuple((LibraryCall("json", "dumps", inner), count) for inner, count in zip("abc", counts, strict=True))
    line = CalledLine("train.py", 7, "main", (("library", 90),), libraries)
    (finding,) = python_of(read(small_kernels), line, library=90, torch=10)
    assert finding.evidence.text.endswith(named)


def test_no_graph_is_promised_where_the_kernels_change_from_step_to_step() -> None:
    def changing(builder: TraceBuilder, start: float) -> None:
        small_kernels(builder, start)
        builder.kernel(start + 960, 2, launch=start + 950, name=f"sorts_{start}_points")

    (same,), (other,) = (
        [row for row in found(scene) if row.rule.id == "PIN601"] for scene in (small_kernels, changing)
    )
    assert same.saving is not None
    assert same.most_ns is None
    assert other.saving is None
    assert other.most_ns is not None
    assert "the steps do not launch the same kernels" in other.evidence.text


def with_two_optimizers(builder: TraceBuilder, start: float, *, other: str) -> None:
    """Small kernels; one optimizer launches those from 6 to 22, another one seven more."""
    looping_optimizer(builder, start, length=480)
    builder.event("user_annotation", f"Optimizer.step#{other}.step", start + 700, 205)


@pytest.mark.parametrize(("other", "launches"), [("SGD", "23"), ("Muon", None)])
def test_only_torchs_optimizers_can_be_fused(other: str, launches: str | None) -> None:
    """Sixteen launches of Adam alone are not many."""
    texts = [row.evidence.text for row in found(partial(with_two_optimizers, other=other)) if row.rule.id == "PIN602"]
    assert [f"makes {launches} launches" in text for text in texts] == [True] * (launches is not None)


def evidence(scene: Scene, rule: str) -> str:
    (finding,) = [finding for finding in found(scene) if finding.rule.id == rule]
    return finding.evidence.text


def test_the_steps_that_compile_again_are_counted() -> None:
    assert evidence(compiling_again, "PIN605") == (
        "in 3 of 4 recorded steps the host compiles code, for 600 µs each, as traced"
    )
    assert evidence(capturing, "PIN605") == (
        "in 3 of 4 recorded steps CUDA graphs are recorded, for 540 µs each, as traced"
    )


def test_the_guards_that_failed_in_the_run_are_named() -> None:
    guard = "tensor 'x' size mismatch. expected 4, actual 5"
    note = CompilerNote(Place("net.py", 10, "forward"), f"{guard}    # return x + 1  # net.py:10 in forward", 2)
    trace = read(compiling_again)
    none = (0,) * STEPS
    run = RunLog(0, (("plain", STEPS),), (1_000_000,) * STEPS, none, none, none, 0, recompiled=(note,))
    trace = replace(trace, run=run)
    (finding,) = [finding for finding in find(measure(trace), trace) if finding.rule.id == "PIN605"]
    assert finding.evidence.place == note.place
    assert finding.evidence.text.endswith(f"; guards that failed in this run: {guard} (at net.py:10)")


def test_after_many_steps_the_first_one_recorded_compiles_again_too() -> None:
    trace = read(warming_up, first=3)
    (finding,) = [finding for finding in find(measure(trace), trace) if finding.rule.id == "PIN605"]
    assert finding.evidence.text == (
        "in 1 of 4 recorded steps the host compiles code, for 120 µs each, as traced; in 2 of 4 recorded steps CUDA "
        "graphs are recorded, for 540 µs each, as traced"
    )


def test_small_ops_are_named_with_how_often_they_launch() -> None:
    assert evidence(norms, "PIN607") == (
        "the same ops run again and again, with no wait in between: aten::linalg_vector_norm 25 times per step, which "
        "is 25 launches, 86 % of all; together they take 748 µs of the host as traced, and 50.0 µs of the GPU"
    )


def test_the_report_tells_which_ops_and_modules_launch_and_what_a_graph_cannot_hold() -> None:
    def scene(builder: TraceBuilder, start: float) -> None:
        small_kernels(builder, start)
        builder.function("nn.Module: Linear_3", start + 5, 300)  # launches 0 to 9
        builder.op("aten::linear", start + 9, 299)  # around ten
        builder.op("aten::item", start + 308, 2)
        builder.call("cudaStreamSynchronize", start + 308.5, 1)

    trace = read(scene)
    profile = measure(trace)
    (document,) = fitting(traces_to_json([(profile, find(profile, trace))]))["traces"]
    launched = document["launches"]
    assert [(row["name"], row["launches"], row["kernel_ms"]) for row in launched["ops"]] == [
        ("aten::add", 20, 0.04),
        ("aten::linear", 10, 0.02),
    ]
    assert [(row["name"], row["launches"]) for row in launched["modules"]] == [(None, 20), ("Linear_3", 10)]
    assert sum(row["host_ms"] for row in launched["ops"]) == pytest.approx(0.9)  # until the last launch
    (blocker,) = launched["blockers"]
    assert blocker == {"what": "item", "file": None, "line": None, "function": None, "per_step": 1}


def hooked(builder: TraceBuilder, start: float, *, node: str = "torch::autograd::AccumulateGrad", ops: int = 0) -> None:
    """Backward from 320 us on: a node that launches, and one with a hook of 380 us, in which some `ops` may run."""
    launching(builder, start, count=2, begin=250)
    builder.op("autograd::engine::evaluate_function: MmBackward0", start + 310, 20, thread=AUTOGRAD)
    builder.kernel(start + 324, 4, launch=start + 312, thread=AUTOGRAD)
    builder.op(f"autograd::engine::evaluate_function: {node}", start + 331, 384, thread=AUTOGRAD)
    builder.op(node, start + 332, 382, thread=AUTOGRAD)
    builder.op("aten::detach", start + 333, 2, thread=AUTOGRAD)
    for number in range(ops):
        builder.op("aten::add", start + 336 + 37 * number, 30, thread=AUTOGRAD)
    builder.op("aten::mul", start + 716, 269)
    builder.kernel(start + 736, 249, launch=start + 726)


@pytest.mark.parametrize(
    ("scene", "in_nodes"),
    [
        (hooked, True),
        (partial(hooked, node="NoteBackward"), True),
        (partial(hooked, node="ConvolutionBackward0"), False),  # a node in C++, which calls no Python
        (partial(hooked, node="CompiledFunctionBackward"), False),  # what is around compiled code is torch's own
        (partial(hooked, ops=10), False),  # the ops take the time
    ],
)
def test_python_that_backward_passes_call_is_seen_without_functions(scene: Scene, in_nodes: bool) -> None:
    texts = [finding.evidence.text for finding in found(scene) if finding.rule.id == "PIN603"]
    assert [
        text for text in texts if "380 µs of it within " in text and "Python code that these call" in text
    ] == texts * in_nodes
    assert bool(texts) is in_nodes or "backward passes" not in texts[0]


def test_a_hook_is_named_as_the_steps_with_functions_showed_it() -> None:
    trace = read(hooked)
    code = (PauseCode("train.py", None, "note", (), "", 3e6), PauseCode("train.py", 7, "main", (), "", 1e6))
    trace = replace(trace, info=replace(trace.info, backward=code))
    (finding,) = [finding for finding in find(measure(trace), trace) if finding.rule.id == "PIN603"]
    assert finding.evidence.place == Place("train.py", None, "note")
    assert "285 µs of 553 µs in note()" in finding.evidence.text
    assert finding.fix.startswith("Do less in the Python code")


def in_optimizer(builder: TraceBuilder, start: float) -> None:
    pausing(builder, start)
    builder.event("user_annotation", "Optimizer.step#Adam.step", start + 305, 400)


@pytest.mark.parametrize(("scene", "is_torchs"), [(in_optimizer, True), (pausing, False)])
def test_torchs_own_python_in_the_optimizer_is_told(scene: Scene, *, is_torchs: bool) -> None:
    trace = read(scene)
    step = "train.py:12:main > torch/optim/optimizer.py:517:wrapper > torch/optim/adam.py:247:Adam.step"
    forward = "train.py:9:main > torch/nn/modules/module.py:1:Module._wrapped_call_impl"
    host = measure_host(host_profile((40, step), (60, forward)))
    (finding,) = [finding for finding in find(replace(measure(trace), host=host), trace) if finding.rule.id == "PIN603"]
    assert ("392 µs of it within the optimizer, which is torch's own code" in finding.evidence.text) is is_torchs
    assert finding.fix == CODE_NOT_SEEN
