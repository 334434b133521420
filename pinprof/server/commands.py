"""The command of pinprof for each call: names are looked up in the folder, and no value can be taken for an option."""

from collections.abc import Mapping
from typing import Any

from pinprof.server.folder import Folder

Arguments = Mapping[str, Any]
SWITCHES = ("pin", "non_blocking", "overlap_copies", "drop_allocs", "fused_optimizer", "changes_numbers")
VALUES = (
    "pinned_gbps",
    "host_speed",
    "gpu_speed",
    "step_ms",
    "cuda_graph",
    "limit_percent",
    "seconds",
    "minutes",
    "base",
)
EACH = {"drop_syncs": "--drop-syncs", "rules": "--rule", "only": "--only"}
"""Lists whose items are options of their own."""


def report(folder: Folder, given: Arguments) -> list[str]:
    """Return the command for a brief."""
    return ["report", "--json=-", "--brief", "--", *folder.traces(given["traces"])]


def evidence(folder: Folder, given: Arguments) -> list[str]:
    """Return the command for the document in which ids are looked up."""
    if given.get("of") == "compare":
        return ["compare", "--json=-", "--", *folder.traces(given["traces"])]
    return ["report", "--json=-", "--", *folder.traces(given["traces"])]


def compare(folder: Folder, given: Arguments) -> list[str]:
    """Return the command for a comparison."""
    return ["compare", "--json=-", "--brief", "--", folder.file(given["before"]), folder.file(given["after"])]


def whatif(folder: Folder, given: Arguments) -> list[str]:
    """Return the command for a prediction."""
    return ["whatif", "--json=-", *options(given), "--", *folder.traces(given["traces"])]


def fix(folder: Folder, given: Arguments) -> list[str]:
    """Return the command for diffs; it never writes."""
    scripts = [folder.file(script) for script in given.get("scripts", ())]
    return ["fix", "--json=-", *options(given), "--", folder.file(given["trace"]), *scripts]


def explain(_folder: Folder, given: Arguments) -> list[str]:
    """Return the command for a text."""
    return ["explain", "--", *([given["topic"]] if "topic" in given else [])]


def options(given: Arguments) -> list[str]:
    """Return the options for the arguments of a call."""
    made = [_option(name) for name in SWITCHES if given.get(name)]
    made += [f"{_option(name)}={given[name]}" for name in VALUES if name in given]
    return made + [f"{option}={value}" for name, option in EACH.items() for value in given.get(name, ())]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
