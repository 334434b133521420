"""Tells the watch about memory that the program pins with cudaHostRegister, which torch does not manage."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

from pinprof.program.hooks import replaced
from pinprof.races.watch import Watch


@contextmanager
def registered_memory(watch: Watch) -> Iterator[None]:
    """Tell the watch about calls of `torch.cuda.cudart()` that pin and unpin memory."""

    def pinning(function: Any) -> Any:
        @wraps(function)
        def pin(address: int, size: int, *flags: Any) -> Any:
            watch.registered(address, size)
            return function(address, size, *flags)

        return pin

    def unpinning(function: Any) -> Any:
        @wraps(function)
        def unpin(address: int) -> Any:
            return watch.unregister(address, lambda: function(address))

        return unpin

    cudart = getattr(watch.gpu.c, "_cudart", None)
    with ExitStack() as undo:
        if cudart is not None:
            undo.enter_context(replaced(cudart, "cudaHostRegister", pinning))
            undo.enter_context(replaced(cudart, "cudaHostUnregister", unpinning))
        yield
