"""The marks of steps in programs of torch, by the steps that are counted."""

import ast
import inspect
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
import torch
from torch import Tensor
from torch.optim import LBFGS, SGD, Adam, Optimizer
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

import pinprof
from pinprof.capture import markers
from pinprof.capture.choice import BATCH
from pinprof.capture.markers import DECORATOR, Marks
from pinprof.errors import CaptureError

BATCHES = [torch.ones(4)] * 12


@pytest.fixture(autouse=True)
def _no_other_optimizers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not count the optimizers that other tests have left behind."""
    alive = WeakSet[Optimizer]()
    begin = Optimizer.__init__

    def noted(self: Optimizer, *args: Any, **options: Any) -> None:
        alive.add(self)
        begin(self, *args, **options)

    monkeypatch.setattr(Optimizer, "__init__", noted)
    monkeypatch.setattr(markers, "count_optimizers", lambda: len(alive))


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


def plain_training(epochs: int = 1, batches: int = 12, **options: Any) -> Callable[[], None]:
    def train() -> None:
        parameter = weight()
        optimizer = SGD([parameter], lr=0.1)
        data = loader(batches, **options)
        for _ in range(epochs):
            for batch in data:
                learn(optimizer, parameter, batch)

    return train


def test_a_plain_loop_is_marked_by_the_batches_it_draws() -> None:
    assert marked(plain_training()) == {BATCH: 9}


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


def test_a_gan_has_one_step_per_batch() -> None:
    def train() -> None:
        generator, critic = weight(), weight()
        optimizers = Adam([critic]), Adam([generator])
        data = loader()
        for _ in range(2):
            for batch in data:
                learn(optimizers[0], critic, batch)
                learn(optimizers[1], generator, batch)

    assert marked(train) == {BATCH: 24 - 11}


def test_a_wgan_has_one_step_per_generator_step() -> None:
    def train() -> None:
        generator, critic = weight(), weight()
        of_critic, of_generator = SGD([critic], lr=0.1), Adam([generator])
        data = loader(10)
        for _ in range(5):
            for number, batch in enumerate(data):
                learn(of_critic, critic, batch)
                if number % 5 == 0:
                    learn(of_generator, generator, batch)

    ended = marked(train)
    assert set(ended) == {"optimizer step (Adam), every 5 batches"}
    assert 7 <= ended.total() <= 10


def test_two_optimizers_of_different_parameters_make_one_step() -> None:
    def train() -> None:
        one, other = weight(), weight()
        first, second = SGD([one], lr=0.1), Adam([other])
        for _ in range(2):
            for batch in loader():
                (one * other * batch).sum().backward()
                first.step()
                second.step()

    ended = marked(train)
    assert set(ended) == {BATCH}
    assert ended.total() == 24 - 11


def test_gradient_accumulation_makes_one_step_of_several_batches() -> None:
    def train() -> None:
        parameter = weight()
        optimizer = SGD([parameter], lr=0.1)
        for _ in range(2):
            for number, batch in enumerate(loader(), start=1):
                (parameter * batch).sum().backward()
                if number % 3 == 0:
                    optimizer.step()

    assert marked(train) == {"optimizer step (SGD), every 3 batches": 8 - 3}


def test_validation_every_few_steps_ends_no_steps() -> None:
    def train() -> None:
        parameter = weight()
        optimizer = SGD([parameter], lr=0.1)
        for number, batch in enumerate(loader()):
            learn(optimizer, parameter, batch)
            if number % 5 == 0:
                for _ in loader(7):
                    pass

    assert marked(train) == {BATCH: 9}


def test_a_loop_without_loader_is_marked_by_its_optimizer() -> None:
    def train() -> None:
        parameter = weight()
        optimizer = SGD([parameter], lr=0.1)
        for batch in BATCHES:
            learn(optimizer, parameter, batch)

    assert marked(train) == {"optimizer step (SGD)": 9}


def test_a_loop_without_optimizer_is_marked_by_its_loader() -> None:
    def infer() -> None:
        for _ in range(2):
            for _batch in loader():
                pass

    assert marked(infer) == {BATCH: 14}


def test_a_loader_drawn_by_hand_marks_as_well() -> None:
    def train() -> None:
        parameter = weight()
        optimizer = SGD([parameter], lr=0.1)
        batches = iter(loader())
        for _ in range(12):
            learn(optimizer, parameter, next(batches))

    assert marked(train) == {BATCH: 8}


def test_an_optimizer_within_a_gradient_scaler_marks_as_well() -> None:
    def train() -> None:
        parameter = weight()
        optimizer = SGD([parameter], lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for batch in BATCHES:
            scaler.scale((parameter * batch).sum()).backward()  # type: ignore[no-untyped-call]
            scaler.step(optimizer)
            scaler.update()

    assert marked(train) == {"optimizer step (SGD)": 9}


def test_an_optimizer_with_a_closure_steps_once_per_call() -> None:
    def train() -> None:
        parameter = weight()
        optimizer = LBFGS([parameter], max_iter=3)

        def closure() -> float:
            optimizer.zero_grad()
            loss = (parameter - 3).square().sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.item()

        for _ in BATCHES:
            optimizer.step(closure)  # type: ignore[no-untyped-call]

    assert marked(train) == {"optimizer step (LBFGS)": 9}


def test_another_thread_marks_no_steps() -> None:
    def train() -> None:
        thread = threading.Thread(target=plain_training())
        thread.start()
        thread.join()

    assert marked(train) == {}


def test_a_forked_process_marks_no_steps() -> None:
    def train() -> None:
        child = os.fork()
        if child == 0:
            plain_training()()
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


def test_after_a_step_marked_by_hand_nothing_else_marks() -> None:
    def train() -> None:
        pinprof.step()
        plain_training(epochs=2)()

    assert marked(train) == {"pinprof.step()": 1}


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


def test_something_that_is_no_function_is_an_error(module: str) -> None:
    (Path(sys.path[0]) / "marked_module.py").write_text("steps = 3")
    with pytest.raises(CaptureError, match="not a function, but of type int"):
        marked(lambda: None, "marked_module:steps")


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
    held: dict[str, Any] = {"__name__": "script", DECORATOR: marks.mark_calls}
    exec(compile(marks.decorated(ast.parse(SCRIPT)), str(path), "exec", dont_inherit=True), held)
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


def test_a_function_that_the_script_does_not_define_is_an_error() -> None:
    with pytest.raises(CaptureError, match="--step-marker nothing: the script does not define this function"):
        Marks("nothing", print).decorated(ast.parse(SCRIPT))


def fail() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("program", [plain_training(), fail])
def test_nothing_is_left_behind(program: Callable[[], None]) -> None:
    before = _BaseDataLoaderIter.__next__, dict(torch_optimizer._global_optimizer_post_hooks)
    with suppress(ZeroDivisionError):
        marked(program)
    assert (_BaseDataLoaderIter.__next__, dict(torch_optimizer._global_optimizer_post_hooks)) == before
    assert markers._placed is None
