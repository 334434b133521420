from pinprof.rules.copies import search_touched
from pinprof.rules.rule import Rule
from pinprof.rules.snippets import awaited

SEND_STAGING = "batch = staging.to(device, non_blocking=True)"

RULE = Rule(
    id="PIN509",
    title="a pinned source that the host may write over during its copy",
    numbers=None,
    why="x.to('cuda', non_blocking=True) returns before the GPU has read pinned memory: it does that when the copy's "
    "turn comes, after all work queued before it. Whatever the host writes there until then arrives, without an error. "
    "A trace does not record which memory the host writes to, so this is only a suspicion: pinprof run --guard says "
    "for certain (PIN503).",
    fix="Record an event after the copy, on the stream of the copy, and wait for it before its source is written to, "
    "or fill two buffers in turn, each with its event; pinprof run --guard says for certain whether it is written too "
    "early.",
    before=f"{SEND_STAGING}\nstaging.zero_()  # the copy may not have run yet",
    code=awaited(SEND_STAGING, "staging.zero_()", "  # before staging is written to"),
    safe_if="Always: it only makes the program correct. With two buffers the wait is for the copy of two steps ago, "
    "and rarely costs anything.",
    near_miss="batch = host.to(device)  # blocking: it has been read when it returns\nhost.zero_()",
    search=search_touched("written"),
)
