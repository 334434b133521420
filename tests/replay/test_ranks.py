"""Replay of the ranks of a job together: steps of two ranks, by hand in µs, and recorded ones of two H200."""

import json
import statistics
from dataclasses import replace

import pytest
from msgspec import structs
from recordings import TRACES
from trace_builder import SIDE, TraceBuilder

from pinprof.analyses.loader import measure_loader
from pinprof.analyses.syncs.stalls import measure_stalls
from pinprof.ground.errors import TraceError
from pinprof.measurement.measure import measure
from pinprof.prediction import Scenario, predict
from pinprof.replay.building import build_program
from pinprof.replay.machine import Job, pace
from pinprof.replay.program import Call, Program
from pinprof.replay.ranks import join_ranks
from pinprof.trace import Trace, read_trace
from pinprof.trace.tables import NONE
from scripts.score_pairs import scores

RECORDED = TRACES / "ranks"
PAIRS = json.loads((RECORDED / "pairs.json").read_text())["pairs"]
JOBS = sorted(
    path.name.replace(".rank0.", ".rank*.")
    for path in RECORDED.glob("*.rank0.*.json.gz")
    if "shared_gpu" not in PAIRS[path.name.partition(".")[0]]  # there kernels of one rank slow down those of another
)
TOLERATED = 0.02
STEPS = 6


def rank(late: float, kernel_beside: float, *, number: int, world_size: int = 2, collectives: int = 1) -> TraceBuilder:
    """A step takes 1000: `late`, 100 for a kernel, then a collective that ends at 800, which the host awaits."""
    builder = TraceBuilder()
    builder.metadata["distributedInfo"] = {"rank": number, "world_size": world_size}
    for start in builder.steps(STEPS):
        begin = start + late
        builder.kernel(begin + 10, 100, launch=begin + 5)
        builder.kernel(begin + 110, kernel_beside, launch=begin + 15, name="meanwhile", stream=SIDE)
        for extra in range(collectives):
            builder.collective(begin + 110 + extra, start + 800 - (begin + 110) - extra, launch=begin + 20 + extra)
        builder.call("cudaDeviceSynchronize", begin + 30, start + 805 - (begin + 30))
    return builder


def job(*ranks: TraceBuilder) -> list[Trace]:
    return [builder.read() for builder in ranks]


def programs_of(traces: list[Trace]) -> list[Program]:
    steps = [list(range(len(trace.steps))) for trace in traces]
    programs = [build_program(trace, measure_stalls(trace), measure_loader(trace).times, 0.3) for trace in traces]
    return join_ranks(traces, programs, steps)


def in_steps(programs: list[Program]) -> list[Program]:
    return [program.of_steps({1, 2, 3, 4}) for program in programs]


def sooner(program: Program, by_ns: float) -> Program:
    """Return the program of a rank that begins to launch sooner in each step."""

    def moved(call: Call, previous: Call | None) -> Call:
        first = previous is None or previous.step != call.step
        return structs.replace(call, gap_ns=call.gap_ns - by_ns) if first else call

    calls = program.calls
    return replace(program, calls=tuple(map(moved, calls, (None, *calls[:-1]))))


def test_a_rank_that_comes_sooner_speeds_up_the_whole_job() -> None:
    first, second = in_steps(programs_of(job(rank(0, 50, number=0), rank(600, 50, number=1))))
    assert pace([first, second], 4).step_ns == pytest.approx(1_000_000, rel=0.001)
    assert pace([first, sooner(second, 400_000)], 4).step_ns == pytest.approx(600_000, rel=0.001)
    assert pace([first, sooner(second, 595_000)], 4).step_ns == pytest.approx(405_000, rel=0.001)


def test_a_rank_that_waits_is_not_sped_up_by_its_own_doing() -> None:
    first, second = in_steps(programs_of(job(rank(200, 50, number=0), rank(600, 50, number=1))))
    assert pace([sooner(first, 200_000), second], 4).step_ns == pytest.approx(1_000_000, rel=0.001)


def test_waiting_for_other_ranks_is_no_work() -> None:
    programs = in_steps(programs_of(job(rank(0, 50, number=0), rank(600, 50, number=1))))
    running = Job(programs)
    running.play()
    assert running.pacemaker() is running.machines[1]
    assert pace(programs, 4).busy_ns == pytest.approx(100_000 + 90_000, rel=0.02)  # a kernel and the collective's own


def test_a_kernel_beside_a_waiting_collective_takes_what_it_takes_elsewhere() -> None:
    first, second = programs_of(job(rank(0, 300, number=0), rank(600, 20, number=1)))
    for program in (first, second):
        took = {work.duration_ns for call in program.calls for work in call.works if work.queue == 1}
        assert took == {20_000}


def test_ranks_that_launch_in_different_orders_do_not_wait_forever() -> None:
    ranks = [rank(0, 50, number=0), rank(600, 50, number=1)]
    for builder, groups in zip(ranks, (("[0, 1]", "[1, 0]"), ("[1, 0]", "[0, 1]")), strict=True):
        for start in range(0, 1000 * STEPS, 1000):
            for place, group in enumerate(groups):
                builder.collective(start + 850, 5, launch=start + 810 + 5 * place, group=group, stream=SIDE + place)
    running = Job(programs_of(job(*ranks)))
    running.play()
    assert running.completed_ns() > 0


@pytest.mark.parametrize(
    ("numbers", "sizes", "said"), [((0, 0), (2, 2), "is of the same rank as"), ((0, 1), (2, 4), "2 and 4 ranks")]
)
def test_traces_of_different_jobs_are_refused(numbers: tuple[int, int], sizes: tuple[int, int], said: str) -> None:
    ranks = [rank(0, 50, number=number, world_size=size) for number, size in zip(numbers, sizes, strict=True)]
    with pytest.raises(TraceError, match=said):
        predict(job(*ranks), Scenario())


@pytest.mark.slow
@pytest.mark.parametrize("pattern", JOBS)
def test_the_unchanged_replay_of_all_ranks_ends_as_recorded(pattern: str) -> None:
    """Collectives end as recorded, and so does the whole; kernels during a waiting collective are shorter."""
    traces = [read_trace(path) for path in sorted(RECORDED.glob(pattern))]
    assert len(traces) == 2
    programs = programs_of(traces)
    running = Job(programs)
    meeting = {
        number: [work.row for call in program.calls for work in call.works if work.meeting == 0]
        for number, program in enumerate(programs)
    }
    met = [
        int(trace.gpu.end_ns[meeting[number][0]]) - program.start_ns
        for number, (trace, program) in enumerate(zip(traces, programs, strict=True))
    ]
    shifts = [max(met) - own for own in met]  # the first collective ends on all ranks at the same time
    for machine, shift in zip(running.machines, shifts, strict=True):
        machine.run.host_ns = float(shift)
        machine.run.ready_ns.update({queue: time + shift for queue, time in machine.run.ready_ns.items()})
    running.play()
    for trace, program, machine, shift in zip(traces, programs, running.machines, shifts, strict=True):
        run = machine.run
        length = float(trace.gpu.end_ns.max() - program.start_ns)
        met = [work.row for call in program.calls for work in call.works if work.meeting != NONE]
        assert met
        for row in (*met, list(run.work_ends_ns)[-1]):
            end = run.work_ends_ns[row]
            assert abs(end - shift - (trace.gpu.end_ns[row] - program.start_ns)) <= TOLERATED * length
        last = program.calls[-1].row
        assert abs(run.call_ends_ns[last] - shift - (trace.calls.end_ns[last] - program.start_ns)) <= TOLERATED * length


@pytest.mark.slow
def test_the_predicted_step_is_that_of_the_fixed_job() -> None:
    errors = [abs(score.error) for score in scores(RECORDED)]
    assert len(errors) >= 5
    assert statistics.median(errors) <= 0.02
    assert max(errors) <= 0.09


def test_a_rank_by_itself_does_not_tell_how_much_of_its_step_is_the_profiler_of_another() -> None:
    waits = rank(0, 100, number=0)  # from 110 to 800 its GPU is in a collective
    works = rank(0, 100, number=0)
    for event in works.events:
        event["args"].pop("Collective name", None)
        event["args"].pop("Process Group Ranks", None)
        event["name"] = event["name"].replace("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "gemm")
    of_waiting, of_working = (measure(trace).estimate for trace in job(waits, works))
    assert of_waiting.step_ns == of_working.step_ns
    assert of_waiting.range_ns
    assert of_working.range_ns
    assert of_waiting.range_ns[1] == pytest.approx(of_working.range_ns[1], rel=0.01)
    assert of_working.range_ns[0] > 790_000  # kernels from 10 to 800
    assert of_waiting.range_ns[0] < 460_000  # its host from 805 to 1010, then kernels of 200: no wait for another
    assert not of_waiting.is_sure
