"""`pinprof try` from end to end on a CPU, with the recording of a GPU; in most tests only the speed is made up."""

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke, is_one_line_error
from cpu_program import SLOW_ITEM, program, recorded
from fitting import fitting
from made_up_pairs import made_up_measurement
from users_git import git

from pinprof.ab import Bounds, Measurement, ProgramVersion, Wishes
from pinprof.ab.worker import GuardCopies
from pinprof.errors import MeasureError
from pinprof.trial import trial
from pinprof.trial.versions import TaskRun, run_all

OTHER_NUMBERS = (
    "torch.Tensor.cuda = lambda self, *_, non_blocking=False, **__: "
    "self.clamp(max=2.5) if non_blocking and self.is_floating_point() else self"
)
"""A program that computes something else once its copies do not block."""
Speeds = Callable[[str], float]
WITHOUT_WAITS = "pin_memory=True, non_blocking=True"

KNOWN: dict[tuple[object, ...], Any] = {}
RACE = {
    "rule": "PIN503",
    "headline": "PIN503: aten::fill_ writes at slow.py:30",
    "certain": True,
    "key": ["PIN503", "main", "x.cuda(non_blocking=True)", "main", "x.fill_(0)"],
}


def text_of(version: ProgramVersion) -> str:
    return (version.folder / "slow.py").read_text()


def text_at(folder: Path) -> str:
    return (folder / "slow.py").read_text()


def both_count(text: str) -> float:
    """Return the step of a version for which each of the two fixes saves a fifth."""
    return 100 * (1 - 0.2 * ("pin_memory=True" in text) - 0.2 * ("float(total)" in text))


def sum_counts(text: str) -> float:
    """Return the step of a version for which only the sum saves something."""
    return 80.0 if "float(total)" in text else 100.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: None) -> Path:
    """The working directory with the program and its recording, in a repository of its own."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    recorded(project, program())
    for words in (("init", "-q"), ("add", "slow.py"), ("commit", "-q", "-m", "All")):
        git(project, *words)
    monkeypatch.setattr(trial, "run_all", known_runs)
    return project


def known_runs(runs: Sequence[TaskRun], *, together: bool) -> list[Mapping[str, Any] | MeasureError]:
    """Return what each run saw; one of a program that is known is not made again."""
    keys = [(text_of(run.program), run.task) for run in runs]
    new = [number for number, key in enumerate(keys) if key not in KNOWN]
    for number, outcome in zip(new, run_all([runs[number] for number in new], together=together), strict=True):
        KNOWN[keys[number]] = outcome
    return [KNOWN[key] for key in keys]


@pytest.fixture
def speeds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Speeds], list[tuple[str, str]]]:
    """Return what makes up the speed of each version by its text, and returns the names of the versions compared."""

    def made_up(speed: Speeds) -> list[tuple[str, str]]:
        compared: list[tuple[str, str]] = []
        measured: set[tuple[Path, Path]] = set()

        def measure_versions(versions: tuple[ProgramVersion, ProgramVersion], wishes: Wishes, **_: Any) -> Measurement:
            compared.append((versions[0].name, versions[1].name))
            folders = versions[0].folder, versions[1].folder
            assert folders not in measured, "no two versions are measured twice"
            measured.add(folders)
            steps = [1e6 * speed(text_of(version)) for version in versions]
            bounds = Bounds(0.02, 20 * 60.0, wishes.bounds.false_alarms)
            return made_up_measurement(versions, steps, bounds, lambda number: 0.002 * (-1) ** number * (number % 5))

        monkeypatch.setattr(trial, "measure_versions", measure_versions)
        return compared

    return made_up


Made = Callable[[Speeds], list[tuple[str, str]]]
WORDS = ("try", "--trace", "slow.json.gz", "--no-verify")


def test_a_proven_patch_is_printed_and_applies(folder: Path, speeds: Made, tmp_path: Path) -> None:
    compared = speeds(both_count)
    before = (folder / "slow.py").read_bytes()
    result = invoke(*WORDS, "--json", "try.json", "--patch", "it.diff", "slow.py")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1].startswith("# faster by 40 % (")
    assert result.stdout.splitlines()[-1].endswith(") without a GPU, numbers equal, no copy that could race: take it")
    assert (folder / "slow.py").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["project"], "no copy is left"
    for patch in (result.stdout.encode(), (folder / "it.diff").read_bytes()):
        subprocess.run(["git", "apply", "--check"], cwd=folder, input=patch, check=True)
    document = fitting((folder / "try.json").read_text())
    assert (document["verdict"], document["numbers"]["verdict"]) == ("take_it", "equal")
    assert [fix["fate"] for fix in document["fixes"]] == ["kept", "kept"]
    assert compared == [
        ("original", "changed"),
        ("changed without PIN201", "changed"),
        ("changed without PIN104", "changed"),
    ]


@pytest.mark.slow
def test_a_fix_that_brings_nothing_is_left_out_and_the_rest_measured_again(folder: Path, speeds: Made) -> None:
    compared = speeds(sum_counts)
    result = invoke(*WORDS, "--json", "try.json", "slow.py")
    assert result.exit_code == 0, result.stderr
    assert "# Left out:\n# PIN104" in result.stdout
    assert "+    loader" not in result.stdout
    assert compared[0] == ("original", "changed")
    assert compared[-1] == ("original", "changed without PIN104")
    document = json.loads((folder / "try.json").read_text())
    assert {fix["rule"]: fix["diff"] is None for fix in document["fixes"]} == {"PIN104": True, "PIN201": False}


def test_a_patch_that_is_slower_is_refused_and_no_pipe_applies_it(folder: Path, speeds: Made) -> None:
    speeds(lambda text: 110.0 if "pin_memory" in text else 100.0)
    result = invoke(*WORDS, "--write", "--json", "try.json", "slow.py")
    assert result.exit_code == 1
    assert "not faster: slower by 10 %" in result.stdout.splitlines()[-1]
    applied = subprocess.run(["git", "apply", "--check"], cwd=folder, input=result.stdout.encode(), check=False)
    assert applied.returncode != 0
    assert "Nothing was written" in result.stderr
    assert "pin_memory" not in (folder / "slow.py").read_text()
    assert fitting((folder / "try.json").read_text())["numbers"] is None


@pytest.mark.slow
def test_other_numbers_are_caught(folder: Path, speeds: Made) -> None:
    speeds(both_count)
    recorded(folder, program(OTHER_NUMBERS))
    result = invoke(*WORDS, "--json", "try.json", "slow.py")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].endswith("other numbers, no copy that could race: leave it")
    assert "#   numbers: DIFFERENT: loss 1: by " in result.stdout
    numbers = fitting((folder / "try.json").read_text())["numbers"]
    assert numbers["repeated"] == 0 < numbers["rounding"] < numbers["distance"]


def timed(text: str) -> str:
    """Return a program with a clock that may run at any time, and needs each wait, and with an option of copies."""
    text = text.replace("return 20000", "return 20000 + 0 * int(time.time())")
    return f"{text}\n\ndef options(non_blocking):\n    return non_blocking\n"


@pytest.mark.slow
def test_proposals_are_taken_where_they_are_proven(folder: Path, speeds: Made) -> None:
    compared = speeds(both_count)
    recorded(folder, timed(program()))
    assert "nothing to change" in invoke(*WORDS, "slow.py").stdout
    result = invoke(*WORDS, "--propose", "--json", "try.json", "slow.py")
    assert result.exit_code == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1].endswith("numbers equal, no copy that could race: take it")
    assert "#   not certain: line 5 reads a clock, which needs the wait" in result.stdout
    git(folder, "commit", "-qam", "Time steps")
    subprocess.run(["git", "apply"], cwd=folder, input=result.stdout.encode(), check=True)
    assert {"pin_memory=True", "float(total)"} <= set(re.findall(r"pin_memory=True|\w+\(total\)", text_at(folder)))
    assert "int(right)" not in text_at(folder), "it brings nothing"
    fixes = fitting((folder / "try.json").read_text())["fixes"]
    assert {fix["what"]: fix["fate"] for fix in fixes if fix["rule"] == "PIN104"} == {WITHOUT_WAITS: "kept"}
    assert sorted(fix["fate"] for fix in fixes) == ["dropped_no_gain", "kept", "kept"]
    assert all("reads a clock" in fix["doubts"][0] for fix in fixes)
    assert compared[-1][0] == "original"


@pytest.mark.slow
def test_a_proposal_with_other_numbers_is_found_among_the_others_and_left_out(folder: Path, speeds: Made) -> None:
    speeds(both_count)
    recorded(folder, timed(program(OTHER_NUMBERS)))
    result = invoke(*WORDS, "--propose", "--json", "try.json", "slow.py")
    assert result.exit_code == 0, result.stdout + result.stderr
    assert "numbers equal" in result.stdout.splitlines()[-1]
    fixes = fitting((folder / "try.json").read_text())["fixes"]
    assert {fix["fate"] for fix in fixes if fix["rule"] == "PIN104"} == {"dropped_not_safe"}
    assert any("other numbers (loss 1: by" in (fix["fate_reason"] or "") for fix in fixes)
    assert "float(total)" in result.stdout
    assert "+    loader" not in result.stdout


@pytest.mark.slow
def test_proposals_of_which_none_is_proven_change_nothing(folder: Path, speeds: Made) -> None:
    speeds(lambda _: 100.0)
    recorded(folder, timed(program()))
    result = invoke(*WORDS, "--propose", "--write", "--backup", "--json", "try.json", "slow.py")
    assert result.exit_code == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1].endswith("mechanical and certain, and no proposal is proven")
    assert "pin_memory=True" not in text_at(folder)
    assert fitting((folder / "try.json").read_text())["verdict"] == "nothing_to_change"


@pytest.mark.slow
@pytest.mark.parametrize(("original_too", "exit_code"), [(False, 1), (True, 0)])
def test_a_race_is_refused_if_the_original_does_not_have_it(
    folder: Path, speeds: Made, monkeypatch: pytest.MonkeyPatch, original_too: bool, exit_code: int
) -> None:
    def with_race(runs: Sequence[TaskRun], *, together: bool) -> list[Mapping[str, Any] | MeasureError]:
        outcomes = known_runs(runs, together=together)
        races = {"copies": 60, "notes": [], "races": [RACE]}
        none = {**races, "races": []}
        return [
            outcome
            if not isinstance(run.task, GuardCopies)
            else races
            if run.program.name != "original" or original_too
            else none
            for run, outcome in zip(runs, outcomes, strict=True)
        ]

    speeds(both_count)
    monkeypatch.setattr(trial, "run_all", with_race)
    result = invoke(*WORDS, "--json", "try.json", "slow.py")
    assert result.exit_code == exit_code, result.stdout
    (race,) = fitting((folder / "try.json").read_text())["guard"]["races"]
    assert race["new"] is not original_too
    assert ("races that the original has, too: PIN503" if original_too else "RACE: PIN503") in result.stdout


@pytest.mark.slow
def test_a_proven_patch_is_written_with_a_way_back(folder: Path, speeds: Made) -> None:
    speeds(both_count)
    with (folder / "slow.py").open("a") as file:
        file.write("# a change of mine\n")
    with_my_change = (folder / "slow.py").read_text()
    recorded(folder, with_my_change)
    refused = invoke(*WORDS, "--write", "slow.py")
    assert is_one_line_error(refused)
    assert "add --backup" in refused.stderr
    assert refused.stdout == "", "nothing was measured"
    result = invoke(*WORDS, "--write", "--backup", "slow.py")
    assert result.exit_code == 0, result.stderr
    assert "pin_memory=True" in (folder / "slow.py").read_text()
    assert (folder / "slow.py.orig").read_text() == with_my_change


def test_a_choice_of_nothing_is_told(folder: Path) -> None:
    result = invoke(*WORDS, "--only", "slow.py:1", "slow.py")
    assert result.exit_code == 0
    assert "Note: nothing to change was found at slow.py:1; findings are at slow.py:19" in result.stderr


@pytest.mark.slow
def test_nothing_to_change_ends_at_once(folder: Path) -> None:
    result = invoke(*WORDS, "--rule", "PIN303", "--json", "try.json", "slow.py")
    assert result.exit_code == 0
    assert result.stdout.startswith("\n# nothing to change")
    result = invoke(*WORDS, "--rule", "PIN202", "slow.py")
    assert "slow.py:22 PIN202: a decision in each step depends on the value" in result.stdout
    assert fitting((folder / "try.json").read_text())["verdict"] == "nothing_to_change"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("none.py",), "none.py: no such script"),
        (("--trace", "none.json", "slow.py"), "none.json: no such file"),
        (("--backup", "slow.py"), "add --write"),
        (("--rule", "PIN999", "slow.py"), "unknown rule"),
        (("--json", "slow.py", "slow.py"), "exists already"),
        ((), "Missing argument"),
    ],
)
def test_what_cannot_be_tried_is_one_line(folder: Path, words: tuple[str, ...], why: str) -> None:
    result = invoke("try", *words)
    assert is_one_line_error(result)
    assert why in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("body", "has_way_out"), [("print('no steps')", True), ("1 / 0", False)])
def test_a_program_with_too_few_steps_is_told_how_else_to_record_it(folder: Path, body: str, has_way_out: bool) -> None:
    (folder / "short.py").write_text(body)
    result = invoke("try", "short.py")
    assert result.exit_code == 2
    assert (
        "pinprof run records it with more options; give its recording with --trace FILE" in result.stderr
    ) is has_way_out


@pytest.mark.slow
def test_all_of_it_on_a_cpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait of 40 ms in a step of some more, which the fix of the sum removes."""
    monkeypatch.setattr(trial, "FALSE_ALARMS", 0.9)  # so that two or three pairs are enough
    monkeypatch.setattr(trial, "run_all", run_all)
    assert SLOW_ITEM in (folder / "slow.py").read_text()
    words = ("--rule", "PIN201", "--no-verify", "--minutes", "3", "--seconds", "0.3", "--json", "try.json")
    result = invoke("try", "--trace", "slow.json.gz", *words, "slow.py")
    assert result.exit_code == 0, result.stdout + result.stderr
    document = fitting((folder / "try.json").read_text())
    assert document["measured"]["ratio"] < 0.8
    assert document["verification"] is None
    assert document["predicted_range"] is not None
