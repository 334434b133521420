from pinprof.rules.copies import search_pageable
from pinprof.rules.rule import Change, Rule
from pinprof.rules.snippets import COST_OF_LATER, READ_LATER, read_later
from pinprof.trace.tables import DTOH

RULE = Rule(
    id="PIN108",
    title="copies to the host into pageable memory",
    short="read back pinned",
    answers=("copy", "sync"),
    numbers="equal",
    why="The driver stages pageable memory through a pinned buffer of its own, at the speed of one CPU thread and "
    "after waiting for the stream: the copy is slow, and blocks the host even with non_blocking=True.",
    fix=f"Allocate the destination once, pinned; {READ_LATER}. pin_memory=True of a DataLoader is for the other "
    "direction, and does not help here.",
    before="for batch in batches:\n"
    "    host.copy_(train(batch), non_blocking=True)  # pageable: waits all the same\n"
    "    log(host.tolist())",
    code=read_later("shape, dtype=dtype", "host.tolist()"),
    safe_if=f"host is read only after the event: read earlier, it silently holds old values. {COST_OF_LATER}",
    near_miss="host.copy_(x, non_blocking=True)  # host is pinned: nothing waits",
    change=Change(r"\.(?:to|cpu|copy_)\(", "copy it into pinned memory, and read it a step late"),
    search=search_pageable(DTOH),
    exposures=(("pageable", "DtoH"),),
)
