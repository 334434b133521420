"""Ranks side by side: by hand, and recorded jobs of two H200, in one of which a rank sleeps 20 ms in every step."""

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest
from recordings import TRACES, rank_part_of
from trace_builder import AUTOGRAD, TraceBuilder

from pinprof.analysis import analyse
from pinprof.measurement.trust.doubt import Known
from pinprof.prediction.predict import paces_after, saving_in
from pinprof.ranks.compare import compare_ranks
from pinprof.ranks.rank import Alone, Ranks, Turns, measure_rank
from pinprof.replay import Replay, StepEstimate
from pinprof.report.job.text import job_to_text
from pinprof.report.job.view import verdict_line, who_comes_last, why_nobody

RECORDED = TRACES / "ranks"
STEPS = 6
PAUSES = (
    "its host runs no op and no call, after the beginning of the step and before {}: "
    "Python code, a sleep, or a call that is not recorded"
)


def recorded(name: str) -> Ranks:
    return compare_ranks(list(map(rank_part_of, sorted(RECORDED.glob(f"{name}.json.gz")))))


def rank(number: int, late: float, *, wait: bool = False, world_size: int = 2, **collective: Any) -> TraceBuilder:
    """A step of 1000: `late`, or a wait of as long, then 100 for a kernel, then a collective that ends at 800."""
    builder = TraceBuilder()
    builder.metadata["distributedInfo"] = {"rank": number, "world_size": world_size}
    for start in builder.steps(STEPS):
        if wait:
            builder.kernel(start + 3, late, launch=start + 1, name="long")
            builder.op("aten::item", start + 4, late)
            builder.call("cudaStreamSynchronize", start + 5, late)
        begin = start + late + 10
        builder.op("aten::mm", begin, 20)
        builder.kernel(begin + 10, 100, launch=begin + 5)
        builder.collective(begin + 110, start + 800 - (begin + 110), launch=begin + 15, **collective)
        builder.call("cudaDeviceSynchronize", begin + 30, start + 805 - (begin + 30))
    return builder


def compared(*ranks: TraceBuilder) -> Ranks:
    return compare_ranks([measure_rank(builder.read()) for builder in ranks])


def test_the_rank_that_begins_late_is_named_with_what_it_does() -> None:
    job = compared(rank(0, 10), rank(1, 600), rank(2, 20))
    assert job.slowest_rank == 1
    assert job.reason == PAUSES.format("aten::mm")
    assert job.skew_ns == pytest.approx(585_000, rel=0.1)
    assert [round(row.waited_ns / 1000) for row in job.rows] == [590, 0, 580]
    assert [row.last for row in job.rows] == [0, 1, 0]
    (collective,) = job.collectives
    assert (collective.name, collective.last_rank, collective.last) == ("allreduce", 1, 1)
    assert (collective.own_ms, collective.waited_ms) == (0.08, 0.59)


def pausing(number: int, *late: int) -> TraceBuilder:
    """Steps of 10,000, some begun 6,000 late; each has a collective of all ranks until 9,000."""
    builder = TraceBuilder()
    builder.metadata["distributedInfo"] = {"rank": number, "world_size": 2}
    for step, start in enumerate(builder.steps(STEPS, 10_000)):
        begin = start + 10 + 6000 * (step in late)
        builder.kernel(begin + 20, 100, launch=begin)
        builder.collective(begin + 130, start + 9000 - (begin + 130), launch=begin + 20)
        builder.call("cudaDeviceSynchronize", begin + 40, start + 9900 - (begin + 40))
    return builder


@pytest.mark.parametrize(
    ("late", "turns", "words"),
    [
        (((), (2, 4)), Turns((1,), 2, STEPS, 6e6), "Rank 1 holds up the others in 2 of 6 steps by 6.01 ms"),
        (((1, 3), (0, 4)), Turns((1, 0), 4, STEPS, 6e6), "The ranks take turns in holding up the others"),
        (((), ()), None, "No rank holds up the others"),
        (((), (2,)), None, "No rank holds up the others"),  # once, and by less than a step: a host is interrupted
        (((2,), (2,)), None, "No rank holds up the others"),  # both at once: none waits
    ],
)
def test_a_rank_that_is_late_in_some_steps_is_told_with_their_number(
    late: tuple[tuple[int, ...], tuple[int, ...]], turns: Turns | None, words: str
) -> None:
    job = compared(*(pausing(number, *steps) for number, steps in enumerate(late)))
    assert job.slowest_rank is None
    assert (job.turns and job.turns._replace(late_ns=round(job.turns.late_ns, -5))) == turns
    assert verdict_line(job).startswith(words)


SENT = [
    ("allreduce", ("Float", 4_000_000, 4_000_000, 4), 16_000_000, 1.5),
    ("_allgather_base", ("BFloat16", 1_000_000, 4_000_000, 4), 8_000_000, 0.75),
    ("reduce_scatter_tensor_coalesced", ("Half", 8_000_000, 1_000_000, 8), 16_000_000, 0.875),
    ("broadcast", ("Char", 500_000, 500_000, 2), 500_000, 1.0),
]


@pytest.mark.parametrize(("called", "message", "size", "on_the_bus"), SENT)
def test_the_bus_bandwidth_counts_from_when_all_ranks_have_come(
    called: str, message: tuple[str, int, int, int], size: int, on_the_bus: float
) -> None:
    job = compared(*(rank(at, late, called=called, message=message) for at, late in enumerate((10, 600))))
    (collective,) = job.collectives
    assert (collective.own_ms, collective.bytes) == (0.08, size)
    assert collective.bus_gbps == pytest.approx(on_the_bus * size / 80_000)
    (traffic,) = job.traffic
    assert (traffic.name, traffic.per_step, traffic.bytes) == (called, 1, size)
    assert traffic.bus_gbps == collective.bus_gbps


@pytest.mark.parametrize(
    "message",
    [
        *(None, ("Float", 0, 0, 2), ("QInt8", 10, 10, 2), ("Float", 10, 10, 1), ("Float", 10, 10, 0)),
        *(("Float", 10**20, 10, 2), ("Float", 10, "1 2", 2), ("Float 10", 10, 10, 2), ("Float", 10, "", 2)),
    ],
)
def test_without_a_sound_message_there_is_no_bandwidth(message: tuple[Any, ...] | None) -> None:
    job = compared(*(rank(at, 10, message=message) for at in range(2)))
    assert job.collectives[0].bus_gbps is None
    assert job.traffic == ()


def reducing_early(number: int, own: float) -> TraceBuilder:
    """Three passes before an optimizer step, each with a kernel of its `own` length and a reduction until 380."""
    builder = TraceBuilder()
    builder.metadata["distributedInfo"] = {"rank": number, "world_size": 2}
    for start in builder.steps(STEPS, 1200):
        for place in range(3):
            at, free = start + 5 + 90 * place, start + 20 + 370 * place
            builder.op("aten::linear", at, 8)
            builder.kernel(free, own, launch=at + 4)
            builder.op("autograd::engine::evaluate_function: MmBackward0", at + 20, 30, thread=AUTOGRAD)
            builder.kernel(free + own + 5, 50, launch=at + 25, thread=AUTOGRAD)
            message = ("Float", 500_000, 500_000, 2)
            builder.collective(free + own + 60, 300 - own, launch=at + 40, message=message)
        builder.event("user_annotation", "Optimizer.step#SGD.step", start + 290, 20)
        builder.call("cudaStreamSynchronize", start + 320, 865)
    return builder


def test_fewer_reductions_save_what_a_replay_of_all_ranks_shows() -> None:
    """The first rank waits 100 for the other in each: that wait only moves to the last one."""
    analyses = [analyse(reducing_early(number, own).read()) for number, own in enumerate((100, 200))]
    edits = [next(one for one in each.findings if one.rule.id == "PIN707").evidence.edits for each in analyses]
    replay = Replay([each.details for each in analyses])
    together = replay.in_worlds - replay.outcomes(paces_after(replay, edits))
    parts = [measure_rank(each.trace) for each in analyses]
    (shared,) = [one for one in compare_ranks(parts).findings if one.finding.rule.id == "PIN707"]
    assert shared.ranks == (0, 1)
    assert shared.finding.saving
    assert shared.finding.saving.saving_ns == pytest.approx(saving_in(together).saving_ns) == 210_000


def test_ranks_that_do_the_same_raise_no_alarm() -> None:
    job = compared(rank(0, 300), rank(1, 305))
    assert (job.slowest_rank, job.reason) == (None, None)


def exchanging(begins: int, *, steps: int = 1, pause: int = 0) -> TraceBuilder:
    """Steps of 1000: an all-to-all that ends at 800, which the kernel behind it on another stream awaits, and the host.

    The trace names neither the collective nor what the kernel waits for.
    """
    builder = TraceBuilder()
    for start in range(0, 1000 * steps, 1000):
        begin = start + begins + pause
        builder.step(start // 1000, start + begins, 990 - begins)
        builder.op("aten::mm", begin + 5, 10)
        builder.kernel(begin + 10, 50, launch=begin + 7)
        builder.op("c10d::alltoall_base_", begin + 20, 8)
        call = begin + 24
        builder.kernel(begin + 60, start + 800 - begin - 60, launch=call, name="ncclDevKernel_SendRecv", stream=20)
        builder.op("aten::mul", begin + 30, 8)
        builder.kernel(start + 803, 20, launch=begin + 33)
        builder.call("cudaDeviceSynchronize", begin + 40, start + 830 - begin - 40)
    return builder


def test_who_waits_for_a_rank_that_begins_its_only_step_late_is_not_accused() -> None:
    job = compared(exchanging(0), exchanging(600), exchanging(0))
    assert [row.alone_ns for row in job.rows] == pytest.approx([250_000] * 3, rel=0.05)
    assert (job.slowest_rank, job.reason) == (None, None)
    assert job.latecomer
    assert (job.latecomer.rank, job.latecomer.last, job.latecomer.is_one_step) == (1, 1, True)
    assert job.latecomer.waited_ns == job.latecomer.begins_later_ns == 600_000
    assert who_comes_last(job) == (
        "rank 1 comes last to 100 % of the collectives, and the others wait 600 µs per step for it: "
        "it begins its step 600 µs later than they do, and what came before is not recorded"
    )


def test_a_rank_that_the_profiler_slowed_more_needs_no_longer_than_the_measured_step() -> None:
    """As traced the ranks differ by half; measured without the profiler, the step is one of those or shorter."""
    parts = [measure_rank(rank(number, late).read()) for number, late in enumerate((300, 600))]
    alone = (Alone(500e3, 520e3, 540e3), Alone(780e3, 820e3, 950e3))

    def job(step_ns: float) -> Ranks:
        step = StepEstimate(step_ns, "measured", (step_ns, step_ns))
        return compare_ranks(
            [
                replace(part, profile=replace(part.profile, step=Known(step)), alone=times)
                for part, times in zip(parts, alone, strict=True)
            ]
        )

    assert job(820e3).slowest_rank == 1
    assert job(600e3).slowest_rank is None  # by the 37 % by which the cost was wrong there, it may be wrong elsewhere
    balanced = job(540e3)
    assert (balanced.slowest_rank, [row.alone_ns for row in balanced.rows]) == (None, [520e3, 540e3])
    assert why_nobody(balanced).startswith("no rank holds up the others: each would need about the same step alone")


def test_ranks_that_meet_have_the_step_of_the_one_that_sets_the_pace() -> None:
    groups = ("[0, 1]", "[0, 1]", "[2, 3]", "[2, 3]")
    late = (600, 10, 10, 300)
    traces = [
        rank(number, time, group=group).read() for number, (time, group) in enumerate(zip(late, groups, strict=True))
    ]
    parts = [measure_rank(trace) for trace in traces]
    estimated = [
        replace(part, profile=replace(part.profile, step=Known(replace(part.profile.estimate, step_ns=step))))
        for part, step in zip(parts, (900e3, 700e3, 600e3, 500e3), strict=True)
    ]
    assert [row.step_ns for row in compare_ranks(estimated).rows] == [900e3, 900e3, 500e3, 500e3]


def test_a_clock_that_is_seconds_ahead_changes_nothing_and_is_said() -> None:
    ranks = [rank(0, 10), rank(1, 600), rank(2, 20)]
    for event in ranks[1].events:
        event["ts"] += 7_000_000
    job = compared(*ranks)
    assert [row.clock_ahead_ns for row in job.rows] == [0, 7_000_000_000, 0]
    assert job.clocks_within_ns == 0
    assert [round(row.waited_ns / 1000) for row in job.rows] == [590, 0, 580]


@pytest.mark.slow
def test_what_is_kept_of_a_rank_hardly_grows_with_its_trace() -> None:
    def kept(copies: int) -> int:
        builder = rank(0, 300, wait=True)
        for number in range(copies):
            builder.copy("HtoD (Pageable -> Device)", 900 + number, 1, launch=500 + number, call=1)
        return len(pickle.dumps(measure_rank(builder.read())))

    assert kept(1200) < 1.1 * kept(300)  # both have copies in several steps, so as many wait sites


def test_a_trace_without_gpu_work_is_a_rank_all_the_same() -> None:
    builder = TraceBuilder()
    builder.op("aten::add", 0, 10)
    job = compared(rank(0, 300), builder)
    assert [row.rank for row in job.rows] == [0, 1]
    assert job.rows[1].alone_ns is None


def test_where_the_work_of_the_gpu_is_not_known_it_is_no_reason() -> None:
    """What both GPUs work is withheld; the collective in which the first rank waits is not its own work."""
    parts = [measure_rank(rank(number, late).read()) for number, late in enumerate((10, 600))]
    unknown = [
        replace(part, profile=replace(part.profile, steps=replace(part.profile.steps, busy_ns=None))) for part in parts
    ]
    assert compare_ranks(unknown).reason == PAUSES.format("aten::mm")
    without_pauses = [replace(part, profile=replace(part.profile, pause=None), between_calls_ns=()) for part in unknown]
    assert compare_ranks(without_pauses).slowest_rank is None


JOBS: dict[str, Any] = json.loads((RECORDED / "pairs.json").read_text())["pairs"]


@pytest.mark.parametrize("name", JOBS)
def test_a_recorded_job_is_told_as_what_was_done_to_it(name: str) -> None:
    job, done = recorded(f"{name}.rank?.before"), JOBS[name]
    late = job.turns.ranks if job.turns else () if job.slowest_rank is None else (job.slowest_rank,)
    assert late == ((1,) if done["late"] == "last" else ())
    if job.slowest_rank is not None and not done["scenario"]:  # what is done to the rank is all that the fix removes
        measured_ns = (done["before_ms"]["median"] - done["after_ms"]["median"]) * 1e6
        assert job.skew_ns == pytest.approx(measured_ns, rel=0.25)


@pytest.mark.slow
def test_the_sleeping_rank_is_named_and_its_skew_is_right() -> None:
    job = recorded("sleeping_rank.rank?.before")
    assert job.rows[0].step_ns == job.rows[1].step_ns  # the profiler's cost to one is in the trace of both
    assert job.slowest_rank == 1
    assert job.skew_ns == pytest.approx(20e6, rel=0.3)
    assert job.reason == PAUSES.format("aten::linear")


@pytest.mark.slow
def test_a_rank_whose_gpu_only_waits_for_others_is_bound_by_communication() -> None:
    paths = sorted(RECORDED.glob("sleeping_rank.rank?.before.json.gz"))
    parts = list(map(rank_part_of, paths))
    assert [part.profile.bound for part in parts] == ["communication", "host"]
    waiting, sleeping = (part.findings.verdict for part in parts)
    assert sleeping.cause == "python"
    # However fast the waiting host is without the profiler: the other rank sleeps for most of the step.
    assert waiting.cause == "communication"
    assert waiting.cost is not None
    assert waiting.cost.range_ns[0] > 10e6


@pytest.mark.slow
def test_the_rank_with_the_pageable_batch_is_named_with_its_wait() -> None:
    job = recorded("pageable_rank.rank?.before")
    assert job.slowest_rank == 1
    assert job.reason == "its host waits in blocking copy to the GPU in aten::to"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "sleeping_rank.rank?.after",
        "pageable_ranks.rank?.before",
        "averaged_loss.rank?.before",
        "timed_parts_ranks.rank?.before",
        "logging_rank.rank?.before",
    ],
)
def test_balanced_jobs_raise_no_alarm(name: str) -> None:
    job = recorded(name)
    assert job.slowest_rank is None
    assert len(job.rows) == 2
    assert job.world_size == 2
    assert all(row.communication_ns >= row.exposed_communication_ns >= 0 for row in job.rows)


def test_ranks_recorded_at_different_steps_are_said_to_be() -> None:
    ranks = [rank(number, 10) for number in range(3)]
    for builder, steps in zip(ranks, (38, 41, 38), strict=True):
        builder.metadata["pinprof"] = {"steps_before": steps}
    parts = [measure_rank(builder.read()) for builder in ranks]
    text = job_to_text(compare_ranks(parts), parts)
    assert "recorded at different steps (ranks 0, 2 after 38; rank 1 after 41)" in text
    assert "different steps" not in job_to_text(compare_ranks([parts[0], parts[2]]), [parts[0], parts[2]])
