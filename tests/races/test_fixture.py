"""The fixture `pinprof_guard`, in a pytest that runs within this one, on a GPU of plain objects."""

import importlib
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import pinprof.races.guard  # noqa: F401

CONFTEST = """
from fake_gpu import FakeGpu
from pinprof.pytest_plugin import GPU_KEY, NOTICING
from pinprof.program.waits import taking_warnings

def pytest_configure(config):
    config.stash[GPU_KEY] = FakeGpu()
    config.stash[NOTICING] = taking_warnings
"""

Run = Callable[[str], pytest.RunResult]


@pytest.fixture(scope="module", autouse=True)
def dynamo() -> None:
    """Load what a mode loads: runs within this process take it from here, instead of loading it once more."""
    importlib.import_module("torch._dynamo")  # slow, and who only collects the tests does not need it


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs pytest with the plugin on the text of a test module."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # an installed pinprof brings the plugin as well
    pytester.makeini("[pytest]\nfilterwarnings = default")
    pytester.syspathinsert(Path(__file__).parents[1])
    pytester.makeconftest(CONFTEST)

    def run(text: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=text)
        with warnings.catch_warnings():
            warnings.resetwarnings()
            return pytester.runpytest_inprocess("-p", "pinprof.pytest_plugin", "--strict-markers", "-rA")

    return run


def test_a_test_with_a_race_fails_and_names_both_lines(run: Run) -> None:
    result = run(
        """
        import torch

        def test_race(pinprof_guard):
            x = torch.ones(4)
            x.to("meta", non_blocking=True)
            x.zero_()
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*PIN503*", "*at test_it.py:5 in test_race", "*at test_it.py:6 in test_race"])


def test_a_test_without_one_passes_and_may_ask_what_was_seen(run: Run) -> None:
    result = run(
        """
        import torch

        def test_no_race(pinprof_guard):
            x = torch.ones(4)
            x.to("meta", non_blocking=True)
            x.numpy()
            assert [found.rule.id for found in pinprof_guard.violations] == ["PIN506"]

        def test_another():
            assert torch._C._len_torch_dispatch_stack() == 0
        """
    )
    result.assert_outcomes(passed=2)


def test_it_goes_with_no_gpu_sync_and_sees_the_waits_that_this_one_takes(run: Run) -> None:
    result = run(
        """
        import pytest, torch, warnings
        from pinprof.program.waits import SYNC_WARNING

        def item():
            warnings.warn(SYNC_WARNING)

        @pytest.mark.no_gpu_sync(allow=1)
        def test_one_wait(pinprof_guard):
            x = torch.ones(4)
            x.to("meta", non_blocking=True)
            item()
            x.zero_()

        @pytest.mark.no_gpu_sync
        def test_both(pinprof_guard):
            x = torch.ones(4)
            x.to("meta", non_blocking=True)
            x.zero_()
            item()
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*the host waited for the GPU once*", "*PIN503*"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_is_skipped(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest("")
    run("def test_it(pinprof_guard): pass").assert_outcomes(skipped=1)
