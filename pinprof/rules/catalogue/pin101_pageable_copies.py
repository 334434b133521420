from pinprof.rules.copies import SENT_UNPINNED, search_pageable
from pinprof.rules.rule import Change, Rule
from pinprof.rules.snippets import REFILL, SAFE_REFILL
from pinprof.trace.tables import HTOD

RULE = Rule(
    id="PIN101",
    title="copies of pageable memory",
    short="pin the source",
    answers=("copy",),
    what_if="--pin --non-blocking",
    numbers="equal",
    weighs_pinning=True,
    why="The driver stages pageable memory through a pinned buffer of its own, at the speed of one CPU thread and "
    "after waiting for the stream: the copy is slow, blocks the host even with non_blocking=True, and only kernels "
    f"queued before can hide it. I{SENT_UNPINNED[1:]}. This holds for bare tensors, objects and queues.",
    fix="Pin the host side: DataLoader(..., pin_memory=True), or allocate it once with pin_memory=True and refill it, "
    "each time after an event that shows that its last copy has ended. The saving allows for the host's copy into it; "
    "the range also covers data made there. Whether a fresh pinned tensor per step helps depends on the machine (E1).",
    before="for x in batches:\n    train(x.to(device, non_blocking=True))  # pageable: the host waits all the same",
    code=REFILL + "\n\n# or, where batches come from a Dataset:\n"
    "for x in DataLoader(data, batch_size=64, pin_memory=True):\n"
    "    train(x.to(device, non_blocking=True))",
    safe_if=f"{SAFE_REFILL} Nothing writes to a batch of a DataLoader that pins while its copy runs.",
    near_miss="x = x.to(device)  # on the GPU already: nothing is copied",
    change=Change(r"\.(?:to|cuda|copy_)\(", "copy it from pinned memory, with non_blocking=True"),
    search=search_pageable(HTOD),
    causes=("pageable_copy",),
    exposures=(("pageable", "HtoD"),),
)
