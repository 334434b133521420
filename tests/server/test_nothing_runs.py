"""A server that may run nothing runs nothing: every tool, in a folder that names programs wherever it can."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent import Agent
from anyio.from_thread import start_blocking_portal
from recordings import ROOT
from users_git import git

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("report", {"traces": ["images.json.gz"]}),
    ("report", {"traces": ["run"]}),
    ("evidence", {"traces": ["item.json.gz"], "ids": ["/traces/0/findings/0"]}),
    ("compare", {"before": "pageable.json.gz", "after": "prefetch.json.gz"}),
    ("whatif", {"traces": ["pageable.json.gz"], "pin": True}),
    ("fix", {"trace": "images.json.gz"}),
    ("fix", {"trace": "images.json.gz", "scripts": ["slow.py"], "changes_numbers": True}),
    ("explain", {"topic": "PIN201"}),
]
SHADOWS = [
    "torch",
    "click",
    "rich",
    "numpy",
    "msgspec",
    "libcst",
    "json",
    "typing",
    "sitecustomize",
    "usercustomize",
    "conftest",
    "plotly",
    "hta",
    "mlflow",
    "wandb",
    "jsonschema",
    "mcp",
    "anyio",
    "tomllib",
    "tomli",
    "isal",
    "zstandard",
    "orjson",
    "attrs",
    "yaml",
]
CONFIG = """
[core]
    fsmonitor = touch {canary}.fsmonitor
    hooksPath = hooks
    sshCommand = touch {canary}.ssh
[alias]
    status = !touch {canary}.alias
[filter "one"]
    clean = touch {canary}.clean; cat
[diff]
    external = touch {canary}.external
"""


@pytest.fixture
def canary(folder: Path, tmp_path: Path) -> Iterator[Path]:
    """Fill the folder of traces with programs; each makes a file next to the one that is given."""
    made = tmp_path / "started"
    before = set(folder.iterdir())
    for words in (["init", "-q"], ["add", "slow.py"], ["commit", "-q", "-m", "All"]):
        git(folder, *words)
    (folder / ".gitattributes").write_text("*.py filter=one\n")
    with (folder / ".git" / "config").open("a") as config:
        config.write(CONFIG.format(canary=made))
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(f"open({f'{made}.{name}'!r}, 'w')\n")
    for name in ("pinprof", "src"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"open({f'{made}.{name}'!r}, 'w')\n")
    for name in ("sitecustomize", "hta", "plotly"):
        (folder / "src" / f"{name}.py").write_text(f"open({f'{made}.src.{name}'!r}, 'w')\n")
    (folder / "git").write_text(f"#!/bin/sh\ntouch {made}.git\n")
    (folder / "git").chmod(0o755)
    yield made
    for path in set(folder.iterdir()) - before:
        subprocess.run(["rm", "-rf", str(path)], check=True)


@contextmanager
def connected(folder: Path, command: list[str], path: str) -> Iterator[Agent]:
    """Connect to a server that works in the folder itself, as clients start it."""
    from mcp import Client, StdioServerParameters  # noqa: PLC0415  slow to load

    environment = {"PYTHONPATH": path, "PATH": f".{os.pathsep}{os.environ['PATH']}"}
    how = StdioServerParameters(
        command=command[0], args=[*command[1:], "mcp", "--folder", "."], env=environment, cwd=str(folder)
    )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(how)) as client:
        yield Agent(client, portal, folder)


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    """Return the command of an installed `pinprof`."""
    path = tmp_path / "pinprof-script"
    path.write_text("from pinprof.cli import main\nmain()\n")
    return [sys.executable, str(path)]


def started(canary: Path) -> set[str]:
    return {path.name for path in canary.parent.glob(f"{canary.name}.*")}


@pytest.mark.slow
def test_no_tool_runs_anything_of_the_folder(folder: Path, canary: Path, script: list[str]) -> None:
    with connected(folder, script, str(ROOT)) as agent:
        for name, arguments in CALLS:
            agent.answer(name, **arguments)
            assert started(canary) == set(), name
        patches = agent.answer("fix", trace="images.json.gz")["document"]["patches"]
        assert patches, "it has something to write, and does not ask git whether it may"
        for tool in ("ab", "try"):
            assert "--allow-running" in agent.error(tool, command=["python", "slow.py"], minutes=1)
    assert started(canary) == set()


@pytest.mark.slow
def test_a_path_into_the_folder_is_not_the_path_of_a_tool(folder: Path, canary: Path, script: list[str]) -> None:
    with connected(folder, script, f"{ROOT}{os.pathsep}src{os.pathsep}{folder}/src") as agent:
        for left in started(canary):
            (canary.parent / left).unlink()  # Python itself looked for it, before it came to the server
        for name, arguments in (CALLS[0], CALLS[5]):
            agent.answer(name, **arguments)
    assert started(canary) == set()


@pytest.mark.slow
def test_a_module_of_the_folder_is_none_of_the_commands(folder: Path, canary: Path) -> None:
    for name in ("pinprof", "typing"):  # these Python itself imports before anyone can tell it not to
        subprocess.run(["rm", "-rf", str(folder / name), str(folder / f"{name}.py")], check=True)
    with connected(folder, [sys.executable, "-m", "pinprof"], str(ROOT)) as agent:
        agent.answer("report", traces=["item.json.gz"])
    assert started(canary) == set()
