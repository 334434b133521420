from pinprof.ground.units import duration
from pinprof.replay.bound import Feed, feed_of
from pinprof.rules.loading import SAFE_WORKERS, with_workers
from pinprof.rules.rule import AllEvidence, Details, Evidence, Profile, Rule
from pinprof.rules.sums import idle_within


def _in_process(details: Details, profile: Profile) -> AllEvidence:
    loader = details.loader
    if not loader.in_process or not profile.steps.count:
        return
    wait = loader.wait_in_steps_ns / profile.steps.count
    cost = idle_within(details, profile, loader.times.start, loader.times.end)
    text = (
        f"the thread that makes the steps makes the batches, too, {duration(wait)} {profile.steps.per}, in which the "
        f"GPU is idle for {duration(cost)}"
    )
    step = profile.estimate.step_ns or profile.steps.traced_ns or 0.0
    yield with_workers(Evidence(cost, text), details, feed_of(details) or Feed(wait, 0.0), step)


RULE = Rule(
    id="PIN402",
    title="batches made in the main process",
    short="num_workers > 0",
    answers=("input",),
    numbers="different",
    why="With num_workers=0 the thread that should queue kernels reads and prepares the batches.",
    fix="Let workers make the batches during the step.",
    before="loader = DataLoader(data)  # num_workers=0",
    code="loader = DataLoader(data, num_workers=4, persistent_workers=True)",
    safe_if=f"The dataset can be pickled. {SAFE_WORKERS}",
    near_miss="loader = DataLoader(data)  # the GPU has work queued while the next batch is made",
    search=_in_process,
)
