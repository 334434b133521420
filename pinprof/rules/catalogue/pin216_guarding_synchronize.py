from pinprof.analyses.syncs.causes import SYNCHRONIZE_CAUSES
from pinprof.rules.rule import Change, Rule
from pinprof.rules.snippets import COST_OF_LATER, REFILL, read_later
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN216",
    title="`synchronize()` guards a copy in flight",
    short="an event, no wait",
    numbers="equal",
    why="Without the wait the host may read the result of the copy before it is there, or write to its source while "
    "the copy still reads it: wrong numbers without an error. But a synchronize of the device or the stream also "
    "waits for all other work, and one right behind the copy leaves the GPU without work.",
    fix="Do not remove it: record an event after the copy, and wait for that event where its result is read or its "
    "source is written. That saves what lies between, if the host queues other work there. With two buffers in turn "
    "the wait comes a step later, when the copy has ended.",
    before="for batch in batches:\n"
    "    host.copy_(train(batch).detach(), non_blocking=True)\n"
    "    torch.cuda.synchronize()  # guards host\n"
    "    log(host.tolist())\n\n"
    "# or a source that is written:\n"
    "for x in batches:\n"
    "    staging.copy_(x)\n"
    "    batch = staging.to(device, non_blocking=True)\n"
    "    torch.cuda.synchronize()  # guards staging\n"
    "    train(batch)",
    code=read_later("shape, dtype=dtype", "host.tolist()") + "\n\n# or a source that is written:\n" + REFILL,
    safe_if="The memory of the copy is read, and written, only after its event. The trace does not show what the host "
    "reads: pinprof run --guard runs the program and says whether anything is used too early. "
    f"{COST_OF_LATER}",
    near_miss="host.copy_(x)  # has ended when the call returns\ntorch.cuda.synchronize()  # guards nothing (PIN210)",
    change=Change(r"\bsynchronize\(", "do not remove it: wait for the copy where its memory is used"),
    **waits_of(*SYNCHRONIZE_CAUSES, guarding=True),
)
