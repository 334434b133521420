"""`pinprof fix` from a trace to files that git apply takes."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from command_line import copying_trace, invoke, is_one_line_error
from fitting import fitting
from fixing import LOADER
from trace_builder import TraceBuilder

from pinprof.fix.fixes import every_fix
from pinprof.rules import RULES
from pinprof.trace.constructors import Made
from pinprof.trace.lines import LINES_KEY, Place

PROGRAM = """\
import torch
from torch.utils.data import DataLoader


def train(model, data, device):
    # einmal für alle
    loader = DataLoader(data, batch_size=4, num_workers=2)
    total = 0.0
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        loss = model(x, y)
        loss.backward()
        total += loss.item()  # sum
        if step % 100 == 99:
            print(f"{total / 100:.3f}")
            total = 0.0
    return total
"""
MENDED = (
    PROGRAM.replace("num_workers=2", "num_workers=2, pin_memory=True")
    .replace("x.to(device), y.to(device)", "x.to(device, non_blocking=True), y.to(device, non_blocking=True)")
    .replace("loss.item()  #", "loss.detach().double()  #")
    .replace("{total / 100", "{float(total) / 100")
    .replace("return total", "return float(total)")
)
LOADER_LINE, LOOP, COPY, ITEM = 7, 9, 10, 13


def recorded(
    folder: Path,
    name: str = "train.py",
    *,
    by_pinprof: bool = True,
    sources: dict[str, str] | None = None,
    late_us: float = 0,
    blocking_us: float = 0,
    loop: Place | None = None,
) -> Path:
    """Write the trace of four steps, each with two pageable copies of a batch, a kernel that may be late, an item().

    The host may wait for the copies.
    """
    builder = TraceBuilder()
    for start in builder.steps(4):
        builder.event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start + 1, 4)
        builder.op("aten::to", start + 10, 300)
        builder.copy("HtoD (Pageable -> Device)", start + 30, 250, launch=start + 20, call=270)
        if blocking_us:
            builder.call("cudaStreamSynchronize", start + 292, blocking_us)
        builder.kernel(start + 400 + late_us, 400 - late_us, launch=start + 350)
        builder.op("aten::item", start + 500, 400)
        builder.copy("DtoH (Device -> Pageable)", start + 801, 1, launch=start + 510, size=4)
        builder.call("cudaStreamSynchronize", start + 520, 370)
    if by_pinprof:
        describe(builder, name, {"aten::to": [COPY], "aten::item": [ITEM]}, sources, loop)
    return builder.write(folder / "trace.json.gz")


def describe(
    builder: TraceBuilder,
    name: str,
    lines: Mapping[str, Sequence[int]],
    sources: dict[str, str] | None = None,
    loop: Place | None = None,
) -> None:
    """Let a trace tell of the program's DataLoader, and of the lines of each op in a step."""
    loader = replace(LOADER, file=name, line=LOADER_LINE, function="train", loops=(loop or Place(name, LOOP, "train"),))
    made = asdict(Made((loader,), sources=sources or {}))
    builder.metadata["pinprof"] = {"made": made, "torch_version": "2.11.0", "loaders_pin": False}

    def at(number: int) -> dict[str, Any]:
        return {"file": name, "line": number, "function": "train", "stack": [f"{name}:{number}:train"]}

    builder.metadata[LINES_KEY] = [
        {"op": op, "thread": "main", "at": [at(number) for number in numbers]} for op, numbers in lines.items()
    ]


TIMED = PROGRAM.replace("import torch\n", "import torch, time\n", 1).replace(
    "model(x, y)", "model(x, y, time.time(), z.to(0, non_blocking=True))"
)
"""A clock in each step, which may need the waits, and a copy that may not wait."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with the program."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "train.py").write_text(PROGRAM)
    git(folder, "init", "-q")
    git(folder, "add", "train.py")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
    return folder


@pytest.fixture
def here(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the repository, at work in it; the trace was recorded there."""
    shutil.copytree(repository, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def git(folder: Path, *words: str, given: bytes | None = None) -> str:
    done = subprocess.run(["git", *words], cwd=folder, input=given, capture_output=True, check=False)
    assert not done.returncode, done.stderr.decode()
    return done.stdout.decode()


def test_proposals_are_shown_and_never_made(here: Path) -> None:
    (here / "train.py").write_text(TIMED)
    git(here, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "timed")
    trace = recorded(here)
    assert "roposal" not in invoke("fix", trace).stdout
    result = invoke("fix", trace, "--propose", "--write", "--json", "fix.json")
    assert result.exit_code == 0
    assert re.match(
        r"# pinprof fix: 0 changes of a step of [^;]+; 2 proposals; 1 place stays as it is\n", result.stdout
    )
    assert all(line.startswith("#") for line in result.stdout.splitlines() if line)
    assert result.stdout.count("not certain: line 11 reads a clock, which needs the wait") == 2
    assert "Next: pinprof report" in result.stderr
    assert (here / "train.py").read_text() == TIMED
    document = fitting((here / "fix.json").read_text())
    assert document["patches"] == []
    assert {place["why"] for place in document["refused"]}.isdisjoint(document["proposals"][0]["doubts"])
    for proposal in document["proposals"]:
        git(here, "apply", "--check", given=proposal["diff"].encode())
    diffs = "".join(proposal["diff"] for proposal in document["proposals"])
    assert {line[1:] for line in diffs.splitlines() if line[0] == "+" and line[:3] != "+++"} <= {*MENDED.splitlines()}


def test_the_output_is_a_patch_that_git_applies(here: Path) -> None:
    result = invoke("fix", recorded(here))
    assert result.exit_code == 0
    for part in ("PIN104", "at train.py:13", "predicted to save", "the program computes the same numbers", "safe if: "):
        assert part in result.stdout
    git(here, "apply", given=result.stdout_bytes)
    assert (here / "train.py").read_text() == MENDED


def test_what_a_part_of_the_places_saves_is_predicted_for_these(here: Path) -> None:
    copies = "x = x.to(device)\n        y = y.to(device)\n        z = near(y).to(device)"
    program = PROGRAM.replace("x, y = x.to(device), y.to(device)", copies)
    (here / "train.py").write_text(program)
    builder = TraceBuilder()
    for start in builder.steps(4):
        builder.event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start + 1, 4)
        for at in (10, 210, 410):
            builder.op("aten::to", start + at, 190)
            builder.copy("HtoD (Pageable -> Device)", start + at + 20, 150, launch=start + at + 10, call=170)
        builder.kernel(start + 700, 200, launch=start + 650)
    describe(builder, "train.py", {"aten::to": [COPY, COPY + 1, COPY + 2]})
    result = invoke("fix", builder.write(here / "trace.json.gz"), "--json", "-", "--force")
    document = json.loads(result.stdout)
    (patch,) = document["patches"]
    assert [place["line"] for place in patch["places"]][:2] == [COPY, COPY + 1]
    assert not patch["complete"]
    assert patch["saving_ms"] == pytest.approx(2 * 0.15, abs=0.1)


def test_savings_of_a_shared_gpu_are_said_to_be_such(here: Path) -> None:
    result = invoke("fix", recorded(here, late_us=90))
    before, _, changes = result.stdout.partition("--- a/")
    assert "4 kernels started 138 µs late on average" in before
    assert "those of a shared GPU. Record again" in " ".join(before.replace("#", "").split())
    assert changes
    assert "late on average" not in invoke("fix", recorded(here)).stdout


def test_it_writes_what_git_has_as_it_is(here: Path) -> None:
    result = invoke("fix", recorded(here), "--write")
    assert result.exit_code == 0
    assert f"Wrote {here / 'train.py'}" in result.stderr
    assert (here / "train.py").read_text() == MENDED
    assert sorted(path.name for path in here.iterdir()) == [".git", "trace.json.gz", "train.py"]


def test_it_does_not_write_over_changes_that_are_not_committed(here: Path) -> None:
    trace = recorded(here)
    (here / "train.py").write_text(PROGRAM + "# more\n")
    result = invoke("fix", trace, "--write")
    assert is_one_line_error(result) or "add --backup" in result.stderr
    assert (here / "train.py").read_text() == PROGRAM + "# more\n"
    kept = invoke("fix", trace, "--write", "--backup")
    assert kept.exit_code == 0
    assert (here / "train.py.orig").read_text() == PROGRAM + "# more\n"
    assert (here / "train.py").read_text() == MENDED + "# more\n"


def test_a_backup_is_never_overwritten(here: Path) -> None:
    (here / "train.py.orig").write_text("the only copy")
    result = invoke("fix", recorded(here), "--write", "--backup")
    assert is_one_line_error(result)
    assert (here / "train.py.orig").read_text() == "the only copy"
    assert (here / "train.py").read_text() == PROGRAM


def test_without_git_it_asks_for_a_backup(here: Path) -> None:
    shutil.rmtree(here / ".git")
    result = invoke("fix", recorded(here), "--write")
    assert result.exit_code == 2
    assert "add --backup" in result.stderr
    assert (here / "train.py").read_text() == PROGRAM


@pytest.mark.parametrize("mark", ["--skip-worktree", "--assume-unchanged"])
def test_it_does_not_write_over_changes_that_git_hides(here: Path, mark: str) -> None:
    trace = recorded(here)
    git(here, "update-index", mark, "train.py")
    (here / "train.py").write_text(PROGRAM + "# more\n")
    result = invoke("fix", trace, "--write")
    assert is_one_line_error(result)
    assert "skip-worktree or assume-unchanged" in result.stderr
    assert (here / "train.py").read_text() == PROGRAM + "# more\n"
    assert invoke("fix", trace, "--write", "--backup").exit_code == 0
    assert (here / "train.py.orig").read_text() == PROGRAM + "# more\n"


@pytest.mark.parametrize("options", [(), ("--backup",)])
def test_it_does_not_replace_a_file_that_is_read_only(here: Path, options: tuple[str, ...]) -> None:
    trace = recorded(here)
    (here / "train.py").chmod(0o444)
    result = invoke("fix", trace, "--write", *options)
    assert is_one_line_error(result)
    assert "is read-only; make it writable" in result.stderr
    assert (here / "train.py").read_text() == PROGRAM
    assert not (here / "train.py.orig").exists()


@pytest.mark.parametrize("options", [(), ("--backup",)])
def test_it_does_not_take_a_file_from_its_hard_links(here: Path, options: tuple[str, ...]) -> None:
    trace = recorded(here)
    os.link(here / "train.py", here / "same.py")
    result = invoke("fix", trace, "--write", *options)
    assert is_one_line_error(result)
    assert "has 1 other name (hard links)" in result.stderr
    assert (here / "train.py").samefile(here / "same.py")
    assert (here / "same.py").read_text() == PROGRAM


def test_all_files_are_written_or_none(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    trace = recorded(here)
    monkeypatch.setattr(Path, "replace", fail)
    result = invoke("fix", trace, "--write", "--backup")
    assert is_one_line_error(result)
    assert (here / "train.py").read_text() == PROGRAM
    assert sorted(path.name for path in here.iterdir()) == [".git", "trace.json.gz", "train.py"]


def test_the_report_names_diffs_only_where_there_are_some(here: Path) -> None:
    trace = recorded(here)
    footer, words = "as a diff", f"pinprof fix {trace}"
    assert f"{footer}: {words}\n" in invoke("report", trace).stdout
    brief = json.loads(invoke("report", trace, "--json", "--brief").stdout)
    assert words in [command["command"] for command in brief["traces"][0]["next"]]
    (here / "train.py").write_text(PROGRAM.replace("loss.item()", "loss.item() + 0 * len(x)").replace("x.to", "(x).to"))
    os.utime(here / "train.py", (later := trace.stat().st_mtime + 100, later))
    assert footer not in invoke("report", trace).stdout
    brief = json.loads(invoke("report", trace, "--json", "--brief").stdout)
    assert words not in [command["command"] for command in brief["traces"][0]["next"]]
    (here / "train.py").unlink()
    assert footer not in invoke("report", trace).stdout


def test_rules_and_places_choose(here: Path) -> None:
    trace = recorded(here)
    only = invoke("fix", trace, "--rule", "pin201").stdout
    assert "loss.detach()" in only
    assert "pin_memory" not in only
    of_a_line = invoke("fix", trace, "--only", "train.py:10").stdout
    assert "pin_memory" in of_a_line
    assert "detach" not in of_a_line
    assert is_one_line_error(invoke("fix", trace, "--rule", "PIN999"))
    assert is_one_line_error(invoke("fix", trace, "--only", "train.py"))
    assert is_one_line_error(invoke("fix", trace, "--backup"))


def test_the_next_command_makes_the_same_changes_and_can_write_them(here: Path) -> None:
    trace, script = recorded(here), here / "my train.py"
    named = invoke("fix", trace, here / "train.py", "--rule", "PIN201", "--only", "train.py:13")
    words = f"pinprof fix {trace} {here / 'train.py'} --rule PIN201 --only train.py:13 --write"
    assert f"Next: {words}\n" in named.stderr
    shutil.rmtree(here / ".git")
    (here / "train.py").rename(script)
    unsaved = invoke("fix", recorded(here, "my train.py"), "--changes-numbers")
    assert f"Next: pinprof fix {trace} --changes-numbers --write --backup\n" in unsaved.stderr
    script.write_text(PROGRAM + "# more")
    os.utime(script, (later := trace.stat().st_mtime + 100, later))
    assert "Next: record the program again" in invoke("fix", trace).stderr


def test_a_choice_of_nothing_is_told(here: Path) -> None:
    trace = recorded(here)
    nowhere = invoke("fix", trace, "--only", "train.py:99", "--only", "train.py:13")
    assert "Note: nothing to change was found at train.py:99; findings are at train.py:" in nowhere.stderr
    assert "pin_memory" not in nowhere.stdout
    assert nowhere.stderr.count("Note: ") == 1
    assert "Note: PIN303 has no finding; " in invoke("fix", trace, "--rule", "PIN303").stderr
    both = invoke("fix", trace, "--rule", "PIN201", "--only", f"train.py:{COPY}").stderr
    assert f"nothing to change was found at train.py:{COPY}; findings are at train.py:13" in both
    (here / "other.py").write_text("")
    other = invoke("fix", trace, "other.py")
    assert "Note: other.py: no finding is in a file of this name; findings are in train.py" in other.stderr
    assert "Note: " not in invoke("fix", trace, "train.py").stderr


def test_a_program_that_was_changed_since_stays(here: Path) -> None:
    trace = recorded(here)
    later = trace.stat().st_mtime + 100
    os.utime(here / "train.py", (later, later))
    result = invoke("fix", trace, "--write")
    assert result.exit_code == 0
    assert "changed after the recording" in result.stdout
    assert (here / "train.py").read_text() == PROGRAM


def test_what_the_program_was_is_told_by_its_text_where_that_was_recorded(here: Path) -> None:
    trace = recorded(here, sources={"train.py": sha256(PROGRAM.encode()).hexdigest()})
    later = trace.stat().st_mtime + 100
    os.utime(here / "train.py", (later, later))  # checked out again
    assert "+++ b/train.py" in invoke("fix", trace).stdout
    (here / "train.py").write_text(PROGRAM.replace("100", "200"))
    os.utime(here / "train.py", (1, 1))
    assert "not as it was recorded" in invoke("fix", trace).stdout


def test_a_file_outside_of_the_repository_stays(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = recorded(here)
    (here / "sub").mkdir()
    git(here / "sub", "init", "-q")
    monkeypatch.chdir(here / "sub")
    result = invoke("fix", trace, here / "train.py")
    assert "outside of the program's folder" in result.stdout
    assert "--- a/" not in result.stdout


@pytest.mark.parametrize("below", ["", "src"])
def test_a_package_of_the_project_is_found_from_a_folder_beside_it(
    here: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    (here / below / "package").mkdir(parents=True)
    git(here, "mv", "train.py", f"{below or '.'}/package/train.py")
    (here / "projects").mkdir()
    (here / "traces").mkdir()
    trace = recorded(here / "traces", "package/train.py")
    monkeypatch.chdir(here / "projects")
    result = invoke("fix", trace)
    assert f"git -C {here} apply" in result.stderr, "git apply says nothing of files above the working directory"
    git(here, "apply", given=result.stdout_bytes)
    assert (here / below / "package" / "train.py").read_text() == MENDED


def test_paths_are_those_of_the_repository(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "sub").mkdir()
    git(here, "mv", "train.py", "sub/train.py")
    trace = recorded(here / "sub")
    monkeypatch.chdir(here / "sub")
    result = invoke("fix", trace)
    assert "--- a/sub/train.py" in result.stdout
    git(here, "apply", given=result.stdout_bytes)
    assert (here / "sub" / "train.py").read_text() == MENDED


def test_a_named_script_is_taken_for_that_of_the_trace(here: Path) -> None:
    trace = recorded(here, "/cluster/job/train.py")
    assert "the file is not here" in invoke("fix", trace).stdout
    assert "+++ b/train.py" in invoke("fix", trace, "train.py").stdout


def test_a_library_stays(here: Path) -> None:
    library = here / "site-packages"
    library.mkdir()
    shutil.copy2(here / "train.py", library / "train.py")
    result = invoke("fix", recorded(here, "site-packages/train.py"))
    assert "installed library" in result.stdout
    assert "--- a/" not in result.stdout


@pytest.mark.parametrize("file", ["/gone/tqdm/std.py", "site-packages/tqdm.py"])
def test_a_loop_in_a_progress_bar_is_a_reason(here: Path, file: str) -> None:
    (here / "site-packages").mkdir()
    (here / "site-packages/tqdm.py").write_text("def bar(loader):\n    for batch in loader:\n        yield batch\n")
    trace = recorded(here, loop=Place(file, 2, "bar"))
    result = invoke("fix", trace)
    assert result.exit_code == 0
    assert f"{file}:2" in result.stdout
    assert "pin_memory=True" not in result.stdout
    assert invoke("report", trace).exit_code == 0


def test_a_trace_of_another_recorder_says_what_it_lacks(here: Path) -> None:
    result = invoke("fix", recorded(here, by_pinprof=False))
    assert result.exit_code == 0
    assert "record the program with" in result.stdout
    assert "Next: pinprof run" in result.stderr
    assert invoke("fix", copying_trace(here)).exit_code == 0


def test_json_has_all_of_it(here: Path) -> None:
    trace = recorded(here)
    result = invoke("fix", trace, "--json", "-")
    document = fitting(result.stdout)
    assert document["by_pinprof"]
    rules = [patch["rule"] for patch in document["patches"]]
    assert {"PIN104", "PIN201"} <= set(rules)
    item = document["patches"][rules.index("PIN201")]
    assert item["places"][0] == {"file": "train.py", "line": ITEM}
    assert item["numbers"] == "equal"
    assert item["saving_ms"] > 0
    assert item["diff"].startswith("--- a/train.py\n+++ b/train.py\n@@")
    assert document["written"] == []
    assert is_one_line_error(invoke("fix", trace, "--json", trace, "--force"))


@pytest.mark.parametrize(("encode", "newline"), [("utf-8", "\r\n"), ("latin-1", "\n"), ("utf-8-sig", "\n")])
def test_encodings_and_ends_of_lines_stay(here: Path, encode: str, newline: str) -> None:
    head = "# -*- coding: latin-1 -*-" if encode == "latin-1" else "import torch"
    program, mended = (text.replace("import torch", head, 1) for text in (PROGRAM, MENDED))
    (here / "train.py").write_bytes(program.replace("\n", newline).encode(encode))
    result = invoke("fix", recorded(here))
    git(here, "apply", "--whitespace=nowarn", given=result.stdout_bytes)
    assert (here / "train.py").read_bytes() == mended.replace("\n", newline).encode(encode)


def test_tabs_and_a_missing_last_newline_stay(here: Path) -> None:
    program, mended = (text.replace("    ", "\t").rstrip("\n") for text in (PROGRAM, MENDED))
    (here / "train.py").write_text(program)
    result = invoke("fix", recorded(here))
    assert "\\ No newline at end of file" in result.stdout
    git(here, "apply", given=result.stdout_bytes)
    assert (here / "train.py").read_text() == mended


def test_a_file_that_is_no_python_is_named(here: Path) -> None:
    (here / "train.py").write_text("print 'a'\n" * 40)
    result = invoke("fix", recorded(here))
    assert result.exit_code == 0
    assert "cannot read the file as Python" in result.stdout


def test_help_needs_neither_torch_nor_libcst() -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom pinprof.cli import main\n"
        "for words in (['--help'], ['fix', '--help']):\n    CliRunner().invoke(main, words)\n"
        "assert not {'torch', 'libcst', 'plotly'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_reports_name_fix_for_the_rules_that_it_has_changes_for() -> None:
    assert {rule.id for rule in RULES if rule.mended in ("line", "construction")} == {
        rule for fix in every_fix() for rule in fix.rules
    }


@pytest.mark.parametrize("rule", ["PIN102", "PIN104"])
def test_one_change_saves_the_same_whichever_of_its_rules_is_asked_for(here: Path, rule: str) -> None:
    trace = recorded(here, blocking_us=15)
    places = [{"file": "train.py", "line": line} for line in (COPY, LOADER_LINE)]
    (copies,) = (patch for patch in patches_of(trace) if patch["places"] == places)
    (alone,) = patches_of(trace, "--rule", rule)
    assert (alone["places"], alone["diff"]) == (places, copies["diff"])
    assert alone["saving_ms"] == copies["saving_ms"]


def patches_of(trace: Path, *options: str) -> list[dict[str, Any]]:
    patches: list[dict[str, Any]] = fitting(invoke("fix", trace, "--json", "-", *options).stdout)["patches"]
    return patches
