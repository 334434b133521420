"""Modules that stand in for libraries which a case imports and does not use: each harness finds this file with it."""

import importlib.machinery
import importlib.util
import sys
from types import ModuleType


def stand_in(name: str, folder: str | None = None, **content: object) -> ModuleType:
    """Put a module where imports find it, with this content; with a folder its own modules are found there."""
    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [folder] if folder else []
    module = importlib.util.module_from_spec(spec)
    vars(module).update(content)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, module)
    return module
