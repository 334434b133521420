from collections.abc import Iterator
from dataclasses import replace

from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.rules.rule import Change, Evidence, Rule
from pinprof.rules.wait_sites import look_for_waits
from pinprof.trace.tables import PINNED

PINNED_ALREADY = "Add non_blocking=True: this memory is pinned already."
SMALL = "Add non_blocking=True: the driver takes copies this small along with the call, pinned or not."


def _blocking(details: Details, profile: Profile) -> Iterator[Evidence]:
    """Look for blocking copies; do not ask to pin what is pinned."""
    for evidence in look_for_waits("blocking_copy_htod")(details, profile):
        memory = details.trace.gpu.host_memory[sorted(evidence.edits.pinned | evidence.at_most.pinned)]
        if not len(memory):
            yield replace(evidence, fix=SMALL)
        else:
            yield replace(evidence, fix=PINNED_ALREADY) if bool((memory == PINNED).all()) else evidence


RULE = Rule(
    id="PIN102",
    title="copies to the GPU without `non_blocking=True`",
    short="non_blocking=True",
    answers=("copy",),
    what_if="--pin --non-blocking",
    numbers="equal",
    looks_at="HtoD copies after which the host waits for the stream: an asynchronous copy and a synchronize in the "
    "same op.",
    why="A blocking copy waits for all earlier work on the stream; the host cannot queue the next kernels meanwhile.",
    fix="x.to(device, non_blocking=True), of pinned memory: PIN101 and PIN104 show how to pin it. For pageable memory "
    "non_blocking=True does no harm; it saves the wait after each copy, not what the driver takes to stage it.",
    before="x = x.to(device)  # the host waits for the copy",
    code="x = x.to(device, non_blocking=True)  # x is pinned",
    safe_if="Nothing writes to the source before the copy has ended: an event after the copy shows that. Work on the "
    "same GPU stream runs after the copy anyway.",
    near_miss="x = x.to(device, torch.float16)  # from GPU to GPU: the host does not wait",
    change=Change(r"\.(?:to|cuda|copy_)\(", "add non_blocking=True, from pinned memory"),
    causes=("blocking_copy_htod",),
    look=_blocking,
)
