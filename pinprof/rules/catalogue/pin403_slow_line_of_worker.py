from pinprof.analyses.host_samples import CalledLine, measure_host
from pinprof.ground.units import duration, percent
from pinprof.replay.bound import feed_of
from pinprof.rules.loading import ready_before_pinning_ns
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import at

MIN_WORKER_SAMPLES = 30  # fewer samples do not tell one line from another
MIN_LINE_SHARE_OF_BATCH = 0.1
MAX_WORKER_LINES = 3
MIN_SHARE_OF_LINE = 0.5
"""A line is said to call a function that takes more of its samples. Workers are late if a step waits for them for a
larger share of its time: to receive a batch takes less."""


def _slow_line(details: Details, profile: Profile) -> AllEvidence:
    worker, step, feed = details.trace.info.worker, profile.step_ns, feed_of(details)
    sums = measure_host(worker)
    if worker is None or sums is None or not step or feed is None or sums.samples < MIN_WORKER_SAMPLES:
        return
    if ready_before_pinning_ns(details, step):
        return
    lines = [(line, sums.share(line.count - line.imports)) for line in sums.called]
    lines = [
        (line, share) for line, share in sorted(lines, key=lambda pair: -pair[1]) if share >= MIN_LINE_SHARE_OF_BATCH
    ]
    wait = feed.input_ns if feed.input_ns >= MIN_SHARE_OF_LINE * step else feed.wait_ns if feed.is_late(step) else 0.0
    if not wait or not lines or not worker.steps:
        return
    batch, cost = worker.step_ns, wait * lines[0][1]
    without = Edits(most_input_ns=feed.input_ns - cost)
    if feed.is_late(step):  # the steps that were recorded need not wait, as the workers had filled their queue
        without |= Edits(batch_ns=step - cost)
    named = ", ".join(f"{percent(share)} of it{_line_code(line)}" for line, share in lines[:MAX_WORKER_LINES])
    yield Evidence(
        cost,
        f"a worker makes a batch in {duration(batch)}: {named}",
        *lines[0][0].place,
        at_most=without,
    )


def _line_code(line: CalledLine) -> str:
    call, count = line.libraries[0] if line.libraries else (None, 0)
    called = f" in {call.package} {' → '.join(call.names)}" if call and count > MIN_SHARE_OF_LINE * line.count else ""
    return f"{at(line.place)}{called}"


RULE = Rule(
    id="PIN403",
    title="a line that takes the time of the DataLoader's workers",
    short="cheaper batches",
    figures=("step", "per_step"),
    answers=("input",),
    numbers="equal",
    why="If a batch takes a worker longer than as many steps as there are workers, the step waits for it.",
    fix="Make this line cheaper: do before training what is the same in each epoch (resize, tokenize), keep it, decode "
    "less, or let the GPU do it for the whole batch.",
    before="def item(index):\n"
    "    weights = [math.exp(-age / 10) for age in range(1000)]  # for each sample\n"
    "    return data[index] * weights[index]",
    code="weights = [math.exp(-age / 10) for age in range(1000)]  # once\n\n"
    "def item(index):\n"
    "    return data[index] * weights[index]",
    safe_if="What is kept depends on nothing that changes from sample to sample, such as random numbers.",
    near_miss="def item(index):\n    return data[index]  # no work, and the step is longer",
    search=_slow_line,
)
