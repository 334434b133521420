"""Rules 4xx: steps that wait for their input."""

from collections.abc import Iterator
from dataclasses import replace

from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.replay.feed import Feed, feed_of
from pinprof.rules.rule import Evidence, Rule
from pinprof.rules.sums import idle_within
from pinprof.rules.workers import workers_of
from pinprof.units import counted, duration
from pinprof.whatif.edits import Edits

SEEN = 0.8
"""A trace that has less than this share of the wait does not show how the step without the profiler waits."""


def _loader(details: Details, profile: Profile) -> Iterator[Evidence]:
    loader = details.loader
    if not loader.waits or profile.bound != "input" or loader.in_process:
        return
    traced_wait, feed = loader.wait_in_steps_ns / profile.steps.count, feed_of(details)
    step, traced = profile.estimate.step_ns, profile.steps.traced_ns or 0.0
    wait = feed.input_ns if feed else traced_wait
    filled = "the workers had filled their queue while the recording began, and are too slow to keep it full"
    if feed is None and step is not None and step - traced > wait:
        text = f"the step takes {duration(step)} without profiler and {duration(traced)} in the trace: {filled}"
        yield _with_workers(Evidence(step - traced, text), details, None, step)
        return
    text = f"the main thread waits {duration(wait)} {profile.steps.per} for the next batch"
    hidden = feed is not None and traced_wait < SEEN * wait
    why = f"; {duration(traced_wait)} of the wait is in the trace: {filled}" if hidden else ""
    yield _with_workers(Evidence(wait, text), details, feed or Feed(wait, wait), step or traced, why)


def _in_process(details: Details, profile: Profile) -> Iterator[Evidence]:
    loader = details.loader
    if not loader.in_process or not profile.steps.count:
        return
    wait = loader.wait_in_steps_ns / profile.steps.count
    cost = idle_within(details, profile, loader.times.start, loader.times.end)
    text = (
        f"the main thread makes the batches itself, {duration(wait)} {profile.steps.per}, of which the GPU is idle for "
        f"{duration(cost)}"
    )
    step = profile.estimate.step_ns or profile.steps.traced_ns or 0.0
    yield _with_workers(Evidence(cost, text), details, feed_of(details) or Feed(wait, 0.0), step)


def _with_workers(seen: Evidence, details: Details, feed: Feed | None, step_ns: float, why: str = "") -> Evidence:
    """Return what was seen with what more workers change, as many as the cores have room for where that is known."""
    workers, none = workers_of(details), Edits(most_input_ns=0.0)
    if workers is None:
        return replace(seen, text=seen.text + why, edits=none)
    if workers.then <= workers.now:
        shared = counted(workers.now, "worker already shares", "workers already share")
        full = f"its {shared} {counted(workers.cpus, 'core')} with the program"
        if not workers.now:
            full = f"{counted(workers.cpus, 'core leaves', 'cores leave')} no room for a worker"
        return replace(seen, text=f"{seen.text}; {full}: make batches cheaper{why}", at_most=none)
    if feed is None:
        return replace(seen, edits=none)
    edits = Edits(most_input_ns=feed.received_ns, batch_ns=feed.batch_ns(step_ns, workers.now, workers.then))
    text = f"{seen.text}; the saving is that of {counted(workers.then, 'worker')}, now {workers.now or 'none'}{why}"
    return replace(seen, text=text, edits=edits)


SAFE_WORKERS = (
    "The dataset can be used from several processes, and uses no CUDA in them; an IterableDataset gives each worker "
    "its own part (torch.utils.data.get_worker_info); otherwise every worker delivers all batches. Random numbers "
    "change: each worker has its own. Workers that persist do not see what the main process changes in the dataset "
    "later. If workers are spawned, not forked, the script starts its work under if __name__ == '__main__'."
)

RULES = (
    Rule(
        id="PIN401",
        title="the step waits for input",
        rests_on=("step", "per_step", "busy"),
        answers=("input",),
        what_if="",
        mended="construction",
        numbers="different",
        looks_at="The time of the main thread in its DataLoader, as pinprof run measured it without the profiler, else "
        "as in the trace; and a step that is longer without profiler than in the trace.",
        why="The DataLoader does not deliver batches as fast as the GPU consumes them.",
        fix="More workers (num_workers), persistent_workers=True, cheaper or earlier preprocessing, larger reads.",
        before="loader = DataLoader(data, num_workers=1)",
        code="loader = DataLoader(data, num_workers=8, persistent_workers=True)",
        safe_if="The machine has cores and memory for the workers, and reads data as fast as they ask for it. "
        f"{SAFE_WORKERS}",
        near_miss="loader = DataLoader(data, num_workers=1)  # a step takes longer than to make a batch",
        look=_loader,
    ),
    Rule(
        id="PIN402",
        title="batches made in the main process",
        rests_on=("step", "per_step", "busy"),
        answers=("input",),
        what_if="",
        mended="construction",
        numbers="different",
        looks_at="A DataLoader with num_workers=0, and the time in which the GPU is idle while it makes a batch.",
        why="With num_workers=0 the thread that should queue kernels reads and prepares the batches.",
        fix="Let workers make the batches beside the step.",
        before="loader = DataLoader(data)  # num_workers=0",
        code="loader = DataLoader(data, num_workers=4, persistent_workers=True)",
        safe_if=f"The dataset can be pickled. {SAFE_WORKERS}",
        near_miss="loader = DataLoader(data)  # the GPU has work queued while the next batch is made",
        look=_in_process,
    ),
)
