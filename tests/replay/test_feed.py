"""The input of a step without the profiler: measured in the recorded run, and put in the place of what was recorded."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from trace_builder import TraceBuilder

from pinprof.analysis import Analysis, analyse
from pinprof.prediction import Scenario, predict
from pinprof.prediction.edits import Edits
from pinprof.replay import Replay
from pinprof.replay.bound import feed_of
from pinprof.rules.rule import Finding
from pinprof.rules.savings import saving_of
from pinprof.trace.metadata.info import Made, MadeLoader
from pinprof.trace.metadata.run_log import RunLog
from pinprof.trace.metadata.sampled_stacks import HostFrame, HostProfile, HostStack

MS = 1_000_000
WORKERS, IN_PROCESS = ("_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter")
RECORDED = 4


def recorded(
    plain_ms: float,
    input_ms: float,
    *,
    traced_ms: float = 0.05,
    busy_ms: float = 0.1,
    by: str = WORKERS,
    pageable: bool = False,
    **info: Any,
) -> Analysis:
    """Return a run whose recorded steps take a millisecond, and those without the profiler as told, with `info`."""
    builder = TraceBuilder()
    for begin in builder.steps(RECORDED):
        builder.event("user_annotation", f"enumerate(DataLoader)#{by}.__next__", begin + 5, 1000 * traced_ms)
        if pageable:
            builder.copy("HtoD (Pageable -> Device)", begin + 420, 30, launch=begin + 400, call=60)
        builder.kernel(begin + 700, 1000 * busy_ms, launch=begin + 690)
        builder.op("aten::item", begin + 710, 200)
        builder.copy("DtoH (Device -> Pinned)", begin + 800, 2, launch=begin + 720, size=4)
        builder.call("cudaStreamSynchronize", begin + 730, 150)
    trace = builder.read()
    plain = 40
    log = RunLog(
        start_up_ns=0,
        windows=(("plain", plain), ("recorded", RECORDED)),
        step_ns=(round(plain_ms * MS),) * plain + (MS,) * RECORDED,
        own_ns=(0,) * (plain + RECORDED),
        input_ns=(round(input_ms * MS),) * plain + (round(traced_ms * MS),) * RECORDED,
        gpu_ns=(0,) * (plain + RECORDED),
        after_ns=0,
    )
    return analyse(replace(trace, run=log, info=replace(trace.info, **info)))


def waits_of(replay: Replay) -> set[float]:
    """Return how long each replayed step is in its DataLoader."""
    (program,) = replay.programs
    steps = {call.step for call in program.calls}
    return {sum(call.input_ns for call in program.calls if call.step == step) for step in steps}


def saved_ms(analysis: Analysis, edits: Edits) -> float:
    return saving_of(analysis.replay, edits).saving_ns / MS


def without_waits(analysis: Analysis) -> Edits:
    return Edits(unwaited=frozenset(range(len(analysis.details.syncs.stalls.call))))


def test_workers_that_are_late_without_the_profiler_set_the_pace() -> None:
    analysis = recorded(2.0, 1.05)
    assert analysis.profile.bound == "input"
    assert analysis.findings.verdict.cause == "input"
    assert waits_of(analysis.replay) == {1.05 * MS}
    assert analysis.replay.before.step_ns == pytest.approx(2 * MS, rel=0.01)
    assert saved_ms(analysis, without_waits(analysis)) == 0
    assert saved_ms(analysis, Edits(most_input_ns=0.0)) == pytest.approx(1.05, rel=0.02)
    (finding,) = (finding for finding in analysis.findings if finding.rule.id == "PIN401")
    assert "1.05 ms per step for the next batch; 50.0 µs of the wait is in the trace: " in finding.evidence.text


def test_a_process_that_loads_its_data_itself_takes_as_long_as_without_the_profiler() -> None:
    analysis = recorded(0.8, 0.3, traced_ms=0.5, by=IN_PROCESS)
    assert waits_of(analysis.replay) == {0.3 * MS}
    assert saved_ms(analysis, Edits(most_input_ns=0.0)) == pytest.approx(0.3, rel=0.03)
    assert saved_ms(analysis, without_waits(analysis)) > 0  # it goes on loading, and nobody waits for workers


def test_a_step_that_is_longer_for_no_known_reason_stays_longer() -> None:
    analysis = recorded(1.6, 0.05)
    assert analysis.profile.bound == "host"
    unchanged = predict(analysis.details.trace, Scenario())
    assert unchanged.predicted_ns == pytest.approx(unchanged.baseline_ns) == pytest.approx(1.6 * MS)
    assert 0 < saved_ms(analysis, without_waits(analysis)) < 0.3


def test_a_thread_that_pins_receives_the_batches_beside_the_step() -> None:
    analysis = recorded(1.0, 0.3, traced_ms=0.3, pageable=True)
    (finding,) = (finding for finding in analysis.findings if finding.rule.id == "PIN104")
    assert "receiving a batch from the workers takes 300 µs" in finding.evidence.text
    alone = saved_ms(analysis, replace(finding.evidence.edits, most_input_ns=inf))
    assert saved_ms(analysis, finding.evidence.edits) == pytest.approx(alone + 0.2, abs=0.01)


LOOP = HostFrame("train.py", 9, "<module>", "user")
LOADER = HostFrame("/site-packages/torch/utils/data/dataloader.py", 1275, "_try_get_data", "torch")
WAITS = HostFrame("/usr/lib/python3.12/multiprocessing/connection.py", 1136, "wait", "library")
UNPACKS = HostFrame("/site-packages/torch/multiprocessing/reductions.py", 520, "rebuild_storage_fd", "torch")


def in_loader(waiting: int, unpacking: int) -> HostProfile:
    """Return samples of the main thread: in its DataLoader, where it waits or unpacks a batch, and once outside."""
    stacks = (HostStack((0, 1, 2), waiting), HostStack((0, 1, 3), unpacking), HostStack((0,), 1))
    return HostProfile(10.0, waiting + unpacking + 1, 40, 80.0, (LOOP, LOADER, WAITS, UNPACKS), stacks)


@pytest.mark.parametrize(
    ("host", "waited_ms"),
    [
        (None, 0.0),
        (in_loader(90, 9), 0.944),  # 10 of 99 samples may be of receiving
        (in_loader(0, 99), 0.0),
        (in_loader(15, 1), 0.0),  # too few
    ],
)
def test_samples_tell_workers_that_are_always_late_from_batches_that_take_long_to_receive(
    host: HostProfile | None, waited_ms: float
) -> None:
    feed = feed_of(recorded(2.0, 1.05, traced_ms=1.05, host=host).details)
    assert feed
    assert feed.wait_ns == pytest.approx(waited_ms * MS, rel=0.01)


def test_pinning_does_not_help_workers_that_are_always_late() -> None:
    analysis = recorded(2.0, 1.05, traced_ms=1.05, pageable=True, host=in_loader(90, 9))
    assert analysis.profile.bound == "input"
    (finding,) = (finding for finding in analysis.findings if finding.rule.id == "PIN104")
    assert saved_ms(analysis, finding.evidence.edits) == 0


def test_the_slow_line_of_a_worker_is_named_though_the_recorded_steps_do_not_wait() -> None:
    lines = HostFrame("data.py", 7, "Photos.__getitem__", "user"), HostFrame("data.py", 9, "collate", "user")
    worker = HostProfile(5.0, 100, 20, 40.0, lines, (HostStack((0,), 70), HostStack((1,), 30)))
    (finding,) = (finding for finding in recorded(2.0, 1.05, worker=worker).findings if finding.rule.id == "PIN403")
    assert (finding.evidence.file, finding.evidence.line) == ("data.py", 7)
    assert finding.most_ns == pytest.approx(0.7 * 1.05 * MS, rel=0.05)


def of_workers(workers: int, cpus: int, *, loaders: int = 1, persist: bool = False) -> Made:
    """Return a program that draws from a DataLoader with these numbers of workers and cores."""
    loader = MadeLoader(workers, persist, drawn=RECORDED)
    return Made(loaders=(loader,) * loaders, cpus=cpus)


def about_input(analysis: Analysis) -> Finding:
    (finding,) = (finding for finding in analysis.findings if finding.rule.family == "input")
    return finding


@pytest.mark.parametrize(
    ("now", "cpus", "saved", "text"),
    [
        (1, 9, 1.01, "; the saving assumes 4 workers instead of 1"),  # a batch per 0.5 ms; to receive it takes 0.04
        (1, 3, 1.0, "; the saving assumes 2 workers instead of 1"),  # a batch per ms
        (6, 9, 0.5, "; the saving assumes 8 workers instead of 6"),  # six make a batch per 2 ms, eight per 1.5
    ],
)
def test_more_workers_are_as_many_times_as_fast(now: int, cpus: int, saved: float, text: str) -> None:
    analysis = recorded(2.0, 1.05, made=of_workers(now, cpus))
    finding = about_input(analysis)
    assert finding.rule.id == "PIN401"
    assert f"{text}; 50.0 µs of the wait is in the trace" in finding.evidence.text
    assert finding.saving
    assert finding.saving.saving_ns == pytest.approx(saved * MS, rel=0.02)


@pytest.mark.parametrize(("plain", "saved"), [(10.0, 7.625), (2.0, 1.4)])
def test_workers_bring_batches_beside_the_step_as_fast_as_their_number(plain: float, saved: float) -> None:
    analysis = recorded(plain, plain - 0.5, traced_ms=0.5, by=IN_PROCESS, made=of_workers(0, 16))
    finding = about_input(analysis)
    assert finding.rule.id == "PIN402"
    assert finding.evidence.text.endswith("; the saving assumes 4 workers instead of 0")
    assert finding.saving
    assert finding.saving.saving_ns == pytest.approx(saved * MS, rel=0.03)


def test_where_the_workers_share_all_cores_the_wait_is_the_most_that_is_saved() -> None:
    finding = about_input(recorded(2.0, 1.05, made=of_workers(3, 4)))
    assert "; its 3 workers already share 4 cores with the program: make batches cheaper; 50" in finding.evidence.text
    assert finding.saving is None
    assert finding.most_ns == pytest.approx(1.05 * MS, rel=0.05)


@pytest.mark.parametrize(
    ("made", "advice"),
    [
        (of_workers(1, 9), "More workers (num_workers), persistent_workers=True, cheaper or"),
        (of_workers(1, 9, persist=True), "More workers (num_workers), cheaper or"),
        (of_workers(3, 4, persist=True), "Cheaper or"),
        (None, "More workers (num_workers), persistent_workers=True if it lacks that, cheaper or"),
    ],
)
def test_what_a_loader_has_is_not_advised(made: Made | None, advice: str) -> None:
    finding = about_input(recorded(2.0, 1.05, made=made))
    assert finding.rule.id == "PIN401"
    assert finding.fix == f"{advice} earlier preprocessing, larger reads."


def batches_of(batch_ms: float) -> HostProfile:
    """Return samples of a worker that makes a batch in `batch_ms`."""
    frame = HostFrame("data.py", 7, "Photos.__getitem__", "user")
    return HostProfile(5.0, 100, 20, 20 * batch_ms, (frame,), (HostStack((0,), 100),))


@pytest.mark.parametrize(("batch_ms", "by_thread"), [(4.0, True), (12.0, False)])
def test_a_thread_that_pins_sets_the_pace_where_workers_would_be_ready(batch_ms: float, by_thread: bool) -> None:
    """Eight workers make a batch every 0.5 or 1.5 ms; the step takes 2."""
    made = of_workers(8, 16)
    analysis = recorded(2.0, 1.05, made=made, worker=batches_of(batch_ms), loaders_pin=True)
    rules = {finding.rule.id: finding for finding in analysis.findings}
    text = rules["PIN401"].evidence.text
    assert ("the thread that pins them sets the pace" in text) == by_thread
    assert rules["PIN401"].fix.startswith("Send less:") == by_thread
    assert ("PIN403" in rules) != by_thread


def test_where_no_core_is_left_for_a_first_worker_that_is_said() -> None:
    finding = about_input(recorded(2.0, 1.5, traced_ms=0.5, by=IN_PROCESS, made=of_workers(0, 1)))
    assert finding.evidence.text.endswith("; 1 core leaves no room for a worker: make batches cheaper")
    assert finding.saving is None
