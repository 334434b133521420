from pinprof.ground.units import duration, percent
from pinprof.rules.rule import AllEvidence, Details, Evidence, Profile, Rule

MIN_OFF_CPU_SHARE_OF_STEP = 0.05
"""A thread that has to wait for its CPU for a smaller share of the step is not worth a finding: other processes of an
idle machine make some 1 %."""


def _off_cpu(details: Details, profile: Profile) -> AllEvidence:
    run, step, busy = details.trace.run, profile.step_ns, profile.steps.busy_ns
    if run is None or not step or not run.stops.steps or busy is None:
        return
    per_step = run.stops.off_cpu_ns / run.stops.steps
    if per_step < MIN_OFF_CPU_SHARE_OF_STEP * step:
        return
    yield Evidence(
        min(per_step, max(step - busy, 0.0)),
        f"the host's thread did not run for {duration(per_step)} {profile.steps.per}, {percent(per_step / step)} of "
        "it, while it was ready to: other threads or processes had its CPU",
    )


RULE = Rule(
    id="PIN609",
    title="others take the CPU from the host's thread",
    short="fewer threads",
    figures=("step", "busy"),
    answers=("python", "host"),
    numbers="equal",
    why="A thread that does not run launches nothing. Its code is not slow: to change it gains nothing.",
    fix="Let fewer threads and processes run than the machine has cores: fewer workers of the DataLoader, "
    "`torch.set_num_threads(1)` in them, and no other programs; in a container ask for more CPUs.",
    before="import torch\n\n"
    "torch.set_num_threads(64)  # on a machine with 8 cores\n"
    "for batch in batches:\n"
    "    train(batch)",
    code="import os\n\n"
    "import torch\n\n"
    "torch.set_num_threads(min(torch.get_num_threads(), os.cpu_count() or 1))\n"
    "for batch in batches:\n"
    "    train(batch)",
    safe_if="The sums of ops on the CPU may round differently with another number of threads.",
    near_miss="torch.set_num_threads(torch.get_num_threads())  # as many as there are cores",
    search=_off_cpu,
)
