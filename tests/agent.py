"""An agent: the SDK's own client, and the server of pinprof that it starts."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from recordings import ROOT
from warm_python import warm_python


@dataclass
class Agent:
    """An agent's client, and the folder of its server."""

    client: Any
    portal: Any
    folder: Path
    made: dict[str, Any] = field(default_factory=dict)
    """Answers of calls that were made: each costs a process."""

    def call(self, name: str, **arguments: Any) -> Any:
        call = json.dumps([name, arguments])
        if call not in self.made:
            self.made[call] = self.portal.call(self.client.call_tool, name, arguments)
        return self.made[call]

    def answer(self, name: str, **arguments: Any) -> Any:
        """Return what a tool answers."""
        result = self.call(name, **arguments)
        assert not result.is_error, result.content[0].text
        return result.structured_content

    def error(self, name: str, **arguments: Any) -> str:
        """Return the line of an error."""
        result = self.call(name, **arguments)
        assert result.is_error, result.content[0].text
        assert result.structured_content is None
        text: str = result.content[0].text
        assert text.isprintable()
        return text


def started(folder: Path, *options: str) -> Any:
    """Return how a client starts the server, with as little of this process's environment as clients give."""
    from mcp import StdioServerParameters  # noqa: PLC0415  slow to load, and each worker of pytest reads this file

    return StdioServerParameters(
        command=warm_python(),
        args=["-m", "pinprof", "mcp", "--folder", str(folder), *options],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        cwd=str(folder.parent),
    )


@contextmanager
def connected(folder: Path, *options: str) -> Iterator[Agent]:
    from mcp import Client  # noqa: PLC0415  as above

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(started(folder, *options))) as client,
    ):
        yield Agent(client, portal, folder)
