"""What agents and their clients are told: the skill has its front matter, and the configurations start the server."""

import json
import re
from typing import Any

import pytest
from blocks import blocks, parse
from recordings import ROOT

from pinprof.cli import main
from pinprof.report.explain import guides
from pinprof.server.answers import MOST_CHARACTERS
from pinprof.server.calls import in_arguments
from pinprof.server.tools import NOT_OPTIONS, TOOLS, Tool, options

GUIDES = ROOT / "pinprof" / "guides"


def test_the_skill_begins_as_skills_do_and_is_shown_without_that() -> None:
    text = (GUIDES / "SKILL.md").read_text()
    front = re.match(r"---\nname: pinprof\ndescription: (.{80,1024})\n---\n# ", text)
    assert front
    assert ": " not in front[1], "which YAML would take for a name"
    assert next(guide for guide in guides() if guide.name == "SKILL").text == text[front.end() - 2 :]


def test_the_guides_name_every_tool_and_the_bound() -> None:
    skill, mcp = ((GUIDES / f"{name}.md").read_text() for name in ("SKILL", "mcp"))
    for tool in TOOLS:
        assert f"[{tool.name}]" in skill, tool.name
        assert f"| `{tool.name}` |" in mcp
    assert f"{MOST_CHARACTERS:,} characters" in mcp


@pytest.mark.parametrize("number", range(3))
def test_the_configurations_are_json_whose_commands_are_ours(number: int) -> None:
    made = [json.loads(block.text) for block in blocks(GUIDES / "mcp.md") if block.language == "json"]
    assert len(made) == 3
    (servers,) = made[number].values()
    server: dict[str, Any] = servers["pinprof"]
    words = server["args"]
    assert server["command"].endswith("pinprof"), "python -m would look for modules in the folder"
    parse(tuple(words))


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool.name in main.commands], ids=lambda tool: tool.name)
def test_an_argument_is_an_option_of_the_command_with_the_same_name(tool: Tool) -> None:
    known = {option for param in main.commands[tool.name].params for option in param.opts}
    positional = {param.name for param in main.commands[tool.name].params if param.param_type_name == "argument"}
    names = set(tool.takes.__struct_fields__) - NOT_OPTIONS - positional - {"first_line"}
    assert {option.split("=")[0] for option in options(dict.fromkeys(names, "x"))} <= known


def test_an_error_names_arguments_in_place_of_options() -> None:
    whatif = next(tool for tool in TOOLS if tool.name == "whatif")
    said = "No such option: --pinned (pinprof whatif --help explains)"
    assert in_arguments(said, whatif) == "No such option: --pinned"
    assert in_arguments("a.json: its step time is unknown; give it with --step-ms", whatif).endswith("with step_ms")
