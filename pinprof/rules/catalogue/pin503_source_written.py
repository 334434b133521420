from pinprof.rules.rule import Rule
from pinprof.rules.snippets import REFILL

RULE = Rule(
    id="PIN503",
    title="a pinned source written before its copy has ended",
    numbers=None,
    why="The GPU reads pinned memory when the copy's turn comes, after all work queued before it. Whatever the host "
    "writes until then arrives: the next batch, or zeros. torch does not give the memory to others, but it does not "
    "stop writes.",
    fix="Wait for an event after the copy before the buffer is filled again, or use two buffers in turn, each with "
    "its event.",
    before="staging = torch.empty(shape, dtype=dtype, pin_memory=True)\n"
    "for x in batches:\n    staging.copy_(x)  # while the copy of the batch before may still read it\n"
    "    train(staging.to(device, non_blocking=True))",
    code=REFILL,
    safe_if="Always: it only makes the program correct. With two buffers the wait is for the copy of two steps ago, "
    "and rarely costs anything.",
    near_miss="batch = host.to(device)  # blocking: it has been read when it returns\nhost.zero_()",
)
