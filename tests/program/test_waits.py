import threading
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NoReturn

import pytest
import torch

from pinprof.program.waits import SYNC_WARNING, copies_pageable_memory, taking_warnings


def nothing() -> None:
    pass


def fail() -> NoReturn:
    warnings.simplefilter("ignore")
    raise ValueError("own")


def warn() -> None:
    warnings.warn(SYNC_WARNING, stacklevel=1)


@pytest.mark.parametrize(
    "inner",
    [
        nullcontext,
        warnings.catch_warnings,
        partial(warnings.catch_warnings, record=True),
        partial(pytest.warns, UserWarning, match="other"),
    ],
    ids=["plain", "catch_warnings", "recording", "pytest.warns"],
)
@pytest.mark.parametrize("action", ["error", "ignore", "default", "always"])
def test_every_warning_of_a_wait_is_taken_whatever_the_filters(
    inner: Callable[[], AbstractContextManager[Any]], action: Any
) -> None:
    threads = []
    with taking_warnings(lambda: threads.append(threading.get_ident())), inner() as caught:
        warnings.simplefilter(action)
        for _ in range(3):
            warn()
        warnings.simplefilter("always")
        if caught is not None:
            warnings.warn("other", stacklevel=1)
    assert threads == [threading.get_ident()] * 3
    assert [str(entry.message) for entry in caught or ()] in ([], ["other"])


def test_warnings_are_as_before_afterwards() -> None:
    before = warnings.filters, list(warnings.filters), warnings.showwarning
    with pytest.raises(ValueError, match="own"), taking_warnings(nothing):
        fail()
    assert warnings.filters is before[0]
    assert (list(warnings.filters), warnings.showwarning) == before[1:]
    with pytest.raises(UserWarning, match=SYNC_WARNING):
        warn()


def test_blocks_within_each_other_all_see_a_wait() -> None:
    waits: list[str] = []
    with taking_warnings(lambda: waits.append("outer")), taking_warnings(lambda: waits.append("inner")):
        warn()
    assert sorted(waits) == ["inner", "outer"]


def test_nothing_is_taken_afterwards_although_a_block_that_began_inside_goes_on() -> None:
    waits: list[None] = []
    outliving = warnings.catch_warnings()
    with warnings.catch_warnings():
        with taking_warnings(lambda: waits.append(None)):
            outliving.__enter__()
            inside = warnings.filters
        warnings.filters = inside
        with pytest.raises(UserWarning, match=SYNC_WARNING):
            warn()
        outliving.__exit__(None, None, None)
        with pytest.raises(UserWarning, match=SYNC_WARNING):
            warn()
    assert not waits


@pytest.mark.parametrize(
    ("args", "more"), [((), {}), (("cpu",), {"non_blocking": True}), ((torch.float64,), {"non_blocking": True})]
)
def test_copies_that_stay_on_the_host_or_are_warned_of_are_not_marked(
    args: tuple[Any, ...], more: dict[str, Any]
) -> None:
    source = torch.zeros(3)
    assert not copies_pageable_memory(source.to(*args, **more), source, *args, **more)


def test_a_copy_from_a_tensor_of_many_values_is_looked_at_without_asking_for_its_truth() -> None:
    target, source = torch.zeros(3), torch.ones(3)
    assert not copies_pageable_memory(target.copy_(source), target, source)
    assert not copies_pageable_memory(target.copy_(source, True), target, source, True)
