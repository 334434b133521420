"""The course of the whole run: the steps that are not regular, and where the run's time went."""

from collections.abc import Iterable, Iterator

from pinprof.analyses.whole_run import LedgerRow, Runs, WholeRun
from pinprof.ground.units import between, counted, duration, listed, percent
from pinprof.report.view import Fact, Section
from pinprof.report.words import NOTHING, place
from pinprof.trace.lines import Place

MAX_RUNS_NAMED = 9
MIN_ADDED_SHARE = 0.05
"""The short report names steps unlike the others if they add at least this share to each step."""
MAX_PLACES_OF_WORK = 3
WHY_IRREGULAR = {
    "first": "among the first ten steps, for an unknown reason",
    "compile": "compiling",
    "evaluation": "evaluation",
    "checkpoint": "saving a checkpoint",
    "graph_capture": "capturing CUDA graphs",
    "garbage_collection": "Python's garbage collector",
    "epoch_end": "a DataLoader starts",
    "off_cpu": "the machine was busy: other threads or programs had the CPU of the host's thread",
    "recurring": "something that comes back regularly",
    "other": "longer for an unknown reason",
}
PARTS_OF_RUN = {
    "start_up": "start-up, until steps could be recognized",
    "regular": "steps, each counted as long as a regular one",
    "input": "in the DataLoader",
    "later": "later steps, known only as a sum",
    "pinprof": "pinprof's own windows: steps under a profiler, starting it, and writing the trace",
    "end": "after the last step",
} | {what: f"extra time in steps: {words}" for what, words in WHY_IRREGULAR.items()}


def precision(course: WholeRun) -> Iterator[Fact]:
    """Yield the confidence interval of the measured step and the number of its steps, if it was timed.

    A range of this run does not hold for other processes: on virtual machines with H100s, the steps of eight programs
    differed by up to 15 % from one process to the next.
    """
    timed = course.timed
    if timed is None or timed.range_ns is None:
        return
    steps = counted(timed.steps, "regular step")
    mean = f"the mean of {steps}, {between(*timed.range_ns)} with 95 % confidence in this run"
    others = "" if course.runs else "; another process may differ by 15 % (pinprof run --repeat 3)"
    yield Fact("precision", f"±{100 * timed.precision:.1f} %", mean + others, is_named=False)
    if course.runs:
        yield Fact("mean of", *words_of_runs(course.runs), is_named=False)


def words_of_runs(runs: Runs) -> tuple[str, str]:
    """Return the number of runs; and the step of each, with the range for one more run."""
    steps = listed([duration(step_ns) for step_ns in runs.step_ns], MAX_RUNS_NAMED)
    more = f"the next one: {between(*runs.range_ns)} with 95 % confidence" if runs.range_ns else "a range needs three"
    return counted(len(runs.step_ns), "run"), f"of {steps} per step; {more}"


def course_sections(course: WholeRun, step_ns: float | None) -> Iterator[Section]:
    """Yield what steps unlike the others add to a step of this length, and where the time of the run went."""
    unlike = list(_unlike(course))
    named_reasons = {row.reason for row in course.irregular if step_ns and row.per_step_ns >= MIN_ADDED_SHARE * step_ns}
    if unlike:
        named = [fact for fact in unlike if fact.name in named_reasons]
        also = "".join(f"; also {fact.number} ({WHY_IRREGULAR[fact.name]})" for fact in named[1:])
        brief = [f"Steps unlike the others: {fact.number} {fact.meaning}{also}." for fact in named[:1]]
        yield Section(
            "Steps unlike the others, not counted in the step's length", facts=unlike, brief=brief, name="unlike"
        )
    title = f"Where the run's {duration(course.wall_ns)} went"
    yield Section(title, facts=[_spent(entry, course) for entry in course.ledger], name="course")


def _unlike(course: WholeRun) -> Iterator[Fact]:
    for row in course.irregular:
        when = f"every {row.every} steps" if row.every else f"in {counted(row.count, 'step')}"
        longer = f"{duration(row.ns / row.count)} more {when}"
        meaning = f"added per step ({WHY_IRREGULAR[row.reason]}): {longer}{_at(row.places)}"
        yield Fact(row.reason, duration(row.per_step_ns), meaning, is_named=False)
    if course.unavoidable:
        meaning = f"the recorded steps may contain such work: {course.unavoidable}"
        yield Fact("recorded", NOTHING, meaning, is_named=False)


def _spent(entry: LedgerRow, course: WholeRun) -> Fact:
    steps = "" if entry.steps is None else f" ({counted(entry.steps, 'step')})"
    meaning = f"{percent(entry.ns / course.wall_ns)}: {PARTS_OF_RUN[entry.what]}{steps}{_at(entry.places)}"
    return Fact(entry.what, duration(entry.ns), meaning, is_named=False)


def _at(places: Iterable[Place]) -> str:
    named = listed([place(at) for at in places], MAX_PLACES_OF_WORK)
    return f", at {named}" if named else ""
