"""Shows a profile: each module is a pure function from profiles to a text."""

import sys
from types import ModuleType
from typing import Any, NoReturn


class _Room(ModuleType):
    """This package: `pinprof.report(path)`, after the name of the command, is what people try first."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Say what to call."""
        raise TypeError("pinprof.report is not a function; call pinprof.load(path)")


sys.modules[__name__].__class__ = _Room
