"""Judges proposals of a fix: what keeps the numbers, uncovers no race and saves time is kept."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pinprof.ab import Judgement
from pinprof.errors import MeasureError
from pinprof.fix import Mend
from pinprof.trial.elimination import Share, fate_of, predicted_ns

Flaw: TypeAlias = Callable[[Sequence[Mend]], str]
"""Returns why a program with some proposals is no substitute for the original; nothing where it is one."""
With: TypeAlias = Callable[[Sequence[Mend], Mend], Judgement]
"""Measures the program with some proposals and one more against that without the last. Raises MeasureError."""


def harmless(proposals: Sequence[Mend], flaw: Flaw) -> tuple[list[Mend], list[Share]]:
    """Return the proposals with which a program computes the same without a new race, and those with which it does not.

    All are tried together. Where that fails each half is, beside those that are known to do no harm.
    """
    kept: list[Mend] = []
    dropped: list[Share] = []
    groups = [list(proposals)] if proposals else []
    while groups:
        group = groups.pop(0)
        why = flaw([*kept, *group])
        if not why:
            kept += group
        elif len(group) == 1:
            dropped.append(Share(group[0], "dropped_not_safe", why=why))
        else:
            middle = len(group) // 2
            groups = [group[:middle], group[middle:], *groups]
    return kept, dropped


def quicker(proposals: Sequence[Mend], measure: With) -> list[Share]:
    """Return what becomes of each proposal: only those are kept that are shown to save time beside those before them.

    Those that are predicted to save most are first.
    """
    shares: list[Share] = []
    for mend in sorted(proposals, key=predicted_ns, reverse=True):
        try:
            judgement = measure([share.mend for share in shares if share.is_kept], mend)
        except MeasureError as error:
            shares.append(Share(mend, "dropped_not_shown", why=str(error)))
            continue
        shares.append(Share(mend, fate_of(judgement), judgement))
    return shares
