"""The course of the whole run in words: the steps that are not regular, and where the run's time went."""

from collections.abc import Iterable, Iterator

from pinprof.analyses.course import Course, Entry, Irregular
from pinprof.measurement.profile import Profile
from pinprof.report.elements import Column, Markup, number_columns, table
from pinprof.report.trace.step import WORTH_NAMING, Fact
from pinprof.report.words import NOTHING, place
from pinprof.trace.lines import Place
from pinprof.units import between, counted, duration, listed, percent

MOST_PLACES = 3
"""More places of a kind of work are counted, not named."""
OF_STEPS = {
    "first": "the first steps: caches are cold, libraries are set up",
    "compile": "compiling",
    "evaluation": "evaluation",
    "checkpoint": "saving a checkpoint",
    "epoch_end": "a DataLoader starts again, as at the end of an epoch",
    "logging": "recurring work, such as logging",
    "other": "longer for an unknown reason",
}
"""What irregular steps are longer for."""
OF_RUN = {
    "start_up": "start-up, until steps could be told",
    "regular": "steps, as long as a regular one",
    "input": "in the DataLoader",
    "later": "later steps, known only as a sum",
    "pinprof": "pinprof's own windows: steps under a profiler, starting it, and writing the trace",
    "end": "after the last step",
} | {what: f"more in steps: {words}" for what, words in OF_STEPS.items()}
"""What the time of a run went to."""


def regular(course: Course) -> Iterator[Fact]:
    """Yield of which steps the measured one is the mean, and where it lies; nothing where it was not timed."""
    timed = course.timed
    if timed is None or timed.range_ns is None:
        return
    share = timed.input_fraction
    in_loader = f"; {percent(share)} of it in the DataLoader" if share >= WORTH_NAMING else ""
    lies = f"{between(*timed.range_ns)} with 95 % confidence"
    yield Fact(
        "precision",
        f"±{100 * timed.precision:.1f} %",
        f"the mean of {counted(timed.steps, 'regular step')}, {lies}{in_loader}",
    )


def unlike(course: Course) -> Iterator[Fact]:
    """Yield what steps that are unlike the others add."""
    for row in course.irregular:
        yield Fact(
            row.reason,
            duration(row.per_step_ns),
            f"added per step by {OF_STEPS[row.reason]}: {often(row)}{_at(row.places)}",
        )
    if course.unavoidable:
        yield Fact("recorded", NOTHING, f"the recorded steps may contain such work: {course.unavoidable}")


def ledger(course: Course) -> Iterator[Fact]:
    """Yield where the time of the run went; the numbers add up to its length."""
    for entry in course.ledger:
        yield Fact(entry.what, duration(entry.ns), f"{_share(entry, course)}: {_of_what(entry)}{_at(entry.places)}")


def course_table(profile: Profile) -> Markup:
    """Return where the run's time went, as a table; nothing where pinprof did not record it."""
    course = profile.course
    if course is None:
        return Markup()
    columns = [Column("what"), *number_columns("time", "of the run", "steps"), Column("where")]
    rows = [
        (
            OF_RUN[entry.what],
            duration(entry.ns),
            _share(entry, course),
            NOTHING if entry.steps is None else f"{entry.steps:,}",
            _named(entry.places),
        )
        for entry in course.ledger
    ]
    return table(f"The run took {duration(course.wall_ns)} until it ended or pinprof ended it", columns, rows)


def often(row: Irregular) -> str:
    """Return how much longer steps of a kind are, and how often they come."""
    when = f"every {row.every} steps" if row.every else f"in {counted(row.count, 'step')}"
    return f"{duration(row.ns / row.count)} more {when}"


def _of_what(entry: Entry) -> str:
    steps = "" if entry.steps is None else f" ({counted(entry.steps, 'step')})"
    return OF_RUN[entry.what] + steps


def _share(entry: Entry, course: Course) -> str:
    return percent(entry.ns / course.wall_ns)


def _at(places: Iterable[Place]) -> str:
    named = _named(places)
    return f", at {named}" if named else ""


def _named(places: Iterable[Place]) -> str:
    return listed([place(each) for each in places], MOST_PLACES)
