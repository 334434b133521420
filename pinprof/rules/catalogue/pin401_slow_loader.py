from pinprof.ground.units import duration
from pinprof.replay.bound import Feed, feed_of
from pinprof.rules.loading import SAFE_WORKERS, how_to_load_faster, ready_before_pinning_ns, with_workers
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule

MIN_RECORDED_SHARE_OF_WAIT = 0.8
"""With a smaller share of the wait, the trace does not show how the step waits without the profiler."""
FIX_OF_PINNING = (
    "Send less: images as uint8, numbers of half precision, converted on the GPU; one large tensor per batch, not "
    "many; a second DataLoader, whose thread pins every other batch; or pinned buffers of the program that it "
    "fills with copy_(). Workers cannot pin for this process."
)


def _loader(details: Details, profile: Profile) -> AllEvidence:
    loader = details.loader
    if not loader.waits or profile.bound != "input" or loader.in_process:
        return
    faster = how_to_load_faster(details)
    traced_wait, feed = loader.wait_in_steps_ns / profile.steps.count, feed_of(details)
    step, traced = profile.estimate.step_ns, profile.steps.traced_ns or 0.0
    wait = feed.input_ns if feed else traced_wait
    why_shorter = "the workers had filled their queue while the recording began, and are too slow to keep it full"
    if feed is None and step is not None and step - traced > wait:
        text = f"the step takes {duration(step)} without profiler and {duration(traced)} in the trace: {why_shorter}"
        yield with_workers(Evidence(step - traced, text, fix=faster), details, None, step)
        return
    text = f"the thread that makes the steps waits {duration(wait)} {profile.steps.per} for the next batch"
    if step and (ready_ns := ready_before_pinning_ns(details, step)):
        text += f"; its workers make a batch every {duration(ready_ns)}: the thread that pins them sets the pace"
        yield Evidence(wait, text, fix=FIX_OF_PINNING, at_most=Edits(most_input_ns=0.0, batch_ns=ready_ns))
        return
    is_half_recorded = feed is not None and traced_wait < MIN_RECORDED_SHARE_OF_WAIT * wait
    why = f"; {duration(traced_wait)} of the wait is in the trace: {why_shorter}" if is_half_recorded else ""
    yield with_workers(Evidence(wait, text, fix=faster), details, feed or Feed(wait, wait), step or traced, why)


RULE = Rule(
    id="PIN401",
    title="the step waits for input",
    short="more workers",
    answers=("input",),
    numbers="different",
    why="The DataLoader does not deliver batches as fast as the GPU consumes them.",
    fix="More workers (num_workers), persistent_workers=True if it lacks that, cheaper or earlier preprocessing, "
    "larger reads.",
    before="loader = DataLoader(data, num_workers=1)",
    code="loader = DataLoader(data, num_workers=8, persistent_workers=True)",
    safe_if="The machine has cores and memory for the workers, and reads data as fast as they ask for it. "
    f"{SAFE_WORKERS}",
    near_miss="loader = DataLoader(data, num_workers=1)  # a batch is made in less time than a step",
    search=_loader,
)
