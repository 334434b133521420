"""Parts of a trace as values, for tables of tests: `built(kernel(10, 90, launch=0), call("cudaFree", 50, 55))`."""

from collections.abc import Callable
from typing import Any

from trace_builder import COMPUTE, TraceBuilder

Part = Callable[[TraceBuilder], object]


def built(*parts: Part) -> TraceBuilder:
    builder = TraceBuilder()
    for part in parts:
        part(builder)
    return builder


def kernel(start: float, duration: float, *, launch: float, **options: Any) -> Part:
    return lambda builder: builder.kernel(start, duration, launch=launch, **options)


def work(start: float, duration: float, *, correlation: int = 0, category: str = "kernel") -> Part:
    """Return work of the GPU without a launch."""
    return lambda builder: builder.activity(
        category, "work", start, duration, correlation=correlation, device=0, stream=COMPUTE
    )


def copy(kind: str, start: float, duration: float, *, launch: float, **options: Any) -> Part:
    return lambda builder: builder.copy(kind, start, duration, launch=launch, **options)


def call(name: str, start: float, duration: float, **options: Any) -> Part:
    return lambda builder: builder.call(name, start, duration, **options)


def long_launch(start: float, duration: float, *, kernel: float) -> Part:
    """Return a launch that lasts, and its kernel of 40 µs, which begins at this time."""

    def add(builder: TraceBuilder) -> None:
        correlation = builder.call("cudaLaunchKernel", start, duration)
        builder.activity("kernel", "gemm", kernel, 40, correlation=correlation, device=0, stream=COMPUTE)

    return add


def op(name: str, start: float, duration: float, **options: Any) -> Part:
    return lambda builder: builder.op(name, start, duration, **options)


def event(category: str, name: str, start: float, duration: float, **args: Any) -> Part:
    return lambda builder: builder.event(category, name, start, duration, **args)


def step(number: int, start: float, duration: float) -> Part:
    return lambda builder: builder.step(number, start, duration)


def function(name: str, start: float, duration: float, **options: Any) -> Part:
    return lambda builder: builder.function(name, start, duration, **options)


def on_thread(thread: int, category: str, name: str, start: float, duration: float) -> Part:
    return lambda builder: builder.on_thread(thread, category, name, start, duration)


def overhead(name: str, start: float, duration: float) -> Part:
    return lambda builder: builder.overhead(name, start, duration)


Scene = Callable[[TraceBuilder, float], None]
"""Adds one step's events, from the given time on."""


def scene_of(*parts: Part) -> Scene:
    """Return what adds parts, whose times are from the start of the step."""

    def add(builder: TraceBuilder, start: float) -> None:
        builder.base_us += start
        for part in parts:
            part(builder)
        builder.base_us -= start

    return add


def all_of(scene: Scene) -> Part:
    """Return a scene as a part of another."""
    return lambda builder: scene(builder, 0)
