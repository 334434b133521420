"""Tries at getting past the gate: whatever it is given, `pinprof check` ends as it says, in every format alike."""

import json
import os
import pickle
from functools import lru_cache
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from check_traces import plain, with_waits
from command_line import invoke, is_one_line_error
from quick import slow_but
from trace_builder import TraceBuilder

from pinprof.analysis import Analysis, analyse
from pinprof.check.limits import QUANTITIES
from pinprof.prediction.pinning import Pinning
from pinprof.version import VERSION

KEPT, BROKEN = ("--max-hidden-syncs", "2"), ("--max-hidden-syncs", "1")
"""Limits that the steps of `with_waits` keep, and do not."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of work, with a trace and above all others of a repository."""
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    monkeypatch.chdir(work)
    with_waits().write(work / "good.json")
    return work


@pytest.fixture(autouse=True)
def analysed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command take the analysis of a trace from a command before that was given an equal one."""
    monkeypatch.setattr("pinprof.analysis.analyse", lambda trace, machine, _: analysis_of(pickle.dumps(trace), machine))


@lru_cache(maxsize=64)
def analysis_of(pickled: bytes, machine: Pinning | None = None) -> Analysis:
    return analyse(pickle.loads(pickled), machine)


def ranks(folder: Path, *numbers: int, world_size: int = 2) -> Path:
    """Write the traces of these ranks of a job into `run`."""
    run = folder / "run"
    run.mkdir(exist_ok=True)
    for rank in numbers:
        builder = with_waits()
        builder.metadata["distributedInfo"] = {"rank": rank, "world_size": world_size}
        builder.write(run / f"rank{rank}.json")
    return run


def in_every_format(*words: object) -> tuple[int, str]:
    """Return the exit code of a check and its text, after all formats have said the same."""
    text = invoke("check", *words)
    assert text.exit_code in {0, 1, 2}
    broken, unknown = text.exit_code == 1, text.exit_code == 2
    assert (" failed" in text.stdout.splitlines()[0]) == broken
    assert (" passed." in text.stdout.splitlines()[0]) == (not broken and not unknown)

    github = invoke("check", *words, "--format", "github")
    assert any(line.startswith("::error ") for line in github.stdout.split("\n")) == (broken or unknown)
    assert all(line.startswith("::") for line in github.stdout.split("\n")[:-1])

    sarif = invoke("check", *words, "--format", "sarif")
    (run,) = json.loads(sarif.stdout)["runs"]
    assert run["invocations"] == [{"executionSuccessful": not unknown, "exitCode": text.exit_code}]
    assert any(result["level"] == "error" for result in run["results"]) == (broken or unknown)

    junit = invoke("check", *words, "--format", "junit")
    root = ET.fromstring(junit.stdout)
    assert {tag: len(root.findall(f".//{tag}")) for tag in ("failure", "error")} == {
        "failure": int(root.attrib["failures"]),
        "error": int(root.attrib["errors"]),
    }
    assert (root.attrib["failures"] != "0") == broken
    if not broken:
        assert (root.attrib["errors"] != "0") == unknown
    assert len(root.findall(".//testcase")) == int(root.attrib["tests"])
    for result in (text, github, sarif, junit):
        assert result.exit_code == text.exit_code
        assert result.stderr == text.stderr
        assert "Traceback" not in result.output
        if unknown:
            assert is_one_line_error(result)
    return text.exit_code, text.stdout


# What was not judged


def test_a_job_of_which_all_ranks_are_there_passes(folder: Path) -> None:
    ranks(folder, 0, 1)
    assert in_every_format("run", *KEPT)[0] == 0
    assert in_every_format("run/rank0.json", "run/rank1.json", *KEPT)[0] == 0
    assert in_every_format("run", *BROKEN)[0] == 1


def test_an_absent_rank_is_no_pass_unless_it_is_said_to_be_enough(folder: Path) -> None:
    ranks(folder, 0)
    code, text = in_every_format("run", *KEPT)
    assert code == 2
    assert "no trace of rank 1 of 2 given" in text
    assert in_every_format("run", *KEPT, "--some-ranks")[0] == 0


@pytest.mark.parametrize(
    "content",
    slow_but(
        [b"", b'{"traceEvents": ['], [b"", b"{}", b"[]", b"<html>", b"\x1f\x8b\x08", b'{"traceEvents": [', b"\xff\xfe"]
    ),
)
def test_a_rank_that_is_no_trace_is_no_pass(folder: Path, content: bytes) -> None:
    (ranks(folder, 0) / "rank1.json").write_bytes(content)
    code, text = in_every_format("run", *KEPT)
    assert code == 2
    assert "run/rank1.json\nunknown" in text
    assert "no trace of rank" not in text
    assert in_every_format("run", *KEPT, "--some-ranks")[0] == 2
    code, text = in_every_format("run", *BROKEN)
    assert code == 1
    assert text.startswith("1 of 2 checks failed; 1 could not be judged.\n")
    assert "Not judged: run/rank1.json: " in invoke("check", "run", *BROKEN).stderr


@pytest.mark.parametrize("share", slow_but([0.6], [0.3, 0.6, 0.9, 0.99]))
def test_a_rank_that_lost_its_end_is_no_pass(folder: Path, share: float) -> None:
    path = ranks(folder, 0, 1) / "rank1.json"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert in_every_format("run", *KEPT)[0] == 2


@pytest.mark.parametrize(
    "argument",
    slow_but(
        ["none.json", "none*.json"],
        ["none.json", "none*.json", ".git", "zorg://x/t.json", "good.json/x", "a\nb.json", "-"],
    ),
)
def test_what_is_not_there_is_no_pass_beside_what_is(folder: Path, argument: str) -> None:
    for order in (("good.json", argument), (argument, "good.json"), (argument,)):
        assert in_every_format(*order, *KEPT)[0] == 2
    assert in_every_format(argument, "good.json", *BROKEN)[0] == 1


@pytest.mark.parametrize("name", ["host.json", "empty.json"])
def test_a_trace_of_the_host_alone_or_of_nothing_keeps_no_limit(folder: Path, name: str) -> None:
    host = TraceBuilder()
    for start in host.steps(4):
        host.op("aten::mm", start + 10, 900)
    host.write(folder / "host.json")
    TraceBuilder().write(folder / "empty.json")
    limits = [f"--{quantity.name}" for quantity in QUANTITIES.values()]
    code, text = in_every_format(name, *(word for limit in limits for word in (limit, "0.5")))
    assert code == 2
    assert text.startswith(f"{len(limits)} of {len(limits)} checks could not be judged") or name == "empty.json"


# Limits


@pytest.mark.parametrize(
    ("words", "code"),
    [
        *((("--max-hidden-syncs", "2"), 0), (("--max-hidden-syncs", "1.9999999"), 1)),
        *((("--min-overlap", "1e-9"), 1), (("--max-step-ms", "1"), 2)),
        *((("--max-step-ms", "1", "--max-stall-ms", "0"), 1), (("--max-step-ms", "1", "--max-stall-ms", "9"), 2)),
    ],
)
def test_the_exit_code_is_that_of_the_worst_limit(words: tuple[str, ...], code: int) -> None:
    assert in_every_format("good.json", *words)[0] == code


@pytest.mark.parametrize(
    ("limit", "code", "said", "following"),
    [
        (KEPT, 0, "1 check passed", "pinprof report good.json --html report.html"),
        (BROKEN, 1, "hidden waits of the host per step: 2, at most 1 allowed", "pinprof explain PIN101"),
    ],
)
def test_what_was_judged_is_said_with_the_next_command(
    limit: tuple[str, str], code: int, said: str, following: str
) -> None:
    result = invoke("check", "good.json", *limit)
    assert (result.exit_code, result.stderr) == (code, f"Next: {following}\n")
    assert said in result.stdout


@pytest.mark.parametrize(("form", "start"), [("github", "::error "), ("sarif", "{"), ("junit", "<?xml")])
def test_every_format_is_written_to_a_file_that_is_kept_without_force(folder: Path, form: str, start: str) -> None:
    words = ("check", "good.json", *BROKEN, "--format", form, "-o", "out")
    assert invoke(*words).exit_code == 1
    text = (folder / "out").read_text()
    assert text.startswith(start)
    assert is_one_line_error(invoke(*words))
    assert invoke(*words, "--force").exit_code == 1
    assert invoke(*words[:-2]).stdout == text


@pytest.mark.parametrize(
    "words",
    [
        *((), ("--max-step-ms", "inf"), ("--max-stall-ms", "3ms"), ("--min-overlap", "90")),
        *(("--config", "none.toml"), ("--config", ".git"), ("--config", "")),
        *(("--baseline", "none.json"), ("--baseline", ".git"), ("--baseline", "good.json")),
        *((*KEPT, "-o", "good.json", "--force"), (*KEPT, "-o", ".git"), (*KEPT, "-o", "none/out.xml")),
        *((*KEPT, "--format", "junit", "--format", "xml"), (*KEPT, "--format", "html")),
        (*KEPT, "--tolerance", "0.1"),
    ],
)
def test_what_makes_no_sense_is_one_line(words: tuple[str, ...]) -> None:
    assert is_one_line_error(invoke("check", "good.json", *words))


def test_what_could_not_be_judged_is_written_too(folder: Path) -> None:
    result = invoke("check", "none.json", *KEPT, "--format", "junit", "-o", "out.xml")
    assert result.exit_code == 2
    assert result.stderr == "Wrote out.xml\nError: none.json: no such file\n"
    assert ET.fromstring((folder / "out.xml").read_text()).attrib["errors"] == "1"


# The project's file


@pytest.mark.parametrize("text", ["", "[tool.pinprof]", "[tool.pinprof.check]", "[tool.pinprof.check"])
def test_a_project_whose_limits_are_none_does_not_pass(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)
    (folder / "src").mkdir()
    for place in (folder, folder / "src"):
        os.chdir(place)
        result = invoke("check", folder / "good.json")
        assert is_one_line_error(result)
        assert "pyproject.toml" in result.stderr


# The baseline


def baseline(folder: Path, builder: TraceBuilder, name: str = "baseline.json") -> Path:
    assert invoke("report", builder.write(folder / "before.json"), "--json", folder / name).exit_code == 0
    return folder / name


def test_a_wait_that_the_baseline_does_not_have_fails_the_check(folder: Path) -> None:
    baseline(folder, plain())
    code, text = in_every_format("good.json", "--baseline", "baseline.json")
    assert code == 1
    assert "new" in text
    assert is_one_line_error(invoke("check", "good.json", "good.json", "--baseline", "baseline.json"))
    assert "must be a share" in invoke("check", "good.json", "--baseline", "baseline.json", "--tolerance", "10").stderr


def test_a_baseline_of_another_version_is_used_and_remarked_on(folder: Path) -> None:
    path = baseline(folder, with_waits())
    path.write_text(path.read_text().replace(f'"pinprof_version": "{VERSION}"', '"pinprof_version": "0.0.1"'))
    result = invoke("check", "good.json", "--baseline", "baseline.json")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"Note: baseline.json: it is of pinprof 0.0.1, this is {VERSION}: ")
    path.write_text(path.read_text().replace("pinprof.report/1", "pinprof.report/2"))
    assert is_one_line_error(invoke("check", "good.json", "--baseline", "baseline.json"))
