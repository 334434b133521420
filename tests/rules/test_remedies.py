"""Advice on functions: each stands under programs that call them, and does what it says; others get none."""

import sys
from collections.abc import Callable, Iterable
from types import FrameType

import pytest
import torch

from pinprof.rules.remedies import REMEDIES, remedy_of, remedy_of_line

Program = Callable[[torch.nn.Module], object]
WALKS = {"train", "named_modules", "state_dict", "named_children"}
"""Functions of torch.nn.Module that run for each module."""


def model() -> torch.nn.Module:
    torch.manual_seed(3)
    made = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()) for _ in range(40)))
    made(torch.ones(2, 4)).sum().backward()
    return made


def walked(program: Program, steps: int = 5) -> int:
    """Return how many modules some steps of a program look at."""
    net, looks = model(), 0

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal looks
        looks += event == "call" and frame.f_code.co_name in WALKS

    sys.setprofile(count)
    try:
        for _ in range(steps):
            program(net)
    finally:
        sys.setprofile(None)
    return looks


def clear(parameters: Iterable[torch.nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None


@pytest.mark.parametrize(
    ("function", "program"),
    [
        ("train", lambda net: net.train()),
        ("eval", lambda net: net.eval()),
        ("state_dict", lambda net: net.state_dict()),
        ("zero_grad", lambda net: net.zero_grad()),
        ("parameters", lambda net: next(iter(net.parameters())).device),
        ("named_modules", lambda net: list(net.named_modules())),
        ("clip_grad_norm_", lambda net: torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)),
    ],
)
def test_a_function_with_a_remedy_walks_modules_in_each_step(function: str, program: Program) -> None:
    assert walked(program) >= 5
    assert "module" in remedy_of("torch", (function,)) or "mode" in remedy_of("torch", (function,))


def test_a_list_that_is_kept_walks_no_modules() -> None:
    kept = list(model().parameters())
    assert not walked(lambda _: torch.nn.utils.clip_grad_norm_(kept, 1.0, foreach=True))
    assert not walked(lambda _: clear(kept))


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("time.sleep(0.01)", "It sleeps"),
        ("sleep(0.01)  # wait", "It sleeps"),
        ("weights = np.sort(ages)", "numpy computes on the host"),
        ("image = cv2.imread(path)", "Read and decode images"),
        ("out = model(x)", ""),
        ("data = data.to(next(self.parameters()).device)", ""),
        ("for batch in loader:", ""),
        ("loss = criterion(model(x), y)  # np.sort(x)", ""),
        ("time.sleep(np.mean(ages))", ""),  # one of two
    ],
)
def test_a_line_is_advised_on_where_it_calls_one_known_function(line: str, advice: str) -> None:
    told = remedy_of_line(line)
    assert told.startswith(advice) if advice else not told


@pytest.mark.parametrize(
    ("package", "called"),
    [("lightning", "advance"), ("torch", "forward"), ("torch", "_call_impl"), ("", "train"), ("transformers", "step")],
)
def test_nothing_is_advised_about_other_functions(package: str, called: str) -> None:
    assert not remedy_of(package, (called,))


def test_each_remedy_is_a_sentence() -> None:
    assert all(remedy.advice.endswith(".") and (remedy.packages or remedy.functions) for remedy in REMEDIES)
