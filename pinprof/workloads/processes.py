"""E11, E12: copies in processes of their own, and what becomes of a pinned tensor on its way to another process."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor, multiprocessing

from pinprof.bench.results import Figure
from pinprof.workloads.timing import Budget, Cases, answer, by_host, figure, repeated, synchronize
from pinprof.workloads.transfers import Sizes

LATER_COPIES = 5
PATIENCE_S = 100
"""How long a process may take for its answer."""
KINDS = ("pageable", "pinned")


def each_copies(device: torch.device, sizes: Sizes) -> Cases:
    """E11, to be recorded: what each of the processes does, in this one."""
    pageable = torch.ones(sizes["floats"])
    pinned = pageable.pin_memory()
    return {"pageable": lambda: pageable.to(device), "pinned": lambda: pinned.to(device)}


def first_and_later(device: torch.device, sizes: Sizes, _budget: Budget) -> Iterator[Figure]:
    """E11: yield what a process's first copy costs and what later ones cost, of fresh processes for each kind.

    As in the text, only the copy is timed, and not the pinning before it: but that is what starts the GPU there, while
    the first pageable copy has that cost in it.
    """
    taken: dict[str, list[float]] = {f"{kind}, {when}": [] for kind in KINDS for when in ("first", "later")}
    with _processes(_copy_when_told, [(kind, sizes["floats"], str(device)) for kind in KINDS], sizes) as ready:
        for kind, connections in ready.items():
            for connection in connections:
                connection.send("go")
            for connection in connections:
                first, later = _answer(connection)
                taken[f"{kind}, first"].append(first)
                taken[f"{kind}, later"] += later
    for name, times in taken.items():
        yield figure(name, "ms", times)


@contextmanager
def _processes(
    target: Any, arguments: list[tuple[str, int, str]], sizes: Sizes
) -> Iterator[dict[str, list[Connection]]]:
    """Start processes for each kind of memory, and give connections to them when all are ready."""
    context = multiprocessing.get_context("spawn")
    started, connections = [], {kind: [] for kind, *_ in arguments}  # type: ignore[var-annotated]
    try:
        for of_kind in arguments:
            for _ in range(sizes["processes"]):
                ours, theirs = context.Pipe()
                process = context.Process(target=target, args=(theirs, *of_kind), daemon=True)
                process.start()
                theirs.close()
                started.append(process)
                connections[of_kind[0]].append(ours)
        for each in connections.values():
            for connection in each:
                _answer(connection)
        yield connections
    finally:
        for process in started:
            process.kill()
            process.join()


def _copy_when_told(connection: Connection, kind: str, floats: int, device: str) -> None:
    """Make the tensor, wait for the word, and send back what the first copy took and what later ones took."""
    source = torch.ones(floats)
    if kind == "pinned":
        source = source.pin_memory()
    connection.send("ready")
    connection.recv()
    first, *later = (_milliseconds(source, torch.device(device)) for _ in range(1 + LATER_COPIES))
    connection.send((first, later))


def _milliseconds(source: Tensor, device: torch.device) -> float:
    start = time.perf_counter()
    source.to(device)
    synchronize(device)
    return (time.perf_counter() - start) * 1e3


def _answer(connection: Connection) -> Any:
    """Return what a process sends; RuntimeError if it has ended or takes too long."""
    if not connection.poll(PATIENCE_S):
        raise RuntimeError(f"a process did not answer within {PATIENCE_S} s")
    try:
        return connection.recv()
    except EOFError:
        raise RuntimeError("a process ended before it was done") from None


@dataclass
class Holder:
    """An object that keeps a tensor, to be sent to another process."""

    tensor: Tensor


def as_sent(device: torch.device, sizes: Sizes) -> Cases:
    """E12, to be recorded: copies of what the other process has; sending moves a tensor to shared memory."""
    sent = torch.ones(sizes["floats"]).pin_memory().share_memory_()  # type: ignore[no-untyped-call]
    pageable, own = torch.ones(sizes["floats"]), torch.ones(sizes["floats"]).pin_memory()
    return {
        "pageable": lambda: pageable.to(device),
        "pinned, sent to the child": lambda: sent.to(device),
        "pinned in the child itself": lambda: own.to(device),
    }


def pinned_in_object(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """E12: yield whether the tensor of an object is pinned here and in the process that it is sent to, and its copies.

    Sending moves the tensor to shared memory, in this process too: whether it is pinned here is asked before.
    """
    pageable, pinned = Holder(torch.ones(sizes["floats"])), Holder(torch.ones(sizes["floats"]).pin_memory())
    yield answer("pinned in the parent", [pinned.tensor.is_pinned()])
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_copy_what_was_sent, args=(theirs, pageable, pinned, str(device), budget))
    process.start()
    theirs.close()
    try:
        yield from _answer(ours)
    finally:
        process.kill()
        process.join()


def _copy_what_was_sent(connection: Connection, pageable: Holder, pinned: Holder, device: str, budget: Budget) -> None:
    """Send back what this process sees of the tensors, and what their copies take here."""
    own = Holder(torch.ones(pinned.tensor.numel()).pin_memory())
    stopwatch = by_host(torch.device(device))
    arrived = answer("pinned in the child", [pinned.tensor.is_pinned()])
    cases = {"pageable": pageable, "pinned, sent to the child": pinned, "pinned in the child itself": own}
    times = {name: repeated(lambda: holder.tensor.to(device), stopwatch, budget) for name, holder in cases.items()}  # noqa: B023
    connection.send([arrived] + [figure(name, "ms", taken) for name, taken in times.items()])
