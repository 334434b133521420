"""The files to copy in the guides, for GitHub, pre-commit and agents: their commands run as they stand."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from blocks import blocks, ours, parse
from recordings import ROOT, TRACES

GUIDES = ROOT / "pinprof" / "guides"
ACTION, HOOKS = (yaml.safe_load(block.text) for block in blocks(GUIDES / "ci.md") if block.language == "yaml")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return variables with which a shell finds pinprof."""
    program = tmp_path / "bin" / "pinprof"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pinprof "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def run(command: str, environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-e", "-c", command], check=False, capture_output=True, text=True, cwd=folder, env=environment
    )


@pytest.mark.slow
@pytest.mark.parametrize(("trace", "status"), [("clean", 0), ("loss_item", 1)])
def test_the_action_judges_a_trace_and_names_the_line(
    trace: str, status: int, environment: dict[str, str], tmp_path: Path
) -> None:
    (step,) = ACTION["runs"]["steps"]
    inputs = {"trace": str(TRACES / f"{trace}.json.gz"), "limits": ACTION["inputs"]["limits"]["default"]}
    variables = {name: inputs[re.sub(r"\W|inputs", "", value)] for name, value in step["env"].items()}
    done = run(step["run"], {**environment, **variables}, tmp_path)
    assert done.returncode == status, done.stderr
    assert done.stdout.startswith("::error file=pinprof/workloads/waits.py,line=43") == bool(status)


def test_the_hook_has_what_pre_commit_asks_for() -> None:
    (repository,) = HOOKS["repos"]
    (hook,) = repository["hooks"]
    assert repository["repo"] == "local"
    assert {"id", "name", "language"} <= hook.keys()
    assert not hook["pass_filenames"]
    words = ours(tuple(shlex.split(hook["entry"])))
    assert words
    parse(words)


@pytest.mark.slow
def test_one_line_installs_the_skill(environment: dict[str, str], tmp_path: Path) -> None:
    (line,) = (block.text for block in blocks(GUIDES / "SKILL.md") if block.text.startswith("install"))
    assert run(line, environment, tmp_path).returncode == 0
    skill = tmp_path / ".claude" / "skills" / "pinprof" / "SKILL.md"
    assert skill.read_bytes() == (GUIDES / "SKILL.md").read_bytes()
