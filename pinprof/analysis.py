"""The analysis of one trace, for commands, notebooks and jobs."""

from collections.abc import Callable
from dataclasses import dataclass

from pinprof.details import Details, details_of
from pinprof.ground.units import counted, one_line
from pinprof.measurement.measure import profile_of
from pinprof.measurement.profile import Profile
from pinprof.prediction.pinning import Pinning
from pinprof.replay import Replay
from pinprof.rules.rule import Findings
from pinprof.rules.search import find_in
from pinprof.trace import Trace


@dataclass(frozen=True, eq=False, repr=False)
class Analysis:
    """A trace with its measurements: row by row (`details`), summed up (`profile`), replayed, and what rules found."""

    details: Details
    replay: Replay
    profile: Profile
    findings: Findings

    def __repr__(self) -> str:
        return one_line(f"analysis of {self.profile.path!r}", [counted(len(self.findings), "finding")])

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.details.trace


def analyse(trace: Trace, machine: Pinning | None = None, on_replay: Callable[[], object] = lambda: None) -> Analysis:
    """Return the analysis of a trace; `machine` is as for `find`.

    `on_replay` is called after everything is measured, before the rules replay changed steps.
    """
    details = details_of(trace)
    replay = Replay([details])
    profile = profile_of(details, replay)
    if profile.estimate.step_ns is None:
        replay = replay.at(profile.steps.traced_ns)
    on_replay()
    return Analysis(details, replay, profile, find_in(details, profile, replay, machine))
