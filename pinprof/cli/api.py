"""`pinprof explain api`: the public names of the package, by their own signatures and docstrings."""

import inspect
from collections.abc import Iterator

import pinprof
from pinprof.report.explain import Guide

HEAD = """\
# The Python API

Every public name of the package: how it is called, and what it is.

A time or a rate has its unit at the end of its name (`step_ms`, `bandwidth_gbps`); sizes are bytes, shares lie between
0 and 1. `help(pinprof.load)` says more: arguments, errors, examples. CONTRIBUTING.md says which names are stable.
"""
REPORTS = ("Report", "JobReport", "ComparisonReport")
"""The classes whose tables and methods are listed; a class stands after the one that it inherits from."""


def api_guide() -> Guide:
    """Return the public names as a guide: functions, reports with their tables and methods, other classes."""
    others = {name: getattr(pinprof, name) for name in pinprof.__all__ if name not in REPORTS}
    lines = [HEAD, "## Functions\n", *(_entry(*item) for item in others.items() if not inspect.isclass(item[1]))]
    listed = set[int]()
    for name in REPORTS:
        report = getattr(pinprof, name)
        lines += [f"\n## {name}\n", f"{_first_paragraph(report)}\n", *_members(report, listed)]
    lines += ["\n## Other classes\n", *(_entry(*item) for item in others.items() if inspect.isclass(item[1]))]
    return Guide("api", "\n".join(lines) + "\n")


def _members(report: type, listed: set[int]) -> Iterator[str]:
    """Yield the tables, figures and methods of a report that no report before it has."""
    for owner in report.__mro__:
        for name, member in vars(owner).items() if owner.__module__.startswith("pinprof.") else ():
            if not name.startswith("_") and id(member) not in listed and inspect.getdoc(member):
                listed.add(id(member))
                yield _entry(name, member)


def _entry(name: str, value: object) -> str:
    """Return a name with what it takes, types left out, and the first paragraph of its docstring."""
    arguments = ""
    if inspect.isfunction(value):
        taken = [each for each in inspect.signature(value).parameters.values() if each.name != "self"]
        arguments = str(inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in taken]))
    return f"- `{name}{arguments}`: {_first_paragraph(value)}"


def _first_paragraph(value: object) -> str:
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
