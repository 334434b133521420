"""The guide on comparing versions: its commands are ours, and its workflow is one."""

import re
import shlex
from pathlib import Path

import click
import pytest

from pinprof.ab.statistics import FALSE_ALARMS, FEWEST_PAIRS
from pinprof.cli import main

GUIDE = Path(__file__).parents[1] / "pinprof" / "guides" / "ab.md"
TEXT = GUIDE.read_text()
COMMANDS = re.findall(r"^(?:\s*- run: )?(pinprof (?:ab|bisect) .*)$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_are_understood(command: str) -> None:
    _, name, *words = shlex.split(command)
    chosen = main.commands[name]
    context = chosen.make_context(name, words)
    assert isinstance(context, click.Context)
    assert "train.py" in context.params["command"]


def test_its_workflow_is_yaml_and_fetches_what_it_compares_with() -> None:
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load(TEXT.split("```yaml\n")[1].split("```")[0])
    steps = workflow["jobs"]["speed"]["steps"]
    assert steps[0] == {"uses": "actions/checkout@v4", "with": {"fetch-depth": 0}}
    assert [step["run"].split()[0] for step in steps if "run" in step] == ["pip", "pinprof"]


def test_its_numbers_are_those_of_the_program() -> None:
    assert len(COMMANDS) == 3
    assert f"1 of {round(1 / FALSE_ALARMS)} comparisons" in TEXT
    assert FEWEST_PAIRS == 9
    assert "Nine pairs are the least" in TEXT
