"""The bench of a machine for programs: what was measured, with what it says of each claim and to do."""

from typing import Any

import msgspec

from pinprof.bench.advice import advice
from pinprof.bench.refused import refused
from pinprof.bench.results import Bench, by_line
from pinprof.bench.verdicts import verdicts


def to_json(bench: Bench) -> str:
    """Return the bench as JSON text that `results.from_json` reads again."""
    link = bench.machine.link
    document: dict[str, Any] = msgspec.to_builtins(bench)
    document["link"] = link._asdict() if link else None
    document["refused"] = msgspec.to_builtins(refused(bench))
    document["verdicts"] = msgspec.to_builtins(verdicts(bench))
    document["advice"] = msgspec.to_builtins(advice(bench))
    return by_line(document) + "\n"
