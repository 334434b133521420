from pinprof.rules.rule import Rule
from pinprof.rules.snippets import READ_BACK, awaited

RULE = Rule(
    id="PIN506",
    title="a view handed out during a copy",
    numbers=None,
    why="Neither torch nor pinprof sees what numpy reads and writes. A view of a copy's destination will show numbers "
    "that are not there yet; a view of its source is safe only as long as nobody writes through it.",
    fix="Record an event after the copy, and wait for it before the view is made.",
    before=f"{READ_BACK}\nplot(host.numpy())",
    code=awaited(READ_BACK, "plot(host.numpy())"),
    safe_if="Always: it only makes the program correct. A view of a source that is only read needs no wait: the guard "
    "mentions it, and does not count it.",
    near_miss="host = x.to('cpu')  # blocking: the numbers are there when it returns\nplot(host.numpy())",
)
