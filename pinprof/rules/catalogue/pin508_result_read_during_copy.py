from pinprof.rules.copies import search_touched
from pinprof.rules.rule import Rule
from pinprof.rules.snippets import AWAIT_BEFORE_READ, READ_AT_ONCE, SAFE_AWAIT

RULE = Rule(
    id="PIN508",
    title="a result that the host may read during its copy",
    numbers=None,
    why="x.to('cpu', non_blocking=True) returns before the copy has run. An op on the result computes with what the "
    "memory held before, or with a part of the result, without an error. A trace does not record what the host reads, "
    "so this is only a suspicion: pinprof run --guard says for certain (PIN502).",
    fix="Record an event after the copy, on the stream of the copy, and wait for it before the memory is read; "
    "pinprof run --guard says for certain whether it is read too early.",
    before=READ_AT_ONCE,
    code=AWAIT_BEFORE_READ,
    safe_if=SAFE_AWAIT,
    near_miss="host = x.to('cpu')  # blocking: the numbers are there when it returns\nlog(host.mean())",
    search=search_touched("read"),
)
