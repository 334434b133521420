from pinprof.rules.rule import Change, Rule
from pinprof.rules.snippets import COST_OF_LATER, READ_LATER, read_later
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN203",
    title="`.cpu()` or `.tolist()` waits for the GPU",
    short="read .cpu() later",
    numbers="equal",
    why="The copy waits for all work queued before it, and the host waits for the copy. It mostly goes into fresh "
    "pageable memory.",
    fix=f"Gather what is read into one tensor, and read it rarely. Or {READ_LATER}.",
    before="for batch in batches:\n    log(train(batch).tolist())  # waits for all work queued before",
    code=read_later("shape, dtype=dtype", "host.tolist()"),
    safe_if="Pinned memory is read only after the event: read earlier, it silently holds old values. "
    f"{COST_OF_LATER} Copy what you keep of host, as tolist() does: the next value overwrites it.",
    near_miss="numbers = host.tolist()  # of a tensor of the CPU: nothing is copied",
    change=Change(r"\.(?:cpu|tolist|numpy|to|copy_)\(", "read it rarely, or a step late"),
    **waits_of("to_cpu", "tolist", "blocking_copy_dtoh"),
)
