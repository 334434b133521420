from pinprof.analyses.syncs.causes import SYNCHRONIZE_CAUSES
from pinprof.rules.rule import Change, Rule
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN210",
    title="`synchronize()` waits for the GPU",
    short="no synchronize()",
    numbers="equal",
    why="They stop the host until the GPU has caught up; the next kernels are queued late.",
    fix="Remove it from the step; measure time with CUDA events; order streams with wait_stream or wait_event.",
    before="for _ in range(steps):\n"
    "    start = time.perf_counter()\n"
    "    step()\n"
    "    torch.cuda.synchronize()\n"
    "    times.append(time.perf_counter() - start)\n\n"
    "# or an order of streams:\n"
    "side.synchronize()\n"
    "use(result)",
    code="marks = []\n"
    "for _ in range(steps):\n"
    "    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # new ones each time\n"
    "    start.record()\n"
    "    step()\n"
    "    end.record()\n"
    "    marks.append((start, end))\n"
    "torch.cuda.synchronize()  # once, after the loop\n"
    "times += [start.elapsed_time(end) / 1e3 for start, end in marks]  # elapsed_time is in ms\n\n"
    "# or an order of streams, on the GPU:\n"
    "torch.cuda.current_stream().wait_stream(side)\n"
    "use(result)",
    safe_if="The host reads nothing that the synchronization protected, and writes to no memory that a copy still "
    "reads: a trace shows which copies are in flight when the wait begins, not what the host reads. Events measure "
    "the GPU's time, including gaps in which the host launches too slowly. Tensors made on a side stream are kept, or "
    "passed to record_stream, until their use has ended.",
    near_miss="torch.cuda.current_stream().wait_stream(side)  # the GPU waits, the host goes on",
    change=Change(r"\bsynchronize\(", "remove it from the step"),
    **waits_of(*SYNCHRONIZE_CAUSES, guarding=False),
)
