"""An agent with the official SDK's client: it lists the tools, calls each on recordings, and gets bounded answers."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent import Agent, connected, started
from command_line import invoke
from fitting import fitting
from jsonschema import Draft202012Validator

from pinprof.document import pointed_at
from pinprof.server.answers import MOST_CHARACTERS
from pinprof.server.tools import TOOLS

ITEM, IMAGES = "item.json.gz", "images.json.gz"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("report", {"traces": [ITEM]}),
    ("report", {"traces": ["run"]}),
    ("evidence", {"traces": [ITEM], "ids": ["/traces/0/findings/0", "/traces/0/verdicts"]}),
    ("compare", {"before": "pageable.json.gz", "after": "prefetch.json.gz"}),
    ("whatif", {"traces": ["pageable.json.gz"], "pin": True, "non_blocking": True}),
    ("fix", {"trace": IMAGES}),
    ("explain", {"topic": "PIN201"}),
]


def said(words: list[Any], folder: Path) -> Any:
    """Return what a command writes in a folder."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        return json.loads(invoke(*words).stdout)
    finally:
        os.chdir(here)


def test_the_tools_are_listed_with_what_they_take_answer_and_do(agent: Agent) -> None:
    tools = {tool.name: tool for tool in agent.portal.call(agent.client.list_tools).tools}
    assert list(tools) == [tool.name for tool in TOOLS]
    for tool in tools.values():
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        assert "characters" in tool.description
        assert tool.annotations.read_only_hint == (tool.name not in {"ab", "try"})
        assert len(tool.description) <= 500
    assert "never" in agent.client.instructions.lower()


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[f"{name}{len(given)}" for name, given in CALLS])
def test_each_tool_answers_in_bounds_and_by_its_schema(agent: Agent, name: str, arguments: dict[str, Any]) -> None:
    result = agent.call(name, **arguments)
    assert not result.is_error, result.content[0].text
    tool = next(tool for tool in TOOLS if tool.name == name)
    text = result.content[0].text
    assert json.loads(text) == result.structured_content
    assert len(text) <= MOST_CHARACTERS
    Draft202012Validator(tool.answers_schema).validate(result.structured_content)
    if "document" in result.structured_content:
        fitting(json.dumps(result.structured_content["document"]))


@pytest.mark.slow
def test_answers_are_those_of_the_commands(agent: Agent) -> None:
    brief = agent.answer("report", traces=[ITEM])["document"]
    assert brief == said(["report", ITEM, "--json", "-", "--brief"], agent.folder)
    assert brief["traces"][0]["path"] == ITEM
    made = agent.answer("fix", trace=IMAGES)["document"]
    assert made["patches"] == said(["fix", IMAGES, "--json", "-"], agent.folder)["patches"]
    assert made["written"] == []


def test_ids_of_a_report_lead_to_the_evidence_and_skip_to_the_rest(agent: Agent) -> None:
    brief = agent.answer("report", traces=[ITEM])["document"]["traces"][0]
    whole = said(["report", ITEM, "--json", "-"], agent.folder)
    ids = [brief["findings"][0]["id"], *brief["findings"][0]["evidence"], *brief["verdict"]["evidence"]]
    rows = agent.answer("evidence", traces=[ITEM], ids=ids)["rows"]
    assert [row["id"] for row in rows] == ids
    assert rows[0]["value"]["fix_code"]["after"]
    assert rows[1]["value"] == pointed_at(whole, ids[1])
    kernels: list[Any] = []
    while len(kernels) < len(whole["traces"][0]["kernels"]):
        page = agent.answer("evidence", traces=[ITEM], ids=["/traces/0/kernels"], skip=len(kernels))
        assert page["rows"][0]["value"], "each page brings something"
        assert bool(page["left_out"]) == (
            len(kernels) + len(page["rows"][0]["value"]) < len(whole["traces"][0]["kernels"])
        )
        kernels += page["rows"][0]["value"]
    assert kernels == whole["traces"][0]["kernels"]
    compared = agent.answer("evidence", of="compare", traces=["pageable.json.gz", ITEM], ids=["/verdict", "/waits/0"])
    assert compared["rows"][1]["value"]["before"]


def test_the_diffs_of_fix_apply(agent: Agent, tmp_path: Path) -> None:
    made = agent.answer("fix", trace=IMAGES)["document"]
    (tmp_path / "slow.py").write_bytes((agent.folder / "slow.py").read_bytes())
    for number, patch in enumerate(made["patches"]):
        (tmp_path / f"{number}.diff").write_text(patch["diff"])
        done = subprocess.run(["git", "apply", f"{number}.diff"], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "slow.py").read_bytes() != (agent.folder / "slow.py").read_bytes()


def test_long_texts_come_in_parts(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    first = agent.answer("explain", topic="json")
    assert first["more_lines"] > 0
    lines, more = first["text"].split("\n"), first["more_lines"]
    while more:
        part = agent.answer("explain", topic="json", first_line=len(lines))
        lines, more = lines + part["text"].split("\n"), part["more_lines"]
    assert lines == invoke("explain", "json").stdout.splitlines()


def test_wrong_arguments_are_one_line(agent: Agent) -> None:
    assert "traces" in agent.error("report")
    assert "non-empty" in agent.error("report", traces=[])
    assert "'html'" in agent.error("report", traces=[ITEM], html="x.html")
    assert "string" in agent.error("report", traces=[1])
    assert "there is no such tool" in agent.error("run", command=["x"])
    assert "no such id" in agent.error("evidence", traces=[ITEM], ids=["/traces/7"])
    assert "slow.py" in agent.error("report", traces=["slow.py"])
    assert "maximum" in agent.error("ab", command=["slow.py"], minutes=1000)


def test_values_cannot_be_taken_for_options(agent: Agent, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert "no such file" in agent.error("report", traces=[f"--html={page}"])
    assert "place" in agent.error("fix", trace=IMAGES, only=["--write"])
    assert "unknown rule" in agent.error("explain", topic=f"--output={page}")
    assert not page.exists()
    assert b"non_blocking" not in (agent.folder / "slow.py").read_bytes()


def test_two_calls_at_once_are_both_answered(agent: Agent) -> None:
    async def both() -> list[Any]:
        answers: dict[str, Any] = {}

        async def ask(name: str, arguments: dict[str, Any]) -> None:
            answers[name] = await agent.client.call_tool(name, arguments)

        async with anyio.create_task_group() as tasks:
            for name, arguments in (CALLS[0], CALLS[6]):
                tasks.start_soon(ask, name, arguments)
        return [answers[name] for name in ("report", "explain")]

    report, explained = agent.portal.call(both)
    assert report.structured_content["document"]["schema"] == "pinprof.report-brief/1"
    assert explained.structured_content["text"].startswith("PIN201")


def test_what_takes_longer_tells_its_progress(agent: Agent) -> None:
    progress_made: list[tuple[float, str | None]] = []

    async def note(progress: float, _total: float | None, message: str | None) -> None:
        progress_made.append((progress, message))

    async def ask() -> Any:
        return await agent.client.call_tool("report", {"traces": [ITEM]}, progress_callback=note)

    assert not agent.portal.call(ask).is_error
    assert progress_made[0] == (0.0, "pinprof report")
    assert [part[0] for part in progress_made] == sorted({part[0] for part in progress_made})


def test_programs_are_run_only_where_that_is_allowed(agent: Agent) -> None:
    for tool in ("ab", "try"):
        assert "--allow-running" in agent.error(tool, command=["python", "slow.py"], minutes=1)


WAITING = "import pathlib, sys, time\npathlib.Path(sys.argv[1]).write_text(str(pathlib.Path.cwd()))\ntime.sleep(600)\n"


@pytest.mark.slow
def test_a_cancelled_measurement_ends_with_all_that_it_started(tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text(WAITING)

    async def cancelled(agent: Agent, tool: str, **arguments: Any) -> Path:
        begun = tmp_path / f"{tool}.begun"
        arguments = {"command": ["python", "wait.py", str(begun)], "minutes": 5, **arguments}
        with anyio.move_on_after(60) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.client.call_tool, tool, arguments)
                while not (begun.exists() and begun.read_text()):  # noqa: ASYNC110  another process makes it
                    await anyio.sleep(0.05)
                tasks.cancel_scope.cancel()
        assert not scope.cancelled_caught, "the program never began"
        return Path(begun.read_text())

    def all_ended(folder: Path) -> bool:
        until = time.monotonic() + 30
        while (left := _working_in(folder)) and time.monotonic() < until:
            time.sleep(0.1)
        return not left

    with connected(tmp_path, "--allow-running") as agent:
        assert "not a program of the folder" in agent.error("ab", command=["sh", "-c", "true"], minutes=1)
        assert "outside" in agent.error("ab", command=["python", "/usr/lib/x.py"], minutes=1)
        assert "outside" in agent.error("try", command=["wait.py"], trace="../x.json", minutes=1)
        both = partial(cancelled, agent, "ab", against=["wait.py", str(tmp_path / "ab.begun")], causes=False)
        assert all_ended(agent.portal.call(both))
        copy = agent.portal.call(cancelled, agent, "try")
        assert all_ended(tmp_path), "nor does pinprof itself go on"
        assert copy != tmp_path
        assert not copy.exists()
        assert agent.answer("explain", topic="PIN201")["text"]


@pytest.mark.slow
def test_a_trial_of_nothing_answers_at_once_and_writes_nothing(folder: Path) -> None:
    before = (folder / "slow.py").read_bytes()
    with connected(folder, "--allow-running") as agent:
        arguments = {"command": ["python", "slow.py"], "trace": IMAGES, "rules": ["PIN303"], "minutes": 1}
        document = fitting(json.dumps(agent.answer("try", **arguments)["document"]))
        assert "unknown rule" in agent.error("try", command=["slow.py"], trace=IMAGES, rules=["PIN999"], minutes=1)
    assert (document["verdict"], document["written"]) == ("nothing_to_change", [])
    assert (folder / "slow.py").read_bytes() == before


def _working_in(folder: Path) -> list[str]:
    """Return the processes that run a program in a folder."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is not ours
            if (process / "cwd").readlink() == folder:
                commands.append((process / "cmdline").read_text())
    return commands


@pytest.mark.slow
def test_standard_output_has_nothing_but_the_protocol_and_the_server_ends_with_its_input(folder: Path) -> None:
    """A client of the older handshake, byte by byte; a line that is not a message must not end the server."""
    how = started(folder)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}
    call = {"name": "report", "arguments": {"traces": [str(folder / ITEM)]}}
    messages: list[Any] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        "no message",
        {"id": 2, "method": "tools/call", "params": call},
    ]
    lines = (message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message}) for message in messages)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([how.command, *how.args], cwd=how.cwd, env=how.env, **pipes) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("\n".join(lines) + "\n")
        process.stdin.flush()
        answers = {}
        while 2 not in answers:
            answer = json.loads(process.stdout.readline())
            answers[answer.get("id")] = answer
        process.stdin.close()
        assert process.wait(30) == 0
        assert process.stdout.read() == ""
    assert answers[1]["result"]["serverInfo"]["name"] == "pinprof"
    assert answers[2]["result"]["structuredContent"]["document"]["traces"][0]["findings"][0]["rule"] == "PIN201"


def test_without_the_package_the_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command takes the folder out of it
    for name in [module for module in sys.modules if module.startswith("pinprof.server")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("mcp", "mcp.server"):
        monkeypatch.setitem(sys.modules, name, None)
    result = invoke("mcp")
    assert result.exit_code == 2
    assert "pip install 'pinprof[mcp]'" in result.stderr
    assert result.stderr.count("\n") == 1
