"""Changes of what is made once: optimizers, and the precision of products."""

from collections.abc import Iterator
from functools import partial

from pinprof.fix.optimizers import fewer_launches, zero_grads
from pinprof.fix.outcomes import NOT_RECORDED, Outcome, at_each, mend_of, tried
from pinprof.fix.precision import with_tf32
from pinprof.fix.rewrite import Refusal, Refused, Rewrite
from pinprof.fix.work import Work
from pinprof.rules.rule import Finding

NO_FILE = "the trace does not show in which file of the program to allow it; record the program with pinprof run"
SAFE_GRADIENTS = (
    "Each parameter gets a gradient in each step: the optimizer then skips one without a gradient, instead of "
    "updating it with 0."
)


def optimizers(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend optimizers that launch much; and gradients that are set to zero, where that is allowed."""
    made = work.told.made
    if made is None or not made.optimizers:
        yield Refused(finding.rule, finding.evidence.place, NOT_RECORDED)
        return
    rewrites, refused = at_each(finding, made.optimizers, lambda each: fewer_launches(work.files, each, work.told))
    yield from refused
    if rewrites:
        what = ", ".join(dict.fromkeys(each.what for each in rewrites))
        yield mend_of(
            finding, what, rewrites, finding.sites, "rounding", finding.rule.safe_if, waits=(), part=bool(refused)
        )
    files = dict.fromkeys(each.file for each in made.optimizers)
    zeroed = [each for file in files for each in tried(partial(_zeroed, file, work), [])]
    if zeroed:
        what = "gradients are set to None, not to zero"
        yield mend_of(finding, what, zeroed, (), "different", SAFE_GRADIENTS, waits=(), part=True)


def precision(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend products of float32: TF32, in the file that makes an optimizer or else a DataLoader."""
    made = work.told.made
    places = [each.place for each in made.optimizers if each.direct] if made else []
    places += [each.place for each in made.loaders if each.direct] if made else []
    if not places:
        yield Refused(finding.rule, finding.evidence.place, NO_FILE)
        return
    try:
        rewrites = with_tf32(work.files.at(places[0]))
    except Refusal as reason:
        yield Refused(finding.rule, places[0], str(reason))
        return
    yield mend_of(finding, "TF32", rewrites, finding.sites, "different", finding.rule.safe_if, waits=(), part=True)


def _zeroed(file: str, work: Work) -> list[Rewrite]:
    return zero_grads(work.files.taken(file))
