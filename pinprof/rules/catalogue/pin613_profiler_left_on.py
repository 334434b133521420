from pinprof.rules.rule import AllEvidence, Details, Evidence, Profile, Rule


def _profiled(details: Details, profile: Profile) -> AllEvidence:  # noqa: ARG001  every rule is asked the same way
    if profile.info.profiled:
        yield Evidence(
            0.0,
            "a profiler of the program was on when pinprof began to time its steps, and still when it began to record "
            "them: so the step without a profiler is not known, and is shorter than what is shown",
            at_any_cost=True,
        )


RULE = Rule(
    id="PIN613",
    title="the program's own profiler was left on",
    short="profile a few steps",
    figures=(),
    answers=("launch", "host", "python"),
    numbers="equal",
    why="A profiler notes each op, call and kernel: the host takes up to several times as long for each, and the "
    "notes of all steps stay in memory. torch.profiler.profile() without a schedule records each step, as do "
    "torch.autograd.profiler.profile() and emit_nvtx() around the loop, and Trainer(profiler='pytorch') of Lightning.",
    fix="Take it out, or give it a schedule, so that it records a few steps.",
    before="with torch.profiler.profile() as profiler:\n"
    "    for x, y in batches:\n"
    "        optimizer.zero_grad()\n"
    "        loss_of(model(x), y).backward()\n"
    "        optimizer.step()\n"
    "        profiler.step()",
    code="few = torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1)\n\n"
    "with torch.profiler.profile(schedule=few) as profiler:\n"
    "    for x, y in batches:\n"
    "        optimizer.zero_grad()\n"
    "        loss_of(model(x), y).backward()\n"
    "        optimizer.step()\n"
    "        profiler.step()",
    safe_if="Nobody needs the profile of all steps.",
    near_miss="few = torch.profiler.schedule(wait=10, warmup=1, active=3, repeat=1)\n"
    "profiler = torch.profiler.profile(schedule=few)  # records three steps of a long run",
    search=_profiled,
)
