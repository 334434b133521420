import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import pinprof.program.machine  # runs within this process take it from here, instead of loading torch once more

GPU = """
import warnings
from contextlib import contextmanager

from pinprof.program.waits import SYNC_WARNING, taking_warnings

mode = 0


@contextmanager
def noticing(on_wait):
    global mode
    with taking_warnings(on_wait):
        mode = 1
        try:
            yield
        finally:
            mode = 0


def item():
    synchronize()


def synchronize():
    if mode:
        warnings.warn(SYNC_WARNING)
"""
"""A library with a GPU that needs none: like torch, it warns of each wait while it is told to."""

CONFTEST = """
import gpu
from pinprof.pytest_plugin import NOTICING

def pytest_configure(config):
    config.stash[NOTICING] = gpu.noticing
"""

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run_plain(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs pytest with the plugin on the text of a test module."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # an installed pinprof brings the plugin as well
    pytester.makeini("[pytest]\nfilterwarnings = default")

    def run(text: str, *args: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=text)
        with warnings.catch_warnings():
            warnings.resetwarnings()
            return pytester.runpytest_inprocess("-p", "pinprof.pytest_plugin", "--strict-markers", "-rA", *args)

    return run


@pytest.fixture
def run(run_plain: Run, pytester: pytest.Pytester) -> Run:
    """Return what runs pytest with the plugin and the GPU of `GPU`."""
    library = pytester.mkdir("site-packages")
    (library / "gpu.py").write_text(GPU)
    pytester.syspathinsert(library)
    pytester.makeconftest(CONFTEST)

    def run(text: str, *args: str) -> pytest.RunResult:
        return run_plain("import warnings, threading, pytest, gpu\n" + text, *args)

    return run


ONE_WAIT = """
def log(value):
    return gpu.item()

@pytest.mark.no_gpu_sync{}
def test_step():
    for value in range(3):
        log(value)
    gpu.synchronize()
"""


def test_a_wait_fails_the_test_with_its_line_its_text_and_how_often(run: Run) -> None:
    result = run(ONE_WAIT.format(""))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "the host waited for the GPU 4 times; allowed: never",
            "",
            "test_it.py:4 in log, 3 times",
            "    return gpu.item()",
            "      site-packages/gpu.py:* in item",
            "      site-packages/gpu.py:* in synchronize",
            "",
            "test_it.py:10 in test_step, once",
            "    gpu.synchronize()",
            "      site-packages/gpu.py:* in synchronize",
            "",
            "If a wait is meant: @pytest.mark.no_gpu_sync(allow=...), or `with pinprof_no_sync.allowed():` *",
        ],
        consecutive=True,
    )
    result.stdout.fnmatch_lines(["FAILED test_it.py::test_step - Failed: the host waited for the GPU 4 times; *"])
    result.stdout.no_fnmatch_line("*synchronizing CUDA operation*")


def test_only_what_is_watched_fails_and_outcomes_of_the_tests_own_stay(run: Run) -> None:
    result = run("""
@pytest.fixture
def waiting():
    gpu.item()
    yield
    gpu.item()

def test_passes_unmarked():
    gpu.item()
    assert not gpu.mode

def test_fails_by_the_fixture(pinprof_no_sync):
    gpu.item()

def test_passes_by_the_fixture(pinprof_no_sync):
    assert pinprof_no_sync.waits == ()

@pytest.mark.no_gpu_sync
class TestMarked:
    @pytest.mark.no_gpu_sync(allow=1)
    def test_passes_by_the_nearest_marker(self):
        gpu.item()

    def test_fails_by_the_marker_around_it(self):
        gpu.item()

    def test_passes_where_only_a_fixture_waits(self, waiting):
        pass

    def test_skips(self):
        gpu.item()
        pytest.skip("own")

    @pytest.mark.xfail(strict=True)
    def test_waits(self):
        gpu.item()

    @pytest.mark.xfail(strict=True)
    def test_fails_as_it_does_not_wait(self):
        pass
""")
    result.assert_outcomes(passed=4, skipped=1, xfailed=1, failed=3)
    result.stdout.fnmatch_lines_random(
        [f"FAILED *test_fails_{name} *" for name in ("by_the_fixture", "by_the_marker*")]
    )
    result.stdout.fnmatch_lines(["*XPASS(strict)*"])


@pytest.mark.parametrize(
    ("allow", "times"),
    [
        *((allow, "") for allow in ("4", "5", "'*'", "['log', 'test_*']", "('test_it.py:4', 'test_it.py:1?')")),
        *((allow, "") for allow in ("'test_it.py'", "'*/test_it.py:*'")),
        ("3", "4 times; allowed: 3"),
        ("'log'", "once"),
        ("[]", "4 times"),
    ],
)
def test_waits_that_are_allowed_pass_and_those_beyond_fail(run: Run, allow: str, times: str) -> None:
    result = run(ONE_WAIT.format(f"(allow={allow})"))
    result.assert_outcomes(failed=bool(times), passed=not times)
    result.stdout.fnmatch_lines([f"the host waited for the GPU {times}*"] if times else ["PASSED *"])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        *((f"allow={value}", f"*not {value}") for value in ("-1", "True", "1.5", "None", "[[]'a', 3]", "''")),
        ("3", "it takes only allow="),
        ("allow=1, patterns='x'", "it takes only allow="),
    ],
)
def test_what_cannot_be_allowed_is_said(run: Run, args: str, said: str) -> None:
    result = run(ONE_WAIT.format(f"({args.replace('[[]', '[')})"))
    result.assert_outcomes(errors=1)
    asked = "allow must be a number of waits, a glob pattern or several in a list, "
    result.stdout.fnmatch_lines([f"*no_gpu_sync: {said.replace('*', asked)}"])


def test_a_block_may_wait(run: Run) -> None:
    result = run("""
def test_it(pinprof_no_sync):
    with pinprof_no_sync.allowed():
        with pinprof_no_sync.allowed():
            gpu.item()
        gpu.item()
    assert not pinprof_no_sync.waits
    gpu.item()
    (wait,) = pinprof_no_sync.waits
    assert (wait.file, wait.line, wait.function) == ("test_it.py", 9, "test_it")
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the host waited for the GPU once; *"])


@pytest.mark.parametrize("args", [(), ("-W", "error")], ids=["plain", "-W error"])
def test_waits_of_another_thread_do_not_count_nor_are_they_seen_there(run: Run, args: tuple[str, ...]) -> None:
    result = run(
        """
@pytest.mark.no_gpu_sync
def test_it():
    done = []
    def wait():
        gpu.item()
        done.append(True)
    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert done
""",
        *args,
    )
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*synchronizing*")
    result.stderr.no_fnmatch_line("*synchronizing*")


@pytest.mark.parametrize("args", [(), ("-W", "error"), ("-W", "ignore"), ("-p", "no:warnings")], ids=" ".join)
def test_waits_are_seen_whatever_a_test_does_with_warnings(run: Run, args: tuple[str, ...]) -> None:
    result = run(
        """
@pytest.mark.no_gpu_sync
def test_it(recwarn):
    with pytest.warns(UserWarning, match="own") as caught:
        gpu.item()
        warnings.warn("own")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gpu.item()
        with pytest.raises(UserWarning, match="own"):
            warnings.warn("own")
    assert not recwarn.list
""",
        *args,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the host waited for the GPU 2 times; *", "*test_it.py:6 in *", "*test_it.py:11 in *"])


def test_a_failure_of_the_test_itself_comes_first_and_the_waits_after_it(run: Run) -> None:
    result = run("""
@pytest.mark.no_gpu_sync
def test_it():
    gpu.item()
    assert 1 == 2
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E       assert 1 == 2", "*Captured no_gpu_sync call*", "the host waited for * once; *"]
    )
    result.stdout.fnmatch_lines(["FAILED test_it.py::test_it - assert 1 == 2"])
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_methods_of_unittest_are_watched(run: Run) -> None:
    result = run("""
import unittest

class Case(unittest.TestCase):
    @pytest.mark.no_gpu_sync
    def test_waits(self):
        gpu.item()

    @pytest.mark.no_gpu_sync
    def test_passes(self):
        pass

    @pytest.mark.no_gpu_sync
    def test_fails(self):
        gpu.item()
        self.assertEqual(1, 2)
""")
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(["*test_it.py:8 in test_waits, once"])
    result.stdout.fnmatch_lines(
        ["*AssertionError: 1 != 2", "*Captured no_gpu_sync call*", "*test_it.py:16 in test_fails*"]
    )


def test_a_test_in_an_installed_library_is_the_users(run: Run, pytester: pytest.Pytester) -> None:
    library = pytester.path / "site-packages" / "test_installed.py"
    library.write_text("import pytest, gpu\n\n@pytest.mark.no_gpu_sync\ndef test_it():\n    gpu.item()\n")
    result = run("", "site-packages/test_installed.py")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["site-packages/test_installed.py:5 in test_it, once", "    gpu.item()"])


def test_without_a_gpu_the_test_is_skipped_before_its_fixtures(run_plain: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinprof.program.machine, "has_gpu", lambda: False)
    result = run_plain(
        """
import pytest

@pytest.fixture
def model():
    raise RuntimeError("not without a GPU")

@pytest.mark.no_gpu_sync
def test_it(model):
    pass
"""
    )
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*no_gpu_sync: needs a GPU that torch can see"])


PREPARED = """import warnings, pytest, torch

@pytest.fixture(scope="module", autouse=True)
def prepared():
    prepare()

def prepare():
    global a, mask, host, pinned, event, weight, linear, optimizer
    a = torch.randn(64, 64, device="cuda")
    mask = a[0] > 0
    host = torch.randn(256, 64)
    pinned = torch.randn(256, 64, pin_memory=True)
    event = torch.cuda.Event()
    event.record()
    weight = torch.randn(64, 64, device="cuda", requires_grad=True)
    linear = torch.nn.Linear(64, 64, device="cuda")
    optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)
    torch.cuda.synchronize()

def masked():
    return (a @ weight)[0][mask].sum()

def train():
    loss = linear(pinned.to("cuda", non_blocking=True)).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()

"""

WAITS = (
    "a.sum().item()",
    "float(a.sum())",
    "a[0][mask]",
    "a.cpu()",
    "torch.cuda.synchronize()",
    "event.synchronize()",
    "torch.cuda.current_stream().synchronize()",
    'host.to("cuda", non_blocking=True)',
    "host.cuda(non_blocking=True)",
    "torch.empty(256, 64, device='cuda').copy_(host, non_blocking=True)",
    'pinned.to("cuda")',
    "bool(a.sum() > 0)",
    "a.nonzero()",
)


@pytest.fixture(scope="module")
def loaded() -> None:
    """Make torch load all that it loads late: a run within this process would load it again, which torch forbids."""
    space: dict[str, Any] = {}
    exec(PREPARED, space)
    space["prepare"]()
    space["train"]()
    space["masked"]().backward()
    for wait in WAITS:
        exec(wait, space)


@pytest.fixture
def run_on_gpu(loaded: None, run_plain: Run) -> Run:
    """Return what runs pytest with the plugin on tests that use what `PREPARED` defines."""
    return lambda text, *args: run_plain(PREPARED + text, *args)


@pytest.mark.gpu
@pytest.mark.parametrize("args", [(), ("-W", "error")], ids=["plain", "-W error"])
def test_each_kind_of_wait_fails_at_its_line(run_on_gpu: Run, args: tuple[str, ...]) -> None:
    tests = (f"@pytest.mark.no_gpu_sync\ndef test_{number}():\n    {wait}\n" for number, wait in enumerate(WAITS))
    text = "\n".join(tests)
    result = run_on_gpu(text, *args)
    result.assert_outcomes(failed=len(WAITS))
    for number, wait in enumerate(WAITS):
        line = (PREPARED + text).splitlines().index(f"def test_{number}():") + 2
        result.stdout.fnmatch_lines([f"*test_it.py:{line} in test_{number}, *", f"    {wait}".replace("[", "[[]")])
    result.stdout.no_fnmatch_line("*synchronizing CUDA operation*")


@pytest.mark.gpu
def test_a_wait_in_backward_is_found_at_the_line_that_calls_it(run_on_gpu: Run) -> None:
    result = run_on_gpu(
        """
@pytest.mark.no_gpu_sync
def test_it(pinprof_no_sync):
    with pinprof_no_sync.allowed():
        loss = masked()
    loss.backward()
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*in test_it, *", "    loss.backward()", "*_tensor.py:* in backward"])
    result.stdout.no_fnmatch_line("*in masked*")


@pytest.mark.gpu
@pytest.mark.parametrize("args", [(), ("-W", "error")], ids=["plain", "-W error"])
def test_code_that_does_not_wait_passes(run_on_gpu: Run, args: tuple[str, ...]) -> None:
    result = run_on_gpu(
        """
pytestmark = pytest.mark.no_gpu_sync

def test_training_step():
    for _ in range(3):
        train()

def test_pinned_copy():
    pinned.to("cuda", non_blocking=True)
    pinned.cuda(non_blocking=True)
    torch.empty(256, 64, device="cuda").copy_(pinned, non_blocking=True)

def test_record_and_query():
    event.record()
    event.query()

@pytest.mark.no_gpu_sync(allow="log")
def test_allowed():
    def log():
        return a.sum().item()
    log()

@pytest.mark.no_gpu_sync(allow=2)
def test_two_allowed():
    a.sum().item()
    torch.cuda.synchronize()
""",
        *args,
    )
    result.assert_outcomes(passed=5)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("body", ["pass", "a.sum().item()", "raise ValueError", "pytest.skip()"])
def test_torch_and_warnings_are_as_before_afterwards(run_on_gpu: Run, mode: int, body: str) -> None:
    def state() -> list[object]:
        functions = [torch._C._cuda_synchronize, torch._C._cuda_emptyCache, torch.cuda.Event.synchronize]
        methods = [getattr(torch.Tensor, name) for name in ("to", "cuda", "cpu", "copy_")]
        return [torch.cuda.get_sync_debug_mode(), warnings.filters, warnings.showwarning, *functions, *methods]

    before = state()
    result = run_on_gpu(
        f"""
@pytest.fixture
def mode():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode({mode})
    yield
    after = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode({before[0]})
    assert after == {mode}

@pytest.mark.no_gpu_sync
def test_it(mode):
    assert torch.cuda.get_sync_debug_mode() == 1
    {body}
"""
    )
    outcome = {"pass": "passed", "pytest.skip()": "skipped"}.get(body, "failed")
    result.assert_outcomes(**{outcome: 1})
    assert state() == before


@pytest.mark.gpu
def test_the_test_itself_need_not_import_torch(loaded: None, run_plain: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(helper="import torch\n\ndef read():\n    return torch.ones(1, device='cuda').item()")
    result = run_plain(
        "import pytest\n\n@pytest.mark.no_gpu_sync\ndef test_it():\n    from helper import read\n    read()"
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["helper.py:4 in read, once", "    return torch.ones(1, device='cuda').item()"])
