"""Rules 3xx: copies that could hide behind kernels, and time in which the GPU has nothing to do."""

from collections.abc import Iterator, Sequence

import numpy as np

from pinprof.analyses.overlap import REASONS
from pinprof.analyses.syncs import CAUSES
from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.rules.rule import Evidence, Look, Rule
from pinprof.rules.sites import as_one
from pinprof.rules.sums import Copies, copies_in_steps, idle_within, in_complete_steps, of_all
from pinprof.rules.wait_sites import waits_of
from pinprof.trace.tables import DIRECTIONS, HTOD, KERNEL
from pinprof.units import counted, duration
from pinprof.whatif.edits import Edits
from pinprof.whatif.scenarios import without_blocking


def _exposed(reason: str) -> Look:
    """Look for HtoD copies that are exposed for this reason although kernels could hide them."""

    def look(details: Details, profile: Profile) -> Iterator[Evidence]:
        direction = details.trace.gpu.direction[details.overlap.row]
        chosen = (details.overlap.reason == REASONS.index(reason)) & (direction == HTOD)
        kernels = _kernel_time(details, profile)

        def seen(some: Sequence[Copies]) -> Evidence:
            copies = of_all(some)
            return Evidence(
                min(copies.exposed_ns, kernels),
                f"{copies.named(f'{DIRECTIONS[HTOD]} copies')} ({copies.amount}), "
                f"exposed for {duration(copies.exposed_ns)} of {duration(copies.time_ns)}, beside {duration(kernels)} "
                "of kernels that could hide them",
                *copies.place,
                edits=Edits(ahead=frozenset(copies.rows.tolist()))
                | without_blocking(details, frozenset(copies.rows.tolist())),
                figures=copies.figures,
            )

        yield from as_one(profile, copies_in_steps(details, profile, chosen), seen)

    return look


def _kernel_time(details: Details, profile: Profile) -> float:
    """Return how long kernels of a complete step run, in ns."""
    rows = np.flatnonzero(details.trace.gpu.category == KERNEL)
    step = details.trace.links.activity_step[rows]
    inside = details.trace.steps.holds(step)
    return (
        float(details.trace.gpu.duration_ns[rows[inside]].sum()) / profile.steps.count if profile.steps.count else 0.0
    )


def _cold(details: Details, profile: Profile) -> Iterator[Evidence]:
    """Look for code that is loaded within the recorded steps."""
    stalls = details.syncs.stalls
    loading = stalls.call[details.syncs.cause == CAUSES.index("module_load")]
    start, end = details.trace.calls.start_ns[loading], details.trace.calls.end_ns[loading]
    inside = in_complete_steps(details.trace, start)
    if not inside.any():
        return
    steps = profile.steps.count
    cost = idle_within(details, profile, start, end)
    times = f"{counted(inside.sum() / steps, 'time')} {profile.steps.per}"
    time = float((end - start)[inside].sum()) / steps
    yield Evidence(
        cost,
        f"{times} code for the GPU is loaded, for {duration(time)}, of which the GPU "
        f"is idle for {duration(cost)}: the recording began before the program was warm; no later step pays for this",
        at_any_cost=True,
    )


RULES = (
    Rule(
        id="PIN301",
        title="copies on the stream of the kernels",
        rests_on=("per_step", "busy", "overlap", "causes", "drain"),
        answers=("copy",),
        what_if="--overlap-copies",
        mended="hand",
        numbers="equal",
        looks_at="HtoD copies on the stream of the kernels around them, and the kernel time per step that could hide "
        "them.",
        why="Work on one stream runs one after the other: a copy on the stream of the kernels never overlaps them.",
        fix="Copy the next batch on a side stream while this step computes.",
        before="for batch in batches:\n"
        "    batch = batch.to(device, non_blocking=True)  # on the stream of the kernels\n"
        "    train(batch)",
        code="side = torch.cuda.Stream()  # once\n"
        "coming = iter(batches)\n\n"
        "def fetch():\n"
        "    batch = next(coming, None)  # pinned\n"
        "    with torch.cuda.stream(side):\n"
        "        return None if batch is None else batch.to(device, non_blocking=True)\n\n"
        "following = fetch()\n"
        "while following is not None:\n"
        "    torch.cuda.current_stream().wait_stream(side)\n"
        "    batch = following\n"
        "    batch.record_stream(torch.cuda.current_stream())\n"
        "    following = fetch()  # runs beside the kernels of this step\n"
        "    train(batch)",
        safe_if=(
            "The batch is pinned; the compute stream waits for the side stream before it uses the batch; "
            "record_stream keeps its memory until the kernels are done. Nothing writes to a batch on the host "
            "afterwards. GPU memory suffices for one more batch, and one for each step that the host is ahead."
        ),
        near_miss="with torch.cuda.stream(side):\n"
        "    batch = host.to(device, non_blocking=True)  # on a stream of its own",
        look=_exposed("same_stream"),
        exposures=(("same_stream", "HtoD"),),
    ),
    Rule(
        id="PIN302",
        title="copies launched too late",
        rests_on=("per_step", "busy", "overlap", "causes", "drain"),
        answers=("copy",),
        what_if="--overlap-copies",
        mended="hand",
        numbers="equal",
        looks_at="HtoD copies on a stream of their own that start at once when they are launched, and are exposed all "
        "the same.",
        why="The copy has a stream of its own, but is launched only when the kernels that it could hide behind have "
        "ended.",
        fix="Start the copy of the next batch before the kernels of this step are queued.",
        before="log(train(batch).item())  # the kernels have ended\n"
        "following = fetch()       # nothing is left to hide it",
        code="following = fetch()       # first: launches the copy on the side stream\n"
        "log(train(batch).item())  # then: queues the kernels that hide it",
        safe_if=(
            "As for PIN301, which defines fetch(): the kernels' stream has waited for the copy of this batch before "
            "the next copy is launched. The copy depends on nothing that train() does."
        ),
        near_miss="following = host.to(device, non_blocking=True)  # beside the kernels that are queued\n"
        "log(x.sum().item())",
        look=_exposed("launched_late"),
        exposures=(("launched_late", "HtoD"),),
    ),
    Rule(
        id="PIN303",
        title="GPU memory is allocated and freed in the training loop",
        rests_on=("per_step", "busy", "overlap", "causes", "drain"),
        answers=("allocation",),
        what_if="--drop-allocs",
        mended="line",
        numbers="equal",
        looks_at=(
            "cudaMalloc, cudaFree and similar calls in the complete steps, or in the whole trace if no step was found."
        ),
        why=(
            "cudaMalloc and cudaFree stop the host, and cudaFree waits for the device. PyTorch's allocator keeps "
            "memory to avoid both; empty_cache(), growing shapes and scarce memory defeat it."
        ),
        fix=(
            "No torch.cuda.empty_cache() in the loop; keep shapes constant, or warm up with the largest one; use "
            "expandable segments."
        ),
        before="for batch in batches:\n    train(batch)\n    torch.cuda.empty_cache()",
        code="for batch in batches:\n    train(batch)  # the allocator keeps the memory for the next step\n\n"
        "# or, where shapes change, before torch is imported:\n"
        'os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"',
        safe_if="Without empty_cache() the process keeps its memory; others on the same GPU may need it. Tensors in "
        "expandable segments may not be shared with other processes.",
        near_miss="torch.cuda.empty_cache()  # once, before the loop\nfor batch in batches:\n    train(batch)",
        **waits_of("device_malloc", "device_free", are_one=True),
    ),
    Rule(
        id="PIN304",
        title="the recording began cold",
        rests_on=("per_step", "busy", "overlap", "causes", "drain"),
        answers=(),
        what_if="",
        mended="hand",
        numbers="equal",
        looks_at="Code for the GPU that is loaded within the recorded steps (CUPTI's overhead records, from CUDA 12.4 "
        "on).",
        why="CUDA loads each kernel when it is first launched. These steps show costs that later ones do not have.",
        fix="Record later steps: pinprof run waits until they are steady (more so with --warmup 20); with "
        "torch.profiler give schedule(wait=10, warmup=5, ...).",
        before="when = schedule(wait=0, warmup=0, active=5)  # of torch.profiler",
        code="when = schedule(wait=10, warmup=5, active=5)  # the program runs for 20 steps or more",
        safe_if="None: it only changes what is recorded.",
        near_miss="when = torch.profiler.schedule(wait=0, warmup=10, active=5)  # warm-up runs, and is not kept",
        look=_cold,
        causes=("module_load",),
    ),
)
