"""The core of a thread, and the way to another one."""

import os

import pytest

from pinprof.capture.cores import ANY_CORE, CORE_BYTES, go_to, own_core


def as_told(core: int) -> bytes:
    return core.to_bytes(CORE_BYTES, "little")


def test_a_thread_goes_to_each_core_and_may_still_run_on_all() -> None:
    allowed = os.sched_getaffinity(0)
    for core in allowed:
        arrivals = 0
        for _ in range(100):  # a busy machine may move it on at once
            go_to(as_told(core))
            arrivals += own_core() == as_told(core)
        assert arrivals > 50
    assert os.sched_getaffinity(0) == allowed


def test_it_stays_where_another_is_not_named_or_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: pytest.fail("it moves"))
    for core in (ANY_CORE, b"", b"g", as_told(max(os.sched_getaffinity(0)) + 1)):
        go_to(core)


def test_a_system_that_refuses_or_has_no_such_call_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    go_to(own_core())
    monkeypatch.delattr(os, "sched_getaffinity")
    go_to(as_told(0))
