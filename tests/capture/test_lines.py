import importlib
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_profiler import FakeProfiler
from trace_builder import TraceBuilder

from pinprof.analyses.syncs.sites import Site, measure_syncs
from pinprof.analysis import analyse
from pinprof.capture.window.lines import LineRecorder, line_window
from pinprof.capture.window.recording import profile
from pinprof.program.waits import taking_warnings
from pinprof.trace import read_trace
from pinprof.trace.callers import call_path
from pinprof.trace.lines import OpPlace, Place
from pinprof.trace.spans.idle_times import python_in_nodes


def read_deep(value: torch.Tensor) -> float:
    return value.sum().item()  # deep


def program() -> Callable[[], None]:
    """Return a step that waits at each of the marked lines, once per step unless said otherwise."""
    device = torch.device("cuda")
    weight = torch.randn(256, 256, device=device, requires_grad=True)
    mask = torch.rand(256, device=device) < 0.5
    repeats = torch.ones(256, dtype=torch.long, device=device)
    host = torch.randn(2048, 256)
    pinned = torch.randn(2048, 256, pin_memory=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def step() -> None:
        batch = host.to(device)  # blocking_copy_htod
        batch = batch + host.to(device, non_blocking=True)  # pageable_copy
        batch = batch + pinned.cuda()  # blocking_copy_htod
        out = batch @ weight
        loss = out[:256][mask].square().mean()  # mask_index
        loss.backward()  # type: ignore[no-untyped-call]  # mask_index in backward
        read_deep(loss.detach())
        if loss.detach() > 0:  # bool
            weight.grad = None
        loss.detach().tolist()  # tolist
        for _ in range(3):
            float(loss.detach())  # item, three times
        out.nonzero()  # nonzero
        torch.repeat_interleave(out[:256], repeats, dim=0)  # repeat_interleave, two waits
        out.detach().cpu()  # to_cpu
        torch.tensor([1.0, 2.0], device=device)  # tensor_from_host
        event.record()
        event.synchronize()  # event_synchronize
        torch.cuda.current_stream().synchronize()  # stream_synchronize
        torch.cuda.synchronize()  # device_synchronize
        repr(loss.detach())  # print

    return step


def marked(text: str) -> int:
    """Return the number of the line of this file that ends with a comment of this text."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = (number for number, line in enumerate(lines, start=1) if line.endswith(f"  # {text}"))
    return number


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> list[Site]:
    path = tmp_path_factory.mktemp("lines") / "out.json.gz"
    step = program()
    with profile(path, steps=3, warmup=3, plain_steps=3, plain_seconds=0.0) as recording:
        while not recording.done:
            step()
            recording.step()
    return list(measure_syncs(read_trace(path)).sites)


CASES = (
    *(("pageable_copy", "pageable_copy"), ("mask_index", "mask_index"), ("mask_index in backward", "mask_index")),
    *(("deep", "item"), ("bool", "bool"), ("tolist", "tolist"), ("item, three times", "item")),
    *(("nonzero", "nonzero"), ("repeat_interleave, two waits", "repeat_interleave"), ("to_cpu", "to_cpu")),
    *(("tensor_from_host", "tensor_from_host"), ("event_synchronize", "event_synchronize")),
    *(("stream_synchronize", "stream_synchronize"), ("device_synchronize", "device_synchronize")),
    ("print", "print"),
)


@pytest.mark.gpu
@pytest.mark.parametrize(("text", "cause"), CASES)
def test_the_wait_has_its_line_and_cause(sites: list[Site], text: str, cause: str) -> None:
    lines_and_causes = {(site.line, site.cause) for site in sites}
    assert (marked(text), cause) in lines_and_causes, sorted((site.line or 0, site.cause, site.op) for site in sites)


def note(_: torch.Tensor) -> None:
    """Count for some milliseconds, as a hook that keeps statistics in Python does."""
    sum(math.sqrt(number) for number in range(40_000))


@pytest.mark.gpu
def test_the_code_that_backward_passes_call_is_learned(tmp_path: Path) -> None:
    weight = torch.randn(256, 256, device="cuda", requires_grad=True)
    weight.register_post_accumulate_grad_hook(note)  # type: ignore[no-untyped-call]
    with profile(tmp_path / "out.json.gz", steps=3, warmup=3, plain_steps=3, plain_seconds=0.0) as recording:
        while not recording.done:
            (torch.randn(64, 256, device="cuda") @ weight).square().mean().backward()  # type: ignore[no-untyped-call]
            weight.grad = None
            recording.step()
    trace = read_trace(tmp_path / "out.json.gz")
    places = trace.info.backward
    assert places[0].function == "note"
    assert (places[0].file or "").endswith("test_lines.py")
    hooks = python_in_nodes(trace)
    assert len(hooks.start) >= 3  # one per step, without Python functions in the trace
    (finding,) = (finding for finding in analyse(trace).findings if finding.rule.id == "PIN603")
    assert finding.evidence.function == "note"


@pytest.mark.gpu
def test_the_line_of_an_op_is_learned(tmp_path: Path) -> None:
    points = torch.randn(2048, 64, device="cuda")
    with profile(tmp_path / "out.json.gz", steps=3, warmup=3, plain_steps=3, plain_seconds=0.0) as recording:
        while not recording.done:
            torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")  # distances
            recording.step()
    (finding,) = (f for f in analyse(read_trace(tmp_path / "out.json.gz")).findings if f.rule.id == "PIN705")
    assert finding.evidence.line == marked("distances")


@pytest.mark.gpu
def test_no_line_is_named_that_does_not_wait(sites: list[Site]) -> None:
    here = [number for number, line in enumerate(Path(__file__).read_text().splitlines(), start=1) if "  # " in line]
    lines = {site.line for site in sites if site.line and (site.file or "").endswith("test_lines.py")}
    assert lines <= set(here)


@pytest.mark.gpu
def test_every_line_of_torchs_sync_debug_mode_is_found(sites: list[Site]) -> None:
    step = program()
    step()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        step()
        torch.cuda.set_sync_debug_mode("default")
    warned = {
        warning.lineno for warning in caught if warning.filename == __file__ and "synchronizing" in str(warning.message)
    }
    assert warned
    assert warned <= {site.line for site in sites}


STEPS_OF_OPS = """
import torch
points = torch.rand(9, 9)
def step():
    return torch.cdist(points, points)
"""


class Exported(FakeProfiler):
    """Its trace has the functions and ops of `STEPS_OF_OPS`."""

    def export_chrome_trace(self, path: str) -> None:
        builder = TraceBuilder()
        for start in builder.steps(3):
            builder.function("train.py(4): step", start + 5, 900)
            builder.function("torch/functional.py(1): cdist", start + 10, 100)
            builder.op("aten::cdist", start + 15, 80)
            builder.kernel(start + 50, 30, launch=start + 20)
        builder.write(Path(path))


def test_the_line_of_an_op_is_that_of_a_file_newer_than_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pinprof.capture.window.lines.torch_profiler", lambda *_: Exported())
    monkeypatch.setattr("pinprof.capture.window.lines.noticing", taking_warnings)
    (tmp_path / "train.py").write_text(STEPS_OF_OPS)
    recorded = TraceBuilder()
    recorded.kernel(20, 10, launch=10)
    (tmp_path / "out").mkdir()
    path = recorded.write(tmp_path / "out" / "trace.json")
    os.utime(tmp_path, (0, 0))
    for _ in line_window(1, path):
        pass
    assert read_trace(path).info.op_places == (OpPlace("aten::cdist", "train.py", 5, "step"),)


def test_the_line_is_the_users_own_nearest_to_the_call() -> None:
    recorder = LineRecorder()
    recorder.waited()
    recorder.waited()
    (first, second) = recorder.lines
    assert (second.line, first.line) == (first.line and first.line + 1, first.line)
    assert first.function == "test_the_line_is_the_users_own_nearest_to_the_call"
    assert first.file.endswith("tests/capture/test_lines.py")
    assert first.stack[0] == f"{first.file}:{first.line}:{first.function}"


def test_the_stack_ends_where_the_program_begins() -> None:
    def deep(depth: int, recorder: LineRecorder) -> None:
        if depth:
            deep(depth - 1, recorder)
        else:
            recorder.waited()

    recorder = LineRecorder()
    deep(100, recorder)
    assert len(recorder.lines[0].stack) == 24
    assert sys.getrecursionlimit() > 100


@pytest.fixture
def compiling() -> Iterator[Any]:
    """torch.compile, without a trace of its use afterwards: other tests would take their waits for compiled ones."""
    yield torch.compile
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_line_in_compiled_code_is_the_one_that_calls_it(backend: str, compiling: Any) -> None:
    recorder = LineRecorder()
    library: dict[str, Any] = {"waited": recorder.waited}
    exec(compile("def wait(x):\n    waited()\n    return x.clone()", "<library>", "exec"), library)
    defined: Any = torch.library.Library("pinprof_test", "DEF")  # type: ignore[no-untyped-call]
    defined.define("wait(Tensor x) -> Tensor")
    defined.impl("wait", library["wait"], "CPU")
    defined.impl("wait", torch.empty_like, "Meta")

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        z: torch.Tensor = torch.ops.pinprof_test.wait(y)
        return z + 1

    compiled = compiling(forward, backend=backend)
    compiled(torch.ones(3))  # compiled code
    (line,) = recorder.lines
    assert line.line == marked("compiled code")
    library_place, path = call_path(line.stack, line.place, certain=True)
    assert library_place == Place(line.file, None, "forward")
    assert len(path) == 2

    forward(torch.ones(3))
    assert [line.function for line in recorder.lines[1:]] == ["forward"]


def test_a_library_that_waits_is_in_the_stack_with_the_way_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "lib" / "site-packages" / "boxes_library"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from boxes_library.heads import Heads\n")
    (package / "heads.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(package.parent))
    heads = importlib.import_module("boxes_library").Heads()
    recorder = LineRecorder()
    monkeypatch.setattr(sys.modules["boxes_library.heads"], "wait", recorder.waited)
    heads(torch.ones(2))  # library called
    monkeypatch.delitem(sys.modules, "boxes_library")
    monkeypatch.delitem(sys.modules, "boxes_library.heads")
    (line,) = recorder.lines
    assert line.line == marked("library called")
    library, path = call_path(line.stack, line.place, certain=True)
    assert library == Place("boxes_library/heads.py", 10, "loss")
    assert path == (
        f"{line.file}:{line.line}:{line.function}",
        "boxes_library/heads.py:6:forward",
        "boxes_library/heads.py:10:loss",
    )


LIBRARY = """import torch
wait = None

class Heads(torch.nn.Module):
    def forward(self, x):
        return torch.no_grad()(self.loss)(x)

    def loss(self, x):
        x = x + 1
        wait()
        return x
"""
"""Its `loss` is called through frames of torch: of the module, and of the decorator."""
