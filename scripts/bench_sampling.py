"""What sampling the host's stack costs, and whether its shares are true.

    PYTHONPATH=. python scripts/bench_sampling.py [--json FILE] [--rounds N] [--device DEVICE]

The cost is that of a step which the host limits: many small operators, called from deep in the stack. Steps with and
without sampling take turns; the ratio is the median over the rounds, with its quartiles. A sample costs the time by
which it makes the steps longer. On a machine with other work only the ratio of the process's CPU time is of use.

The shares are those of a program that times its own parts: pure Python, operators, sleep, and an operator that waits.
"""

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from pinprof.capture.observe import sampler as module
from pinprof.capture.observe.sampler import INTERVAL_S, HostSampler, sampling
from pinprof.trace.sampled_stacks import HostProfile

TURN_S = 0.1
"""How long steps of one kind take before it is the other's turn."""
OPERATORS, DEPTH = 150, 25
"""Of a step, and frames above it."""
PARTS_S = 10.0
"""How long the program with known shares runs."""
FREQUENT_S = 0.002
"""An interval at which the cost of a sample shows through the noise."""


def step(values: torch.Tensor, depth: int = DEPTH) -> torch.Tensor:
    """Run the operators of a step."""
    if depth:
        return step(values, depth - 1)
    for _ in range(OPERATORS):
        values = torch.relu(values) + 1
    return values


def turn(values: torch.Tensor, on_step: Callable[[], None] = lambda: None) -> tuple[float, float]:
    """Return the mean time of a step and the process's CPU time in it, both in s, over a turn of them."""
    start, used, steps = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - start < TURN_S:
        step(values)
        on_step()
        steps += 1
    if values.is_cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps, (time.process_time() - used) / steps


@contextmanager
def watched() -> Iterator[HostSampler]:
    """Sample with the thread at work from the first step on, as in a program with long calls."""
    with sampling(FREQUENT_S) as sampler:
        sampler._came_late = True  # noqa: SLF001  what a long call would set
        sampler.step()
        yield sampler


def cost(sample: Callable[[], Any], interval_s: float, values: torch.Tensor, rounds: int) -> dict[str, Any]:
    """Return what sampling costs, by the clock and in CPU time."""
    pairs = []
    for number in range(rounds):
        times = {}
        for is_on in (number % 2 == 0, number % 2 == 1):
            with sample() if is_on else nullcontext() as sampler:
                times[is_on] = turn(values, sampler.step if sampler else lambda: None)
        pairs.append([on / off for on, off in zip(times[True], times[False], strict=True)])
    return dict(zip(("clock", "cpu"), (ratio(times, interval_s) for times in zip(*pairs, strict=True)), strict=True))


def ratio(ratios: Sequence[float], interval_s: float) -> dict[str, float]:
    """Return how much longer steps are with sampling, and what that makes of a sample and at the usual interval."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    more = (middle - 1) * interval_s
    return {"ratio": middle, "low": low, "high": high, "sample_us": more * 1e6, "usual_share": more / INTERVAL_S}


def pure_python(seconds: float) -> int:
    """Count, without a call that lets Python's lock go."""
    end, number = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        number += 1
    return number


def operators(values: torch.Tensor, seconds: float) -> None:
    """Call small operators."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        torch.relu(values)


def waiting_operator(matrix: torch.Tensor) -> int:
    """Wait in an operator, and then call another function."""
    if (matrix @ matrix).sum() > 0:
        return len("more")
    return 0


def shares(values: torch.Tensor, matrix: torch.Tensor) -> dict[str, tuple[float, float]]:
    """Return the true share and the sampled one of each part."""
    parts: dict[str, Callable[[], object]] = {
        "pure_python": lambda: pure_python(0.003),
        "operators": lambda: operators(values, 0.001),
        "sleep": lambda: time.sleep(0.001),
        "waiting_operator": lambda: waiting_operator(matrix),
    }
    truth: Counter[str] = Counter()
    end = time.perf_counter() + PARTS_S
    with sampling() as sampler:
        while time.perf_counter() < end:
            for name, part in parts.items():
                start = time.perf_counter_ns()
                part()
                truth[name] += time.perf_counter_ns() - start
            sampler.step()
    host, whole = sampler.profile(), sum(truth.values())
    return {name: (truth[name] / whole, sampled(host, name)) for name in parts}


def sampled(host: HostProfile, name: str) -> float:
    """Return the share of a part: of its function, or of the line of the part that calls it in C."""
    samples = 0
    for stack in host.stacks:
        functions = [host.frames[index].function for index in stack.frames]
        is_lambda = functions[-1].endswith("<lambda>")
        samples += stack.count * (name in functions or (name == "sleep" and is_lambda))
    return samples / max(host.samples, 1)


def main() -> None:
    """Measure, print, and write JSON if asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device(options.device)
    values = torch.ones(8, 8, device=device)
    side = 500 if device.type == "cpu" else 6000  # some ms of work
    matrix = torch.ones(side, side, device=device)
    turn(values)
    results: dict[str, Any] = {
        "device": str(device),
        "step_ms": turn(values)[0] * 1e3,
        "interval_ms": INTERVAL_S * 1e3,
        "late_ms": module.LATE_S * 1e3,
        "signal": cost(lambda: sampling(FREQUENT_S), FREQUENT_S, values, options.rounds),
        "signal_and_thread": cost(watched, FREQUENT_S, values, options.rounds),
        "usual": cost(sampling, INTERVAL_S, values, options.rounds),
        "shares": shares(values, matrix),
    }
    text = json.dumps(results, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
