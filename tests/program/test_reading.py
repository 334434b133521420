"""Data sets of a program's own: which only read what they hold."""

import itertools
import math  # noqa: F401  for the code below
import os
import random  # noqa: F401
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from pinprof.program.datasets import is_plain, makers_of, only_reads

SCALE = 2.0
COUNTED: list[int] = []


class Rows(Dataset[Any]):
    """Holds rows, a text and its letters, and a file."""

    def __init__(self) -> None:
        self.rows, self.targets = np.zeros((8, 4), np.float32), torch.arange(8)
        self.text, self.letters = "abba", {"a": 0, "b": 1}
        self.names = ["a.png", "b.png"]
        self.file = Path(__file__)
        self.stream = itertools.count()
        self.transform: Any = None

    def __len__(self) -> int:
        return 8

    def encoded(self, text: str) -> torch.Tensor:
        return torch.tensor([self.letters[letter] for letter in text], dtype=torch.long)

    @property
    def first(self) -> Any:
        return self.rows[0]

    @cached_property
    def second(self) -> Any:
        return self.rows[1]


def of(body: str) -> type[Rows]:
    """Return a class whose samples are made by this code."""
    space: dict[str, Any] = {}
    code = "def __getitem__(self, index):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    exec(code, globals(), space)
    return type("Own", (Rows,), space)


READING = (
    "return self.rows[index], self.targets[index]",
    "chunk = self.text[index:index + 2]\nreturn torch.tensor([self.letters[letter] for letter in chunk])",
    "return self.encoded(self.text[index:])",
    "row = torch.from_numpy(self.rows[index]).float() * SCALE\nreturn row.unsqueeze(0), len(row), math.sqrt(2)",
    "row = self.rows[index].copy()\nreturn np.concatenate([row, np.zeros(3)]).astype(np.float32), self.first",
    "if index >= len(self):\n    raise IndexError(index)\nreturn {'name': os.path.join('a', self.names[0])}",
    "row = self.rows[index]\nif self.transform is not None:\n    row = self.transform(row)\nreturn row",
)
MORE = (
    "return self.rows[random.randrange(8)]",
    "return self.rows[np.random.randint(8)]",
    "return torch.rand(3)",
    "self.last = index\nreturn self.rows[index]",
    "self.rows[index] = 0\nreturn self.rows[index]",
    "row = self.rows[index]\nrow += 1\nreturn row",
    "return self.rows[index] @ self.rows[0]",
    "return self.targets.sum()",
    "COUNTED.append(index)\nreturn self.rows[index]",
    "global SCALE\nSCALE = 3.0\nreturn self.rows[index]",
    "return torch.from_numpy(self.rows[index]).cuda()",
    "return torch.from_numpy(self.rows[index]).to('cuda')",
    "return torch.from_numpy(self.rows[index]).zero_()",
    "return self.file.read_text()",
    "return next(self.stream)",
    "return open(self.names[index])",
    "import pickle\nreturn pickle.loads(self.names[index])",
    "return self.second",
    "return self.missing.there",
    "return undefined(self.rows)",
    "return eval(self.text)",
    "return getattr(self, 'rows')",
    "yield self.rows[index]",
    "with torch.no_grad():\n    return self.rows[index]",
    "return (lambda: self.file.read_text())()",
    "return super().__getitem__(index)",
)


@pytest.mark.parametrize("body", READING)
def test_a_data_set_that_computes_from_what_it_holds_only_reads(body: str) -> None:
    own = of(body)()
    own[1]
    assert only_reads(own)
    assert makers_of(own) == ((), True)


@pytest.mark.parametrize("body", MORE)
def test_whatever_else_it_does_is_not_known(body: str) -> None:
    own = of(body)()
    assert not only_reads(own)
    assert makers_of(own) == ((f"{__name__}.Own",), False)


def test_what_it_calls_must_be_known_too() -> None:
    own = of(READING[-1])()
    own.transform = str.upper
    assert makers_of(own).foreign == ("builtins.str.upper",)
    own.transform = of
    assert makers_of(own).foreign == (f"{__name__}.of",)


def test_a_class_of_a_function_or_with_a_way_of_its_own_is_not_known() -> None:
    class Local(Rows):
        def __getitem__(self, index: int) -> Any:
            return self.rows[index]

    batched = type("Batched", (of(READING[0]),), {"__getitems__": lambda _, indices: indices})
    asked = type("Asked", (of(READING[0]),), {"__getattr__": lambda _, name: name})
    assert not only_reads(Local())
    assert not only_reads(batched())
    assert not only_reads(asked())


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ([1, "a", (2.0, None)], True),
        ({"a": torch.zeros(2), "b": [np.zeros(2)]}, True),
        (np.array(["a"], dtype=object), False),
        (torch.nn.Parameter(torch.zeros(2)), False),
        (torch.zeros(2, device="meta"), False),
        ([[[[[1]]]]], False),
        ([open], False),
        (os, False),
    ],
)
def test_plain_data_is_numbers_texts_tensors_and_containers_of_these(value: object, *, plain: bool) -> None:
    assert is_plain(value) == plain
