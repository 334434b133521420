"""Run a trial: fix a program in a copy, measure it against the original, compare the numbers, and look for races."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from pinprof.ab import (
    CANNOT_TELL,
    FASTER,
    Bounds,
    Judgement,
    Measurement,
    PairsProgress,
    ProgramVersion,
    Wishes,
    measure_versions,
)
from pinprof.ab.recording import NeverRecordedError, record_one
from pinprof.ab.times import TimedProcess
from pinprof.ab.worker import GuardResult, Nudged, StepOptions
from pinprof.analysis import Analysis, analyse
from pinprof.errors import MeasureError, PinprofError
from pinprof.fix import Chosen, Patches, PlannedChanges, ProgramChange, plan_changes
from pinprof.prediction.verification import Verification, verify
from pinprof.temporary import temporary_folder
from pinprof.trace import read_trace
from pinprof.trial.certificate import Certificate, CheckResults
from pinprof.trial.numbers import Numbers, NumbersComparison, compare_numbers
from pinprof.trial.selection import FixOutcome, drop_without_gain, keep_faster, split_harmless
from pinprof.trial.versions import ORIGINAL, Command, Versions, for_numbers, guard_result, run_all, under_guard
from pinprof.units import counted

NUMBER_STEPS, GUARD_STEPS = 10, 30
"""Steps whose numbers are compared, and steps under the guard: a race over a ring of buffers needs a few rounds."""
PAIRS_AHEAD = 8
"""Pairs that start at once, as far as the machine has room: this many can show a difference at `FALSE_ALARMS`."""
FALSE_ALARMS = 0.02
"""The chance that a program measured against itself is called faster or slower: at most one of fifty trials."""
LEAST_TIME = 0.6
"""Measuring one fix takes about as long as measuring all, without the first run of the original: if less than this
share of that time is left, it is not measured."""
MOST_MEMORY = 0.2
"""If the program takes more than this share of the GPU's memory, the runs for numbers and races do not overlap."""
SEVERAL = "pinprof looks at the numbers and copies of a single process, and the program has several ranks"


@dataclass(frozen=True)
class TrialOptions:
    """What to try, and how; `trace` is an existing recording."""

    command: Command
    wishes: Wishes = field(default_factory=Wishes)
    chosen: Chosen = field(default_factory=Chosen)
    trace: str | None = None
    steps: int = NUMBER_STEPS
    verifies: bool = True

    @property
    def seconds(self) -> float:
        """The longest time to measure."""
        return self.wishes.bounds.seconds


@dataclass
class Trial:
    """One trial; `say` gets a line when something begins, `tell` the progress when a pair begins."""

    wanted: TrialOptions
    say: Callable[[str], None] = lambda _: None
    tell: Callable[[PairsProgress], None] = lambda _: None
    check: Callable[[Patches], None] = lambda _: None
    """Gets the patches before anything is measured; an error that it raises ends the trial."""
    _first: dict[bool, TimedProcess] = field(default_factory=dict)
    """The first run of the original (True), and of a version with changes."""
    _measured: dict[tuple[Path, Path, float], Measurement] = field(default_factory=dict)
    """By the folders of both versions, and the longest time in seconds."""
    _measuring_s: float = 0.0

    def run(self) -> Certificate:
        """Make the trial. Raises MeasureError if the program cannot be run, TraceError for a bad recording."""
        begun = time.monotonic()
        with ExitStack() as undo:
            folder = undo.enter_context(temporary_folder("try"))
            versions = Versions(self.wanted.command, undo)
            try:
                analysis = self._recording(versions, folder)
                versions.changes = plan_changes(analysis, sorted(map(str, self._named_scripts())), self.wanted.chosen)
                certificate = self._certify(versions, versions.changes, analysis, folder)
            except MeasureError as error:
                raise MeasureError(versions.with_own_paths(str(error))) from error
        return replace(certificate, seconds=time.monotonic() - begun)

    def _named_scripts(self) -> frozenset[Path]:
        return self.wanted.command.scripts if self.wanted.trace else frozenset()

    def _recording(self, versions: Versions, folder: Path) -> Analysis:
        trace = self.wanted.trace
        if trace is None:
            self.say("recording the program, some 20 to 60 s")
            try:
                path, _ = record_one(versions.original(), self.wanted.wishes.options, folder / "before")
            except NeverRecordedError:
                raise
            except MeasureError as error:
                way_out = "pinprof run records it with more options; give its recording with --trace FILE"
                raise MeasureError(f"{error}. {way_out}") from error
            trace = str(path)
        return analyse(read_trace(trace))

    def _certify(self, versions: Versions, planned: PlannedChanges, analysis: Analysis, folder: Path) -> Certificate:
        nothing = Certificate(
            analysis, planned.patches(), (), None, None, None, "", self.wanted.chosen.changes_numbers, 0.0
        )
        if not (nothing.patches.patches or planned.proposals):
            return nothing
        self.check(planned.patches((), planned.proposals))
        changes = [patch.change for patch in nothing.patches.patches]
        outcomes: tuple[FixOutcome, ...] = tuple(FixOutcome(change, "kept") for change in changes)
        original = versions.original()
        result = self._measure(original, versions.changed(), self.wanted.seconds) if changes else None
        if len(changes) > 1 and result and result.test.judgement.verdict == FASTER:
            outcomes, result = self._drop_without_gain(versions, changes, result)
        if planned.proposals:
            outcomes, result = self._add_proposals(versions, planned.proposals, outcomes, result)
        dropped = [outcome.change for outcome in outcomes if not outcome.is_kept and not outcome.change.doubts]
        doubted = [outcome.change for outcome in outcomes if outcome.is_kept and outcome.change.doubts]
        kept = replace(nothing, patches=planned.patches(dropped, doubted), outcomes=outcomes, measurement=result)
        if result is None or result.test.judgement.verdict not in {FASTER, CANNOT_TELL}:
            return kept
        program = versions.changed(dropped, doubted)
        changes = [patch.change for patch in kept.patches.patches]
        kept = replace(kept, checked=self._check(versions, original, program, result.first, changes))
        verified, why = self._verify(analysis, program, folder)
        return replace(kept, verified=verified, why_not_verified=why)

    def _measure(self, before: ProgramVersion, after: ProgramVersion, seconds: float) -> Measurement:
        """Measure a version with changes against one with fewer, for at most `seconds`; measure each pair once.

        All versions with changes share one first run.
        """
        key = before.folder, after.folder, seconds
        if key in self._measured:
            return self._measured[key]
        begun = time.monotonic()
        known = self._first.get(before.name == ORIGINAL), self._first.get(False)
        first = [timed for timed in known if timed is not None]
        self.say(f"measuring: {after.name} against {before.name}, at most {max(seconds, 0) / 60:.1f} min")
        wishes = replace(self.wanted.wishes, bounds=replace(self.wanted.wishes.bounds, seconds=seconds))
        result = measure_versions(
            (before, after), wishes, first=first if len(first) == len(known) else None, say=self.say, tell=self.tell
        )
        if result.test.interrupted:
            raise KeyboardInterrupt
        self._first.setdefault(before.name == ORIGINAL, result.first[0])
        self._first.setdefault(False, result.first[1])
        self._measured[key] = result
        self._measuring_s += time.monotonic() - begun
        return result

    def _drop_without_gain(
        self, versions: Versions, changes: Sequence[ProgramChange], result: Measurement
    ) -> tuple[tuple[FixOutcome, ...], Measurement]:
        """Leave out the fixes that save nothing, and measure the rest."""

        def measure(without: Sequence[ProgramChange], seconds: float) -> Judgement:
            return self._measure(versions.changed(without), versions.changed(without[:-1]), seconds).test.judgement

        def left_s() -> float:
            return self.wanted.seconds - self._measuring_s

        outcomes = drop_without_gain(changes, measure, left_s, LEAST_TIME * self._measuring_s)
        dropped = [outcome.change for outcome in outcomes if not outcome.is_kept]
        if not dropped:
            return outcomes, result
        return outcomes, self._measure(versions.original(), versions.changed(dropped), self.wanted.seconds)

    def _add_proposals(
        self,
        versions: Versions,
        proposals: Sequence[ProgramChange],
        outcomes: tuple[FixOutcome, ...],
        result: Measurement | None,
    ) -> tuple[tuple[FixOutcome, ...], Measurement | None]:
        """Add the proposals that are proven to the certain changes, and measure them all together.

        If a proposal is taken, certain changes that were not shown to save time are left out.
        """
        idle = result if result and result.test.judgement.verdict != FASTER else None
        out = [outcome.change for outcome in outcomes if idle or not outcome.is_kept]
        kept = [outcome.change for outcome in outcomes if outcome.change not in out]
        original, first = versions.original(), result.first if result else ()

        def flaw(taking: Sequence[ProgramChange]) -> str:
            self.say(f"checking {counted(len(taking), 'proposal')}")
            checked = self._check(versions, original, versions.changed(out, taking), first, [*kept, *taking])
            return next(chain(checked.against(), checked.open()), "")

        def measure(accepted: Sequence[ProgramChange], change: ProgramChange) -> Judgement:
            before, after = versions.changed(out, accepted), versions.changed(out, [*accepted, change])
            return self._measure(before, after, self.wanted.seconds).test.judgement

        candidates, unsafe = split_harmless(proposals, flaw)
        tried = keep_faster(candidates, measure)
        proven = [outcome.change for outcome in tried if outcome.is_kept]
        if not proven:
            return (*outcomes, *unsafe, *tried), result
        if idle:
            judgement = idle.test.judgement
            outcomes = tuple(FixOutcome.measured(outcome.change, judgement) for outcome in outcomes)
        total = self._measure(original, versions.changed(out, proven), self.wanted.seconds)
        return (*outcomes, *unsafe, *tried), total

    def _check(
        self,
        versions: Versions,
        before: ProgramVersion,
        after: ProgramVersion,
        first: Sequence[TimedProcess],
        changes: Sequence[ProgramChange],
    ) -> CheckResults:
        """Compare the numbers before and after these changes, and look for races; `first` are runs of both."""
        if any(timed.ranks > 1 for timed in first):
            return CheckResults(NumbersComparison("cannot_tell", 0, (), SEVERAL), GuardResult(why=SEVERAL), None)
        together = bool(first) and all((timed.gpu_memory or 0.0) <= MOST_MEMORY for timed in first)
        steps = self.wanted.steps
        self.say("comparing the numbers of the first steps, and looking for races, some 15 to 60 s")
        runs = [for_numbers(before, steps), for_numbers(after, steps), under_guard(after, GUARD_STEPS)]
        *computed, copies = run_all(runs, together=together)

        def others() -> tuple[Numbers, Numbers]:
            self.say("the numbers are not the same: running the original again, twice")
            nudged: Nudged = "updates" if any(change.numbers == "rounding" for change in changes) else "bits"
            return _numbers(
                run_all([for_numbers(before, steps), for_numbers(before, steps, nudged)], together=together)
            )

        try:
            numbers = compare_numbers(*_numbers(computed), others)
        except MeasureError as error:
            numbers = NumbersComparison("cannot_tell", 0, (), versions.with_own_paths(str(error)))
        guard, guard_before = guard_result(copies), None
        if any(race.certain for race in guard.races):
            self.say("a race: does the original have it, too?")
            guard_before = guard_result(run_all([under_guard(before, GUARD_STEPS)], together=False)[0])
        return CheckResults(numbers, guard, guard_before)

    def _verify(self, analysis: Analysis, program: ProgramVersion, folder: Path) -> tuple[Verification | None, str]:
        if not self.wanted.verifies:
            return None, "not asked for"
        self.say("recording the changed program, some 20 to 60 s")
        try:
            path, _ = record_one(program, self.wanted.wishes.options, folder / "after")
            after = analyse(read_trace(str(path)))
            return verify(analysis.details, analysis.profile, after.details, after.profile), ""
        except PinprofError as error:
            return None, str(error).replace(f"{folder / 'after'}{os.sep}", "")


def _numbers(results: Sequence[Mapping[str, Any] | MeasureError]) -> tuple[Numbers, Numbers]:
    """Return the numbers of two runs. Raises MeasureError if one failed."""
    for result in results:
        if isinstance(result, MeasureError):
            raise result
    one, other = (Numbers.of(result) for result in results if not isinstance(result, MeasureError))
    return one, other


def wishes_for(minutes: float, seconds: float, limit: float, options: StepOptions) -> Wishes:
    """Return how a trial measures: its pairs start at once, and fewer of them are enough."""
    return Wishes(Bounds(limit, 60 * minutes, FALSE_ALARMS), seconds, "auto", options, PAIRS_AHEAD)
