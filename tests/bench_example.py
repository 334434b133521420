"""A bench with all experiments: figures made up for tests, in the order of the published ones."""

from bench_builder import BenchBuilder, count, gbps, measured, ms

from pinprof.bench.results import Bar, Bench, Picture

KIB = 1 << 10
SIZES = tuple(4 * KIB * 4**power for power in range(10))
CASES = {
    "default stream, pageable": (2.3, 2.3, 0.0),
    "default stream, pinned": (0.4, 0.4, 0.0),
    "side stream, pageable": (2.3, 2.3, 0.0),
    "side stream, pinned": (0.4, 0.0, 98.0),
}
"""What the copy takes, when the kernels begin, and how much of the copy is under them."""


def example() -> Bench:
    """Return figures of one machine; E12 failed, E7 and E15 did not run."""
    builder = BenchBuilder()
    builder.add(
        "E1",
        ms("pageable.to", 0.44),
        ms("pinned.to", 0.09),
        ms("pageable.pin_memory()", 0.7, 0.6, 1.1),
        ms("pageable.pin_memory().to", 0.8, 0.7, 1.2),
        ms("pageable.pin_memory().to, non_blocking", 0.8, 0.7, 1.2),
        ms("call of pageable.pin_memory()", 0.7, 0.6, 1.1),
        ms("call of pinned.to, non_blocking", 0.02),
        ms("kept buffer, refilled and sent", 0.5),
        ms("made in pageable memory, pinned and sent", 1.2),
        ms("made in pinned memory and sent", 0.5),
        ms("pageable.pin_memory(), fresh memory", 1.9),
        ms("pageable.pin_memory().to, fresh memory", 2.0),
        ms("pageable.pin_memory().to, non_blocking, fresh memory", 2.0),
        sizes={"floats": 1_000_000},
    )
    builder.add(
        "E2",
        ms("blocking", 9.0),
        ms("non_blocking, one synchronize", 5.0),
        measured("times as fast in turn, non_blocking, one synchronize", "times", 1.8),
        count("waits, blocking", "waits", 1000),
        count("waits, non_blocking", "waits", 1),
        count("copies asked for early, non_blocking", "%", 0),
        sizes={"tensors": 1000, "floats": 1000},
    )
    builder.add(
        "E3",
        ms("pageable, blocking", 440),
        ms("pageable, non_blocking", 430),
        ms("pinned, blocking", 82),
        ms("pinned, non_blocking", 75),
        ms("pin and copy, blocking", 900, 800, 1100),
        ms("pin and copy, non_blocking", 850, 790, 990),
        measured("times as fast in turn, pageable, non_blocking", "times", 1.02),
        measured("times as fast in turn, pinned, non_blocking", "times", 1.09),
        ms("few, pageable, blocking", 1.8),
        ms("few, pageable, non_blocking", 1.75),
        ms("few, pinned, blocking", 0.4),
        ms("few, pinned, non_blocking", 0.3),
        count("copies asked for early, pinned, non_blocking", "%", 100),
        count("copies at once, pinned, non_blocking", "%", 0),
        sizes={"tensors": 1000, "floats": 1_000_000},
    )
    builder.add(
        "E4",
        *(ms(case, max(copy, start) + 2) for case, (copy, start, _) in CASES.items()),
        *(count(f"overlapped, {case}", "%", share) for case, (_, _, share) in CASES.items()),
        *(count(f"possible, {case}", "%", 100) for case in CASES),
        count("overlapped, side stream, pageable, kernels first", "%", 45),
        count("possible, side stream, pageable, kernels first", "%", 47),
        count("copies at once, two copies, the same way", "%", 0),
        count("copies at once, two copies, both ways", "%", 93),
        sizes={"floats": 5 << 20},
        pictures=tuple(_picture(case, *times) for case, times in CASES.items()),
    )
    builder.add(
        "E5",
        count("read at once", "wrong", 100, 100),
        count("read after synchronize", "wrong", 0, 100),
    )
    builder.add(
        "E6",
        count("pinned source", "wrong", 0, 100),
        count("pageable source", "wrong", 0, 100),
        count("pinned source, written after synchronize", "wrong", 0, 100),
    )
    builder.add(
        "E8",
        ms("pageable, blocking", 12),
        ms("pageable, non_blocking", 11.9, 11, 13),
        ms("pinned, blocking", 9.4),
        ms("pinned, non_blocking", 9.0),
        ms("no copy", 8.5),
        measured("cost of a pinned copy", "ms", 0.5, 0.4, 0.6),
        measured("rate, pinned, non_blocking", "GB/s", 50),
        *(ms("batch, N workers", time, size=workers) for workers, time in ((1, 8), (2, 4), (4, 3), (8, 3.02))),
        sizes={"rows": 2048, "features": 3072, "workers": 2},
    )
    builder.add(
        "E9",
        count("pinned, without pin_memory()", "yes", 0),
        count("pinned, with pin_memory()", "yes", 1),
        count("pinned by a thread of its own, with workers", "yes", 1),
    )
    builder.add(
        "E10",
        ms("plain loop", 10.5),
        ms("prefetcher", 9.5),
        ms("no copy", 9.5),
        count("waits, plain loop", "waits", 0),
        ms("ahead, plain loop", 30, 20, 40),
        count("overlapped, plain loop", "%", 0),
        count("overlapped, prefetcher", "%", 97),
        count("overlapped, prefetcher, pageable", "%", 0),
        count("overlapped, prefetcher, pageable, kernels first", "%", 30),
        count("overlapped, prefetcher, blocking", "%", 95),
        count("waits, prefetcher, blocking", "waits", 1),
        count("ended before the next kernel, plain loop", "yes", 1),
        sizes={"rows": 4096, "features": 3072},
    )
    builder.add(
        "E11",
        ms("pageable, first", 900, 700, 1200),
        ms("pinned, second", 15),
        ms("pinned, first", 910, 700, 1200),
        ms("pageable, second", 16),
        ms("first use of CUDA", 850),
        measured("times as fast, pinned in the child", "times", 6.25),
    )
    builder.add("E12", problem="the child was killed: out of memory")
    builder.add(
        "E13",
        *(gbps("HtoD pageable", size, 9.0 * size / (size + 40_000)) for size in SIZES),
        *(gbps("HtoD pinned", size, 55.3 * size / (size + 300_000)) for size in SIZES),
        *(gbps("DtoH pageable", size, 7.0 * size / (size + 60_000)) for size in SIZES),
        *(gbps("DtoH pinned", size, 52.0 * size / (size + 300_000)) for size in SIZES),
        *(ms("blocked, HtoD pageable", 0.01 if size <= 64 * KIB else 15 + size / 9e6, size=size) for size in SIZES),
        count("the GPU can access pageable memory", "yes", 0),
        sizes={"least": 4096, "most": 1 << 30},
    )
    builder.add(
        "E14",
        ms("as written", 12),
        ms("without .item()", 10),
        measured("cost of .item()", "%", 20),
        count("waits, as written", "waits", 2),
        count("waits, without .item()", "waits", 0),
        *(
            ms(f"ahead, {case}", ahead, ahead - 0.1, ahead + 0.1)
            for case, ahead in (
                ("as written", -0.5),
                ("without .item()", -0.3),
                ("as written, larger", -1),
                ("without .item(), larger", 20),
            )
        ),
    )
    return builder.build()


def _picture(case: str, copy: float, start: float, share: float) -> Picture:
    stream = "stream 7" if case.startswith("default") else "stream 20"
    bars = (
        Bar("host", "copy", 0.0, copy if "pageable" in case else 0.01),
        Bar("host", "wait", max(copy, 0.02), start + 2),
        Bar(stream, "copy", 0.02, copy),
        *(Bar("stream 7", "kernel", start + 0.03 + 0.6 * place, start + 0.6 * (place + 1)) for place in range(3)),
    )
    return Picture(case, bars, f"{share:.0f} % of the copy is under kernels")
