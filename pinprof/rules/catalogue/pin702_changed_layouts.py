import re

from pinprof.ground.units import counted, duration, percent
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.snippets import PLAIN_TRAINING
from pinprof.rules.sums import kernels_in_steps, matters, named, per_step
from pinprof.trace.vendors import LAYOUT_CHANGE

SHORT_KERNEL_NAME = re.compile(r"\b(\w+)[<(]")
MAX_KERNELS_NAMED = 3


def _layouts(details: Details, profile: Profile) -> AllEvidence:
    trace = details.trace
    rows = kernels_in_steps(trace)
    changes = trace.gpu.named(LAYOUT_CHANGE.search)[rows]
    time = per_step(trace, profile, rows[changes])
    if not matters(profile, time):
        return
    matches = ((name, SHORT_KERNEL_NAME.search(name)) for name in named(trace, rows, changes))
    names = list(dict.fromkeys(match[1] if match else name[:40] for name, match in matches))
    busy = profile.steps.busy_ns
    share = f", {percent(time / busy)} of the GPU's work" if busy else ""
    yield Evidence(
        time,
        f"{counted(int(changes.sum()) / profile.steps.divisor, 'kernel')} {profile.steps.per} only for changes of "
        f"layout around convolutions: {duration(time)}{share} ({', '.join(names[:MAX_KERNELS_NAMED])}); pinprof does "
        "not predict what convolutions and normalizations gain from channels last",
        edits=Edits(removed_works=frozenset(rows[changes].tolist())),
    )


RULE = Rule(
    id="PIN702",
    title="layouts changed around convolutions",
    short="channels_last",
    answers=("gpu",),
    numbers="rounding",
    why="Convolutions on tensor cores need channels last. Tensors have channels first by default, so cuDNN converts "
    "what each convolution reads and writes.",
    fix="Give model and input the memory format channels_last: later ops keep it.",
    before=PLAIN_TRAINING,
    code="model = model.to(memory_format=torch.channels_last)  # once\n\n"
    "for x, y in batches:\n"
    "    x = x.to(memory_format=torch.channels_last)\n"
    "    optimizer.zero_grad()\n"
    "    loss_of(model(x), y).backward()\n"
    "    optimizer.step()",
    safe_if="No code calls .view() on feature maps, which then fails (.reshape() copies), or counts on their strides. "
    "Results differ by rounding. Ops without support for channels_last convert layouts themselves: measure.",
    near_miss="y = model(x)  # of linear layers: they have no such layout",
    search=_layouts,
)
