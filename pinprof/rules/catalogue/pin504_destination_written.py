from pinprof.rules.rule import Rule
from pinprof.rules.snippets import awaited

RULE = Rule(
    id="PIN504",
    title="a destination written before its copy has ended",
    numbers=None,
    why="Either may come last: what the host wrote may be lost, or end up in the middle of the result.",
    fix="Record an event after the copy, and wait for it before the memory is written to; or give the copy memory of "
    "its own.",
    before="buffer.copy_(x, non_blocking=True)\nuse(buffer)\nbuffer.zero_()",
    code=awaited("buffer.copy_(x, non_blocking=True)", "use(buffer)\nbuffer.zero_()"),
    safe_if="Always: it only makes the program correct.",
    near_miss="buffer.copy_(x)  # blocking: it has ended when it returns\nbuffer.zero_()",
)
