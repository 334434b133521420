"""Does something once a module has been imported, without importing it."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from pinprof.capture.faults import contained


def when_imported(name: str, act: Callable[[], None]) -> None:
    """Call `act` after the program has imported the top-level module; at once if it has."""
    if name in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, _Waiting(name, act))


class _Waiting(MetaPathFinder):
    """Waits for the import of one module, and is gone after it."""

    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self._name = name
        self._act = act

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's own spec, whose loader also acts; None for all other modules."""
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self._executing(spec.loader)  # type: ignore[assignment, method-assign]
        return spec

    def _executing(self, loader: Loader) -> Callable[[ModuleType], None]:
        execute = loader.exec_module

        def executed(module: ModuleType) -> None:
            del loader.exec_module  # this loader stays in the module's __spec__
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                contained(self._act)()

        return executed
