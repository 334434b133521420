"""`pinprof ab` and `pinprof bisect`: what they compare, print and return; the measurement is replaced."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke, is_one_line_error
from fitting import fitting
from made_up_pairs import made_up_measurement
from users_git import commit_all, git

from pinprof.ab import Bounds, Measurement, ProgramVersion, Wishes
from pinprof.ab.recording import RecordedChanges
from pinprof.ab.worker import StepOptions
from pinprof.errors import MeasureError

Speeds = Callable[[ProgramVersion], float]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of five revisions, whose script says how long its step takes; the working folder."""
    git(tmp_path, "init", "-q", "-b", "main")
    for number, step in enumerate((100, 100, 100, 120, 120)):
        (tmp_path / "train.py").write_text(f"{step} {number}\n")
        commit_all(tmp_path, f"Change {number}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written_in(program: ProgramVersion) -> float:
    """Return the time of the step that the script of a version says."""
    return float((program.folder / program.words[0]).read_text().split()[0])


class Fake:
    """Stands for `measure_versions` and `record`: each pair takes a minute, the ratio scatters by 0.1 %."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, speed: Speeds = written_in, scatter: float = 0.001, busy: float = 1.0
    ) -> None:
        self.speed, self.scatter, self.busy = speed, scatter, busy
        self.programs: list[tuple[ProgramVersion, ProgramVersion]] = []
        self.wishes: list[Wishes] = []
        monkeypatch.setattr("pinprof.ab.measure_versions", self.measure_versions)
        monkeypatch.setattr("pinprof.ab.record", self.record)

    def measure_versions(
        self, programs: tuple[ProgramVersion, ProgramVersion], wishes: Wishes, **_: Any
    ) -> Measurement:
        self.programs.append(programs)
        self.wishes.append(wishes)
        return made_up_measurement(
            programs,
            [1e6 * self.speed(program) for program in programs],
            Bounds(wishes.bounds.limit, 30 * 60),
            noise=lambda number: (-1) ** number * self.scatter * ((number - 1) // 2 % 4 + 1),
            longer=lambda number: 1.0 if number % 4 else self.busy,
        )

    def record(self, _made: Measurement, _options: Sequence[str], folder: Path, *_: Any) -> RecordedChanges:
        self.kept_in = folder
        return RecordedChanges(None, "the program was not recorded", (), ())


@pytest.fixture
def fake(project: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return Fake(monkeypatch)


def test_a_slower_working_tree_fails_the_gate_whatever_becomes_of_its_recording(project: Path, fake: Fake) -> None:
    (project / "train.py").write_text("150 \n")
    result = invoke("ab", "--json", "ab.json", "--no-trace", "--", "train.py", "--lr", "1")
    assert result.exit_code == 1
    assert "25.0 % slower (" in result.stdout
    before, after = fake.programs[0]
    assert before.words == ("train.py", "--lr", "1")
    assert after.name == "working tree"
    assert after.folder == project
    assert not before.folder.exists()  # the worktree has gone
    document = fitting((project / "ab.json").read_text())
    assert document["schema"] == "pinprof.ab/1"
    assert (document["verdict"], document["too_slow"]) == ("slower", True)
    assert document["range"][0] < document["ratio"] < document["range"][1]
    assert document["causes_reason"] == "not recorded"
    result = invoke("ab", "--", "train.py")
    assert result.exit_code == 1
    assert "unknown: the program was not recorded" in result.stdout


def test_a_faster_version_passes(project: Path, fake: Fake) -> None:
    result = invoke("ab", "--base", "HEAD~1", "--against", "other.py", "--", "train.py")
    assert is_one_line_error(result)
    (project / "train.py").write_text("60 \n")
    result = invoke("ab", "--base", "HEAD~2", "--no-trace", "--", "train.py")
    assert result.exit_code == 0
    assert "40.0 % faster" in result.stdout
    assert fake.wishes[0].bounds.limit == 0.02


def test_no_difference_passes_and_a_slow_down_within_the_limit_too(project: Path, fake: Fake) -> None:
    (project / "train.py").write_text("120 other\n")
    result = invoke("ab", "--no-trace", "--", "train.py")
    assert result.exit_code == 0
    assert "No difference above 2 %" in result.stdout
    (project / "train.py").write_text("122\n")
    result = invoke("ab", "--no-trace", "--limit-percent", "10", "--", "train.py")
    assert result.exit_code == 0
    assert "No difference above 10 %" in result.stdout


def test_what_cannot_be_told_is_neither_passed_nor_failed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Fake(monkeypatch, scatter=0.1)
    (project / "train.py").write_text("123\n")
    result = invoke("ab", "--no-trace", "--", "train.py")
    assert result.exit_code == 2
    assert "Cannot tell" in result.stdout
    assert "--minutes" in result.stdout


def test_on_a_machine_that_makes_steps_ten_times_as_long_no_difference_is_no_verdict(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Fake(monkeypatch, busy=10.0)
    (project / "train.py").write_text("120 other\n")
    result = invoke("ab", "--no-trace", "--json", "ab.json", "--", "train.py")
    assert result.exit_code == 2
    assert "Cannot tell: +0.0 %" in result.stdout
    said = " ".join(result.stdout.split())
    assert "the usual step was 120 ms in one process and 1.20 s in another: other programs set the pace" in said
    assert "OMP_NUM_THREADS=1" in said
    sentence = fitting((project / "ab.json").read_text())["sentence"]
    assert sentence.endswith("%), but processes of one version differ twofold")


def test_a_folder_that_cannot_keep_the_traces_is_told_before_anything_is_measured(project: Path, fake: Fake) -> None:
    (project / "train.py").write_text("150\n")
    (project / "kept" / "after").mkdir(parents=True)
    (project / "kept" / "after" / "trace.json.gz").write_text("mine")
    for words in (["--traces", "train.py"], ["--traces", "train.py/in"], ["--traces", "kept"], ["--traces", ""]):
        assert is_one_line_error(invoke("ab", *words, "--", "train.py"))
    assert is_one_line_error(invoke("ab", "--traces", "new", "--no-trace", "--", "train.py"))
    assert not fake.programs
    assert invoke("ab", "--traces", "kept", "--force", "--", "train.py").exit_code == 1
    assert invoke("ab", "--traces", "new", "--", "train.py").exit_code == 1
    assert fake.kept_in == project / "new"  # also for the version that runs in another folder


def test_a_patch_is_compared_with_the_revision_without_it(project: Path, fake: Fake) -> None:
    (project / "train.py").write_text("240 4\n")
    patch = git(project, "diff")
    git(project, "checkout", "-q", ".")
    (project / "slow.diff").write_text(f"{patch}\n")
    result = invoke("ab", "--patch", "slow.diff", "--no-trace", "--", "train.py")
    assert result.exit_code == 1
    assert "100.0 % slower" in result.stdout
    assert "with slow.diff" in fake.programs[0][1].name


def test_two_commands_need_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(monkeypatch, lambda program: float(program.words[-1]))
    monkeypatch.chdir(tmp_path)
    result = invoke("ab", "--against", "train.py '100'", "--no-trace", "--step-marker", "train", "--", "train.py", "90")
    assert result.exit_code == 0
    assert fake.programs[0][0].words == ("train.py", "100")
    assert fake.wishes[0].options == StepOptions("train")


def test_files_that_git_does_not_know_are_named(project: Path, fake: Fake) -> None:
    (project / "new.py").write_text("")
    result = invoke("ab", "--no-trace", "--", "train.py")
    assert "not in HEAD, because git does not know them: new.py" in result.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--", "train.py"], "the same as HEAD"),
        (["--base", "v9", "--", "train.py"], "git knows no such revision"),
        (["--patch", "none.diff", "--", "train.py"], "no such patch"),
        (["--against", "train.py 'a", "--", "train.py"], '--against "train.py \'a": No closing quotation'),
        ([], "Missing argument"),
        (["--limit-percent", "0", "--", "train.py"], "limit-percent"),
        (["--json", "train.py", "--", "train.py"], "exists already"),
    ],
)
def test_what_cannot_be_compared_is_one_line(project: Path, fake: Fake, words: list[str], why: str) -> None:
    result = invoke("ab", *words)
    assert is_one_line_error(result)
    assert why in result.stderr
    assert fake.programs == []


def test_a_folder_without_git_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    result = invoke("ab", "--", "train.py")
    assert is_one_line_error(result)
    assert "--against" in result.stderr


def test_a_version_that_fails_is_one_line(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: ProgramVersion) -> float:
        raise MeasureError("HEAD: the program failed with exit status 1: no data")

    Fake(monkeypatch, fails)
    (project / "train.py").write_text("150\n")
    result = invoke("ab", "--", "train.py")
    assert is_one_line_error(result)
    assert "no data" in result.stderr
    assert "\n" not in git(project, "worktree", "list")


# ---------------------------------------------------------------- bisect


def test_bisect_names_the_revision_that_made_it_slower(project: Path, fake: Fake) -> None:
    result = invoke("bisect", "HEAD~4", "HEAD", "--json", "found.json", "--", "train.py")
    assert result.exit_code == 0
    assert "Change 3" in result.stdout.splitlines()[0]
    assert "20.0 % slower" in result.stdout.splitlines()[1]
    document = fitting((project / "found.json").read_text())
    assert (document["schema"], document["subject"]) == ("pinprof.bisect/1", "Change 3")
    assert [wish.bounds.limit for wish in fake.wishes[:2]] == pytest.approx([0.02, 0.1], abs=0.01)


def test_bisect_without_a_slow_down_names_none(project: Path, fake: Fake) -> None:
    result = invoke("bisect", "HEAD~4", "HEAD~2", "--", "train.py")
    assert result.exit_code == 2
    assert "Cannot tell which revision" in result.stdout


def test_bisect_of_nothing_is_one_line(project: Path, fake: Fake) -> None:
    result = invoke("bisect", "HEAD", "HEAD~1", "--", "train.py")
    assert is_one_line_error(result)
    assert "must be an ancestor" in result.stderr
