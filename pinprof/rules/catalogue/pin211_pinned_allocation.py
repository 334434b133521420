from pinprof.ground.units import duration, how_many
from pinprof.rules.rule import AllEvidence, Change, Details, Evidence, Profile, Rule
from pinprof.rules.sums import ops_of
from pinprof.rules.wait_sites import search_waits


def _allocated(details: Details, profile: Profile) -> AllEvidence:
    """Look for pinned memory that is allocated or freed; without work of a GPU only the host's time is told."""
    if profile.withheld.drain is None:
        yield from search_waits("host_alloc")(details, profile)
        return
    allocating = (site for site in details.syncs.sites if site.cause == "host_alloc" and site.is_of_the_code)
    sites = [site for site in allocating if site.in_steps.count]
    if not sites:
        return
    steps = profile.steps.count
    longest = max(sites, key=lambda site: site.in_steps.stall_ns)
    time = sum(site.in_steps.stall_ns for site in sites) / steps
    yield Evidence(
        0.0,
        f"{how_many(sum(site.in_steps.count for site in sites) / steps)} {profile.steps.per} in {ops_of(sites)}: as "
        f"traced, the host waits {duration(time)}",
        *longest.place,
        at_any_cost=True,
    )


RULE = Rule(
    id="PIN211",
    title="pinned memory is allocated in the training loop",
    short="keep pinned buffers",
    figures=("per_step", "stalls"),
    answers=("sync",),
    what_if="--drop-syncs",
    numbers="equal",
    why="Pinning pages takes milliseconds and a lock of the driver, which holds up other threads. Freeing them waits "
    "for the device.",
    fix="Allocate pinned memory once, before the loop, for the largest shape; refill it, each time after an event "
    "that shows that its last copy has ended.",
    before="for x in batches:\n"
    "    staging = torch.empty(x.shape, dtype=dtype, pin_memory=True)  # in each step\n"
    "    staging.copy_(x)\n"
    "    train(staging.to(device, non_blocking=True))",
    code="staging = torch.empty(largest_shape, dtype=dtype, pin_memory=True)  # once\n"
    "copied = torch.cuda.Event()\n"
    "for x in batches:\n"
    "    copied.synchronize()  # staging may be written to: its last copy has ended\n"
    "    part = staging[: len(x)]\n"
    "    part.copy_(x)\n"
    "    batch = part.to(device, non_blocking=True)\n"
    "    copied.record()       # right behind the copy, before other work is queued\n"
    "    train(batch)",
    safe_if="staging is not written to before its last copy has ended, which the event shows; batches differ in their "
    "first dimension only. The wait keeps the host one step ahead at most.",
    near_miss="staging = torch.empty(x.shape)  # not pinned: no lock of the driver",
    change=Change(r"\b(?:empty|zeros|pin_memory)\(", "allocate it once, before the loop"),
    search=_allocated,
    causes=("host_alloc",),
)
