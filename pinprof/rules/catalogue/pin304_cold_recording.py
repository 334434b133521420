from pinprof.ground.units import counted, duration
from pinprof.rules.rule import AllEvidence, Details, Evidence, Profile, Rule
from pinprof.rules.sums import idle_within, in_complete_steps


def _cold(details: Details, profile: Profile) -> AllEvidence:
    stalls = details.syncs.stalls
    loading = stalls.call[details.syncs.has_cause("module_load")]
    start, end = details.trace.calls.start_ns[loading], details.trace.calls.end_ns[loading]
    inside = in_complete_steps(details.trace, start)
    if not inside.any():
        return
    steps = profile.steps.count
    cost = idle_within(details, profile, start, end)
    times = f"{counted(inside.sum() / steps, 'time')} {profile.steps.per}"
    time = float((end - start)[inside].sum()) / steps
    yield Evidence(
        cost,
        f"{times} code for the GPU is loaded, for {duration(time)}, in which the GPU "
        f"is idle for {duration(cost)}: the recording began before the program was warm; no later step pays for this",
        at_any_cost=True,
    )


RULE = Rule(
    id="PIN304",
    title="the recording began cold",
    short="record warm",
    numbers="equal",
    why="CUDA loads each kernel when it is first launched. These steps show costs that later ones do not have.",
    fix="Record later steps: pinprof run waits until they are steady (more so with --warmup 20); with torch.profiler "
    "give schedule(wait=10, warmup=5, ...).",
    before="when = schedule(wait=0, warmup=0, active=5)  # of torch.profiler",
    code="when = schedule(wait=10, warmup=5, active=5)  # the program runs for 20 steps or more",
    safe_if="None: it only changes what is recorded.",
    near_miss="when = torch.profiler.schedule(wait=0, warmup=10, active=5)  # warm-up runs, and is not kept",
    search=_cold,
    causes=("module_load",),
)
