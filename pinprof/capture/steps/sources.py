"""The sources of step boundaries: events that a program has once per step, and the changes of torch that report them.

A new source is one row `Source` in this file, with its hook. Hooks import torch only when they are placed, because
processes without torch load this module too.
"""

# ruff: noqa: PLC0415

import gc
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import ReferenceType, ref

from pinprof.program.frames import Stack, stack_from
from pinprof.program.hooks import contained, noting, replaced
from pinprof.trace.spans.model_calls import BATCH_MARK

if TYPE_CHECKING:
    from torch.nn import Module

AUTO = "auto"  # the step marker that lets the finder choose a source


@dataclass(eq=False)
class OptimizerRole:
    """What an optimizer is for in the program: the optimizer that is there for it now, and whether that has stepped."""

    holder: ReferenceType[Any]
    has_stepped: bool = False


class OptimizerRoles:
    """Distinguishes the optimizers of a program by their roles, not by their addresses, which Python gives again.

    Programs make optimizers anew for each task, user or stage. One that is made where an earlier one was made, of the
    same class, continues the role of that one if it has stepped or is gone. Optimizers that are made at one place
    before they step have a role each. One that was made unseen, as by a copy, is known by the place of its first step.
    """

    def __init__(self) -> None:
        self._living: dict[int, tuple[ReferenceType[Any], OptimizerRole]] = {}
        """By address, as an optimizer of the program may have no hash; its entry goes with it."""
        self._made_at: dict[tuple[type, Stack], list[OptimizerRole]] = defaultdict(list)
        """The roles of each place, the one that was taken longest ago first."""

    def __len__(self) -> int:
        """Return how many optimizers currently exist."""
        return len(self._living)

    def made(self, optimizer: Any, frame: FrameType | None) -> OptimizerRole:
        """Give an optimizer that is made in this frame its role."""
        roles = self._made_at[type(optimizer), stack_from(frame)]
        role = next((role for role in roles if role.has_stepped or role.holder() is None), None)
        if role is None:
            role = OptimizerRole(ref(optimizer))
        else:
            roles.remove(role)
            role.holder, role.has_stepped = ref(optimizer), False
        roles.append(role)
        address = id(optimizer)
        self._living[address] = ref(optimizer, lambda gone: self._forget(address, gone)), role
        return role

    def _forget(self, address: int, gone: ReferenceType[Any]) -> None:
        if address in self._living and self._living[address][0] is gone:
            del self._living[address]

    def stepped(self, optimizer: Any, frame: FrameType | None) -> OptimizerRole:
        """Return the role of an optimizer that steps in this frame."""
        _, role = self._living.get(id(optimizer)) or (None, self.made(optimizer, frame))
        role.has_stepped = True
        return role


class Observer:
    """Receives the events of a program."""

    def __init__(self) -> None:
        self.optimizers = OptimizerRoles()

    needs_backward = True  # whether calls of backward may decide what a step is; otherwise they are not reported

    def saw(self, event: "StepEvent", subject: Any = None) -> None:
        """Note an event; `subject` is the module that is called."""
        raise NotImplementedError

    def exhausted(self, draw: "StepEvent") -> None:
        """Note that a DataLoader had no batch left for this draw."""


@dataclass(frozen=True, eq=False)
class Source:
    """Something that a program does once per step. Of two sources, the earlier in STEP_SOURCES is the better sign."""

    option: str  # the value of `--step-marker` that asks for it
    step: str  # what ends a step, for the help of `--step-marker`
    words: str  # what a marker is called; {name} is the class of the optimizer or module
    hook: Callable[[Observer], AbstractContextManager[None]]  # reports the events of the program in a block
    trains: bool  # whether a program with such steps trains; otherwise it may evaluate
    enough: int = 12  # events that suffice without a better source; a WGAN makes 5 critic steps per generator step
    is_certain: bool = False  # whether the program or its user says that a step ends here, so that nothing else counts
    is_costly: bool = False  # whether its hook slows the program: it is placed only where nothing else marks a step


class StepEvent(NamedTuple):
    """A call of `pinprof.step()`, an optimizer step, a backward pass, a call of a module, or a draw of a batch."""

    source: Source
    key: Hashable  # the role of the optimizer, the line that calls backward, the module, or the DataLoader
    name: str = ""  # the class of the optimizer or module, or the function that was called

    @property
    def text(self) -> str:
        """The name of a marker that these events make."""
        return self.source.words.format(name=self.name)


@contextmanager
def reporting_calls_by_hand(observer: Observer) -> Iterator[None]:
    """Report calls of `pinprof.step()`."""
    global _observer  # noqa: PLW0603  for pinprof.step()
    outer, _observer = _observer, observer
    try:
        yield
    finally:
        _observer = outer


_observer: Observer | None = None


def step() -> None:
    """Mark the end of a training step if `pinprof run` records this program; otherwise do nothing.

    In a program that calls it, nothing else marks steps, except an explicit `--step-marker`.
    """
    if _observer is not None:
        contained(_observer.saw)(StepEvent(STEP_CALLS, "step"))


@contextmanager
def reporting_optimizers(observer: Observer) -> Iterator[None]:
    """Report each step of an optimizer, slightly before torch's range of it ends, and where optimizers are made."""
    from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

    roles = observer.optimizers
    for optimizer in living_optimizers():
        roles.made(optimizer, None)

    @contained
    def after_step(optimizer: Any, *_: object) -> None:
        frame = sys._getframe(2)  # noqa: SLF001  the only way to the caller without building a whole stack
        observer.saw(StepEvent(OPTIMIZER_STEPS, roles.stepped(optimizer, frame), type(optimizer).__name__))

    after_step._torchdynamo_disable = True  # type: ignore[attr-defined]  # noqa: SLF001  torch.compiler.disable loads it all

    @contained
    def note_made(_result: None, optimizer: Any, *_args: Any, **_options: Any) -> None:
        roles.made(optimizer, sys._getframe(3))  # noqa: SLF001  the caller of the changed `__init__`

    hook = register_optimizer_step_post_hook(after_step)
    try:
        with replaced(Optimizer, "__init__", noting(note_made)):
            yield
    finally:
        hook.remove()


def living_optimizers() -> list[Any]:
    """Return the optimizers that currently exist."""
    from torch.optim import Optimizer

    return [thing for thing in gc.get_objects() if issubclass(type(thing), Optimizer)]


@contextmanager
def reporting_backward(observer: Observer) -> Iterator[None]:
    """Report each backward pass by the line that calls it.

    A pass within another one of the same thread does not count.

    `Tensor.backward`, `torch.autograd.backward` and `torch.autograd.grad` all run the engine through one function. This
    changes that function, because torch.compile recognizes the three others by their identity.
    """
    import torch

    saw, within, installed = contained(observer.saw), threading.local(), str(Path(torch.__file__).parent) + os.sep

    def note(frame: FrameType) -> None:
        caller: FrameType | None = frame
        while caller is not None and caller.f_code.co_filename.startswith(installed):
            frame, caller = caller, caller.f_back
        frame = caller or frame
        saw(StepEvent(BACKWARD_CALLS, (frame.f_code.co_filename, frame.f_lineno)))

    def change(run: Callable[..., Any]) -> Callable[..., Any]:
        def run_and_note(*args: Any, **options: Any) -> Any:
            if not observer.needs_backward or getattr(within, "now", False):
                return run(*args, **options)
            within.now = True
            try:
                result = run(*args, **options)
            finally:
                within.now = False
            note(sys._getframe(1))  # noqa: SLF001  the only way to a caller without building a whole stack
            return result

        _leave_to_python(run_and_note, with_callees=False)
        return run_and_note

    _leave_to_python(note, with_callees=True)
    with replaced(torch.autograd, "_engine_run_backward", change):
        yield


def _leave_to_python(function: Any, *, with_callees: bool) -> None:
    """Keep torch.compile from compiling the function; the public way loads all of it. Torch 2.7 exempts no callees."""
    import torch

    frames: Any = torch._C._dynamo.eval_frame  # noqa: SLF001
    if hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction  # noqa: SLF001
        callees = action.SKIP if with_callees else action.DEFAULT
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(action.SKIP, callees))  # noqa: SLF001
    elif hasattr(frames, "skip_code"):
        frames.skip_code(function.__code__)


CALL_MODULE: Final = "call_module"
"""The name of the function that stands for `Module.__call__`; its frames only pass on a call."""


@contextmanager
def reporting_modules(observer: Observer, of: "type[Module] | None" = None) -> Iterator[None]:
    """Report each call of an outermost module before it, with the module.

    Modules without children and parameters, such as losses, do not count. Calls of all modules become slower, or only
    those of the class `of`. This changes `__call__`: torch's own hooks would slow each call down more, and make
    torch.compile compile again. While a profiler records, each call gets a mark of its batch, if it has one.
    """
    import torch

    within, saw = threading.local(), contained(observer.saw)

    @contained
    def event_of(module: "Module") -> StepEvent | None:
        if next(module.children(), None) is None and next(module.parameters(recurse=False), None) is None:
            return None
        original = getattr(module, "_orig_mod", module)  # the module that torch.compile wraps
        return StepEvent(MODULE_CALLS, id(module), type(original).__name__)

    @contained
    def marked(args: tuple[Any, ...], options: dict[str, Any]) -> AbstractContextManager[Any] | None:
        size = _batch_size(args, options) if torch._C._autograd._profiler_enabled() else None  # noqa: SLF001  no public name
        return torch.profiler.record_function(f"{BATCH_MARK}{size[0]}x{size[1]}") if size else None

    def change(call: Callable[..., Any]) -> Callable[..., Any]:
        def call_module(self: "Module", /, *args: Any, **options: Any) -> Any:  # a profiler looks at its `self`
            compiling = torch.compiler.is_dynamo_compiling()  # first: compiled code must not depend on what follows
            if compiling or not is_placed or getattr(within, "now", False):
                return call(self, *args, **options)
            within.now = True
            try:
                event = event_of(self)
                if event is None:
                    return call(self, *args, **options)
                saw(event, self)
                with marked(args, options) or nullcontext():
                    return call(self, *args, **options)
            finally:
                within.now = False

        _leave_to_python(call_module, with_callees=False)  # as torch leaves its own `Module.__call__`
        return call_module

    is_placed = True
    try:
        with replaced(of or torch.nn.Module, "__call__", change):
            yield
    finally:
        is_placed = False  # what the program has compiled meanwhile keeps the changed `__call__`


TOKEN_ARGUMENTS: Final = ("input_ids", "inputs_embeds")
"""What models of transformers call their tokens; others get them as the first tensor of whole numbers in rows."""


def _batch_size(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[int, int] | None:
    """Return how many requests, and tokens of each, a call of a language model gets; None of another module."""
    from torch import Tensor, int32, int64

    for name in TOKEN_ARGUMENTS:
        if isinstance(tokens := options.get(name), Tensor):
            return (tokens.shape[0], tokens.shape[1]) if tokens.ndim > 1 else None
    for value in (*args, *options.values()):
        if isinstance(value, Tensor) and value.is_floating_point():  # numbers after an image or a state are not tokens
            return None
        if isinstance(value, Tensor) and value.ndim == 2 and value.dtype in {int32, int64}:  # noqa: PLR2004  a row per request
            return value.shape[0], value.shape[1]
    return None


@contextmanager
def before_evaluation(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` when the program switches a module to evaluation."""
    import torch

    act = contained(act)

    def change(switch: Callable[["Module"], "Module"]) -> Callable[["Module"], "Module"]:
        def act_and_switch(module: "Module") -> "Module":
            if not torch.compiler.is_dynamo_compiling():
                act()
            return switch(module)

        return act_and_switch

    with replaced(torch.nn.Module, "eval", change):
        yield


@contextmanager
def reporting_draws(observer: Observer) -> Iterator[None]:
    """Report each draw of a batch before it is made, and the end. Iterators of a DataLoader share its sampler."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    def event_of(iterator: Any) -> StepEvent:
        return StepEvent(BATCH_DRAWS, id(iterator._index_sampler))  # noqa: SLF001  an iterator does not name its DataLoader

    report = contained(lambda iterator: observer.saw(event_of(iterator)))
    report_end = contained(lambda iterator: observer.exhausted(event_of(iterator)))

    def change(draw: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @wraps(draw)
        def report_and_draw(iterator: Any) -> Any:
            report(iterator)
            try:
                return draw(iterator)
            except StopIteration:
                report_end(iterator)
                raise

        return report_and_draw

    with replaced(_BaseDataLoaderIter, "__next__", change):
        yield


STEP_CALLS: Final = Source(
    AUTO,
    "the script calls pinprof.step()",
    "pinprof.step()",
    reporting_calls_by_hand,
    trains=True,
    enough=1,
    is_certain=True,
)
OPTIMIZER_STEPS: Final = Source("optimizer", "it steps", "optimizer step ({name})", reporting_optimizers, trains=True)
BACKWARD_CALLS: Final = Source("backward", "a call of it", "call of backward", reporting_backward, trains=True)
MODULE_CALLS: Final = Source(
    "module", "a call of the outermost one", "call of {name}", reporting_modules, trains=False, is_costly=True
)
BATCH_DRAWS: Final = Source(
    "loader", "it draws a batch", "batch drawn from a DataLoader", reporting_draws, trains=False
)
STEP_SOURCES: Final = (STEP_CALLS, OPTIMIZER_STEPS, BACKWARD_CALLS, MODULE_CALLS, BATCH_DRAWS)
"""The best sign of a step first."""
SOURCES_BY_OPTION: Final = {source.option: source for source in STEP_SOURCES if source.option != AUTO}
"""The sources that `--step-marker` can name."""


def is_function(step_marker: str) -> bool:
    """Return whether this value of `--step-marker` names a function, whose calls mark the steps."""
    return step_marker != AUTO and step_marker not in SOURCES_BY_OPTION
