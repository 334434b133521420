"""Code that several rules advise."""


def read_later(shape: str, read: str) -> str:
    """Return code that reads a result of each step once the next one is queued, from pinned memory of this shape."""
    return (
        f"host = torch.empty({shape}, pin_memory=True)  # once\n"
        "copied = torch.cuda.Event()\n"
        "for step, batch in enumerate(batches):\n"
        "    value = train(batch).detach()  # first: this step is queued\n"
        "    if step:\n"
        "        copied.synchronize()       # then: the step before has ended, and its copy\n"
        f"        log({read})\n"
        "    host.copy_(value, non_blocking=True)\n"
        "    copied.record()\n"
        f"copied.synchronize()\nlog({read})  # of the last step"
    )


READ_LATER = (
    "copy it to pinned memory with non_blocking=True, record an event after the copy, and wait for that event after "
    "the next step is queued. Queued before the wait, the next step keeps the GPU busy meanwhile; waiting first "
    "would leave it idle as before"
)
"""The same in words."""

COST_OF_LATER = "The value arrives one step late, and the host runs one step ahead at most."

REFILL = (
    "staging = torch.empty(shape, dtype=dtype, pin_memory=True)  # once\n"
    "copied = torch.cuda.Event()\n"
    "for x in batches:\n"
    "    copied.synchronize()  # staging may be written to: its last copy has ended\n"
    "    staging.copy_(x)\n"
    "    batch = staging.to(device, non_blocking=True)\n"
    "    copied.record()       # right behind the copy, before other work is queued\n"
    "    train(batch)"
)
"""Makes the copies of all batches from one pinned tensor."""

SAFE_REFILL = (
    "staging is not written to before its last copy has ended, which the event shows; all batches have its shape "
    "(otherwise copy a part, staging[: len(x)]). The wait keeps the host at most one step ahead: two tensors in "
    "turn, each with its event, allow two."
)


def awaited(copy: str, use: str, when: str = "") -> str:
    """Return code that waits for a copy, and for nothing else, before its memory is used."""
    return (
        f"{copy}\ncopied = torch.cuda.Event()\ncopied.record()\n"
        f"...                   # queue other work\ncopied.synchronize(){when}\n{use}"
    )


PLAIN_TRAINING = (
    "for x, y in batches:\n    optimizer.zero_grad()\n    loss_of(model(x), y).backward()\n    optimizer.step()"
)

READ_BACK = "host = x.to('cpu', non_blocking=True)"
READ_AT_ONCE = f"{READ_BACK}\nuse(host)  # the copy may not have run yet"
AWAIT_BEFORE_READ = awaited(READ_BACK, "use(host)", "  # before the first use of host")

SAFE_AWAIT = "Always: it only makes the program correct. Polling copied.query() until it is true works, too."
