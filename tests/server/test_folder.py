"""Nothing outside of the folder is read: by no name, no link, and no name within a trace."""

import gzip
import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from agent import Agent
from command_line import invoke
from recordings import ROOT, TRACES

from pinprof.errors import PinprofError
from pinprof.server.folder import Folder
from pinprof.trace.sources import WITHIN, Sources

SECRET = "losses.append(loss.item())"


@pytest.fixture(scope="session")
def outside(folder: Path) -> Path:
    """Give a folder beside that of the server, with a trace and a source, and links to it from within."""
    beside = folder.parent / "beside"
    beside.mkdir()
    shutil.copy(TRACES / "clean.json.gz", beside / "trace.json.gz")
    (folder / "link.json.gz").symlink_to(beside / "trace.json.gz")
    (folder / "linked").symlink_to(beside)
    (folder / "mixed").mkdir()
    shutil.copy(TRACES / "clean.json.gz", folder / "mixed" / "own.json.gz")
    (folder / "mixed" / "other.json.gz").symlink_to(beside / "trace.json.gz")
    (folder / "links").mkdir()
    (folder / "links" / "only.json.gz").symlink_to(beside / "trace.json.gz")
    (folder / "loop.json.gz").symlink_to("loop.json.gz")
    (folder / "within.json.gz").symlink_to("item.json.gz")
    os.mkfifo(folder / "pipe.json.gz")
    return beside


def test_no_name_leads_out(agent: Agent, outside: Path) -> None:
    trace = outside / "trace.json.gz"
    refused = {
        "outside of the folder": [
            str(trace),
            "../beside/trace.json.gz",
            "run/../../beside/trace.json.gz",
            "/proc/self/cwd/beside/trace.json.gz",
            f"/{trace}",
            "link.json.gz",
            "linked/trace.json.gz",
            "linked",
            "links",
            "..",
            "/etc",
        ],
        "not a URL or standard input": [
            "-",
            f"file://{trace}",
            f"local://{trace}",
            "https://example.com/trace.json.gz",
            "s3://bucket/trace.json.gz",
            f"simplecache::file://{trace}",
            "memory://x",
        ],
        "no such file": [
            "~/trace.json.gz",
            "../project/nothing.json.gz",
            "--html=x.html",
            "$HOME",
            ""[:0] or "no.json",
        ],
        "patterns are not taken": ["*.json.gz", "r[u]n/*.json.gz", "**"],
        "not a regular file": ["pipe.json.gz"],
        "not a name that a file can have": ["a\0b", "x" * 999, "loop.json.gz"],
    }
    for why, names in refused.items():
        for name in names:
            for traces in ([name], ["item.json.gz", name]):
                assert why in agent.error("report", traces=traces), name
    assert agent.answer("report", traces=["within.json.gz"])
    for tool, arguments in (
        ("compare", {"before": "item.json.gz", "after": str(trace)}),
        ("evidence", {"traces": [str(trace)], "ids": ["/traces/0/path"]}),
        ("whatif", {"traces": ["link.json.gz"]}),
        ("fix", {"trace": str(trace)}),
        ("fix", {"trace": "item.json.gz", "scripts": ["../beside/waits.py"]}),
    ):
        assert "outside of the folder" in agent.error(tool, **arguments)


def test_a_folder_is_read_but_for_a_link_that_leads_out(agent: Agent, outside: Path) -> None:
    answer = agent.answer("report", traces=["mixed"])
    (trace,) = answer["document"]["traces"]
    assert trace["path"].endswith("own.json.gz")
    assert answer["notes"] == ["Skipped: other.json.gz: is a link that leads out of the folder of this server"]


def test_an_answer_does_not_tell_whether_a_file_is_there_outside(agent: Agent, outside: Path) -> None:
    there, not_there = (agent.error("report", traces=[str(outside / name)]) for name in ("trace.json.gz", "no.json.gz"))
    assert there.replace("trace.json.gz", "no.json.gz") == not_there


def recorded_elsewhere(trace: Path, source: Path) -> None:
    """Write a recording whose program is at this path, and the program, a day older."""
    text = gzip.decompress((TRACES / "loss_item_host_work.stack.json.gz").read_bytes()).decode()
    trace.write_bytes(gzip.compress(text.replace("pinprof/workloads/waits.py", str(source)).encode()))
    shutil.copy(ROOT / "pinprof" / "workloads" / "waits.py", source)
    os.utime(source, (time.time() - 86400,) * 2)


def test_sources_outside_that_a_trace_names_are_not_read(agent: Agent, outside: Path) -> None:
    for name, source in (("stolen", outside / "waits.py"), ("linked_source", agent.folder / "linked" / "waits.py")):
        trace = agent.folder / f"{name}.json.gz"
        recorded_elsewhere(trace, source)
        assert SECRET in invoke("report", trace, "--json", "-", "--brief").stdout, "which anybody else may read"
        brief = agent.answer("report", traces=[trace.name])
        assert SECRET not in json.dumps(brief)
        finding = brief["document"]["traces"][0]["findings"][0]
        assert (finding["file"], finding["line"], finding["code"]) == (str(source), 58, None)
    made = json.dumps(agent.answer("fix", trace="stolen.json.gz"))
    assert SECRET not in made
    assert "the file is not here" in made


def test_sources_inside_that_a_trace_names_are_quoted(agent: Agent) -> None:
    trace = agent.folder / "own_source.json.gz"
    recorded_elsewhere(trace, agent.folder / "waits.py")
    brief = agent.answer("report", traces=[trace.name])["document"]
    assert brief["traces"][0]["findings"][0]["code"] == SECRET


def test_sources_are_bounded_by_the_environment_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    for path in (tmp_path / "a.py", inner / "a.py"):
        path.write_text("pass\n")
    monkeypatch.chdir(tmp_path)
    trace = str(inner / "trace.json")
    Path(trace).write_text("{}")
    assert Sources(trace).path(str(tmp_path / "a.py"))
    monkeypatch.setenv(WITHIN, str(inner))
    assert Sources(trace).path(str(tmp_path / "a.py")) is None
    assert Sources(trace).path("../a.py") is None
    assert Sources(trace).text("a.py") == "pass\n"
    assert Sources(trace).path("a.py") == inner / "a.py", "not that of the working directory, which is outside"


@pytest.mark.parametrize(
    "words",
    [
        ["rm", "-rf", "."],
        ["python", "-c", "import os"],
        ["python", "-m", "os"],
        ["python", "-m", "http.server"],
        ["python", "-X", "importtime", "train.py"],
        ["python", "../train.py"],
        ["/bin/sh", "train.py"],
        ["sh", "train.py"],
        ["python"],
        ["torchrun", "--no-python", "train.py"],
        ["torchrun", "--nproc-per-node=2", "-c", "train.py"],
        ["other.py"],
        ["-m", "..train"],
        ["-m", "linked"],
        [""],
    ],
)
def test_commands_that_are_no_program_of_the_folder_are_refused(tmp_path: Path, words: list[str]) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    for path in (tmp_path / "train.py", inner / "train.py"):
        path.write_text("")
    (inner / "linked.py").symlink_to(tmp_path / "train.py")
    with pytest.raises(PinprofError):
        Folder(inner).program(words)


def test_programs_of_the_folder_are_taken(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for name in ("train.py", "package/__main__.py", "package/fit.py"):
        (tmp_path / name).write_text("")
    torchrun = str(Path(sys.executable).parent / "torchrun")
    for words, taken in (
        (["train.py", "--lr", "1"], ["train.py", "--lr", "1"]),
        ([str(tmp_path / "train.py")], ["train.py"]),
        (["python", "train.py", "-c", "x"], ["train.py", "-c", "x"]),
        (["python3", "-u", "-m", "package"], [sys.executable, "-u", "-m", "package"]),
        (["-m", "package.fit"], ["-m", "package.fit"]),
        (["torchrun", "--nproc-per-node=2", "train.py"], [torchrun, "--nproc-per-node=2", "train.py"]),
    ):
        assert Folder(tmp_path).program(words) == taken
