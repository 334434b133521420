"""What several changes save together: less than their savings add up to, or more, for one wait hides another."""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pinprof.analysis import Analysis
from pinprof.fix.rewrite import Mend
from pinprof.rules.rule import Saving
from pinprof.rules.savings import saving_of


def joint_saving(mends: Sequence[Mend], analysis: Analysis) -> Saving | None:
    """Return what all of these changes save of a step, by one replay; None where nobody can tell of one of them."""
    edits = [mend.edits for mend in mends if mend.edits is not None]
    if not edits or len(edits) < len(mends) or not analysis.replay.runs or not analysis.replay.before.step_ns:
        return None
    return saving_of(analysis.replay, reduce(or_, edits))
