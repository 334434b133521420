import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench_builder import H200, BenchBuilder, as_json, gbps
from command_line import invoke, is_one_line_error
from detector import detector
from fitting import fitting
from forked_driver import COMMAND, forked
from msgspec.structs import replace
from recordings import TRACES
from trace_builder import without_known_events

from pinprof.cli import main

TRAINING = """
import sys
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(512, 512, device=device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.randn(256, 512)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = model(batch.to(device)).square().mean()
    loss.backward()
    optimizer.step()
    loss.item()
print("finished")
"""


def test_help_teaches_every_command() -> None:
    for name in (name for name, command in main.commands.items() if not command.hidden):
        assert f"\n    pinprof {name}" in invoke(name, "--help").output.split("Example")[1], name  # a line to copy


@pytest.mark.slow
def test_a_report_needs_neither_torch_nor_plotly_nor_hta(trace: Path) -> None:
    code = (
        "import sys; from click.testing import CliRunner; from pinprof.cli import main;"
        f"assert CliRunner().invoke(main, ['report', {str(trace)!r}, '--json', '-']).exit_code == 0;"
        "print({'torch', 'plotly', 'hta', 'pandas'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_report_prints_the_numbers_and_the_next_command(trace: Path, tmp_path: Path) -> None:
    short = invoke("report", trace)
    assert short.exit_code == 0
    assert "PIN101" in short.stdout
    assert short.stdout.splitlines()[-2].endswith(f"pinprof report {trace} --full")
    assert not short.stderr
    assert invoke("report", trace, "--full").stderr == f"Next: pinprof report {trace} --html report.html\n"
    page, document = tmp_path / "page.html", tmp_path / "report.json"
    written = invoke("report", trace, "--html", page, "--json", document)
    assert written.stdout.endswith(" --full\n\n")
    assert written.stderr == f"Wrote {document}, {page}\n"


def test_a_place_of_a_library_is_taken_and_one_that_does_not_wait_is_explained(tmp_path: Path) -> None:
    trace = detector().write(tmp_path / "detector.json")
    assert (
        "3 waits of the host per step" in invoke("whatif", trace, "--drop-syncs", "roi_heads.py:fastrcnn_loss").stdout
    )
    refused = invoke("whatif", trace, "--drop-syncs", "boxes.py:clip")
    assert is_one_line_error(refused)
    assert "does not wait at boxes.py:clip; it does at train.py:" in refused.stderr


@pytest.mark.slow
def test_a_page_quotes_the_code_and_links_an_editor_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "trace.json.gz"
    trace.write_bytes((TRACES / "pageable_blocking.stack.json.gz").read_bytes())  # newer than the code
    code = "next(batches).to(device, non_blocking=non_blocking)"

    def page(*options: str) -> str:
        file = tmp_path / "report.html"
        assert invoke("report", trace, "--html", file, "--force", *options).exit_code == 0
        return file.read_text()

    monkeypatch.delenv("PINPROF_EDITOR", raising=False)
    plain = page()
    assert code in plain
    assert 'class="editor"' not in plain
    assert code not in page("--no-source")
    monkeypatch.setenv("PINPROF_EDITOR", "x-ed://{path}?{line}")
    assert re.search('href="x-ed:///.*/pinprof/workloads/copies.py[?]23"', page())
    monkeypatch.setenv("PINPROF_EDITOR", "vscode")
    assert "/pinprof/workloads/copies.py:23" in page()
    monkeypatch.setenv("PINPROF_EDITOR", "javascript:{path}")
    failed = invoke("report", trace)
    assert failed.exit_code == 2
    assert "is not an editor: name one of vscode" in failed.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("timeline without_events -o out --plotly", "has no events on host threads or GPU streams to draw"),
        ("run -", "pinprof runs no program from standard input; write it to a file"),
        ("report trace --json none/out", "none"),
        ("report trace --json trace/out", "trace.json.gz is a file"),
        ("report trace --json out --html out", "names two outputs"),
        ("report trace --json - --html -", "names two outputs"),
        ("report trace --json EMPTY", "an output has no name"),  # as a shell gives it whose variable is not set
        ("whatif trace --json EMPTY", "an output has no name"),
        ("report missing", "missing"),
        ("report empty", "empty"),
        ("report notes", "notes"),
        ("report hostile", "red"),
        ("whatif trace trace", ""),
        ("whatif trace --drop-syncs train.py:1", "pinprof run"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_writes_nothing(
    trace: Path, tmp_path: Path, words: str, reason: str
) -> None:
    for folder in ("empty", "notes"):
        (tmp_path / folder).mkdir()
    (tmp_path / "notes" / "notes.txt").write_text("{}")
    named = {
        "trace": trace,
        "without_events": without_known_events().write(tmp_path / "without_events.json"),
        "EMPTY": "",
        "hostile": tmp_path / "\x1b[31mred\nError: forged.json",
        **{name: tmp_path / name for name in ("out", "none/out", "missing", "empty", "notes")},
        "trace/out": trace / "out",
    }
    result = invoke(*(named.get(word, word) for word in words.split()))
    assert is_one_line_error(result)
    assert reason in result.stderr
    assert "\x1b" not in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *(("report", option) for option in ("--json", "--html")),
        *(("compare", option) for option in ("--json", "--html")),
        ("whatif", "--json"),
        ("verify", "--json"),
        ("timeline", "-o"),
        ("export", "-o"),
    ],
)
def test_an_output_that_exists_is_kept_without_force(trace: Path, tmp_path: Path, command: str, option: str) -> None:
    out = tmp_path / "out.json"
    out.write_text("precious")
    words = (command, trace, *([trace] if command in {"compare", "verify"} else []), option, out)
    result = invoke(*words)
    assert is_one_line_error(result)
    assert "--force" in result.stderr
    assert out.read_text() == "precious"
    assert invoke(*words, "--force").exit_code == 0
    is_page = option == "--html" or command == "timeline"
    assert out.read_text().lstrip().lower().startswith("<!doctype html>" if is_page else "{")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "trace.json.gz"]


@pytest.mark.parametrize(
    ("command", "content"),
    [
        *((["report"], content) for content in (b"", b"{", b"<html>", b"\x1f\x8b\x08", b"[1, 2", b"[]")),
        (["timeline", "-o", "-"], b"{"),
        (["check", "--max-step-ms", "1"], b""),
        (["whatif", "--pin"], b'{"nodes": []}'),
        (["export", "-o", "out.json"], b"{"),
        (["compare", TRACES / "clean.json.gz"], b"<html>"),
    ],
)
def test_a_wrong_file_is_one_line_with_its_name_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "wrong.json"
    path.write_bytes(content)
    result = invoke(*command, path)
    assert is_one_line_error(result)
    assert str(path) in result.stderr
    assert list(tmp_path.iterdir()) == [path]


# whatif and verify: per step of `trace` one copy of 400 µs of pageable memory


def test_whatif_predicts_a_change_or_compares_the_usual_ones(trace: Path) -> None:
    one, usual = invoke("whatif", trace, "--pin"), invoke("whatif", trace)
    assert "1 copy of pageable memory per step" in one.stdout
    assert "estimated without profiler" in one.stdout
    assert one.stderr.startswith("Next: ")
    assert "pinprof verify" in one.stderr
    assert "--overlap-copies" in usual.stdout
    assert f"Next: pinprof whatif {trace} --" in usual.stderr
    document = fitting(invoke("whatif", trace, "--json", "-").stdout)
    assert (len(document["scenarios"]), document["scenario"]["pin"]) == (10, False)
    told = fitting(invoke("whatif", trace, "--step-ms", "0.95", "--gpu-speed", "2", "--json", "-").stdout)
    assert (told["baseline_step_ms"], told["baseline_source"], told["scenario"]["gpu_speed"]) == (0.95, "given", 2)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--host-speed", value) for value in ("0", "-1", "nan", "inf", "1e300", "fast")),
        *((option, "0") for option in ("--gpu-speed", "--step-ms", "--pinned-gbps")),
    ],
)
def test_a_number_that_makes_no_sense_is_one_line(trace: Path, option: str, value: str) -> None:
    result = invoke("whatif", trace, "--pin", option, value)
    assert is_one_line_error(result)
    assert option in result.stderr


def test_rates_of_a_machine_take_the_place_of_the_usual_ones(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    bench = BenchBuilder().add("E13", gbps("HtoD pinned", 1 << 20, 20.0), gbps("HtoD pinned", 1 << 30, 50.0))
    file.write_text(as_json(bench.build()))
    result = invoke("whatif", trace, "--pin", "--machine", file, "--json", tmp_path / "out.json")
    assert result.exit_code == 0
    assert "at the rates measured on NVIDIA H200" in " ".join(result.stdout.split())
    document = fitting((tmp_path / "out.json").read_text())
    assert document["scenario"]["machine"] == {
        "gpu": "NVIDIA H200",
        "htod": [[1 << 20, 20], [1 << 30, 50]],
        "dtoh": [],
        "by_thread": [],
    }
    at_a_rate = invoke("whatif", trace, "--pin", "--machine", file, "--pinned-gbps", 40)
    assert "at 40.0 GB/s" in at_a_rate.stdout
    usual = fitting(invoke("whatif", trace, "--machine", file, "--json", "-").stdout)
    assert f"--pin --machine {file}" in [scenario["options"] for scenario in usual["scenarios"]]
    assert "--pin" in invoke("whatif", trace, "--non-blocking", "--machine", file).stderr


def test_a_machine_without_rates_is_one_line(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    for text in ("", '{"schema": "pinprof.report/1"}', "\0"):
        file.write_text(text)
        assert is_one_line_error(broken := invoke("whatif", trace, "--pin", "--machine", file))
        assert str(file) in broken.stderr
    file.write_text(as_json(BenchBuilder().add("E13", gbps("HtoD pinned", 1 << 20, 0.0)).build()))
    assert is_one_line_error(empty := invoke("whatif", trace, "--pin", "--machine", file))
    assert "pinprof bench --rates" in empty.stderr


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """Write the bench of an A100 on which a MB takes 2 ms from pinned memory."""
    file = tmp_path / "bench.json"
    made = BenchBuilder(replace(H200, gpu="NVIDIA A100"))
    made.add("E13", gbps("HtoD pinned", 1 << 20, 0.5), gbps("HtoD pageable", 1 << 20, 0.4))
    file.write_text(as_json(made.build()))
    return file


def savings(document: str) -> list[float]:
    """Return what the fixes of copies save."""
    findings = [finding for trace in json.loads(document)["traces"] for finding in trace["findings"]]
    return [finding["saving_ms"] for finding in findings if finding["rule"].startswith("PIN1")]


def test_a_report_reads_the_bench_of_a_machine(trace: Path, bench: Path) -> None:
    without = invoke("report", trace, "--json", "-").stdout
    assert "machine" not in json.loads(without)
    assert all(savings(without))
    document = invoke("report", trace, "--machine", bench, "--json", "-").stdout
    assert json.loads(document)["machine"] == {"gpu": "NVIDIA A100"}
    assert savings(document) == [0]
    assert "As measured on NVIDIA A100: pinned memory pays" in document
    result = invoke("report", trace, "--machine", bench)
    assert f"pinprof report {trace} --machine {bench} --full" in result.stdout
    full = invoke("report", trace, "--machine", bench, "--full").stdout
    assert "copies that become pinned run at the rates measured on NVIDIA A100" in " ".join(full.split())


@pytest.mark.parametrize("command", ["report", "whatif", "run"])
def test_a_bench_that_cannot_be_read_is_one_line_with_the_name_of_the_variable(
    command: str, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bench.json"
    assert is_one_line_error(named := invoke(command, "--machine", file, trace))
    assert named.stderr.startswith(f"Error: {file}: No such file or directory; measure it with: pinprof bench --json")
    monkeypatch.setenv("PINPROF_MACHINE", str(file))
    assert is_one_line_error(missing := invoke(command, trace))
    assert missing.stderr.startswith(f"Error: PINPROF_MACHINE: {file}: No such file or directory")
    file.write_text("{}")
    assert is_one_line_error(broken := invoke(command, trace))
    assert broken.stderr.startswith(f"Error: PINPROF_MACHINE: {file}: is not a result of pinprof bench")
    assert invoke(command, "--help").exit_code == 0


def test_the_end_of_a_path_is_enough_if_it_is_clear() -> None:
    words = ("whatif", TRACES / "mask_loss.json.gz", "--json", "-", "--drop-syncs")
    document = fitting(invoke(*words, "waits.py:84").stdout)
    assert document["scenario"]["drop_syncs"] == ["pinprof/workloads/waits.py:84"]
    for unclear in ("aits.py:84", "train.py:1"):
        assert is_one_line_error(refused := invoke(*words, unclear))
        assert "pinprof/workloads/waits.py:84" in refused.stderr


@pytest.mark.slow
def test_whatif_replays_the_ranks_of_a_job_together() -> None:
    ranks = [TRACES / "ranks" / f"pageable_rank.rank{rank}.before.json.gz" for rank in (0, 1)]
    result = invoke("whatif", *ranks, "--pin", "--non-blocking", "--step-ms", 12.94)
    assert result.exit_code == 0
    assert all(str(rank) in result.stdout for rank in ranks)
    assert "rank 0\n  - no copy to pin" in result.stdout
    assert "rank 1\n  - 1 copy of pageable memory per step" in result.stdout
    assert "Next: change the code" in result.stderr
    document = fitting(invoke("whatif", *ranks, "--pin", "--json", "-").stdout)
    assert document["paths"] == [str(rank) for rank in ranks]
    assert [(change["rank"], change["per_step"]) for change in document["changes"]] == [(0, 0), (1, 1)]


def test_verify_compares_and_writes_json(tmp_path: Path) -> None:
    before, after, out = TRACES / "loss_item.json.gz", TRACES / "clean.json.gz", tmp_path / "out.json"
    result = invoke("verify", before, after, "--json", out)
    assert result.exit_code == 0
    fixed = "1 wait of the host per step dropped: `.item()` at pinprof/workloads/waits.py:43 (step)"
    assert fixed in " ".join(result.stdout.split())
    assert f"Next: pinprof whatif {after}" in result.stderr
    assert fitting(out.read_text())["schema"] == "pinprof.verify/1"
    assert fitting(invoke("verify", before, after, "--json", "-").stdout)["error_fraction"] < 0.05


def test_compare_says_what_changed_and_what_comes_next() -> None:
    before, after = TRACES / "pageable_blocking.json.gz", TRACES / "prefetch.json.gz"
    result = invoke("compare", before, after)
    assert result.exit_code == 0
    assert "9.53 instead of 12.4 ms: saves 2.85 ms, 23 % of the step, beyond the noise of 1 %." in " ".join(
        result.stdout.split()
    )
    assert result.stderr == f"Next: pinprof compare {before} {after} --html compare.html\n"


SOON = ("--warmup", "1")
"""Options of `pinprof run` with which it does not wait until the time of a step is steady and its mean precise."""


def run_program(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    (folder / "train.py").write_text(TRAINING)
    command = [sys.executable, "-m", "pinprof", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ)


def run_forked(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run it in a fork of a process that has loaded torch, which takes longer than everything after it."""
    (folder / "train.py").write_text(TRAINING)
    return forked(COMMAND, words, folder, timeout=120)


@pytest.mark.slow
def test_run_records_a_script_stops_it_and_reports(tmp_path: Path) -> None:
    done = run_program(tmp_path, "run", *SOON, "train.py", "1000000")
    assert done.returncode == 0, done.stderr
    assert "finished" not in done.stdout
    assert re.search(r"\b[345] complete steps", done.stdout)  # on a busy machine some are unlike the others
    assert re.search(
        r"\n(About )?[\d.]+ [mµ]s per step( \([\d.]+ to [\d.]+ in this run\))?; no GPU work", done.stdout
    )  # measured: neither estimated nor as traced
    assert {path.name for path in tmp_path.iterdir()} == {"train.py", "pinprof-train.json.gz", "pinprof-train.html"}


@pytest.mark.slow
def test_run_lets_the_script_finish_if_asked_and_stores_the_marker_that_was_asked_for(tmp_path: Path) -> None:
    options = ("--keep-going", "--steps", "1", *SOON, "--step-marker", "torch.optim:SGD.zero_grad")
    done = run_forked(tmp_path, "run", *options, "-o", "out.json", "train.py", "1000")
    assert done.returncode == 0, done.stderr
    assert "finished" in done.stdout
    report = fitting(invoke("report", tmp_path / "out.json", "--json", "-").stdout)
    steps = report["traces"][0]["steps"]
    assert (steps["marker"], steps["step_marker"]) == ("ProfilerStep#N", "SGD.zero_grad()")


@pytest.mark.slow
def test_run_takes_a_module_and_its_options_as_python_does(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "train.py").write_text("import sys\nassert sys.argv.pop(1) == '--steps'\n" + TRAINING)
    done = run_forked(tmp_path, "run", *SOON, "--steps", "2", "-m", "package.train", "--steps", "1000000")
    assert done.returncode == 0, done.stderr
    assert "2 complete steps (optimizer step (SGD))" in done.stdout
    assert "steps marked by: optimizer step (SGD)" in done.stderr
    assert (tmp_path / "pinprof-train.json.gz").exists()


def test_run_says_that_there_is_no_such_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke("run", "-m", "no_such_module")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == "Error: No module named no_such_module"


@pytest.mark.slow
def test_a_script_that_is_too_short_is_told_so_and_leaves_the_folder_that_was_made_for_its_trace(
    tmp_path: Path,
) -> None:
    done = run_forked(tmp_path, "run", "-o", "run/", "train.py", "3")
    assert done.returncode == 2
    assert "Error: the program ended after 3 optimizer steps, 3 calls of backward and 0 batches" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.gpu
def test_run_finds_the_blocking_copy_and_the_item_on_the_gpu(tmp_path: Path) -> None:
    done = run_program(tmp_path, "run", "--steps", "3", "train.py", "1000000")
    assert done.returncode == 0, done.stderr
    report = run_program(tmp_path, "report", "pinprof-train.json.gz", "--json", "-")
    (recorded,) = fitting(report.stdout)["traces"]
    causes = {site["cause"]: site for site in recorded["syncs"]["sites"]}
    assert causes["item"]["per_step"] == causes["blocking_copy_htod"]["per_step"] == 1
    assert causes["item"]["file"] == "train.py"
    assert recorded["steps"]["step_source"] == "measured"
    assert recorded["copies"][0]["host_memory"] in {"pageable", "pinned"}


# The ranks of a job


def test_an_option_of_the_script_in_front_of_it_is_told_where_it_goes() -> None:
    result = invoke("run", "--epochs", "1", "train.py")
    assert is_one_line_error(result)
    assert "--epochs is not an option of pinprof run; options of the script come after the script: " in result.stderr
    assert "run train.py --epochs ..." in result.stderr


@pytest.mark.slow
def test_a_script_of_few_steps_runs_once_more_for_fewer(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import pinprof\nfor _ in [*range(8)]: pinprof.step()\n")
    done = invoke("run", "-o", str(tmp_path / "t.json"), str(script))
    assert done.exit_code == 0, done.stderr
    (said,) = re.findall(r"it runs once more, for (\d) \(--warmup 1 --steps \d\)\n", done.stderr)
    trace = json.loads((tmp_path / "t.json").read_text())
    assert trace["pinprof"]["plain"]["steps"] == 4 * int(said)
    refused = invoke("run", "-o", str(tmp_path / "t.json"), "--force", "--warmup", "50", str(script))
    assert refused.exit_code == 2  # what is asked for is done, or refused
    assert "Run it longer, or ask for fewer steps: --warmup 1 --steps " in refused.stderr
    script.write_text("import pinprof\nfor _ in range(7): pinprof.step()\n")
    assert invoke("run", "-o", str(tmp_path / "t.json"), "--force", str(script)).stderr.endswith("Run it longer\n")


@pytest.mark.slow
def test_the_next_run_overwrites_what_the_last_one_wrote_and_nothing_else(tmp_path: Path) -> None:
    source = "import pinprof\nfor step in [*range(1000)]:\n    pinprof.step()\n    if step == {}: raise ValueError\n"
    (tmp_path / "loop.py").write_text(source.format(12))

    def loop(*words: str) -> "subprocess.CompletedProcess[str]":
        return forked(COMMAND, ("loop.py", *words), tmp_path, timeout=120)

    failed = loop()
    assert failed.returncode == 1
    assert "exit status 1 after 13 steps, before one was recorded: nothing was written; --warmup 1 --" in failed.stderr
    (tmp_path / "loop.py").write_text(source.format(-1))
    first = loop("--steps", "2", "--warmup=1")
    assert first.returncode == 0, first.stderr
    assert re.fullmatch(r"Stopped after step \d+; --keep-going runs to the end", first.stderr.splitlines()[-1])
    page, trace = (tmp_path / "pinprof-loop.html"), (tmp_path / "pinprof-loop.json.gz")
    before = trace.read_bytes()
    assert loop("--steps", "2", "--warmup", "1").returncode == 0
    assert trace.read_bytes() != before
    page.write_text("<!DOCTYPE html>\n<title>mine</title>")
    refused = loop()
    assert refused.stderr.startswith("Error: pinprof-loop.html: exists already; choose another name, or overwrite it: ")
