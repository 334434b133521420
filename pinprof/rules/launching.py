"""A host that launches too slowly: how long the GPU waits for it, what it does meanwhile, and what to do about it."""

import re
from collections.abc import Sequence

from pinprof.details import Details
from pinprof.ground.intervals import Intervals, covered, joined, subtract, union
from pinprof.ground.units import listed
from pinprof.measurement.profile import OUTSIDE_WORK, Profile, busiest_idle_times
from pinprof.prediction.graphs import OFTEN_PER_STEP, Blocker
from pinprof.rules.sums import MAX_THINGS_NAMED, at, in_complete_steps, launched_kernels
from pinprof.trace.links import within
from pinprof.trace.spans.idle_times import long_ops, long_pauses
from pinprof.trace.spans.one_time_work import REGION_PREFIX, capture_times, compile_times
from pinprof.trace.spans.steps import serving_marks
from pinprof.trace.tables import Bools, Int64s, Trace
from pinprof.trace.vendors import GRAPH_LAUNCH

MIN_IDLE_SHARE_OF_STEP = 0.1  # a GPU that is idle for a smaller share of the step does not wait for launches
INDUCTOR_PREFIX = "triton_"
"""Begins the names of Inductor's kernels (torch/_inductor/codegen/triton.py); kernels that people write in Triton have
names of their own."""
COMPILED_SHARE = 0.1
"""From this share of a step's launches on, torch.compile is at work on the model: matrix products and attention stay
library kernels. Chosen on traces of compiled programs (0.11 to 0.95: vLLM, xDiT, a looping transformer) and of vLLM
without compiling (0.001); a compiled loss or optimizer alone launches less."""
CALL_OF_COLLECT = re.compile(r"<built-in (?:function collect>|method collect of module )")
MORE_PER_LAUNCH = "Or give the GPU more to do per launch: a larger batch."
FIX_OF_SERVER = (
    "Let the server launch CUDA graphs for batches of these sizes: vLLM without --enforce-eager, and with the sizes in "
    "cudagraph_capture_sizes; SGLang without --disable-cuda-graph, and with a larger --cuda-graph-max-bs. Or run more "
    "requests at once."
)
FIX_OF_DECODING = (
    "Launch each decode as one CUDA graph, with a KV cache of fixed size that is written in place: torch.compile with "
    'mode="reduce-overhead" does that, and generate() of transformers with cache_implementation="static".'
)


def late_ns(profile: Profile) -> float:
    """Return how long a step the busiest GPU is idle as a launch comes late, or around an only step; 0 if hardly."""
    step, busy = profile.step_ns, profile.steps.busy_ns
    if not step or busy is None or step - busy < MIN_IDLE_SHARE_OF_STEP * step:
        return 0.0
    idle = busiest_idle_times(profile)
    late = idle.get("host_wait", 0.0) / profile.steps.divisor + idle.get(OUTSIDE_WORK, 0.0)
    return min(late, step - busy)


def pauses(details: Details) -> Intervals:
    """Return the long pauses of the threads that launch, but for waits for input, compilers and gc.collect()."""
    idle = subtract(long_pauses(details.trace), details.loader.times)
    return subtract(subtract(idle, compiling(details)), details.trace.functions.times(collecting(details.trace)))


def collecting(trace: Trace) -> Bools:
    """Return for each Python function whether it is gc.collect()."""
    return trace.functions.named(CALL_OF_COLLECT.match)


def compiling(details: Details) -> Intervals:
    """Return when any thread compiles, or captures a graph."""
    times = compile_times(details.trace), capture_times(details.trace)
    return joined(*(union(of_threads.start_ns, of_threads.end_ns) for of_threads in times))


def host_ops(details: Details) -> Int64s:
    """Return the long outermost ops of the complete steps, on threads that launch, in which no call is made."""
    trace = details.trace
    rows = long_ops(trace)
    start, end = trace.ops.start_ns[rows], trace.ops.end_ns[rows]
    is_compilers = 2 * covered(compiling(details), start, end) > end - start
    return rows[in_complete_steps(trace, start) & ~is_compilers]


def how_to_launch(details: Details, blockers: Sequence[Blocker]) -> str:
    """Return how to launch kernels together; nothing where the trace adds nothing to the rule."""
    if serving_marks(details.trace.annotations) is not None:  # the steps answer requests
        return FIX_OF_SERVER
    if len(details.trace.model_calls) and not _is_compiled(details.trace):
        return f"{FIX_OF_DECODING} Or answer more requests at once."
    graphs = details.trace.calls.named(GRAPH_LAUNCH.search)
    if details.trace.steps.holds(details.trace.links.call_step[graphs]).any():
        why = "Find out why kernels are launched outside of the CUDA graphs."
        return f"{why} {_what_breaks(details.trace)} {MORE_PER_LAUNCH}"
    needs = _needs(blockers)
    if _is_compiled(details.trace):
        fix = 'Let torch.compile launch what it made with mode="reduce-overhead", as CUDA graphs'
        fix += needs or "; or capture the step as one CUDA graph"
        return f"{fix}. {_what_breaks(details.trace)} {MORE_PER_LAUNCH}"
    fusing = 'torch.compile with mode="reduce-overhead" fuses kernels and launches CUDA graphs'
    return f"{fusing}{needs}. {MORE_PER_LAUNCH}" if needs else ""


def _what_breaks(trace: Trace) -> str:
    """Return where compiled code ends, or how to see that."""
    notes = trace.run.graph_breaks if trace.run else ()
    if not notes:
        return "TORCH_LOGS=graph_breaks,cudagraphs says where compiled code ends, and what no graph can hold."
    return f"Compiled code ends {listed([at(note.place).strip() for note in notes], MAX_THINGS_NAMED)} (PIN612)."


def _needs(blockers: Sequence[Blocker]) -> str:
    """Return what one graph of the step needs first, to follow what can be done without it; nothing if nothing."""
    waits = sum(blocker.per_step for blocker in blockers)
    removed = "the wait" if round(waits) == 1 else f"the {round(waits):,} waits"
    removed = f"{removed} in it" if waits >= OFTEN_PER_STEP else "the waits in some steps"
    needs = [f"{removed} removed first"] if waits else []
    if any(not blocker.per_step for blocker in blockers):
        needs.append("the same kernels in each step")
    parts = " of the parts between waits" if waits else ""
    return f"{parts}; one graph of the step needs {' and '.join(needs)}" if needs else ""


def _is_compiled(trace: Trace) -> bool:
    gpu, launch = trace.gpu, trace.links.launch
    rows = launched_kernels(trace)
    if not len(rows):
        return False
    is_generated = gpu.named(lambda name: name.startswith(INDUCTOR_PREFIX))[rows]
    if len(trace.ops):
        regions = trace.ops.named(lambda name: name.startswith(REGION_PREFIX))
        is_generated = is_generated | within(regions, trace.links.op[launch[rows]], trace.links.op_parent)
    return bool(is_generated.mean() >= COMPILED_SHARE)
