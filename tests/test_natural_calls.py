"""What users of pandas and of other profilers try first: it works, or a line says what to call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recordings import TRACES

import pinprof

TRACE = TRACES / "pageable_blocking.stack.json.gz"
AFTER = TRACES / "prefetch.stack.json.gz"
RANKS = [str(path) for path in sorted(TRACES.glob("ranks/sleeping_rank.rank?.before.json.gz"))]
LINE = 400
"""Characters of a repr that fits on a line of a notebook."""


@pytest.fixture(scope="module")
def r() -> Any:
    return pinprof.load(TRACE)


@pytest.fixture(scope="module")
def job() -> Any:
    return pinprof.load(RANKS)


@pytest.fixture(scope="module")
def c() -> Any:
    return pinprof.compare(TRACE, AFTER)


WORK: dict[str, Callable[[Any], object]] = {
    "pinprof.load(pinprof.read_trace(TRACE))": lambda value: value.step_ms > 12,
    "pinprof.measure(TRACE)": lambda value: value.step_ns > 12e6,
    "r.kernels.groupby('kind').ms.sum()": lambda value: value.idxmax() == "matrix products",
    "r.phases.set_index('phase').kernel_ms": lambda value: value["backward"] > value["optimizer"],
    "r.findings[['rule', 'line', 'saving_ms']]": lambda value: value.rule.iloc[0] == "PIN101",
    "r.whatif(pinprof.Scenario(drop_syncs=True))": lambda value: value.saving_ms > 0,
    "pinprof.predict(TRACE, pinprof.Scenario(drop_syncs=['all']))": lambda value: value.saving_ms > 0,
    "r.analysis.trace.gpu.to_pandas()": lambda value: len(value) == 118,
    "c.save(tmp / 'c.html')": lambda value: value is None,
    "r.events.query('step == 2').kind.value_counts()": lambda value: value["copy"] == 1,
    "r.trace.kernels.equals(r.events.kernels)": bool,
    "r.calls.groupby('name').duration_ms.sum()": lambda value: value["cudaLaunchKernel"] > 0,
    "r.bound": lambda value: value == "host",
    "r.events.kernels.groupby('name').duration_ms.sum()": lambda value: len(value) == 12,
    "r.copies.groupby(['direction', 'host_memory']).bytes.sum()": lambda value: value.item() == 9 << 24,
    "r.copies[['file', 'line']].drop_duplicates().values.tolist()": lambda value: value[0][1] == 23,
    "r.events.ops.sort_values('duration_ms').iloc[-1]": lambda value: value.duration_ms > 10,
    "r.to_dict()['traces'][0]['path']": lambda value: value == str(TRACE),
    "r.to_html(tmp / 'r.html') == (tmp / 'r.html').read_text()": bool,
    "r.to_markdown(tmp / 'r.md') == (tmp / 'r.md').read_text()": bool,
    "job.to_markdown()": lambda value: value.startswith("**Rank 1 holds up"),
    "r.compare(AFTER)": lambda value: value.before.profile.path == str(TRACE),
    "r.gpu.busy_ms + r.gpu.idle_ms - r.gpu.span_ms": lambda value: abs(value.item()) < 1e-6,
    "r.idle.groupby('cause').time_ms.sum()": lambda value: value.idxmax() == "sync_bubble",
    "r.loader.wait_ms": lambda value: value.item() == 0,
    "r.memory": lambda value: "allocated_bytes" in value.columns,
    "job.collectives.groupby('name').duration_ms.sum()": lambda value: value["allreduce"] > 0,
    "job.kernels": lambda value: len(value) > 3,
    "job.rank(0).compare(job.rank(1)).table": lambda value: len(value) > 5,
    "pinprof.load(tmp_of(RANKS, tmp)).ranks": lambda value: len(value.rows) == 2,
    "job.verdict": lambda value: value.startswith("Rank 1 holds up the others by 20"),
    "job.ranks": lambda value: repr(value) == "<pinprof ranks: 2 ranks, rank 1 holds up the others>",
    "job.save(tmp / 'job.html')": lambda value: value is None,
}


def tmp_of(files: list[str], folder: Path) -> Path:
    """Return the folder with links to these files."""
    for file in files:
        (folder / Path(file).name).symlink_to(Path(file).absolute())
    return folder


@pytest.mark.parametrize("call", WORK)
def test_it_works(call: str, r: Any, c: Any, job: Any, tmp_path: Path) -> None:
    value = eval(call, {**globals(), "r": r, "c": c, "job": job, "tmp": tmp_path})
    assert WORK[call](value)
    if type(value).__module__.startswith("pinprof"):
        assert "\n" not in repr(value)
        assert len(repr(value)) < LINE


@pytest.mark.parametrize(
    ("call", "way_out"),
    [
        ("pinprof.load(5)", "a trace is a file, a URL, a folder, files or a Trace"),
        ("pinprof.compare(RANKS, TRACE)", r"report\.rank\(0\)"),
        ("pinprof.load(RANKS).rank(7)", "the job has no rank 7; it has 0, 1"),
        ("r.nonsense", "a pinprof report has no nonsense; it has analysis, "),
        ("pinprof.read_trace(TRACE).kernels", r"pinprof\.load\(path\)\.events has \.kernels"),
        ("pinprof.read_trace(TRACE).calls.head()", r"to_pandas\(\)"),
        ("pinprof.load('nothing.json')", "no such file"),
        ("r.whatif(pinned=True)", "no such change; there are drop_syncs, pin, "),
        ("r.whatif(drop_syncs='train.py:9')", r"the host does not wait at train\.py:9; it does at .*copies\.py:23"),
        ("r.save('x.txt')", r"\.html or \.json"),
        ("r.save(TRACE)", r"\.html or \.json"),
    ],
)
def test_a_line_says_what_to_call(call: str, way_out: str, r: Any) -> None:
    with pytest.raises((pinprof.PinprofError, AttributeError, TypeError), match=way_out) as raised:
        eval(call, {**globals(), "r": r})
    assert "\n" not in str(raised.value)
