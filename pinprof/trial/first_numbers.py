"""Note what a program computes in its first steps (losses, parameters, outputs), to compare it with another version."""

import json
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, final

import msgspec
import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from pinprof.ab.worker import Nudged
from pinprof.capture.steps.marks import FirstSteps
from pinprof.capture.steps.sources import BACKWARD, MODULE, OPTIMIZER, Source
from pinprof.program.machine import uses_cuda
from pinprof.program.user_program import UserProgram, ending_of, exit_as_fork
from pinprof.trial.numbers import ComputedSums, Numbers

SEED = 0
NotedKind: TypeAlias = Literal["loss", "parameters", "output"]

AS_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By size in bytes: the type of integers that has the bits of a number."""

FLOAT32_ROUNDING = 2.0**-25
"""The largest error of a number from a half to 1 that is rounded to float32."""


class TensorSums(NamedTuple):
    """Sums over some tensors of one device, kept on that device."""

    floats: Tensor
    """The sum, the sum of magnitudes and that of squares, in float64."""
    bits: Tensor
    """The sum of the numbers' bits, as an integer."""


class Note(NamedTuple):
    """What was computed at one point of the program."""

    kind: NotedKind
    dtype: str
    """The least precise floating type among the tensors."""
    sums: tuple[TensorSums, ...]


@final
class NumberNotes:
    """The numbers of a program, noted on the GPU without waiting for it."""

    def __init__(self, most: int) -> None:
        self.notes: list[Note] = []
        self._most = most

    def loss(self, roots: Any) -> None:
        """Note what a call of backward differentiates."""
        self._note("loss", roots)

    def stepped(self, optimizer: Optimizer) -> None:
        """Note the parameters after a step of their optimizer."""
        self._note("parameters", [parameter for group in optimizer.param_groups for parameter in group["params"]])

    def output(self, output: Any) -> None:
        """Note what the outermost module returned."""
        if sum(note.kind == "output" for note in self.notes) < self._most:
            self._note("output", output)

    def read(self) -> tuple[ComputedSums, ...]:
        """Return all notes; this waits for the GPU."""
        return tuple(map(_computed, self.notes))

    def _note(self, kind: NotedKind, things: Any) -> None:
        if uses_cuda() and torch.cuda.is_current_stream_capturing():
            return
        with torch.no_grad(), _without_autocast():
            tensors = [tensor for tensor in map(_plain, _tensors(things)) if tensor is not None and tensor.numel()]
            if tensors:
                self.notes.append(Note(kind, _least_precise(tensors), tuple(_device_sums(tensors))))


def run_noted(
    script: str | os.PathLike[str],
    args: Sequence[str],
    path: Path,
    *,
    module: bool = False,
    steps: int = 10,
    nudged: Nudged | None = None,
) -> int:
    """Run `script` for its first steps, write the numbers that it computed to `path`, and return its exit status.

    The random numbers of Python, numpy and torch begin with a fixed seed, which the program may set itself afterwards;
    torch takes deterministic kernels where it has them. If `nudged`, the last bit of every parameter is changed before
    the first use of its module, so that the result differs as much as rounding makes it. With `updates`, each update of
    an optimizer is also longer, by as much as a fused optimizer may round it. Raises CaptureError if the script does
    not exist.
    """
    program = UserProgram.found(script, args, module=module)
    path, process = path.absolute(), os.getpid()
    notes = NumberNotes(steps)
    acts: dict[Source, Callable[[Any], None]] = {BACKWARD: notes.loss, OPTIMIZER: notes.stepped}
    first = FirstSteps(steps, acts | ({MODULE: Nudge()} if nudged else {}), notes.output)
    with program.as_main() as main, first.placed(), updates_nudged() if nudged == "updates" else nullcontext():
        _seed()
        ending = ending_of(program, main, None)
    if os.getpid() != process:
        exit_as_fork(ending.exit_status)
    if first.stop.times:
        sys.settrace(None)
    if not ending.exit_status or first.stop.times:
        path.write_text(json.dumps(msgspec.to_builtins(Numbers(first.steps, notes.read()))))  # msgspec writes no NaN
        return 0
    return ending.exit_status


@contextmanager
def updates_nudged() -> Iterator[None]:
    """Make the updates of all optimizers longer in this block, by as much as rounding may."""
    before: dict[int, list[Any]] = {}

    def lengthen(optimizer: Optimizer, *_: object) -> None:
        before[id(optimizer)] = [group.get("lr") for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            if group.get("lr") is not None:
                group["lr"] = group["lr"] * (1 + _rounding_of_updates(group))

    def put_back(optimizer: Optimizer, *_: object) -> None:
        for group, lr in zip(optimizer.param_groups, before.pop(id(optimizer), ()), strict=False):
            if lr is not None:
                group["lr"] = lr

    hooks = (register_optimizer_step_pre_hook(lengthen), register_optimizer_step_post_hook(put_back))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _rounding_of_updates(group: Mapping[str, Any]) -> float:
    """Return by which share float32 rounding may lengthen an update that corrects the bias of its means.

    Fused kernels compute `1 - beta ** step` in float32: the power is off by 2^-25 at most, and Adam takes the root.
    """
    betas = [float(beta) for beta in group.get("betas", ()) if float(beta) < 1]
    return FLOAT32_ROUNDING / (2 * (1 - max(betas))) if betas else FLOAT32_ROUNDING


class Nudge:
    """Changes the last bit of each parameter of a module before its first call, up or down."""

    def __init__(self) -> None:
        self._changed: set[int] = set()

    def __call__(self, module: Module) -> None:
        """Change the parameters that have not been changed yet."""
        with torch.no_grad(), _without_autocast():
            for parameter in module.parameters():
                if id(parameter) not in self._changed and _has_values(parameter):
                    self._changed.add(id(parameter))
                    _nudge(parameter)


def _has_values(parameter: Tensor) -> bool:
    """Return whether a parameter has values to change: those of a lazy module have no shape yet."""
    return not is_lazy(parameter) and parameter.device.type != "meta" and parameter.is_floating_point()


def _nudge(parameter: Tensor) -> None:
    own = torch.Generator(device=parameter.device).manual_seed(1)  # the program's own stays as it is
    up = torch.empty(parameter.shape, device=parameter.device).bernoulli_(0.5, generator=own)
    step = torch.finfo(parameter.dtype).eps * (2 * up - 1)
    values = parameter.detach()
    values.copy_(values.to(torch.float64) * (1 + step.to(torch.float64)))


def _seed() -> None:
    random.seed(SEED)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(SEED)
    torch.manual_seed(SEED)
    warnings.filterwarnings("ignore", message=".*deterministic.*")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.deterministic = True


@contextmanager
def _without_autocast() -> Iterator[None]:
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


def _tensors(things: Any) -> Iterator[Tensor]:
    if isinstance(things, Tensor):
        yield things
    elif isinstance(things, Mapping):
        yield from _tensors(list(things.values()))
    elif isinstance(things, list | tuple):
        for thing in things:
            yield from _tensors(thing)


def _plain(tensor: Tensor) -> Tensor | None:
    """Return a tensor's values as a plain dense tensor; None if it has no such values."""
    tensor = tensor.detach()
    local = getattr(tensor, "to_local", None)
    tensor = local() if local is not None else tensor
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        return None
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _least_precise(tensors: Iterable[Tensor]) -> str:
    floating = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
    return (
        str(max(floating, key=lambda dtype: torch.finfo(dtype).eps)).removeprefix("torch.") if floating else "integer"
    )


def _device_sums(tensors: Iterable[Tensor]) -> Iterator[TensorSums]:
    """Yield the sums of each device."""
    by_device: dict[torch.device, TensorSums] = {}
    for tensor in tensors:
        values = tensor.to(torch.float64)
        floats = torch.stack((values.sum(), values.abs().sum(), values.square().sum()))
        bits = tensor.view(AS_INTEGERS[tensor.element_size()]).sum(dtype=torch.int64)
        before = by_device.get(tensor.device)
        by_device[tensor.device] = (
            TensorSums(before.floats + floats, before.bits + bits) if before else TensorSums(floats, bits)
        )
    yield from by_device.values()


def _computed(note: Note) -> ComputedSums:
    values, magnitudes, squares = map(sum, zip(*(sums.floats.tolist() for sums in note.sums), strict=True))
    return ComputedSums(note.kind, note.dtype, sum(int(sums.bits) for sums in note.sums), (values, magnitudes, squares))
