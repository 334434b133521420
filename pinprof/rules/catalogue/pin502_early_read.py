from pinprof.rules.rule import Rule
from pinprof.rules.snippets import READ_BACK, awaited

RULE = Rule(
    id="PIN502",
    title="a result read before its copy has ended",
    numbers=None,
    why="x.to('cpu', non_blocking=True) returns before the copy has run. Code that reads the result without a wait "
    "gets what the memory held before, or a part of the result, without an error.",
    fix="Record an event after the copy, on the stream of the copy, and wait for it before the first read.",
    before=f"{READ_BACK}\nlog(host.mean())  # of what the memory held before",
    code=awaited(READ_BACK, "log(host.mean())"),
    safe_if="Always: it only makes the program correct. If the copy had ended before the read, that was luck: with "
    "more work queued before it, it ends later.",
    near_miss="host = x.to('cpu')  # blocking: the numbers are there when it returns\nlog(host.mean())",
)
