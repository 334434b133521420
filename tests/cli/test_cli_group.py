"""`pinprof` alone, with a file instead of a command, with a wrong word; its help by use; completion."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_line import invoke, is_one_line_error

from pinprof.cli import main
from pinprof.cli.group import SECTIONS
from pinprof.cli.terminal import page_options


def test_alone_it_says_what_to_try_on_a_screen_that_fits_a_terminal() -> None:
    result = invoke()
    assert result.exit_code == 0
    assert result.stderr == ""
    assert [line.split()[:2] for line in result.stdout.splitlines() if line.startswith("  ")] == [
        ["pinprof", name] for name in ("run", "report", "whatif")
    ]
    assert "pinprof --help" in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 80


def test_help_has_each_command_once_by_use() -> None:
    named = [name for names in SECTIONS.values() for name in names]
    assert sorted(named) == sorted(set(named))
    text = invoke("--help").stdout
    for name, command in main.commands.items():
        assert sum(line.startswith(f"  {name} ") for line in text.splitlines()) == (not command.hidden)
    assert "did you mean pinprof workload?" in invoke("workr").output
    assert text.index("Record and report:") < text.index("Change and compare:") < text.index("Look closer:")
    assert "_PINPROF_COMPLETE=bash_source" in text


def test_a_trace_alone_is_reported_on(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = invoke("report", trace.name, "--full")
    for words in ((trace.name,), (".",), ("*.json.gz",), (f"file://{trace}",)):
        assert invoke(*words).exit_code == 0
    assert invoke(trace.name, "--full").stdout == expected.stdout
    assert invoke("-", given=trace.read_bytes()).exit_code == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("train.py", "is a Python script, not a trace; to record it: pinprof run "),
        ("job.pftrace", "is a trace in Perfetto's own format; pinprof reads the JSON of torch.profiler"),
        ("job.pftrace.gz", "Perfetto's traceconv makes it of this file"),
        ("events.out.tfevents.1.host", "is an event file of TensorBoard; the trace is a .pt.trace.json next to it"),
        ("train.ipynb", "is a notebook, not a trace"),
    ],
)
def test_a_file_that_its_name_tells_to_be_no_trace_is_named(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / name).write_bytes(b"anything")
    result = invoke("report", tmp_path / name)
    assert is_one_line_error(result)
    assert said in result.stderr


COLORFUL = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        *(({}, (100, False)), ({"COLUMNS": "72"}, (72, False)), ({"COLUMNS": "wide"}, (100, False))),
        *(({"COLUMNS": "7"}, (40, False)), ({"FORCE_COLOR": "1"}, (100, True))),
        *(({"CLICOLOR_FORCE": "1"}, (100, True)), ({"CLICOLOR_FORCE": "0"}, (100, False))),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, (100, False)),
    ],
)
def test_a_pipe_has_the_width_and_the_colours_that_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    environment: Mapping[str, str],
    expected: tuple[int, bool],
) -> None:
    for name in COLORFUL:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with capfd.disabled():
        pass
    assert page_options() == expected


def test_a_stream_of_ascii_gets_plain_characters(trace: Path) -> None:
    from click.testing import CliRunner  # noqa: PLC0415  with an encoding of its own

    result = CliRunner(charset="ascii").invoke(main, ["report", str(trace)])
    assert result.exit_code == 0
    assert result.stdout.isascii()
    assert "#" in result.stdout
    assert "\\u" not in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("repotr",), "neither a command nor a file; did you mean pinprof report?"),
        (("Whatif",), "neither a command nor a file; did you mean pinprof whatif?"),
        (("xyzzy",), "xyzzy is neither a command nor a file (pinprof --help explains)"),
        (("no.json",), "no.json: no such file"),
        (("none.py", "--epochs", "1"), "Error: none.py: no such script"),
        (("run", "t.json.gz"), "is not a Python script; to report on a trace: pinprof report t.json.gz"),
        (("report", "t.json.gz", "--htlm", "x.html"), "--html"),
        *((words, "--help") for words in (("report",), ("report", "--jsn", "x"), ("timeline", "x"), ("run",))),
        (("report", "--html", "t.json.gz"), "--html took t.json.gz for the file to write"),
        (("report", "t.json.gz", "--html"), " --help explains)"),
        (("run", "python", "train.py"), "pinprof starts Python itself: pinprof run train.py"),
        (("run", "torchrun", "--nproc", "2", "train.py"), "write: torchrun ... -m pinprof run train.py"),
        (("run", "accelerate", "launch", "train.py"), "pinprof run -m accelerate.commands.launch train.py"),
        (("run", "trian.py"), "trian.py: no such script"),
        (("run", "."), "is a folder without a __main__.py; name the script in it"),
        (("train.py", "--epochs", "1"), "overwrite it: pinprof run --force train.py ..."),
        (("run", "-m", "train"), "overwrite it: pinprof run --force -m train"),
        (("explain", "wait"), "wait: unknown rule or guide; `pinprof explain` lists all; did you mean PIN201, PIN202"),
        (("explain", "201"), "did you mean PIN201?"),
        (("explain", "recrding"), "did you mean recording?"),
    ],
)
def test_a_usual_mistake_is_one_line_with_its_way_out(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    trace.rename(tmp_path / "t.json.gz")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "pinprof-train.json.gz").write_text("")
    result = invoke(*words)
    assert is_one_line_error(result)
    assert said in result.stderr.replace("main ", "pinprof ")  # as it is called in a test


def test_an_output_where_one_may_not_write_is_refused_before_the_work(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda _, mode: mode != os.W_OK)
    result = invoke("report", trace, "--html", tmp_path / "page.html")
    assert is_one_line_error(result)
    assert f"you may not write into the folder {tmp_path}; name a file elsewhere" in result.stderr
    assert not result.stdout
