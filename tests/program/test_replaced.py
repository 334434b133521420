"""Functions that are changed for a while."""

from collections.abc import Callable
from typing import Any

import torch

from pinprof.program.hooks import replaced


class Base:
    def told(self) -> str:
        return "told"


class Derived(Base):
    pass


def louder(function: Any) -> Callable[..., str]:
    return lambda *args: function(*args).upper()


def test_an_inherited_method_is_covered_and_uncovered() -> None:
    with replaced(Derived, "told", louder):
        assert (Derived().told(), Base().told()) == ("TOLD", "told")
    assert Derived().told() == "told"
    assert "told" not in vars(Derived)


def test_a_method_written_in_c_is_changed_for_objects_that_were_there_before() -> None:
    stream: Any = torch.Stream(device="cpu")
    before = vars(torch.Stream)["query"]

    def ask() -> set[str]:  # so often that the interpreter remembers which method it is
        return {str(stream.query()) for _ in range(50)}

    plain = ask()
    with replaced(torch.Stream, "query", lambda _: lambda _: "changed"):
        assert ask() == {"changed"}
    assert ask() == plain
    assert vars(torch.Stream)["query"] is before
