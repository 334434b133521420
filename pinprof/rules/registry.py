"""All rules, and which of them is for a cause of waits, an exposed copy, or a wait of a trace."""

import copyreg
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from pinprof.analyses.syncs import CAUSES
from pinprof.details import Details
from pinprof.rules import catalogue
from pinprof.rules.catalogue import pin104_unpinned_batches, pin105_batches_without_pin_memory
from pinprof.rules.copies import has_unpinned_batches
from pinprof.rules.rule import Rule
from pinprof.trace.tables import DIRECTIONS, NONE

RULES: tuple[Rule, ...] = tuple(
    import_module(f"{catalogue.__name__}.{module.name}").RULE
    for module in sorted(iter_modules(catalogue.__path__), key=lambda module: module.name)
)
"""By number: 1xx copies, 2xx waits of the host, 3xx overlap and idle time, 4xx input, 5xx hazards, 6xx the host's
launches, 7xx the GPU's own time."""

GUARDING = next(rule for rule in RULES if rule.guards).id
"""The rule for waits that guard a copy."""

RULE_OF_CAUSE = {cause: rule.id for rule in RULES for cause in rule.causes}
"""The rule that is for the waits of each cause, unless they are for batches of a DataLoader; waits for room in the
launch queue and the profiler's own have none."""

RULE_OF_EXPOSURE = {exposure: rule.id for rule in RULES for exposure in rule.exposures}
"""The rule that explains why copies are exposed, by the reason and their direction, as far as there is one, and unless
they are batches of a DataLoader."""


def rule_of(number: str) -> Rule:
    """Return the rule of this number. Raises StopIteration where there is none."""
    return next(rule for rule in RULES if rule.id == number)


def _reduced(rule: Rule) -> tuple[Callable[[str], Rule], tuple[str]]:
    return rule_of, (rule.id,)


copyreg.pickle(Rule, _reduced)
"""A rule goes to another process by its number: what it looks at is a function, and the same there."""


def rule_of_exposure(details: Details, reason: str, direction: str) -> str | None:
    """Return the rule that explains why copies of a trace are exposed, the same that finds them."""
    if (reason, direction) == ("pageable", "HtoD") and has_unpinned_batches(details):
        of_batches = pin105_batches_without_pin_memory if details.loader.pins else pin104_unpinned_batches
        return of_batches.RULE.id
    return RULE_OF_EXPOSURE.get((reason, direction))


def rule_of_wait(details: Details, stall: int) -> str | None:
    """Return the rule that is for a stall, a row of `Syncs.stalls`, the same that finds its site; None without one."""
    if details.syncs.sites[details.syncs.site[stall]].is_kept:
        return GUARDING
    cause, copy = CAUSES[details.syncs.cause[stall]], details.syncs.stalls.copy[stall]
    if cause != "pageable_copy" or copy == NONE:
        return RULE_OF_CAUSE.get(cause)
    return rule_of_exposure(details, "pageable", DIRECTIONS[details.trace.gpu.direction[copy]])
