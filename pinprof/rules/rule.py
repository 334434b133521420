"""What a rule is, what it sees in a trace, and what follows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from pinprof.details import Details
from pinprof.ground.units import duration, one_line
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import FigureKind
from pinprof.prediction.edits import NO_EDITS, Edits
from pinprof.prediction.graphs import Blocker
from pinprof.prediction.predict import Saving
from pinprof.trace.lines import Placed
from pinprof.verdict.step_limits import LimitName
from pinprof.verdict.verdict import NO_VERDICT, Verdict

__all__ = ["NO_EDITS", "Details", "Edits", "Profile"]  # what rules are written with, besides what stands here


@dataclass(frozen=True)
class Further:
    """A change that helps only once a finding is fixed."""

    rule: str  # the number of the rule that says how
    what: str  # what it is, to follow "with"
    edits: Edits


@dataclass(frozen=True)
class Evidence(Placed):
    """What a rule saw: its cost per step in ns, a sentence with the numbers, and the place if there is one."""

    cost_ns: float
    """GPU idle time or exposed copy time per step that goes with it. The saving is smaller if a wait only moves, or if
    something else bounds the step."""
    text: str
    file: str | None = None
    line: int | None = None
    function: str | None = None
    at_any_cost: bool = False  # worth a line even if it costs this step nothing
    is_irregular: bool = False
    """Whether the cost is that of irregular steps: it comes on top of the regular step, and is saved whole."""
    seen: int = 0  # how often the whole run saw what makes these steps irregular, if that shows a rate
    edits: Edits = NO_EDITS  # what its fix changes in the recorded program; nothing if a replay cannot tell
    at_most: Edits = NO_EDITS
    """If a replay cannot tell the saving: more than the fix changes, which bounds what the fix saves."""
    at_best: Edits = NO_EDITS  # what its fix changes if a part of it costs nothing: the range reaches to that saving
    then: "Further | None" = None  # what the fix makes possible
    figures: str = ""  # the numbers alone, which follow the place in a list of sites
    sites: "tuple[Evidence, ...]" = ()
    """The evidence at each site, the costliest first, if one fix is for several sites. The other fields are then of all
    sites together; the place is that of the costliest site with a line."""
    title: str = ""  # a title that is more exact than that of its rule
    fix: str = ""  # what to do, in words, if the trace allows more exact advice than the rule
    keep: str = ""  # what must replace a wait that the fix removes, as a clause; empty if nothing must

    def summary(self) -> "Evidence":
        """Return the same without the rows of the trace that the fix is about."""
        then = replace(self.then, edits=NO_EDITS) if self.then else None
        sites = tuple(site.summary() for site in self.sites)
        return replace(self, edits=NO_EDITS, at_most=NO_EDITS, at_best=NO_EDITS, then=then, sites=sites)


NEGLIGIBLE_SHARE_OF_STEP = 0.001

Member = TypeVar("Member")


def as_one(
    profile: Profile,
    members: Iterable[Member],
    evidence_of: Callable[[Sequence[Member]], Evidence],
    groups: Callable[[Member], frozenset[int]] = lambda _: frozenset(),
) -> Iterator[Evidence]:
    """Yield the evidence of all sites that are worth a line, with that of each site; nothing if none is worth it.

    `groups` numbers the groups of sites that wait for the same work: what costs nothing now belongs to the fix if the
    wait would only move there.
    """
    weighed = sorted(((evidence_of([member]), member) for member in members), key=lambda pair: -pair[0].cost_ns)
    kept = _worth_a_line(weighed, NEGLIGIBLE_SHARE_OF_STEP * (profile.step_ns or 0.0), groups)
    if len(kept) == 1:
        yield kept[0][0]
    elif kept:
        sites = tuple(site for site, _ in kept)
        shown = next((site for site in sites if site.line is not None), sites[0])
        together = evidence_of([member for _, member in kept])
        yield replace(together, file=shown.file, line=shown.line, function=shown.function, sites=sites)


def _worth_a_line(
    weighed: Sequence[tuple[Evidence, Member]], least_ns: float, groups: Callable[[Member], frozenset[int]]
) -> list[tuple[Evidence, Member]]:
    """Return the sites of a finding: those that cost enough, or if none does those that do so together."""
    costly = {number for number, (site, _) in enumerate(weighed) if site.at_any_cost or site.cost_ns >= least_ns}
    if not costly and sum(site.cost_ns for site, _ in weighed) >= least_ns:
        costly = {number for number, (site, _) in enumerate(weighed) if site.cost_ns}
    shared = frozenset[int]().union(*(groups(weighed[number][1]) for number in costly))
    return [pair for number, pair in enumerate(weighed) if number in costly or groups(pair[1]) & shared]


AllEvidence: TypeAlias = Iterator[Evidence]
Search: TypeAlias = Callable[[Details, Profile], AllEvidence]

NumberEffect: TypeAlias = Literal["equal", "rounding", "different"]
"""What a change does to the numbers of a program: nothing, they round otherwise, or they are others."""


Severity: TypeAlias = Literal["high", "medium", "low", "suspect"]


class Family(NamedTuple):
    """The subject of rules whose numbers begin with the same digit."""

    name: str
    title: str
    rests_on: tuple[FigureKind, ...]  # the figures that its rules rest on, except for rules that name others


FAMILIES = {
    "1": Family("copies", "Copies", ("per_step", "copies", "overlap", "drain")),
    "2": Family("waits", "Waits of the host", ("per_step", "stalls", "drain")),
    "3": Family("overlap", "Overlap and idle time", ("per_step", "busy", "overlap", "causes", "drain")),
    "4": Family("input", "Input", ("step", "per_step", "busy")),
    "5": Family("hazards", "Hazards", ("per_step", "copies", "stalls")),
    "6": Family("launches", "Launches of the host", ("step", "per_step", "busy", "causes")),
    "7": Family("gpu", "The GPU's own time", ("step", "per_step", "busy")),
}
"""By the first digit of the numbers of their rules."""


class Change(NamedTuple):
    """What a fix changes in the line of the user's code that a finding names."""

    at: str  # regular expression of what to change; if it ends with a `(`, up to the end of the call
    to: str  # what to do there, in a few words


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One kind of problem, with all its facts; texts are plain sentences."""

    id: str
    title: str
    numbers: NumberEffect | None
    """What its change, made as `safe_if` says, does to the numbers: "equal" is what tests/rules/test_fix_code.py holds.
    None where that is open: they may be wrong before, or it depends on the op."""
    why: str
    fix: str  # what to do, in words
    before: str  # an example of the code that it finds; if there are several, each further one begins with `# or …`
    code: str  # what to write instead. It runs as it stands and has the same result: tests/rules/test_fix_code.py
    safe_if: str  # on what condition the fix is right
    near_miss: str  # an example of similar code that is fine
    short: str = ""  # its change in 22 characters, for a table; empty if it saves no time
    search: Search | None = None  # None for what no trace shows, only a running program under `pinprof.guard()`
    figures: tuple[FigureKind, ...] | None = None  # the figures that it rests on, if they are not those of its family
    answers: tuple[LimitName, ...] = ()  # the limits of the step that it answers, by name
    what_if: str = ""  # options of `pinprof whatif` that make its change in the recorded program
    change: Change | None = None  # what it changes in the line of the finding; None if another line is to change
    of_whole_step: bool = False
    """Whether it launches the whole step in another way: what a line need not launch comes before it."""
    causes: tuple[str, ...] = ()  # causes of waits that the rule is for
    guards: bool = False  # whether it is for waits that guard a copy in flight, whatever their cause
    exposures: tuple[tuple[str, str], ...] = ()
    """The reasons why copies are exposed, each with a direction, that the rule explains."""
    weighs_pinning: bool = False
    """Whether its fix pays depends on what pinned memory costs, which the bench of a machine measures."""

    @property
    def family(self) -> str:
        """The name of its family."""
        return self._family.name

    @property
    def _family(self) -> Family:
        return FAMILIES[self.id.removeprefix("PIN")[0]]

    @property
    def rests_on(self) -> tuple[FigureKind, ...]:
        """The rule is silent if one of these figures is withheld; none if no trace shows what it is about."""
        if self.search is None:
            return ()
        return self._family.rests_on if self.figures is None else self.figures

    @property
    def is_hazard(self) -> bool:
        """Whether it is about wrong numbers, not about time: what a trace shows of that is only suspect."""
        return self.family == "hazards"


@dataclass(frozen=True)
class Joint(Saving):
    """What the fixes of findings bring together."""

    without: tuple[str, ...] = ()
    """Rules whose fixes are left out, since with them the step would be longer than without."""


class FoundSite(NamedTuple):
    """One of the places where a rule holds."""

    evidence: Evidence
    saving: Saving | None  # if only this one were fixed; None without a replay of it


@dataclass(frozen=True, repr=False)
class Finding:
    """A rule that holds in a trace, at one or more sites with one fix."""

    rule: Rule
    severity: Severity
    """`high`, `medium` or `low`, by the share of the step that the fix of all its sites saves, or by that of the cost
    where no replay is made; `suspect` for a hazard, which may be none."""
    evidence: Evidence  # of all its sites together
    saving: Saving | None = None  # if only this were fixed, at all its sites; None if a replay cannot tell
    most_ns: float | None = None
    """What it saves at most, if a replay cannot tell its saving; None if it cannot tell that either."""
    with_then: Saving | None = None  # if `evidence.then` were done as well; None if that saves no more
    alone: tuple[Saving | None, ...] = ()
    """If only one of `evidence.sites` were fixed, in their order; empty without a replay of any."""

    def share_of(self, step_ns: float) -> float:
        """Return its saving as a share of the step; that of irregular steps as a share of both together."""
        saving_ns = self.saving.saving_ns if self.saving else 0.0
        return saving_ns / (step_ns + (saving_ns if self.evidence.seen else 0.0))

    def __repr__(self) -> str:
        return one_line(self.rule.id, (self.title, str(self.evidence.place), _saves(self.saving)))

    @property
    def title(self) -> str:
        """What is found, in the user's own words; text in backticks is code."""
        return self.evidence.title or self.rule.title

    @property
    def fix(self) -> str:
        """What to do, in words."""
        fix = self.evidence.fix or self.rule.fix
        return f"{fix} But {self.evidence.keep}." if self.evidence.keep else fix

    @property
    def sites(self) -> tuple[FoundSite, ...]:
        """Where it holds, the costliest first: at least one."""
        places = self.evidence.sites
        if not places:
            return (FoundSite(self.evidence, self.saving),)
        return tuple(map(FoundSite, places, self.alone or (None,) * len(places)))

    @property
    def by_site(self) -> "tuple[Finding, ...]":
        """The same as one finding for each site, to be matched by place with those of another trace."""
        return tuple(replace(self, evidence=site.evidence, saving=site.saving, alone=()) for site in self.sites)


MAX_FINDINGS_IN_REPR = 3


def _saves(saving: Saving | None) -> str:
    return f"saves {duration(saving.saving_ns)}" if saving else ""


class Findings(tuple[Finding, ...]):  # noqa: SLOT001  it holds more than that
    """Findings, the largest saving first, but a graph of the step after what launches much less."""

    joint: Joint | None  # what their fixes bring together, never less than one of them; None if a replay cannot tell
    machine: str | None  # the GPU on which the rates of pinned copies were measured; None if they are assumed
    verdict: Verdict  # why the step is as long as it is
    blockers: tuple[Blocker, ...] | None  # what prevents a single CUDA graph of the step; None if that is unknown

    def __new__(  # noqa: PYI034  Self is from Python 3.11 on
        cls,
        findings: Iterable[Finding] = (),
        joint: Joint | None = None,
        machine: str | None = None,
        verdict: Verdict = NO_VERDICT,
        blockers: tuple[Blocker, ...] | None = None,
    ) -> "Findings":
        """Return findings, and what is to be said of all of them."""
        self = super().__new__(cls, findings)
        self.joint, self.machine, self.verdict, self.blockers = joint, machine, verdict, blockers
        return self

    def __repr__(self) -> str:
        names = (f"{finding.rule.id} {_saves(finding.saving)}".strip() for finding in self[:MAX_FINDINGS_IN_REPR])
        rest = f"and {len(self) - MAX_FINDINGS_IN_REPR} more" if len(self) > MAX_FINDINGS_IN_REPR else ""
        joint = f"together {duration(self.joint.saving_ns)}" if self.joint else ""
        return one_line(f"findings, {len(self)}", (*names, rest, joint)) if self else "<pinprof findings, none>"

    def summary(self) -> "Findings":
        """Return the same without the rows of the trace that the fixes are about."""
        short = (replace(finding, evidence=finding.evidence.summary()) for finding in self)
        return Findings(short, self.joint, self.machine, self.verdict, self.blockers)
