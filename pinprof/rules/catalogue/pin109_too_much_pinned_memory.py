from collections.abc import Iterator

from pinprof.details import Details
from pinprof.ground.units import percent, size
from pinprof.measurement.profile import Profile
from pinprof.rules.rule import Evidence, Rule
from pinprof.rules.snippets import REFILL, SAFE_REFILL

TOO_MUCH_SHARE = 0.5
"""From this share on a program has locked more than it has left for its workers, the page cache from which they read,
and all other processes. NVIDIA warns of too much, and names no figure."""


def _too_much(details: Details, profile: Profile) -> Iterator[Evidence]:  # noqa: ARG001  every rule is asked the same way
    memory = profile.info.host_memory
    if memory is None or memory.pinned_bytes <= 0 or memory.pinned_bytes < TOO_MUCH_SHARE * memory.unpinned_bytes:
        return
    room = memory.unpinned_bytes
    in_use = "" if memory.used_bytes is None else f"{size(memory.used_bytes)} of it in use, "
    limited_by = "its cgroup allows" if room == memory.limit_bytes else "the machine could give it"
    yield Evidence(
        0.0,
        f"torch has pinned {size(memory.pinned_bytes)} ({in_use}at most {size(memory.peak_bytes)} so far): "
        f"{percent(memory.pinned_bytes / max(room, 1))} of the {size(room)} that {limited_by} if nothing were pinned. "
        f"From {percent(TOO_MUCH_SHARE)} on more is locked than is left for the workers, "
        "the page cache and all other processes",
        at_any_cost=True,
    )


RULE = Rule(
    id="PIN109",
    title="too much pinned memory",
    short="pin less memory",
    figures=(),
    answers=("copy", "allocation"),
    numbers="equal",
    looks_at="The memory that torch's allocator has pinned after the last recorded step, as a share of what the "
    f"program could have with nothing pinned. From {percent(TOO_MUCH_SHARE)} on, more is locked than is left for "
    "everything else. Only in traces that pinprof recorded, with a torch that has torch.cuda.host_memory_stats.",
    why="Pinned memory cannot be swapped or reclaimed. Less memory is left for the page cache, from which a DataLoader "
    "reads, for its workers and for other processes, which are killed when none is left. torch rounds each pinned "
    "tensor up to a power of two, and keeps freed memory for the next one.",
    fix="Keep few pinned tensors and refill them, each time after an event that shows that its last copy has ended. "
    "Let a DataLoader have fewer batches ready: prefetch_factor times num_workers of them may be pinned. "
    "torch.accelerator.empty_host_cache() returns what is not in use (older versions: torch._C._host_emptyCache()); "
    "the next pinned tensor then takes longer.",
    before="pinned = [x.pin_memory() for x in batches]  # all of them at once\n"
    "for x in pinned:\n"
    "    train(x.to(device, non_blocking=True))\n\n"
    "# or many batches ready:\n"
    "loader = DataLoader(data, batch_size=64, num_workers=4, prefetch_factor=32, pin_memory=True)",
    code=f"{REFILL}\n\n"
    "# or few batches ready:\n"
    "loader = DataLoader(data, batch_size=64, num_workers=4, prefetch_factor=2, pin_memory=True)",
    safe_if=f"{SAFE_REFILL} The workers keep up with fewer batches ready.",
    near_miss="loader = DataLoader(data, num_workers=4, pin_memory=True)  # 8 batches are pinned at a time",
    search=_too_much,
)
