"""The sampled time of the host in the text, the page, the JSON and the figures."""

import os
from pathlib import Path
from typing import Any

from fitting import fitting
from host_builder import host_profile
from msgspec import to_builtins
from trace_builder import TraceBuilder

from pinprof.notebook import Report, load
from pinprof.report.trace import text
from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.page import to_html
from pinprof.trace.metadata.sampled_stacks import HOST_KEY, HostProfile

HOSTILE = "</script><img src=x onerror=alert(1)>"
TITLE = "Where the host's time goes"
SECTION = '<h3 id="host-1">'
FETCH = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
SAMPLES = host_profile(
    (60, "train.py:9:<module> > model.py:4:forward > torch/nn/linear.py:5:forward"),
    (30, "train.py:9:<module> > model.py:3:forward"),
    (10, "train.py:8:<module> > torch/utils/data/dataloader.py:7:__next__"),
)


def report(folder: Path, host: HostProfile | None, busy: float = 100, step_ms: float = 2.0, fetches: int = 0) -> Report:
    """Return the report on four steps of 1 ms (`step_ms` without the profiler), with kernels of `busy` us.

    In each the host waits for a batch for `fetches` us at first.
    """
    builder = TraceBuilder()
    for time in builder.steps(4):
        if fetches:
            builder.event("user_annotation", FETCH, time + 1, fetches)
        builder.op("aten::mm", time + (10 if busy else 900), 80)
        if busy:
            builder.kernel(time + 100, busy, launch=time + 50)
    times = dict.fromkeys(("mean_ms", "median_ms", "p10_ms", "p90_ms"), step_ms)
    builder.metadata["pinprof"] = {"plain": {"steps": 20, "clock": "host", **times}}
    if host is not None:
        builder.metadata[HOST_KEY] = to_builtins(host)
    return load(builder.write(folder / "trace.json"))


def of_json(shown: Report) -> Any:
    return fitting(traces_to_json([(shown.profile, shown.analysis.findings)]))["traces"][0]["host_profile"]


def test_a_host_bound_step_lists_the_lines_of_the_program(tmp_path: Path) -> None:
    shown = report(tmp_path, SAMPLES)
    assert shown.profile.bound == "host"
    text = str(shown)
    assert f"{TITLE}, sampled without the profiler" in text
    assert "60 % in torch, 30 % in your code, 10 % in the DataLoader (100 samples in 10 steps" in text
    (line,) = (line for line in text.splitlines() if "model.py:4 (forward)" in line)
    assert line.split()[2:] == ["torch", "60", "%", "±", "9", "1.20", "ms", "60"]


def test_without_samples_no_output_speaks_of_it(tmp_path: Path) -> None:
    shown = report(tmp_path, None)
    assert of_json(shown) is None
    assert TITLE not in str(shown)
    assert SECTION not in to_html([shown.analysis])


def test_json_has_the_stacks_and_their_sums(tmp_path: Path) -> None:
    host = of_json(report(tmp_path, SAMPLES))
    assert (host["interval_ms"], host["samples"], host["steps"]) == (10.0, 100, 10)
    assert host["frames"][0] == {"file": "train.py", "line": 9, "function": "<module>", "origin": "user"}
    assert host["stacks"][0] == {"frames": [0, 1, 2], "count": 60}
    assert [(kind["kind"], kind["samples"]) for kind in host["kinds"]] == [("torch", 60), ("user", 30), ("input", 10)]
    first = host["called"][0]
    assert (first["file"], first["line"], first["share"], first["per_step_ms"]) == ("model.py", 4, 0.6, 1.2)
    assert host["functions"][0]["function"] == "forward"
    assert sum(row["samples"] for row in host["lines"]) == 100


def test_hostile_names_are_texts_everywhere(tmp_path: Path) -> None:
    samples = host_profile((5, f"{HOSTILE.replace(':', '')}.py:1:{HOSTILE}\x1b[31m"))
    shown = report(tmp_path, samples)
    assert HOSTILE not in to_html([shown.analysis])
    assert "\x1b" not in str(shown)


def test_a_very_long_name_is_cut(tmp_path: Path) -> None:
    shown = report(tmp_path, host_profile((5, f"a.py:1:{'f' * 5000}")))
    assert "f" * 300 not in str(shown)
    assert "f" * 300 not in to_html([shown.analysis])


def of_host_alone(folder: Path, host: HostProfile | None, *, fetches: int = 0) -> Report:
    """Return the report on four steps of 1 ms without work of a GPU, in each a wait of `fetches` us for a batch."""
    return report(folder, host, busy=0, step_ms=1.0, fetches=fetches)


def short(shown: Report) -> str:
    return text.to_brief(shown.profile, shown.analysis.findings, width=100)


def test_without_work_of_a_gpu_the_report_names_the_lines_that_take_the_time(tmp_path: Path) -> None:
    lines = "class Slow:\n    def __getitem__(self, at):\n        time.sleep(1)\nstep(batch)\n"
    (tmp_path / "train.py").write_text(lines)
    os.utime(tmp_path / "train.py", (0, 0))  # older than the trace
    loads = f"{tmp_path}/train.py:4:<module> > torch/utils/data/dataloader.py:7:__next__ > "
    slow = host_profile(
        (60, f"{loads}{tmp_path}/train.py:3:Slow.__getitem__"),
        (38, f"{tmp_path}/train.py:4:<module> > torch/nn/linear.py:5:forward"),
        (2, f"{tmp_path}/train.py:1:<module>"),
    )
    shown = of_host_alone(tmp_path, slow, fetches=600)
    text = short(shown).replace(f"{tmp_path}/", "")
    assert "The host: 60 % in the DataLoader, 38 % in torch" in " ".join(text.split())
    first, second = text.index("1. 600 µs, 60 % of the step: in the DataLoader"), text.index("2. 380 µs, 38 %")
    assert first < text.index("time.sleep(1)") < text.index("num_workers=4") < second < text.index("step(batch)")
    assert "3. " not in text
    assert "To see copies and waits: record" in text
    assert "First: " in to_html([shown.analysis])
