from pinprof.rules.copies import search_batches
from pinprof.rules.rule import Change, Rule

RULE = Rule(
    id="PIN104",
    title="batches that are not pinned",
    short="pin_memory=True",
    answers=("copy",),
    what_if="--pin --non-blocking",
    numbers="equal",
    why="The driver stages pageable batches while the host waits. A DataLoader can pin them in a thread of its own, "
    "during the step.",
    fix="DataLoader(..., pin_memory=True), and non_blocking=True in the copies. A batch of your own class is pinned "
    "only if the class has a method pin_memory() that returns the pinned batch.",
    before="loader = DataLoader(data, batch_size=64, num_workers=4)\n"
    "for x, y in loader:\n"
    "    train(x.to(device), y.to(device))",
    code="loader = DataLoader(data, batch_size=64, num_workers=4, pin_memory=True)\n"
    "for x, y in loader:\n"
    "    train(x.to(device, non_blocking=True), y.to(device, non_blocking=True))",
    safe_if="The host has memory for the pinned batches (prefetch_factor times num_workers of them), which cannot be "
    "swapped. Nothing writes to a batch on the host after its copy was queued.",
    near_miss="for x in DataLoader(data, batch_size=64):\n    log(x.mean())  # stays on the host",
    change=Change(r"\.(?:to|cuda)\(", "add non_blocking=True, and pin_memory=True to the DataLoader"),
    search=search_batches(loader_pins=False),
)
