"""Samples of a DataLoader's worker: taken in its batches, stored in the trace, and said by the rule."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from trace_builder import TraceBuilder
from warm_python import warm_python

from pinprof.capture.observe.sampler import HostSampler
from pinprof.capture.observe.workers import FETCH_FILE, WorkerSamples
from pinprof.measurement.measure import measure
from pinprof.program.hooks import faults
from pinprof.rules.rule import Finding
from pinprof.rules.search import find
from pinprof.trace.metadata.run_log import RUN_KEY, RunLog
from pinprof.trace.metadata.sampled_stacks import WORKER_KEY, HostFrame, HostProfile, HostStack

US = 1000
ROOT = Path(__file__).parents[2]
FORK = "fork"
"""How Python started workers before 3.14. Workers that are started afresh hold nothing of pinprof, nor samples."""


class Slow(Dataset[torch.Tensor]):
    """Takes a while for each sample, in a function of its own."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(computed(index))


def computed(index: int) -> float:
    end = time.perf_counter() + 0.01
    while time.perf_counter() < end:
        index += 1
    return float(index > 0)


@pytest.mark.slow
def test_the_first_worker_is_sampled_in_its_batches_alone() -> None:
    """In a process of its own: in that of the tests, another one may have taken the alarm."""
    command = [warm_python(), "-c", "from test_workers import sample; sample(collated=True); sample(collated=False)"]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "tests" / "capture")))
    ran = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def sample(*, collated: bool) -> None:
    """Sample a worker, and check what it was seen in."""
    samples = WorkerSamples()
    with samples.sampling():
        loader = DataLoader(Slow(), batch_size=5 if collated else None, num_workers=2, multiprocessing_context=FORK)
        total = sum(float(batch.sum()) for batch in loader)
        profile = samples.longest()
    assert total == len(Slow())
    assert profile is not None
    assert profile.samples
    outermost = [profile.frames[stack.frames[0]] for stack in profile.stacks]
    called = {frame.function.rpartition(".")[2] for frame in outermost if not frame.is_of(FETCH_FILE)}
    assert called <= {"__getitem__", "default_collate", "default_convert"}
    inner = sum(
        stack.count
        for stack in profile.stacks
        if any(profile.frames[index].function == "computed" for index in stack.frames)
    )
    assert inner > 0.5 * profile.samples


def test_a_worker_that_may_start_no_thread_makes_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: HostSampler) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(HostSampler, "step", fail)
    monkeypatch.setattr(faults, "output", lambda _: None)
    with WorkerSamples().sampling():
        assert len(list(DataLoader(Slow(), batch_size=20, num_workers=1, multiprocessing_context=FORK))) == 2


FRAMES = (
    HostFrame("data.py", 7, "Photos.__getitem__", "user"),
    HostFrame("/usr/lib/python3/site-packages/PIL/Image.py", 90, "resize", "library"),
    HostFrame("data.py", 9, "Photos.__getitem__", "user"),
)
RESIZING = (HostStack((0, 1), 70), HostStack((2,), 30))


def found(*, stacks: Sequence[HostStack] = RESIZING, input_us: int = 600, batches: int = 25) -> list[Finding]:
    """Return what is found of steps of 1000 us that wait for a worker whose batches take 40 ms / `batches`."""
    builder = TraceBuilder()
    for start in builder.steps(5, length=1000):
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        builder.event("user_annotation", name, start + 10, input_us)
        builder.op("aten::add", start + input_us + 20, 960 - input_us)
        builder.kernel(start + input_us + 30, 900 - input_us, launch=start + input_us + 25)
    step = (1000 * US,) * 50
    log = RunLog(1, (("plain", 50),), step, (0,) * 50, (input_us * US,) * 49 + (10 * US,), (0,) * 50, 6)
    samples = sum(stack.count for stack in stacks)
    profile = HostProfile(5.0, samples, batches, 40.0, FRAMES, tuple(stacks))
    builder.metadata |= {RUN_KEY: msgspec.to_builtins(log), WORKER_KEY: msgspec.to_builtins(profile)}
    trace = builder.read()
    return [finding for finding in find(measure(trace), trace) if finding.rule.id == "PIN403"]


def test_the_line_that_takes_most_of_a_batch_is_named() -> None:
    (finding,) = found()
    assert finding.evidence.text == (
        "a worker makes a batch in 1.60 ms: 70 % of it at data.py:7 in PIL resize, 30 % of it at data.py:9"
    )
    assert (finding.evidence.file, finding.evidence.line) == ("data.py", 7)
    assert finding.saving is None
    assert finding.most_ns is not None
    assert 300 * US < finding.most_ns < 500 * US


@pytest.mark.parametrize(
    ("stacks", "input_us"),
    [
        (RESIZING, 100),  # 10 % of the step
        ((HostStack((0,), 20),), 600),  # so few samples
        (tuple(HostStack((2 * (place % 2),), 1) for place in range(20)), 600),
    ],
)
def test_a_step_that_hardly_waits_and_few_samples_are_no_finding(stacks: Sequence[HostStack], input_us: int) -> None:
    assert found(stacks=stacks, input_us=input_us) == []
