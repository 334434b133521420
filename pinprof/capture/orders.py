"""What a process that the script starts is told about its recording."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pinprof.capture.job import Rank

HOME = str(Path(__file__).parents[2])
"""The folder from which this process imports pinprof, and from which its children can."""


@dataclass(frozen=True)
class Orders:
    """How to record a child; `path` is the trace of the script itself, which gives the children's their names.

    `options` are those of `profile()`. `notes` is the folder for what the children say of themselves. `inherited` is
    the rank that the environment of the starting process gives: a child with the same is a helper of that rank.
    """

    path: str
    step_marker: str
    keep_going: bool
    options: Mapping[str, Any]
    notes: str
    inherited: Rank | None = None

    def to_json(self) -> str:
        """Return the orders as text for a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Orders":
        """Return the orders in a text of `to_json`."""
        fields = json.loads(text)
        inherited = fields.pop("inherited")
        return cls(**fields, inherited=Rank(*inherited) if inherited else None)


@contextmanager
def importable() -> Iterator[None]:
    """Let the processes that the block starts import pinprof: they get this process's `sys.path`."""
    if HOME in sys.path:
        yield
        return
    sys.path.append(HOME)
    try:
        yield
    finally:
        with suppress(ValueError):  # the script has removed it
            sys.path.remove(HOME)
