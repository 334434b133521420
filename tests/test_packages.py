"""What pinprof depends on: one list of it, an environment that only reads traces, and what `doctor` says of both."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import pytest
import torch
from command_line import invoke
from packaging.requirements import Requirement
from recordings import ROOT, TRACES

from pinprof.gpu import parsed_link, why_not
from pinprof.ground.packages import PACKAGES

READING = ROOT / "pinprof" / "reading.txt"
PROJECT = (ROOT / "pyproject.toml").read_text()


def dependencies() -> list[str]:
    return re.findall(r'^  "(.*)",$', PROJECT.split("\ndependencies = [")[1].split("\n]")[0], re.MULTILINE)


# ---------------------------------------------------------------- one list


def test_the_list_has_what_the_project_depends_on() -> None:
    extras = PROJECT.split("[project.optional-dependencies]")[1].split("\ndev = [")[0]
    by_extra = {
        (name, extra)
        for extra, names in re.findall(r"^(\w+) = \[(.*?)\]", extras, re.MULTILINE | re.DOTALL)
        for name in re.findall(r'"([\w.-]+)', names)
    }
    always = {(re.split("[>;]", line)[0].strip(), "") for line in dependencies()}
    assert {(package.name, package.extra) for package in PACKAGES} == always | by_extra


def test_reading_needs_all_but_torch_and_hta() -> None:
    wanted = [line for line in dependencies() if not line.startswith(("torch", "HolisticTraceAnalysis"))]
    assert READING.read_text().splitlines()[1:] == wanted


# ---------------------------------------------------------------- without torch


def with_dependencies(names: Iterable[str]) -> set[str]:
    """Return these packages and all that they need."""
    known: set[str] = set()
    waiting = [*names]
    while waiting:
        needed = Requirement(waiting.pop())
        if needed.name.lower() not in known and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            known.add(needed.name.lower())
            waiting += distribution(needed.name).requires or []
    return known


EACH = """
import json, sys
from click.testing import CliRunner
from pinprof.cli import main
for words in json.load(sys.stdin):
    done = CliRunner().invoke(main, words.split())
    print(json.dumps([done.exit_code, done.output]))
"""
READS = {
    "report before.json.gz --html report.html": 0,
    "timeline before.json.gz -o timeline.html --plotly": 0,
    "whatif before.json.gz": 0,
    "verify before.json.gz after.json.gz": 0,
    "compare before.json.gz after.json.gz --html compare.html": 0,
    "export before.json.gz -o tracks.json.gz": 0,
    "check before.json.gz --max-hidden-syncs 0": 1,
    "explain PIN201": 0,
}
"""Commands that need only what reading needs, with their exit statuses."""
NEEDS = {
    "run train.py": "torch",
    "run --guard train.py": "torch",
    "report before.json.gz --hta": "HolisticTraceAnalysis",
}
"""Other commands, each with the package that it needs."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Return exit status and output of commands in an environment that has only what reading needs."""
    folder, site = (tmp_path_factory.mktemp(name) for name in ("work", "site"))
    installed = with_dependencies(READING.read_text().splitlines()[1:])
    assert len({*installed, "pinprof"}) == 17, installed
    for package in map(distribution, installed):
        for entry in {Path(file).parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            (site / entry).symlink_to(str(package.locate_file(entry)))
    (site / "pinprof").symlink_to(ROOT / "pinprof")
    for name, recording in (("before", "pageable_blocking"), ("after", "prefetch")):
        (folder / f"{name}.json.gz").symlink_to(TRACES / f"{recording}.stack.json.gz")
    (folder / "train.py").write_text("import torch\n")
    asked = [*READS, *NEEDS, "doctor"]
    done = subprocess.run(
        [sys.executable, "-S", "-c", EACH],  # without the packages of the tests' environment
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(site)},
        input=json.dumps(asked),
    )
    return {words: tuple(json.loads(line)) for words, line in zip(asked, done.stdout.splitlines(), strict=True)}


@pytest.mark.slow
def test_reading_and_reporting_need_neither_torch_nor_hta(told: dict[str, tuple[int, str]]) -> None:
    assert {words: told[words][0] for words in READS} == READS, [told[words] for words in READS]


@pytest.mark.slow
@pytest.mark.parametrize("words", NEEDS)
def test_what_needs_a_missing_package_names_it(words: str, told: dict[str, tuple[int, str]]) -> None:
    status, output = told[words]
    package = next(package for package in PACKAGES if package.name == NEEDS[words])
    assert status == 2
    (error,) = output.splitlines()
    assert error.startswith(f"Error: {package.name} is not installed (")
    assert package.install in error


@pytest.mark.slow
def test_doctor_says_what_is_missing_and_what_for(told: dict[str, tuple[int, str]]) -> None:
    output = told["doctor"][1]
    assert re.search(r"^  numpy +[\d.]+$", output, re.MULTILINE)
    assert re.search(r"^  torch +missing, for recording, .*: pip install torch$", output, re.MULTILINE)
    assert "pip install 'pinprof[remote]'" in output
    assert "torch cannot be imported" in output


# ---------------------------------------------------------------- what is here


def test_doctor_says_why_torch_sees_no_gpu_or_which() -> None:
    output = invoke("doctor").stdout
    assert f"\n  torch                  {torch.__version__}\n" in output
    (gpu,) = output.split("\nGPU\n")[1].splitlines()
    assert torch.__version__ in gpu


@pytest.mark.parametrize(
    ("built_for", "driver", "said"),
    [
        (None, None, "torch 2.13 is built without CUDA; install one with CUDA"),
        (None, 12040, "the driver of this machine runs CUDA up to 12.4"),
        ("13.0", None, "finds no NVIDIA driver"),
        ("13.0", 12040, "built for CUDA 13.0, and the driver runs CUDA up to 12.4; install a newer driver, or a torch"),
        ("12.8", 12040, "though the driver fits"),  # versions of one number run each other's programs
        ("12.8", 13000, "though the driver fits"),
    ],
)
def test_torch_and_driver_fit_or_not(built_for: str | None, driver: int | None, said: str) -> None:
    assert said in why_not("torch 2.13", built_for, driver)


# ---------------------------------------------------------------- the machine


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("570.86.15, 5, 16\n", ("570.86.15", 5, 16)),
        ("570.86.15, [N/A], [Not Supported]\n", ("570.86.15", None, None)),
        ("570.86.15, 5, 16\n570.86.15, 4, 8\n", ("570.86.15", 5, 16)),
        ("", (None, None, None)),
        ("NVIDIA-SMI has failed\n", (None, None, None)),
    ],
)
def test_link_of_the_gpu(answer: str, expected: tuple[str | None, int | None, int | None]) -> None:
    assert parsed_link(answer) == expected
