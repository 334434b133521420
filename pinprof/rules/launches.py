"""Rules 6xx: a host that cannot launch kernels as fast as the GPU runs them."""

from collections.abc import Iterator, Sequence

from pinprof.analyses.host import CalledLine, HostSums
from pinprof.analyses.launches import Launches
from pinprof.analyses.pause import MEANING
from pinprof.details import Details
from pinprof.intervals import Intervals, subtract
from pinprof.measurement.profile import Profile
from pinprof.rules.rule import Evidence, Rule
from pinprof.rules.sums import LONGEST_NAME, at, idle_within, in_complete_steps
from pinprof.trace.lines import Place
from pinprof.trace.pauses import launching_threads, long_ops, long_pauses
from pinprof.trace.tables import Int64s
from pinprof.units import duration, how_many, percent, shortened
from pinprof.whatif.edits import Edits
from pinprof.whatif.regions import Blocker, capture_of

IDLE = 0.1
"""A GPU that is idle for a smaller share of the step does not wait for launches."""
MANY = 20
"""Launches of an optimizer that a fused one is far below: it makes a few for all parameters of a kind."""
MOST_NAMED = 4
"""What forbids to capture a graph, or lines, that a sentence names."""
PAUSED = 0.1
"""Python, or a pause, that takes a smaller share of the step is not worth a finding."""
NO_OP = ("user", "library")
"""Kinds of code in which the host runs no op of torch and waits for no input."""


def _idle_ns(details: Details, profile: Profile) -> float:
    """Return how long a step the busiest GPU is idle because the next launch comes late; 0 where it hardly is."""
    step, busy = profile.step_ns, profile.steps.busy_ns
    busiest = max(details.devices, key=lambda device: device.busy_ns, default=None)
    if not step or busy is None or busiest is None or step - busy < IDLE * step:
        return 0.0
    late = dict(busiest.idle_by_cause).get("host_wait", 0) / profile.steps.divisor
    return min(late, step - busy)


def _small_kernels(details: Details, profile: Profile) -> Iterator[Evidence]:
    """Look for steps whose GPU waits for launches."""
    launches, late = profile.launches, _idle_ns(details, profile)
    late -= min(late, _other_work_ns(details, profile))
    if launches is None or late < IDLE * (profile.step_ns or 0.0) or not late:
        return
    capture = capture_of(details.trace, details.syncs, "step")
    yield Evidence(
        late,
        f"{_launched(launches, profile.steps.per)}; the GPU is idle for {duration(late)} because the next launch comes "
        f"late{_forbidden(capture.blockers)}",
        edits=Edits(graphed=frozenset(capture.calls.tolist())),
    )


def _other_work_ns(details: Details, profile: Profile) -> float:
    """Return how long a step the host does something else than launching: it pauses, or is in something that lasts."""
    paused = idle_within(details, profile, *_pauses(details))
    slow = profile.slow_launches.time_ns if profile.slow_launches else 0.0
    on_host = float(details.trace.ops.duration_ns[_host_ops(details)].sum()) / profile.steps.divisor
    return paused + slow + on_host


def _launched(launches: Launches, per: str) -> str:
    phases = ", ".join(f"{each.phase} {how_many(each.launches)}" for each in launches.phases)
    return (
        f"{how_many(launches.per_step)} launches {per} ({phases}), one each {duration(launches.host_ns)} of the host, "
        f"as traced; half of the kernels take less than {duration(launches.median_kernel_ns)}"
    )


def _forbidden(blockers: Sequence[Blocker]) -> str:
    """Return what stands in the way of one graph of the whole step, to follow the evidence."""
    if not blockers:
        return ""
    named = [f"{each.what}{at(each.place)}" for each in blockers]
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return f". What one CUDA graph of the step cannot hold: {', '.join(named[:MOST_NAMED])}{more}"


def _optimizer(details: Details, profile: Profile) -> Iterator[Evidence]:
    """Look for optimizers that launch kernels for each parameter."""
    launches, late = profile.launches, _idle_ns(details, profile)
    phase = next((each for each in launches.phases if each.phase == "optimizer"), None) if launches else None
    if phase is None or phase.launches < MANY or not late:
        return
    calls = capture_of(details.trace, details.syncs, "optimizer").calls
    yield Evidence(
        min(phase.host_ns, late),
        f"the optimizer makes {how_many(phase.launches)} launches {profile.steps.per}, for which the host takes "
        f"{duration(phase.host_ns)} as traced; their kernels run for {duration(phase.kernel_ns)}, of which a fused "
        "optimizer saves a part that is not predicted",
        edits=Edits(fused=frozenset(calls.tolist())),
    )


def _python(details: Details, profile: Profile) -> Iterator[Evidence]:
    """Look for time in which the host runs no op, and the GPU waits for it."""
    pause, late, step = profile.pause, _idle_ns(details, profile), profile.step_ns
    if not late or not step:
        return
    pauses = _pauses(details)
    idle = idle_within(details, profile, *pauses)
    lasts = pause.time_ns if pause and idle >= PAUSED * step else 0.0
    lines = _lines(profile.host)
    shown = sum(own for _, own in lines) / profile.host.samples if profile.host else 0.0
    if not lasts and shown < PAUSED:
        return
    words = []
    if lasts and pause:
        inside = in_complete_steps(details.trace, pauses.start)
        total = float((pauses.end - pauses.start)[inside].sum()) / profile.steps.divisor
        more = f"; the longest, {duration(lasts)}, is {pause.between}" if total > lasts else f", {pause.between}"
        words.append(
            f"the host runs no op and no call for {duration(max(total, lasts))} {profile.steps.per}, as traced"
        )
        words[-1] += f"{more}: that is {MEANING}"
    if shown >= PAUSED:
        words.append(f"without the profiler it is in Python for {percent(shown)} of the step: {_named(profile, lines)}")
    place = lines[0][0].place if shown >= PAUSED else Place()
    yield Evidence(min(max(idle, shown * step), late), "; ".join(words), *place, edits=Edits(without_pauses=True))


def _pauses(details: Details) -> Intervals:
    """Return the long pauses of the threads that launch, but for waits for input."""
    return subtract(long_pauses(details.trace, launching_threads(details.trace)), details.loader.times)


def _host_ops(details: Details) -> Int64s:
    """Return the long outermost ops of the complete steps, on threads that launch, in which no call is made."""
    trace = details.trace
    rows = long_ops(trace, launching_threads(trace))
    return rows[in_complete_steps(trace, trace.ops.start_ns[rows])]


def _on_the_host(details: Details, profile: Profile) -> Iterator[Evidence]:
    """Look for ops that the host computes while the GPU has nothing to do."""
    late, rows, ops = _idle_ns(details, profile), _host_ops(details), details.trace.ops
    if not late:
        return
    for name in dict.fromkeys(ops.name_of(row) for row in rows.tolist()):
        mine = rows[[ops.name_of(row) == name for row in rows.tolist()]]
        time = float(ops.duration_ns[mine].sum()) / profile.steps.divisor
        yield Evidence(
            min(time, late),
            f"{shortened(name, LONGEST_NAME)}, {how_many(len(mine) / profile.steps.divisor)} {profile.steps.per}: the "
            f"host computes for {duration(time)} as traced, and launches nothing meanwhile",
            edits=Edits(removed_ops=frozenset(mine.tolist())),
        )


def _lines(host: HostSums | None) -> list[tuple[CalledLine, int]]:
    """Return the program's lines with their samples outside of torch and of input, most first."""
    if host is None:
        return []
    lines = [(line, sum(count for kind, count in line.kinds if kind in NO_OP)) for line in host.called]
    return sorted(((line, own) for line, own in lines if own and line.file), key=lambda each: -each[1])


def _named(profile: Profile, lines: Sequence[tuple[CalledLine, int]]) -> str:
    assert profile.host is not None
    share = profile.host.share
    return ", ".join(f"{percent(share(own))}{at(line.place)}" for line, own in lines[:MOST_NAMED])


RULES = (
    Rule(
        id="PIN601",
        title="the GPU waits for launches",
        looks_at="The launches of a step by phase, the host's time from one to the next, and the time in which the GPU "
        "has run everything and the next launch comes late.",
        why="The host takes some microseconds for each op: Python, torch's dispatch, the launch. Kernels that are "
        "shorter than that are done before the next one comes.",
        fix="Launch many kernels at once: torch.compile fuses them, and with "
        'mode="reduce-overhead" launches the rest as CUDA graphs; or capture the step as one CUDA graph. Else give the '
        "GPU more to do per launch: a larger batch.",
        before="for x, y in batches:\n"
        "    optimizer.zero_grad()\n"
        "    loss_of(model(x), y).backward()  # hundreds of launches\n"
        "    optimizer.step()",
        code='compiled = torch.compile(model, mode="reduce-overhead")  # once\n\n'
        "for x, y in batches:\n"
        "    optimizer.zero_grad()\n"
        "    loss_of(compiled(x), y).backward()\n"
        "    optimizer.step()\n\n"
        "# or the whole step as one graph, with an optimizer made with capturable=True:\n"
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
        safe_if="Shapes stay the same. Nothing in the graph waits for the GPU, reads memory that is made anew in each "
        "step, or is to run in Python each time: it runs once, when the graph is captured. What goes in and out keeps "
        "its place in memory.",
        look=_small_kernels,
    ),
    Rule(
        id="PIN602",
        title="an optimizer that launches for each parameter",
        looks_at="Launches between the marks of torch.optim's steps.",
        why="Without foreach or fused an optimizer runs a dozen small ops for each parameter, and with foreach a dozen "
        "for all; a fused one runs one.",
        fix="fused=True; where the optimizer has none, foreach=True.",
        before="optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)",
        code="optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)",
        safe_if="The parameters are floating-point numbers on one kind of device. Results differ by rounding.",
        look=_optimizer,
    ),
    Rule(
        id="PIN603",
        title="Python in which the host runs no op",
        looks_at="Long pauses between ops on the training threads, and samples of the main thread's Python without the "
        "profiler.",
        why="While the host computes in Python, sleeps, or waits for something else than the GPU, it launches nothing: "
        "once the GPU has done what is queued, it is idle.",
        fix="Do it once before the loop, every N steps, in a DataLoader's workers, or with tensors on the GPU.",
        before="for batch in batches:\n"
        "    weights = [math.exp(-age / 10) for age in range(1000)]  # in each step\n"
        "    train(batch, weights)",
        code="weights = [math.exp(-age / 10) for age in range(1000)]  # once\n\n"
        "for batch in batches:\n"
        "    train(batch, weights)",
        safe_if="It depends on nothing that changes from step to step.",
        look=_python,
    ),
    Rule(
        id="PIN604",
        title="an op on the host while the GPU is idle",
        looks_at="Ops of half a millisecond or more on the threads that launch, in which nothing is launched.",
        why="An op of tensors in host memory is computed by the CPU. While it lasts, no kernel is launched.",
        fix="Compute it on the GPU, or in a DataLoader's worker, or once before the loop.",
        before="for batch in batches:\n"
        "    order = torch.argsort(scores)  # in host memory, in each step\n"
        "    train(batch, order)",
        code="scores = scores.to(device)  # once\n\n"
        "for batch in batches:\n"
        "    order = torch.argsort(scores)\n"
        "    train(batch, order)",
        safe_if="The GPU has room for it, and nothing reads the result on the host.",
        look=_on_the_host,
    ),
)
