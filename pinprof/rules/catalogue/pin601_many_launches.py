from pinprof.analyses.syncs.causes import label_of
from pinprof.ground.units import duration, how_many, listed
from pinprof.prediction.graphs import capture_of
from pinprof.rules.launching import MIN_IDLE_SHARE_OF_STEP, compiling, host_ops, how_to_launch, late_ns, pauses
from pinprof.rules.rule import NO_EDITS, AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import MAX_THINGS_NAMED, at, idle_within


def _small_kernels(details: Details, profile: Profile) -> AllEvidence:
    launches, late = profile.launches, late_ns(profile)
    late -= min(late, _other_work_ns(details, profile))
    late = min(late, launches.many_ns if launches else 0.0)
    if launches is None or late < MIN_IDLE_SHARE_OF_STEP * (profile.step_ns or 0.0) or not late:
        return
    capture = capture_of(details.trace, details.syncs, "step")
    graphs = Edits(graphed=frozenset(capture.calls.tolist()))
    named = [f"{label_of(blocker.what)}{at(blocker.place)}" for blocker in capture.blockers]
    forbidden = f". A single CUDA graph of the step cannot hold: {listed(named, MAX_THINGS_NAMED)}"
    if not named:
        forbidden = "; nothing that the trace shows keeps the step from being one CUDA graph" * (
            profile.steps.count > 1
        )
    is_the_same = all(blocker.per_step for blocker in capture.blockers)  # in each step: no graph holds what changes
    phases = ", ".join(f"{phase.name} {how_many(phase.launches)}" for phase in launches.phases)
    count, each = f"{how_many(launches.per_step)} launches {profile.steps.per}", f"one per {duration(launches.host_ns)}"
    yield Evidence(
        late,
        f"{count} ({phases}), {each} of host time, as traced; half of the kernels take less than "
        f"{duration(launches.median_kernel_ns)}; the GPU is idle for {duration(late)} because the next launch comes "
        f"late{forbidden}",
        edits=graphs if is_the_same else NO_EDITS,
        at_most=NO_EDITS if is_the_same else graphs,
        fix=how_to_launch(details, capture.blockers),
    )


def _other_work_ns(details: Details, profile: Profile) -> float:
    """Return how long the host does not launch: it pauses, compiles, or is in a slow launch or op; in ns per step."""
    paused = idle_within(details, profile, *pauses(details)) + idle_within(details, profile, *compiling(details))
    slow = profile.slow_launches.time_ns if profile.slow_launches else 0.0
    on_host = float(details.trace.ops.duration_ns[host_ops(details)].sum()) / profile.steps.divisor
    return paused + slow + on_host


RULE = Rule(
    id="PIN601",
    title="the GPU waits for launches",
    short="compile, CUDA graphs",
    answers=("launch", "python", "host"),
    what_if="--cuda-graph step",
    of_whole_step=True,
    numbers="rounding",
    why="The host takes some microseconds for each op: Python, torch's dispatch, the launch. Kernels that are shorter "
    "than that are done before the next one comes.",
    fix='torch.compile with mode="reduce-overhead" fuses kernels and launches the rest as CUDA graphs. Or capture the '
    "step as one CUDA graph. Or give the GPU more to do per launch: a larger batch.",
    before="for x, y in batches:\n"
    "    optimizer.zero_grad()\n"
    "    loss_of(model(x), y).backward()  # hundreds of launches\n"
    "    optimizer.step()",
    code='compiled = torch.compile(model, mode="reduce-overhead")  # once\n\n'
    "for x, y in batches:\n"
    "    optimizer.zero_grad()\n"
    "    loss_of(compiled(x), y).backward()\n"
    "    optimizer.step()\n\n"
    "# or the whole step as one graph; Adam has to be made with fused=True, capturable=True:\n"
    "some_x, some_y = (part.clone() for part in batches[0])  # where each batch goes\n\n"
    "def step():\n"
    "    optimizer.zero_grad()\n"
    "    loss_of(model(some_x), some_y).backward()\n"
    "    optimizer.step()\n\n"
    "side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()\n"
    "for number, (x, y) in enumerate(batches):\n"
    "    some_x.copy_(x)\n"
    "    some_y.copy_(y)\n"
    "    if number < 3:  # the first steps are warm-up, on a stream of their own\n"
    "        side.wait_stream(torch.cuda.current_stream())\n"
    "        with torch.cuda.stream(side):\n"
    "            step()\n"
    "        torch.cuda.current_stream().wait_stream(side)\n"
    "        continue\n"
    "    if number == 3:\n"
    "        optimizer.zero_grad()\n"
    "        with torch.cuda.graph(graph):  # records, and runs nothing\n"
    "            step()\n"
    "    graph.replay()",
    safe_if="Shapes stay the same. Nothing in the graph waits for the GPU, reads memory that each step allocates "
    "anew, or has to run in Python in each step: Python runs once, at the capture. Inputs and outputs keep their "
    "place in memory.",
    near_miss="y = model(x.repeat(1000, 1))  # as many launches, but each keeps the GPU busy",
    search=_small_kernels,
)
