"""Two versions of a program, and a search among revisions, for the terminal."""

from collections.abc import Callable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from pinprof.ab import CANNOT_TELL, Contest, Recorded
from pinprof.ab.bisection import Bisection
from pinprof.ab.duel import compared_by
from pinprof.report.ab.words import advice, cause, clocks, how_measured, percent, sentence
from pinprof.report.layout import bullet, fact, laid_out, section
from pinprof.report.words import printable
from pinprof.units import NS_PER_MS, counted, duration


def to_text(
    contest: Contest, recorded: Recorded | None, remarks: Sequence[str], *, width: int = 100, color: bool = False
) -> str:
    """Return what came out as text for a terminal of this width."""
    return laid_out(_parts(contest, recorded, remarks), width=width, color=color)


def _parts(contest: Contest, recorded: Recorded | None, remarks: Sequence[str]) -> Iterator[RenderableType]:
    before, after = contest.programs
    yield Text(printable(f"{before.name} → {after.name}"), "bold")
    yield Text(f"{sentence(contest.duel.judgement)}.")
    yield section("Step")
    which = "mean" if compared_by(contest.duel.pairs) == "mean" else "usual"
    for number, program in enumerate(contest.programs):
        usual = sorted(pair.usual_ns[number] for pair in contest.duel.pairs)
        runs = counted(len(usual), "process", "processes")
        around = f"{usual[0] / NS_PER_MS:.4g} to {usual[-1] / NS_PER_MS:.4g} ms in {runs}"
        yield fact(duration(usual[len(usual) // 2]), printable(f"{program.name}: the {which} step; {around}"))
    yield bullet(how_measured(contest))
    mean = contest.duel.mean
    if mean.verdict not in {contest.duel.judgement.verdict, CANNOT_TELL}:
        yield bullet(f"in the mean of all steps, with work that comes only in some: {percent(mean.ratio)}")
    for remark in filter(None, (*remarks, advice(contest))):
        yield bullet(printable(remark))
    if contest.duel.interrupted:
        yield bullet("interrupted; this is what was known by then")
    if recorded is not None:
        yield from _changes(recorded)


def _changes(recorded: Recorded) -> Iterator[RenderableType]:
    yield section("What changed, in a recorded run of each")
    if recorded.changes is None:
        yield bullet(f"unknown: {printable(recorded.why)}")
        return
    causes = recorded.changes.causes
    if not causes:
        yield bullet("nothing that one run of each tells from noise: the same ops, kernels, copies and waits")
    for number, change in enumerate(causes):
        likely = "likely cause: " if number == 0 and change.is_certain else ""
        yield bullet(printable(f"{likely}{cause(change)}"))
    yield from map(bullet, clocks(recorded.clocks))


def bisection_to_text(
    found: Bisection, describe: Callable[[str], str], *, width: int = 100, color: bool = False
) -> str:
    """Return what a search has found; `describe` returns a revision and its subject."""
    return laid_out(_found(found, describe), width=width, color=color)


def _found(found: Bisection, describe: Callable[[str], str]) -> Iterator[RenderableType]:
    if found.found is not None:
        yield Text(printable(f"{describe(found.found)}"), "bold")
        if found.ratio is not None:
            yield Text(f"{sentence(found.ratio)} than the good revision: the first slower one.")
    else:
        yield Text(f"Cannot tell which revision: {found.why}.", "bold")
        yield section("The slower one is among")
        yield from (bullet(printable(describe(commit))) for commit in found.suspects)
    yield section("Compared with the good revision")
    for each in found.tried:
        said = sentence(each.judgement) if each.judgement else f"left out: {each.why}"
        yield bullet(printable(f"{describe(each.commit)}: {said}"))
