"""A bench with some experiments: figures made up for tests, in the order of the published ones."""

from bench_builder import BenchBuilder, count, gbps, ms

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
    """Return figures of one machine; E12 failed, many did not run."""
    builder = BenchBuilder()
    builder.add(
        "E1",
        ms("pageable.to", 0.44),
        ms("pinned.to", 0.09),
        ms("pageable.pin_memory()", 0.7, 0.6, 1.1),
        ms("pageable.pin_memory().to", 0.8, 0.7, 1.2),
        ms("pageable.pin_memory().to, non_blocking", 0.8, 0.7, 1.2),
        ms("made in pageable memory, pinned and sent", 1.2),
        ms("made in pinned memory and sent", 0.5),
        ms("pageable.pin_memory(), fresh memory", 1.9),
        ms("pageable.pin_memory().to, fresh memory", 2.0),
        sizes={"floats": 1_000_000},
    )
    builder.add(
        "E4",
        *(ms(case, max(copy, start) + 2) for case, (copy, start, _) in CASES.items()),
        *(count(f"overlapped, {case}", "%", share) for case, (_, _, share) in CASES.items()),
        count("overlapped, side stream, pageable, kernels first", "%", 45),
        count("copies at once, two copies, the same way", "%", 0),
        sizes={"floats": 5 << 20},
        pictures=tuple(_picture(case, *times) for case, times in CASES.items()),
    )
    builder.add("E6", count("pinned source, copy then kernel", "wrong", 0, 100))
    builder.add("E8", *(ms("batch, N workers", time, size=workers) for workers, time in ((1, 8), (2, 4), (8, 3.02))))
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
