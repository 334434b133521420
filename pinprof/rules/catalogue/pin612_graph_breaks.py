from collections.abc import Iterable

import numpy as np

from pinprof.ground.units import duration, how_many, listed
from pinprof.rules.launching import late_ns
from pinprof.rules.rule import AllEvidence, Details, Evidence, Profile, Rule
from pinprof.rules.sums import at, in_complete_steps
from pinprof.trace.links import step_at
from pinprof.trace.metadata.run_log import CompilerNote
from pinprof.trace.spans.one_time_work import REGION_PREFIX
from pinprof.trace.tables import Trace

MAX_BREAKS_NAMED = 4


def _breaks(details: Details, profile: Profile) -> AllEvidence:
    run, late = details.trace.run, late_ns(profile)
    if run is None or not run.graph_breaks or not late:
        return
    first = run.graph_breaks[0]
    named = listed([f"{at(note.place).strip()} ({note.reason})" for note in run.graph_breaks], MAX_BREAKS_NAMED)
    pieces, between = _pieces(details.trace)
    per = profile.steps.divisor
    if not pieces and not _runs(profile, run.graph_breaks):
        return
    if pieces > per:
        cost = between / per
        ends = f"{how_many(pieces / per)} pieces of it run {profile.steps.per}, with {duration(cost)} between them"
    else:
        cost = late
        ends = f"{'little' if pieces else 'no'} compiled code runs in the steps"
    yield Evidence(min(cost, late), f"compiled code ends {named}: {ends}", *first.place)


def _runs(profile: Profile, notes: Iterable[CompilerNote]) -> bool:
    """Return whether one of these functions was seen in the steps: the program may have compiled other code, too."""
    sampled = profile.host.functions if profile.host else ()
    functions = {(place.file, place.function.rpartition(".")[2]) for place in sampled}
    return any((note.place.file, note.place.function) in functions for note in notes)


def _pieces(trace: Trace) -> tuple[int, float]:
    """Return how often compiled code runs in the complete steps, and the time in ns between two such runs of a step."""
    ops = trace.ops
    rows = np.flatnonzero(ops.named(lambda name: name.startswith(REGION_PREFIX)))
    rows = rows[in_complete_steps(trace, ops.start_ns[rows])]
    step = step_at(trace.steps, ops.start_ns[rows])
    between = (ops.start_ns[rows][1:] - ops.end_ns[rows][:-1])[step[1:] == step[:-1]]
    return len(rows), float(np.maximum(between, 0).sum())


RULE = Rule(
    id="PIN612",
    title="compiled code is cut into pieces",
    short="fewer graph breaks",
    answers=("launch", "python", "host"),
    numbers="equal",
    why="Where torch.compile meets what it cannot compile, as print() or a branch on a tensor's value, it ends the "
    "compiled code. Python runs that line, and no kernels are fused across it. In a loop, the whole function stays "
    "uncompiled.",
    fix="Move the line out of the compiled function, or behind the loop; torch.where in place of a branch on a value. "
    "torch.compile(fullgraph=True) fails at the first such line.",
    before="@torch.compile\n"
    "def forward(x):\n"
    "    if x.sum() > 0:  # ends the compiled code\n"
    "        x = 2 * x\n"
    "    return x + 1",
    code="@torch.compile(fullgraph=True)\n"
    "def forward(x):\n"
    "    x = torch.where(x.sum() > 0, 2 * x, x)\n"
    "    return x + 1",
    safe_if="Both branches may be computed, and neither has an effect besides its result.",
    near_miss="compiled = torch.compile(model)  # compiles into one piece",
    search=_breaks,
)
