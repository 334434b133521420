import re

from pinprof.ground.units import counted, duration, listed
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import at
from pinprof.trace.lines import Place
from pinprof.trace.links import step_at
from pinprof.trace.spans.one_time_work import ThreadTimes, capture_times, compile_times, compiles_again, time_per_step
from pinprof.trace.tables import NONE, Bools, Trace

MIN_COMPILING_SHARE = 0.02
MAX_GUARDS_NAMED = 3
COMMENT_OF_GUARD = re.compile(r"(?<!\s)\s+# ")
"""Begins the source line that torch adds to a guard."""


def _compiling(details: Details, profile: Profile) -> AllEvidence:
    trace = details.trace
    whole, again = trace.steps.whole, compiles_again(trace)
    if not profile.step_ns or not again.any():
        return
    kinds = ((compile_times(trace), "the host compiles code"), (capture_times(trace), "CUDA graphs are recorded"))
    works = [(times, time_per_step(trace, times) * again, what) for times, what in kinds]
    works = [
        (times, took, what)
        for times, took, what in works
        if took.sum() > MIN_COMPILING_SHARE * profile.step_ns * whole.sum()
    ]
    if not works:
        return
    words = [
        f"in {int((took > 0).sum())} of {counted(int(whole.sum()), 'recorded step')} {what}, for "
        f"{duration(float(took[took > 0].mean()))} each, as traced"
        for _, took, what in works
    ]
    outlasts = not again[whole].all() and all(took[took > 0].mean() >= profile.step_ns for _, took, _ in works)
    regular = again & trace.steps.complete & (not outlasts)  # compiling that outlasts a step makes it irregular
    removed = frozenset(row for times, _, _ in works for row in _rows(trace, times, regular))
    cost = sum(float(took.sum()) for _, took, _ in works) / float(whole.sum())
    place, guards = _guards(trace)
    text = f"{'; '.join(words)}{guards}"
    yield Evidence(cost, text, *place, edits=Edits(removed_times=removed), is_irregular=not regular.any())


def _guards(trace: Trace) -> tuple[Place, str]:
    """Return which function was compiled again most often in the whole run, and the guards that failed in words."""
    notes = trace.run.recompiled if trace.run else ()
    if not notes:
        return Place(), ""
    guards = [f"{COMMENT_OF_GUARD.split(note.reason)[0]} ({at(note.place).strip()})" for note in notes]
    return notes[0].place, f"; guards that failed in this run: {listed(guards, MAX_GUARDS_NAMED)}"


def _rows(trace: Trace, times: ThreadTimes, again: Bools) -> list[tuple[int, int, int]]:
    step = step_at(trace.steps, times.start_ns)
    kept = (step != NONE) & again[step]
    return list(zip(*(column[kept].tolist() for column in times), strict=True))


RULE = Rule(
    id="PIN605",
    title="`torch.compile` compiles again in the steps",
    short="stop recompiling",
    answers=("launch", "python", "host"),
    numbers="rounding",
    why="torch.compile makes code for the shapes, numbers and flags that it saw. If a guard on one of these fails, it "
    "compiles again for seconds, while the GPU is idle. It also records CUDA graphs again for each new shape.",
    fix="TORCH_LOGS=recompiles says which guard fails. Compile once for all sizes (dynamic=True, or "
    "torch._dynamo.mark_dynamic for one dimension), or pad batches to a few sizes; pass changing numbers as tensors; "
    "compile for both train() and eval() before the loop.",
    before="compiled = torch.compile(model, dynamic=False)\n\n"
    "for x in batches:  # each of another length\n"
    "    train(compiled(x))",
    code="compiled = torch.compile(model, dynamic=True)  # one code for all lengths\n\n"
    "for x in batches:\n"
    "    train(compiled(x))",
    safe_if="Code for all sizes can be slower than code for one. CUDA graphs are still recorded for each size: "
    'for mode="reduce-overhead" pad to few sizes instead.',
    near_miss="compiled = torch.compile(model)  # called with one shape: compiles once",
    search=_compiling,
)
