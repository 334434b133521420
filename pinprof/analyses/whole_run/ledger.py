"""Where the time of a whole run went: a ledger whose rows add up to the run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pinprof.analyses.whole_run.irregular_work import Irregular, StepSplit, irregular_work, split_steps
from pinprof.analyses.whole_run.regular_step import RegularStep, Runs, noted_steps, runs_of, timed_regular_step
from pinprof.trace.lines import Place
from pinprof.trace.run_log import RunLog

START_UP, REGULAR, INPUT, LATER, PINPROF, END = "start_up", "regular", "input", "later", "pinprof", "end"
"""Rows of the ledger besides the reasons of irregular work. pinprof noted only the sum of the `later` steps;
`pinprof` is the time that pinprof itself took."""


@dataclass(frozen=True)
class Entry:
    """A row of the ledger."""

    what: str
    ns: int
    steps: int | None = None
    """In how many steps it is; None for what lies outside of steps."""
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class WholeRun:
    """A run in sums; the times of the ledger add up to `wall_ns`."""

    regular: int
    """The number of regular steps without profiler, timed or not."""
    timed: RegularStep | None
    irregular: tuple[Irregular, ...]
    """The largest sum first."""
    ledger: tuple[Entry, ...]
    wall_ns: int
    unavoidable: str | None
    """Why the recorded steps may hold irregular work although it was expected; None if they do not."""
    runs: Runs | None = None
    """The other runs of the program; None where it ran once."""


def sum_up_run(log: RunLog, returning_waits: Iterable[tuple[Place, int]] = ()) -> WholeRun:
    """Return the sums of a run; `returning_waits` are places of waits that come back after a number of steps."""
    steps = split_steps(log, noted_steps(log))
    irregular = irregular_work(log, steps, returning_waits)
    return WholeRun(
        regular=int(steps.regular.sum()),
        timed=timed_regular_step(log),
        irregular=tuple(sorted(irregular, key=lambda row: -row.ns)),
        ledger=tuple(entry for entry in _ledger(log, steps, irregular) if entry.ns),
        wall_ns=sum((log.start_up_ns, *log.step_ns, *log.own_ns, log.later.ns, log.after_ns, log.own_after_ns)),
        unavoidable=log.unavoidable,
        runs=runs_of(log.runs_ns),
    )


def _ledger(log: RunLog, steps: StepSplit, irregular: list[Irregular]) -> Iterator[Entry]:
    host_ns = np.array(log.step_ns, np.int64)
    free, input_ns, excess_ns = ~steps.profiled, int(steps.input_ns.sum()), int(steps.excess_ns.sum())
    yield Entry(START_UP, log.start_up_ns)
    yield Entry(REGULAR, int(host_ns[free].sum()) - input_ns - excess_ns, int(free.sum()))
    yield Entry(INPUT, input_ns + log.later.input_ns, int((steps.input_ns > 0).sum()))
    yield from (Entry(row.reason, row.ns, row.count, row.places) for row in irregular)
    yield Entry(LATER, log.later.ns - log.later.input_ns, log.later.steps)
    own_ns = int(host_ns[steps.profiled].sum()) + sum(log.own_ns) + log.own_after_ns
    yield Entry(PINPROF, own_ns, int(steps.profiled.sum()))
    yield Entry(END, log.after_ns)
