"""The rules, a module each: a new module is a new rule, found by its name."""

import copyreg
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from pinprof.rules.rule import Rule

RULES: tuple[Rule, ...] = tuple(
    import_module(f"{__name__}.{module.name}").RULE
    for module in sorted(iter_modules(__path__), key=lambda found: found.name)
)
"""All of them by number: 1xx copies, 2xx waits of the host, 3xx overlap and idle time, 4xx input, 5xx hazards, 6xx the
host's launches, 7xx the GPU's own time."""


def rule_of(number: str) -> Rule:
    """Return the rule of this number. Raises StopIteration where there is none."""
    return next(rule for rule in RULES if rule.id == number)


def _reduced(rule: Rule) -> tuple[Callable[[str], Rule], tuple[str]]:
    return rule_of, (rule.id,)


copyreg.pickle(Rule, _reduced)
"""A rule goes to another process by its number: what it looks at is a function, and the same there."""
