from pinprof.rules.rule import Change, Rule
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN212",
    title="a collective makes the host wait",
    short="no barrier",
    numbers="equal",
    why="NCCL's collectives are ordered on the GPU; a barrier also stops the host until all ranks have arrived.",
    fix="Remove the barrier from the step; unset TORCH_NCCL_BLOCKING_WAIT.",
    before="dist.barrier()  # in each step\ndist.all_reduce(x)",
    code="work = dist.all_reduce(x, async_op=True)\n...  # other kernels, without x\n"
    "work.wait()  # orders streams, not the host",
    safe_if="No rank reads what another rank writes outside of collectives, to a file for instance. Nothing uses x "
    "before work.wait().",
    near_miss="dist.all_reduce(x)  # NCCL orders it on the GPU: the host goes on",
    change=Change(r"\bbarrier\(", "remove the barrier from the step"),
    **waits_of("collective"),
)
