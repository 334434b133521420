"""Shows the watch memory that the program pins itself, by cudaHostRegister, and that torch does not look after."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

from pinprof.capture.replaced import replaced
from pinprof.races.watch import Watch


@contextmanager
def registered_memory(watch: Watch) -> Iterator[None]:
    """Show the watch the calls of `torch.cuda.cudart()` that pin memory, and those that end it."""

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
