import subprocess
import sys

import pytest

import pinprof


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="module 'pinprof' has no attribute 'nothing'"):
        pinprof.nothing  # noqa: B018


EVERY_MODULE = """
import importlib, pkgutil, sys
import pinprof

before = {name: getattr(pinprof, name) for name in pinprof.__all__}
modules = [found.name for found in pkgutil.iter_modules(pinprof.__path__, "pinprof.")]  # what may become an attribute
for module in modules:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:  # it needs a library that is not installed here
        assert not error.name.startswith("pinprof"), error
print(len(modules), sum(module in sys.modules for module in modules))
print([name for name, value in before.items() if getattr(pinprof, name) is not value])
"""


@pytest.mark.slow
def test_no_public_name_becomes_a_module_when_all_are_imported() -> None:
    done = subprocess.run([sys.executable, "-c", EVERY_MODULE], capture_output=True, text=True, check=True)
    counts, changed = done.stdout.splitlines()
    every, imported = map(int, counts.split())
    assert imported > 0.9 * every
    assert changed == "[]"


@pytest.mark.parametrize("module", ["pinprof", "pinprof.pytest_plugin"])
def test_loading_costs_next_to_nothing(module: str) -> None:
    code = f"import sys, {module}; print({{'torch', 'numpy', 'pandas', 'plotly', 'rich', 'hta'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
