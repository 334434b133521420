"""What users of pandas and of other profilers try first: it works, or a line says what to call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recordings import TRACES

import pinprof
from pinprof.cli.group import SECTIONS

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
    return pinprof.analyze_job(RANKS)


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
    "r.trace.gpu.to_pandas()": lambda value: len(value) == 118,
    "c.save(tmp / 'c.html')": lambda value: value is None,
    "job.verdict": lambda value: value.startswith("Rank 1 holds up the others by 20"),
    "job.ranks": lambda value: repr(value) == "<pinprof ranks: 2 ranks, rank 1 holds up the others>",
    "job.save(tmp / 'job.html')": lambda value: value is None,
}


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
        ("pinprof.report(TRACE)", r"pinprof\.load\(path\)"),
        ("pinprof.load(RANKS)", r"pinprof\.analyze_job"),
        ("pinprof.load(TRACES / 'ranks')", r"pinprof\.analyze_job"),
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


def test_commands_without_a_function_name_what_to_call() -> None:
    changing = SECTIONS["Record and report"] + SECTIONS["Change and compare"]
    for command in {*changing} - {"compare"}:
        with pytest.raises(AttributeError, match=f"`pinprof {command}` is a command, for a terminal; in Python "):
            pinprof.__getattr__(command)
