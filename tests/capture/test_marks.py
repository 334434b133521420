"""The marks of steps in programs of torch, by the steps that are counted."""

import ast
import copy
import inspect
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.optim import LBFGS, SGD, Adam, Optimizer
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

import pinprof
from pinprof.capture.steps import marks as marks_module
from pinprof.capture.steps import sources
from pinprof.capture.steps.marks import Marks
from pinprof.capture.steps.sources import BACKWARD_CALLS, BATCH_DRAWS
from pinprof.ground.errors import CaptureError

BATCH = BATCH_DRAWS.words
BATCHES = [torch.ones(4)] * 12


@pytest.fixture(autouse=True)
def _no_other_optimizers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not count the optimizers that other tests have left behind."""
    monkeypatch.setattr(sources, "living_optimizers", list)


def marked(program: Callable[[], None], step_marker: str = "auto") -> Counter[str]:
    """Return how many steps of a program ended, by what marked them."""
    ended: Counter[str] = Counter()
    with Marks(step_marker, lambda marker: ended.update([marker])).placed():
        program()
    return ended


def loader(batches: int = 12, **options: Any) -> DataLoader[Tensor]:
    return DataLoader(BATCHES[:batches], batch_size=None, **options)  # type: ignore[arg-type]


def weight() -> Tensor:
    return torch.ones(4, requires_grad=True)


def learn(optimizer: Optimizer, parameter: Tensor, batch: Tensor) -> None:
    optimizer.zero_grad()
    (parameter * batch).sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def training(
    batches: Iterable[Tensor], epochs: int = 1, *, learn: Callable[[Optimizer, Tensor, Tensor], None] = learn
) -> Callable[[], None]:
    def train() -> None:
        parameter = weight()
        optimizer = SGD([parameter], lr=0.1)
        for _ in range(epochs):
            for batch in batches:
                learn(optimizer, parameter, batch)

    return train


def plain_training(epochs: int = 1, batches: int = 12, **options: Any) -> Callable[[], None]:
    return training(loader(batches, **options), epochs)


def drawn_by_hand() -> None:
    batches = iter(loader())
    training(next(batches) for _ in range(12))()


def two_optimizers() -> None:
    one, other = weight(), weight()
    first, second = SGD([one], lr=0.1), Adam([other])
    for batch in chain(loader(), loader()):
        (one * other * batch).sum().backward()
        first.step()
        second.step()


def accumulating(batches: Iterable[Tensor], every: int) -> Callable[[], None]:
    numbers = count(1)

    def accumulate(optimizer: Optimizer, parameter: Tensor, batch: Tensor) -> None:
        (parameter * batch).sum().backward()  # type: ignore[no-untyped-call]
        if next(numbers) % every == 0:
            optimizer.step()

    return training(batches, learn=accumulate)


def scaled() -> None:
    scaler = torch.amp.GradScaler("cpu")

    def learn_scaled(optimizer: Optimizer, parameter: Tensor, batch: Tensor) -> None:
        scaler.scale((parameter * batch).sum()).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()

    training(BATCHES, learn=learn_scaled)()


def with_closure() -> None:
    parameter = weight()
    optimizer = LBFGS([parameter], max_iter=3)

    def closure() -> float:
        optimizer.zero_grad()
        loss = (parameter - 3).square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    for _ in BATCHES:
        optimizer.step(closure)  # type: ignore[no-untyped-call]


def step_by_hand() -> None:
    parameter = weight()
    for batch in chain(loader(), loader()):
        (parameter * batch).sum().backward()
        parameter.data.add_(cast("Tensor", parameter.grad), alpha=-0.1)


def step_by_autograd_grad() -> None:
    parameter = weight()
    for batch in BATCHES:
        (grad,) = torch.autograd.grad((parameter * batch).sum(), parameter)
        parameter.data.add_(grad, alpha=-0.1)


def meta_learning() -> None:
    slow = weight()
    outer = Adam([slow])
    for batch in BATCHES * 2:
        fast = weight()
        inner = SGD([fast], lr=0.1)
        for _ in range(3):
            learn(inner, fast, batch)
        learn(outer, slow, batch)


def optimizers_from_one_line() -> None:
    parameters = [weight() for _ in range(3)]
    optimizers = [SGD([parameter], lr=0.1) for parameter in parameters]
    for batch in BATCHES * 2:
        for optimizer, parameter in zip(optimizers, parameters, strict=True):
            learn(optimizer, parameter, batch)


def copied_optimizers() -> None:
    parameter = weight()
    optimizer = SGD([parameter], lr=0.1)
    for batch in BATCHES * 2:
        learn(copy.deepcopy(optimizer), parameter, batch)


@pytest.mark.parametrize(
    ("program", "marker", "steps"),
    [
        (meta_learning, "optimizer step (Adam)", 24 - 3),
        (optimizers_from_one_line, "optimizer step (SGD)", 24 - 11),
        (copied_optimizers, "optimizer step (SGD)", 24 - 11),
        (plain_training(), BATCH, 9),
        (drawn_by_hand, BATCH, 8),
        (two_optimizers, BATCH, 24 - 11),
        (lambda: [list(loader()) for _ in range(2)], BATCH, 14),
        (training(BATCHES), "optimizer step (SGD)", 9),
        (scaled, "optimizer step (SGD)", 9),
        (with_closure, "optimizer step (LBFGS)", 9),
        (accumulating(chain(loader(), loader()), 3), "optimizer step (SGD), every 3 batches", 8 - 3),
        (accumulating(BATCHES * 2, 2), "optimizer step (SGD)", 12 - 3),
        (step_by_hand, BATCH, 24 - 11),
        (step_by_autograd_grad, BACKWARD_CALLS.words, 1),
    ],
)
def test_what_marks_the_steps_of_a_program(program: Callable[[], None], marker: str, steps: int) -> None:
    assert marked(program) == {marker: steps}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_workers": 1, "multiprocessing_context": "fork"},
        {"num_workers": 1, "multiprocessing_context": "fork", "persistent_workers": True},
    ],
)
def test_epochs_are_counted_through(options: dict[str, Any]) -> None:
    assert marked(plain_training(epochs=3, batches=6, **options)) == {BATCH: 18 - 3}


def test_a_batch_is_drawn_within_the_step_that_uses_it() -> None:
    order: list[str] = []

    class Slow(IterableDataset[Tensor]):
        def __iter__(self) -> Iterator[Tensor]:
            for batch in BATCHES:
                order.append("drawn")
                yield batch

    def train() -> None:
        parameter = weight()
        optimizer = SGD([parameter], lr=0.1)
        for batch in DataLoader(Slow(), batch_size=None):
            learn(optimizer, parameter, batch)
            order.append("trained")

    with Marks("auto", lambda _: order.append("step")).placed():
        train()
    assert order[-7:] == ["step", "drawn", "trained", "step", "drawn", "trained", "step"]


def in_thread(work: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    return run


def test_a_thread_that_trains_goes_before_a_main_thread_that_evaluates() -> None:
    marks = Marks("auto", lambda _: None)
    with marks.placed():
        for _ in range(30):
            list(loader())
        assert not marks.trains
        in_thread(plain_training())()
        assert marks.trains


def test_a_function_marks_steps_in_the_thread_that_calls_it() -> None:
    def call_step_five_times() -> None:
        for _ in range(5):
            pinprof.step()

    ended: list[str] = []
    with Marks("auto", ended.append).placed():
        in_thread(call_step_five_times)()
    assert ended == ["pinprof.step()"] * 5


def test_a_forked_process_marks_no_steps() -> None:
    def train() -> None:
        child = os.fork()
        if child == 0:
            try:
                plain_training()()
            except BaseException:  # noqa: BLE001  whatever happens, a copy of the tests does not go on
                os._exit(99)
            os._exit(len(ended))
        assert os.waitpid(child, 0)[1] == 0

    ended: list[str] = []
    with Marks("auto", ended.append).placed():
        train()
    assert ended == []


def test_a_marker_that_was_asked_for_is_taken() -> None:
    assert marked(plain_training(), "optimizer") == {"optimizer step (SGD)": 9}
    assert marked(plain_training(), "loader") == {BATCH: 9}


def test_steps_marked_by_hand_go_before_what_was_found() -> None:
    def train() -> None:
        for _ in range(3):
            plain_training()()
            pinprof.step()

    assert marked(train)["pinprof.step()"] == 3
    assert marked(train, "loader").keys() == {BATCH}
    pinprof.step()  # nothing records now


MODULE = """
def train_one_step(x): return x + 1

class Trainer:
    def method(self): return self
    @staticmethod
    def static(x): return x
    @classmethod
    def of_class(cls): return cls

class Special(Trainer):
    pass
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "marked_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "marked_module"
    sys.modules.pop("marked_module", None)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("train_one_step", "train_one_step(1) == 2"),
        ("Trainer.method", "Trainer().method()"),
        ("Trainer.static", "Trainer.static(1) == Trainer().static(1) == 1"),
        ("Trainer.of_class", "Special.of_class() is Special"),
        ("Special.method", "Special().method()"),
    ],
)
def test_a_function_of_a_module_marks_steps_where_it_is_called(module: str, name: str, call: str) -> None:
    def train() -> None:
        held = vars(sys.modules[module])
        for _ in range(4):
            assert eval(call, held)

    calls = 2 if name == "Trainer.static" else 1
    assert marked(train, f"{module}:{name}") == {f"{name}()": 4 * calls - 1}
    assert not hasattr(sys.modules[module].train_one_step, "__wrapped__")
    assert "method" not in vars(sys.modules[module].Special)


@pytest.mark.parametrize("place", ["no_such_module:train", "marked_module:train", "marked_module:Trainer.train", ":f"])
def test_a_function_that_is_not_there_is_an_error(module: str, place: str) -> None:
    with pytest.raises(CaptureError, match=place):
        marked(lambda: None, place)


SCRIPT = '''"""A script."""
from __future__ import annotations

import functools

def outermost(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)
    return call

@outermost
@outermost
def train(x: unknown):
    """Trains."""
    return x

class Trainer:
    @staticmethod
    def train(x):
        return x

def main():
    def inner():
        pass
    inner()
'''


@pytest.mark.parametrize("name", ["train", "Trainer.train", "main", "main.inner"])
def test_marked_functions_of_a_script_keep_their_lines(name: str, tmp_path: Path) -> None:
    ended: list[str] = []
    marks = Marks(name, ended.append)
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    plain: dict[str, Any] = {"__name__": "script"}
    exec(compile(SCRIPT, str(path), "exec", dont_inherit=True), plain)
    change = marks.change
    assert change
    held: dict[str, Any] = {"__name__": "script", **change.names}
    exec(compile(change.rewrite(ast.parse(SCRIPT)), str(path), "exec", dont_inherit=True), held)
    with marks.placed():
        for _ in range(3):
            assert held["train"](1) == held["Trainer"].train(1) == 1
            held["main"]()
    assert ended == [f"{name}()"] * 2
    for function in ("train", "main"):
        assert inspect.getsource(held[function]) == inspect.getsource(plain[function])
        assert inspect.unwrap(held[function]).__code__.co_firstlineno == (
            inspect.unwrap(plain[function]).__code__.co_firstlineno
        )
    assert held["train"].__annotations__ == {"x": "unknown"}


def fail() -> None:
    raise ZeroDivisionError


def changeable() -> tuple[Any, ...]:
    return (
        _BaseDataLoaderIter.__next__,
        dict(torch_optimizer._global_optimizer_post_hooks),
        vars(torch.autograd)["_engine_run_backward"],
        torch.nn.Module.eval,
        torch.nn.Module.__call__,
    )


@pytest.mark.parametrize("program", [plain_training(), fail])
def test_nothing_is_left_behind(program: Callable[[], None]) -> None:
    before = changeable()
    with suppress(ZeroDivisionError):
        marked(program)
    assert changeable() == before
    assert sources._observer is None


def test_backward_marks_the_steps_of_a_loop_without_optimizer() -> None:
    def train() -> None:
        parameter = weight()
        for number, batch in enumerate(BATCHES * 2):
            loss = (parameter * batch).sum()
            if number % 2:
                loss.backward()  # type: ignore[no-untyped-call]
            else:
                torch.autograd.backward(loss)
            parameter.data.add_(cast("Tensor", parameter.grad), alpha=-0.1)

    assert marked(train) == {BACKWARD_CALLS.words: 1}  # two lines call it, so a step has two
    assert marked(train, "backward") == {BACKWARD_CALLS.words: 1}


def test_a_backward_pass_within_another_is_a_part_of_it() -> None:
    class Checkpointed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Tensor) -> Tensor:
            ctx.save_for_backward(value)
            return value * 2

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            with torch.enable_grad():
                inner = ctx.saved_tensors[0].detach().requires_grad_()
                (inner * 2).backward(grads[0])
            return cast("Tensor", inner.grad)

    def train() -> None:
        parameter = weight()
        for _ in range(15):
            Checkpointed.apply(parameter).sum().backward()  # type: ignore[no-untyped-call]

    assert marked(train) == {BACKWARD_CALLS.words: 4}


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    def forward(self, batch: Tensor) -> Tensor:
        return cast("Tensor", self.inner(batch))


def infer() -> None:
    model, loss = Outer(), torch.nn.MSELoss()
    for batch in BATCHES * 2:
        loss(model(batch), batch)


def test_watched_modules_mark_the_steps_and_then_only_their_class_is_changed() -> None:
    ended: Counter[str] = Counter()
    before = torch.nn.Module.__call__
    marks = Marks("auto", lambda marker: ended.update([marker]))
    with marks.placed():
        marks.watch_modules()
        assert torch.nn.Module.__call__ is not before
        infer()
        assert torch.nn.Module.__call__ is before
        assert "__call__" in vars(Outer)
    assert "__call__" not in vars(Outer)
    assert ended == {"call of Outer": 24 - 11}


def test_modules_are_watched_no_longer_where_an_optimizer_marks() -> None:
    marks = Marks("auto", lambda _: None)
    with marks.placed():
        marks.watch_modules()
        plain_training()()
        assert not marks.watches_modules
        marks.watch_modules()
        assert not marks.watches_modules


def test_compiled_code_is_the_same_while_modules_are_watched() -> None:
    compiled: list[int] = []

    def backend(module: torch.fx.GraphModule, _inputs: list[Tensor]) -> Callable[..., Any]:
        compiled.append(len(module.graph.nodes))
        return module.forward

    model = Outer()
    fast = torch.compile(model, backend=backend, fullgraph=True)
    fast(BATCHES[0])
    marks = Marks("auto", lambda _: None)
    with marks.placed():
        marks.watch_modules()
        for batch in BATCHES * 2:
            fast(batch)
        assert marks.finder.marker == "call of Outer"
    assert len(compiled) == 1


class SlowClock:
    """A clock that only `sleep` moves on."""

    def __init__(self) -> None:
        self.now_ns = 1

    def perf_counter_ns(self) -> int:
        return self.now_ns

    def sleep(self, ms: int) -> None:
        self.now_ns += ms * 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SlowClock:
    clock = SlowClock()
    monkeypatch.setattr(marks_module, "HOST_TIME", clock)
    return clock


def learn_after_pauses(clock: SlowClock, *, evaluates: bool) -> Callable[[], None]:
    def train() -> None:
        policy = torch.nn.Linear(4, 4)
        optimizer = Adam(policy.parameters())
        for _ in range(8):
            if evaluates:
                policy.eval()
            with torch.no_grad():
                for _ in range(50):
                    policy(BATCHES[0])
                    clock.sleep(1)
            policy.train()
            for _ in range(4):
                clock.sleep(2)
                policy(BATCHES[0]).sum().backward()
                optimizer.step()

    return train


def test_iterations_of_rollout_and_updates_are_the_steps(clock: SlowClock) -> None:
    assert marked(learn_after_pauses(clock, evaluates=False)) == {
        "optimizer step (Adam)": 8 - 3,  # the third group is waited for
        "every 4th optimizer step (Adam): one iteration of rollout and updates": 8 - 2,
    }


def test_a_pause_to_evaluate_is_no_rollout(clock: SlowClock) -> None:
    assert marked(learn_after_pauses(clock, evaluates=True)) == {"optimizer step (Adam)": 32 - 3}
