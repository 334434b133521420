import subprocess
import sys

import pytest

import pinprof


@pytest.mark.parametrize("name", pinprof.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(pinprof, name).__name__ == name
    assert name in dir(pinprof)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="module 'pinprof' has no attribute 'nothing'"):
        pinprof.nothing  # noqa: B018


@pytest.mark.parametrize(
    "code",
    [
        "import pinprof.measurement.profile; print(pinprof.measurement.profile.__name__)",
        "import pinprof, pinprof.rules; print(pinprof.measurement.profile.__name__)",
        "from pinprof import measure; print(measure.__name__)",
        "from pinprof import *; print(measure.__name__)",
        "from pinprof.measurement.profile import measure; import pinprof; print(pinprof.measurement.profile.__name__)",
    ],
)
def test_measure_is_the_function_however_it_is_imported(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "measure"


@pytest.mark.parametrize("module", ["pinprof", "pinprof.pytest_plugin"])
def test_loading_costs_next_to_nothing(module: str) -> None:
    code = f"import sys, {module}; print({{'torch', 'numpy', 'pandas', 'plotly', 'rich', 'hta'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_room_for_hta_is_reached_without_loading_hta() -> None:
    code = (
        "import sys, pinprof; print(pinprof.hta.trace_analysis.__name__, 'hta' in sys.modules, 'hta' in dir(pinprof))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["trace_analysis", "False", "True"]
