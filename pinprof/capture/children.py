"""Follows the processes that a script starts: `multiprocessing`, and Python programs by `subprocess`."""

import multiprocessing
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial, wraps
from inspect import signature, unwrap
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from pinprof.capture.commands import as_line, may_train, to_follow, words_of
from pinprof.capture.ending import Ending
from pinprof.capture.faults import contained
from pinprof.capture.job import rank_in
from pinprof.capture.notes import Notes
from pinprof.capture.orders import Orders, importable
from pinprof.capture.program import INTERRUPTED
from pinprof.capture.replaced import replaced
from pinprof.capture.stuck import StuckScript

SPAWNED_BY_TORCH = "torch.multiprocessing.spawn"
"""The module of the function that every process of `torch.multiprocessing.spawn` runs."""
POOLS = ("concurrent.futures.process", "multiprocessing.pool")
"""The modules of the functions that processes of pools run."""
ENDED_WITHIN_S = 10.0
"""How long a process that is asked to end may take."""
WAIT_S = 300.0
"""How long to wait for processes that record after the script has ended: as long as for the ranks of a job."""
WAIT_AFTER_FAILURE_S = 10.0
"""The same after a script that has failed, or that was stopped."""

_orders: Orders | None = None
"""Set while this process follows those that it starts, and in its forks."""
_stuck: StuckScript | None = None


@contextmanager
def followed(orders: Orders, stuck: StuckScript | None = None) -> Iterator[None]:
    """Record the processes that the block starts, and those that they start; `stuck` watches from the first on."""
    global _orders, _stuck  # noqa: PLW0603  one for the process
    if _orders is not None:  # a fork has all this from its parent
        if _stuck is not None:
            _stuck.leave()
        yield
        return
    _orders, _stuck = orders, stuck
    with ExitStack() as undo:
        undo.enter_context(importable())
        undo.enter_context(replaced(BaseProcess, "start", _following_start))
        undo.enter_context(replaced(subprocess.Popen, "__init__", _following_init))
        undo.enter_context(replaced(os, "system", _noting_line))
        try:
            yield
        finally:
            _orders = None


def _following_start(start: Callable[[BaseProcess], None]) -> Callable[[BaseProcess], None]:
    @wraps(start)
    def started(process: BaseProcess) -> None:
        orders = contained(_orders_for_process)(process)
        if orders is None:
            start(process)
            return
        from pinprof.capture.child import Followed  # noqa: PLC0415  which imports this module

        vars(process)["run"] = Followed(process, orders)  # found before the method of the class, and pickled with it
        try:
            start(process)
        finally:
            vars(process).pop("run", None)
        if process.pid is not None and not serves_pool(process):  # nobody waits for the end of an idle one
            contained(Notes(orders.notes).begin)(process.pid)

    return started


def may_make_steps(process: BaseProcess) -> bool:
    """Return whether a process may train: it runs the user's code, and is no worker of a DataLoader or a pool.

    A pool waits for the answers of its workers, so none of them may be stopped: see `serves_pool`.
    """
    return any(_may_train(function) for function in (type(process).run, vars(process).get("_target")))


def serves_pool(process: BaseProcess) -> bool:
    """Return whether a process works for a pool, which may give it functions that train: recorded, not stopped."""
    return getattr(vars(process).get("_target"), "__module__", None) in POOLS


def _may_train(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    if getattr(function, "__module__", None) == SPAWNED_BY_TORCH:
        return True
    code = getattr(unwrap(function), "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return code is not None and _is_users(code.co_filename)


def _is_users(file: str) -> bool:
    from pinprof.capture.frames import INSTALLED  # noqa: PLC0415  a child that starts nothing does not need it

    return not file.startswith(INSTALLED) and f"{os.sep}site-packages{os.sep}" not in file


def _following_init(init: Callable[..., None]) -> Callable[..., None]:
    parameters = signature(init)

    @wraps(init)
    def initialized(popen: Any, *args: Any, **options: Any) -> None:
        try:
            given = parameters.bind(popen, *args, **options)
        except TypeError:
            init(popen, *args, **options)  # it says what is wrong
            return
        orders = contained(_change)(given.arguments)
        init(*given.args, **given.kwargs)
        if orders is not None:
            contained(Notes(orders.notes).begin)(popen.pid)

    return initialized


def _change(given: dict[str, Any]) -> Orders | None:
    """Change the command among the arguments of a `Popen` if it is to be followed; return its orders then."""
    words = words_of(given["args"])
    if words is None or given.get("shell") or given.get("executable") is not None:
        _note_unfollowed(as_line(given["args"]), "a shell or another program starts it")
        return None
    environment = given["env"] if given.get("env") is not None else os.environ
    command = to_follow(words, _as_text(environment), Path(os.fsdecode(given.get("cwd") or Path.cwd())))
    orders = _orders_for_child() if command else None
    if command is None or orders is None:
        return None
    given["args"] = command.followed(orders)
    return orders


def _noting_line(system: Callable[[Any], int]) -> Callable[[Any], int]:
    @wraps(system)
    def noted(command: Any) -> int:
        contained(_note_line)(command)
        return system(command)

    return noted


def _note_line(command: Any) -> None:
    _note_unfollowed(as_line(command), "a shell starts it")


def _note_unfollowed(line: str, why: str) -> None:
    if _orders is not None and may_train(line):
        Notes(_orders.notes).remark(
            f"Not followed: {line} ({why}); run pinprof on it, or start it with a list of arguments"
        )


def _orders_for_process(process: BaseProcess) -> Orders | None:
    if may_make_steps(process):
        return _orders_for_child()
    if _orders is None or not serves_pool(process):
        return None
    Notes(_orders.notes).make()
    return replace(_orders, keep_going=True, inherited=rank_in(os.environ))


def _orders_for_child() -> Orders | None:
    if _orders is None:
        return None
    Notes(_orders.notes).make()
    if _stuck is not None:
        _stuck.watch()
    return replace(_orders, inherited=rank_in(os.environ))


def _as_text(environment: Any) -> dict[str, str]:
    return {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}


@contextmanager
def following(orders: Orders, notes: Notes) -> Iterator[Callable[[Ending], None]]:
    """Follow the processes of a script in the block, which gets a function to call when the script has ended."""

    def ended(ending: Ending) -> None:
        if stuck.interrupted:
            notes.remark("The script waited for children that pinprof had stopped, so pinprof stopped it, too")
        if ending.stopped:
            notes.wait(WAIT_AFTER_FAILURE_S, first_step_s=0.0)  # for ranks that were stopped at the same step
        _end_children(stop=ending.stopped or ending.exit_status == INTERRUPTED)
        notes.wait(WAIT_AFTER_FAILURE_S if ending.exit_status or ending.stopped else WAIT_S)

    stuck = StuckScript(lambda: not orders.keep_going and notes.are_stopped, notes.remove)
    try:
        with stuck.watched(), followed(orders, stuck):
            yield ended
    finally:
        notes.remove()


def _end_children(*, stop: bool) -> None:
    """Wait for the processes of `multiprocessing`, as python does at its exit; `stop` ends them instead."""
    for child in multiprocessing.active_children():
        if stop or child.daemon:
            child.terminate()
            child.join(ENDED_WITHIN_S)
            if child.is_alive():
                child.kill()
        child.join()
