"""E1, E2, E3, E7: copy tensors to the GPU by every strategy that the tutorial compares."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import Tensor

from pinprof.bench.results import Figure
from pinprof.bench.tutorial_judges import FEW_TENSORS, IN_TURN, OF_FEW, SMALL_FLOATS, TENSORDICT
from pinprof.workloads.timing import Budget, Cases, by_host, synchronize, time_cases, times_in_turn

Sizes = Mapping[str, int]


def pinning_cost(device: torch.device, sizes: Sizes) -> Cases:
    """E1: what a copy costs from pageable and from pinned memory, and what pinning costs before it."""
    pageable = torch.ones(sizes["floats"])
    pinned = pageable.pin_memory()
    return {
        "pageable.to": lambda: pageable.to(device),
        "pinned.to": lambda: pinned.to(device),
        "pageable.pin_memory()": pageable.pin_memory,
        "pageable.pin_memory().to": lambda: pageable.pin_memory().to(device),
        "pageable.pin_memory().to, non_blocking": lambda: pageable.pin_memory().to(device, non_blocking=True),
    }


def small_tensors(device: torch.device, sizes: Sizes) -> Cases:
    """E2: copy many small tensors, and wait for each or for all together."""
    tensors = many(sizes)

    def non_blocking() -> list[Tensor]:
        copies = [tensor.to(device, non_blocking=True) for tensor in tensors]
        synchronize(device)
        return copies

    return {
        "blocking": lambda: [tensor.to(device) for tensor in tensors],
        "non_blocking, one synchronize": non_blocking,
    }


def six_strategies(device: torch.device, sizes: Sizes) -> Cases:
    """E3: copy many large tensors, pageable, pinned or pinned just before the copy, and wait for each or not."""
    pageable = many(sizes)
    return {
        **_pageable_or_pinned(device, pageable),
        "pin and copy, blocking": lambda: [tensor.pin_memory().to(device) for tensor in pageable],
        "pin and copy, non_blocking": lambda: [
            tensor.pin_memory().to(device, non_blocking=True) for tensor in pageable
        ],
    }


def small_tensors_in_turn(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """E2: yield what each way takes, and how many times as fast it is to wait once."""
    gains = [("non_blocking, one synchronize", "blocking")]
    yield from times_in_turn(small_tensors(device, sizes), gains, by_host(device), budget)


def six_in_turn(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """E3: yield what each way takes, and how many times as fast non_blocking makes it, pageable and pinned."""
    gains = [(f"{memory}, non_blocking", f"{memory}, blocking") for memory in ("pageable", "pinned")]
    yield from times_in_turn(six_strategies(device, sizes), gains, by_host(device), budget)


def few_tensors(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """E3: yield what it takes to copy a few tensors of the same size, pageable or pinned, blocking or not."""
    cases = _pageable_or_pinned(device, many({**sizes, "tensors": min(sizes["tensors"], FEW_TENSORS)}))
    yield from time_cases({f"{OF_FEW}{name}": run for name, run in cases.items()}, by_host(device), budget)


def _pageable_or_pinned(device: torch.device, pageable: list[Tensor]) -> Cases:
    pinned = [tensor.pin_memory() for tensor in pageable]
    return {
        "pageable, blocking": lambda: [tensor.to(device) for tensor in pageable],
        "pageable, non_blocking": lambda: [tensor.to(device, non_blocking=True) for tensor in pageable],
        "pinned, blocking": lambda: [tensor.to(device) for tensor in pinned],
        "pinned, non_blocking": lambda: [tensor.to(device, non_blocking=True) for tensor in pinned],
    }


def threaded_pinning(device: torch.device, sizes: Sizes) -> Cases:
    """E7: a dictionary of tensors, pinned by the main thread (all first, or in turn with the copies) or by others."""
    tensors = dict(enumerate(many(sizes)))

    def pin_and_copy_in_turn() -> dict[int, Tensor]:
        return {key: tensor.pin_memory().to(device, non_blocking=True) for key, tensor in tensors.items()}

    return {
        "blocking": lambda: {key: tensor.to(device) for key, tensor in tensors.items()},
        "non_blocking": lambda: {key: tensor.to(device, non_blocking=True) for key, tensor in tensors.items()},
        **_pinned_on_the_way(device, tensors, ThreadPoolExecutor(sizes["threads"])),
        IN_TURN: pin_and_copy_in_turn,
        **_by_tensordict(device, tensors, sizes["threads"]),
    }


def small_and_few(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """E7: yield what it takes to pin and copy small tensors, and a few large ones, in the main thread or in others."""
    pool = ThreadPoolExecutor(sizes["threads"])
    others = {
        "small": {**sizes, "floats": min(sizes["floats"], SMALL_FLOATS)},
        "few": {**sizes, "tensors": min(sizes["tensors"], FEW_TENSORS)},
    }
    for which, chosen in others.items():
        cases = _pinned_on_the_way(device, dict(enumerate(many(chosen))), pool)
        yield from time_cases({f"{which}, {name}": run for name, run in cases.items()}, by_host(device), budget)


def _pinned_on_the_way(device: torch.device, tensors: Mapping[int, Tensor], pool: ThreadPoolExecutor) -> Cases:
    def pin_then_copy() -> dict[int, Tensor]:
        pinned = {key: tensor.pin_memory() for key, tensor in tensors.items()}
        return {key: tensor.to(device, non_blocking=True) for key, tensor in pinned.items()}

    def pin_in_threads_then_copy() -> dict[int, Tensor]:
        pinned = pool.map(Tensor.pin_memory, tensors.values())
        return {key: tensor.to(device, non_blocking=True) for key, tensor in zip(tensors, pinned, strict=True)}

    return {"pin then copy": pin_then_copy, "pin in threads then copy": pin_in_threads_then_copy}


def _by_tensordict(device: torch.device, tensors: Mapping[int, Tensor], threads: int) -> Cases:
    """E7: the same by TensorDict, as in the text; empty if it is not installed."""
    if find_spec("tensordict") is None:
        return {}
    batch = import_module("tensordict").TensorDict({str(key): tensor for key, tensor in tensors.items()}, batch_size=[])
    ways: dict[str, dict[str, object]] = {
        "blocking": {"non_blocking": False},
        "non_blocking": {},
        "pin then copy": {"non_blocking_pin": True, "num_threads": 0},
        "pin in threads then copy": {"non_blocking_pin": True, "num_threads": threads},
    }
    return {f"{TENSORDICT}{name}": partial(batch.to, str(device), **options) for name, options in ways.items()}


def many(sizes: Sizes) -> list[Tensor]:
    """Return the tensors that an experiment copies: ones, because fresh zeros all share one page of memory."""
    return [torch.ones(sizes["floats"]) for _ in range(sizes["tensors"])]
