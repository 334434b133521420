"""The fixes, one per module."""

from functools import cache
from importlib import import_module
from inspect import getmembers, isclass
from pkgutil import iter_modules

from pinprof.fix.core.fix import Fix


@cache
def every_fix() -> tuple[Fix, ...]:
    """Return the fixes that the modules of this folder define."""
    modules = [import_module(f"{__name__}.{fix.name}") for fix in iter_modules(__path__)]
    return tuple(
        kind()
        for module in modules
        for _, kind in getmembers(module, isclass)
        if issubclass(kind, Fix) and kind.__module__ == module.__name__
    )


def fixes_of(rule: str) -> list[Fix]:
    """Return the fixes for the findings of a rule: first those that name it first."""
    return sorted((fix for fix in every_fix() if rule in fix.rules), key=lambda fix: fix.rules.index(rule))
