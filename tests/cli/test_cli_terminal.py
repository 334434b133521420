"""What holds of every command at the terminal: exit codes, signals, standard output, names that say too much."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import invoke, is_one_line_error
from job_builder import rank_trace
from quick import slow_but
from trace_builder import TraceBuilder

from pinprof import load
from pinprof.cli import terminal
from pinprof.report.trace.text import trace_to_text

PINPROF = (sys.executable, "-m", "pinprof")
MARKUP = r"my::op[/][link=https://example.com]click[red]plain:smile:\[/]"
CONTROLS = "a\x1b[31m\x9b1m\x85\nError: forged\u202egnp"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def hostile_trace(path: Path, name: str) -> Path:
    """Write the trace of a copy whose op and Python function have this name."""
    builder = TraceBuilder()
    for start in builder.steps(4):
        builder.function(f"{name}.py(3): {name}", start + 1, 980)
        builder.op(name, start + 440, 460)
        builder.kernel(start + 100, 300, launch=start + 50, name=name)
        builder.copy("HtoD (Pageable -> Device)", start + 500, 400, launch=start + 450, call=430)
    path.parent.mkdir()
    return builder.write(path)


@pytest.mark.parametrize("name", [MARKUP, CONTROLS])
def test_names_are_shown_as_they_are_and_command_nothing(tmp_path: Path, name: str) -> None:
    trace = hostile_trace(tmp_path / name.replace("/", "_") / "trace.json", name)
    other = hostile_trace(tmp_path / "other" / "trace.json", f"{name}2")
    said = [
        invoke("report", trace),
        invoke("compare", trace, other),
        invoke("check", trace, "--max-hidden-syncs", "99"),
        invoke("whatif", trace),
        invoke("report", trace, "--json", "-"),
        invoke("report", trace.with_name(f"{trace.name}{name.replace('/', '')}")),
    ]
    assert [result.exit_code for result in said] == [0, 0, 0, 0, 0, 2]
    for result in said:
        assert not RAW.search(result.stdout)
        assert not RAW.search(result.stderr)
    assert is_one_line_error(said[-1])
    report = load(trace)
    wide = trace_to_text(report.profile, report.analysis.findings, width=400, color=True)
    assert (MARKUP in wide) == (name == MARKUP)
    assert not RAW.search(re.sub(r"\x1b\[[0-9;]*m", "", wide))
    assert str(report)


@pytest.mark.parametrize(
    "words",
    [
        ("report", "{folder}", "--json", "{folder}/rank0.json"),
        ("report", "{folder}/*.json", "--html", "{folder}/./../ow/rank0.json"),
        ("report", "file://{folder}", "--json", "{folder}/rank0.json"),
        ("check", "simplecache::file://{folder}/rank0.json", "--max-hidden-syncs", "0", "-o", "{folder}/rank0.json"),
        ("check", "{folder}", "--config", "{folder}/limits.toml", "-o", "{folder}/limits.toml"),
        ("compare", "{folder}/rank0.json", "{folder}/rank1.json", "--json", "{folder}/link"),
        ("whatif", "{folder}/rank0.json", "--json", "{folder}/hard"),
        ("verify", "{folder}/rank0.json", "{folder}/rank1.json", "--json", "{folder}/rank1.json"),
        ("timeline", "{folder}/rank0.json", "-o", "{folder}/link"),
        ("export", "file://{folder}/rank0.json", "-o", "{folder}/rank0.json"),
        ("run", "-o", "{folder}/train.json", "{folder}/train.json"),
    ],
)
def test_no_output_is_an_input_by_any_name(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = tmp_path / "ow"
    folder.mkdir()
    for rank in (0, 1):
        rank_trace(rank, 10).write(folder / f"rank{rank}.json")
    (folder / "limits.toml").write_text("[tool.pinprof.check]\nmax-hidden-syncs = 0\n")
    (folder / "train.json").write_text("pass\n")
    (folder / "hard").hardlink_to(folder / "rank0.json")
    (folder / "link").symlink_to("rank0.json")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    command, *rest = (word.format(folder=folder) for word in words)
    result = invoke(command, "--force", *rest)
    assert is_one_line_error(result)
    assert "is also an input; choose another name" in result.stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_what_nobody_thought_of_is_one_line_with_two(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (KeyError("x\ny"), RecursionError("deep"), EOFError(), AssertionError(), MemoryError()):
        monkeypatch.setattr("pinprof.analysis.analyse", _raises(error))
        assert is_one_line_error(invoke("check", trace, "--max-hidden-syncs", "0"))
    monkeypatch.setenv("PINPROF_TRACEBACK", "1")
    monkeypatch.setattr("pinprof.analysis.analyse", _raises(KeyError("x")))
    result = invoke("report", trace)
    assert result.exit_code == 2
    assert "Traceback" in result.stderr


def _raises(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("text", ["1e999999999", "-1e999999999", "9" * 400_000, "1e-999999999", '"1e999999999"'])
def test_any_number_of_json_is_read_or_counted_at_once(trace: Path, tmp_path: Path, text: str) -> None:
    events = json.loads(subprocess.run(["gzip", "-dc", trace], check=True, capture_output=True).stdout)
    plain = json.dumps(events)
    for key in ("dur", "correlation"):
        wrong = tmp_path / "wrong.json"
        wrong.write_text(re.sub(rf'("{key}": )[\d.]+', rf"\g<1>{text}", plain, count=1))
        begin = time.process_time()
        assert invoke("report", wrong).exit_code == 0
        assert time.process_time() - begin < 5


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [("report",), ("export", "-o", "-"), ("explain", "PIN201")])
def test_a_full_disk_behind_standard_output_is_one_line(trace: Path, words: tuple[str, ...]) -> None:
    command = [*PINPROF, *words, *([] if words[0] == "explain" else [str(trace)])]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "Error: standard output: cannot be written (No space left on device)\n"


TO_STANDARD_OUTPUT = [("report", "--json", "-"), ("export", "-o", "-"), ("export", "-o", "/dev/stdout")]


@pytest.mark.parametrize("words", slow_but(TO_STANDARD_OUTPUT[2:], TO_STANDARD_OUTPUT))
def test_what_is_read_is_not_added_to_by_standard_output(trace: Path, words: tuple[str, ...]) -> None:
    before = trace.read_bytes()
    with trace.open("ab") as same:
        command = [*PINPROF, *words, str(trace)]
        done = subprocess.run(command, stdout=same, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "is also an input; choose another name" in done.stderr
    assert trace.read_bytes() == before


@pytest.mark.slow
def test_a_pipe_that_nobody_reads_changes_neither_the_status_nor_the_files(trace: Path, tmp_path: Path) -> None:
    ends = []
    for words in (("check", trace, "--max-hidden-syncs", "0"), ("report", trace, "--json", tmp_path / "out.json")):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [*PINPROF, *map(str, words)], cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
        os.close(writing)
        ends.append((done.returncode, "Error" in done.stderr or "Traceback" in done.stderr))
    assert ends == [(1, False), (0, False)]
    assert json.loads((tmp_path / "out.json").read_text())["schema"] == "pinprof.report/1"


SLOW = """
import pathlib, sys, time
import pinprof.cli
replace = pathlib.Path.replace
def slowly(self, target):
    if self.parent.name.startswith(".pinprof-"):
        print("writing", file=sys.stderr, flush=True)
        time.sleep(60)
    return replace(self, target)
pathlib.Path.replace = slowly
pinprof.cli.main()
"""
"""pinprof that stands still before a file takes its place."""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_command_and_leaves_nothing(trace: Path, tmp_path: Path, number: int, status: int) -> None:
    (tmp_path / "out.json").write_text("old")
    command = [sys.executable, "-c", SLOW, "report", str(trace), "--json", str(tmp_path / "out.json"), "--force"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    assert process.stderr.readline() == "writing\n"
    assert [path for path in tmp_path.iterdir() if path.name.startswith(f".pinprof-{process.pid}-")]
    process.send_signal(number)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == status
    assert said.strip() == "Error: interrupted"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "trace.json.gz"]
    assert (tmp_path / "out.json").read_text() == "old"


STILL = """
import importlib, sys, time
import pinprof.cli
module, _, name = sys.argv.pop(1).rpartition(".")
def still(*_, **__):
    print("still", file=sys.stderr, flush=True)
    time.sleep(60)
setattr(importlib.import_module(module), name, still)
pinprof.cli.main()
"""
"""pinprof that stands still in a function."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", ["pinprof.trace.reader.read.read_rows", "pinprof.replay.replay.pace", "pinprof.report.timeline.packed"]
)
def test_ctrl_c_ends_each_phase_at_once_and_leaves_nothing(trace: Path, tmp_path: Path, where: str) -> None:
    command = [sys.executable, "-c", STILL, where, "report", str(trace), "--html", str(tmp_path / "out.html")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    assert process.stderr.readline() == "still\n"
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    assert time.monotonic() - begin < 30  # it would stand still for 60 s
    assert (process.returncode, said) == (130, "Error: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json.gz"]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_each_phase_of_a_report_has_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int) -> None:
    shown: list[str] = []

    @contextmanager
    def progress(text: str) -> Iterator[Callable[[str], None]]:
        shown.append(text)
        yield shown.append

    for module in ("terminal", "inputs"):
        monkeypatch.setattr(sys.modules[f"pinprof.cli.{module}"], "progress", progress)
    paths = [rank_trace(rank, 10).write(tmp_path / f"{rank}.json") for rank in range(ranks)]
    assert invoke("report", *paths, "--html", tmp_path / "out.html").exit_code == 0
    phases = [text.split()[0] for text in shown if not text.startswith("measuring:")]
    of_traces = ["reading", "measuring", "replaying"] * ranks
    assert phases == [*(["measuring"] if ranks > 1 else []), *of_traces, "drawing"]


def test_a_signal_that_is_ignored_stays_ignored(trace: Path, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert invoke("report", trace, "--json", tmp_path / "out.json").exit_code == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_script_that_is_run_has_the_usual_signals(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import signal; print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)")
    assert invoke("run", "--guard", script).stdout.startswith("True\n")


def test_a_program_finds_the_streams_with_their_own_treatment_of_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape")
    monkeypatch.setattr(sys, "stdout", stream)
    terminal.make_writable()
    assert stream.errors == "backslashreplace"
    with terminal.users_program():
        assert stream.errors == "surrogateescape"
    assert stream.errors == "backslashreplace"
