"""Runs the text that each rule says to write: `code` gives what `before` gives, and is safe on bad input."""

import contextlib
import gc
import io
import math
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from recordings import ROOT
from torch.utils.data import DataLoader, TensorDataset

from pinprof.rules.rule import Rule
from pinprof.rules.search import RULES

pytestmark = pytest.mark.filterwarnings("ignore")  # of forks, of more workers than cores, of modes that are prototypes

SLEEP_CYCLES = 10_000_000
"""About 5 ms of a GPU: what the host does too early comes before its end."""
SHAPE = (64, 256)
Names = dict[str, Any]


class Texts:
    """The texts of a rule, case by case, and which of them have run."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.cases = {kind: re.split(r"\n\n(?=# or)", getattr(rule, kind)) for kind in ("before", "code")}
        self.ran: set[tuple[str, int]] = set()

    def before(self, case: int = 0, /, **names: Any) -> Names:
        return self.run("before", case, names)

    def code(self, case: int = 0, /, **names: Any) -> Names:
        return self.run("code", case, names)

    def run(self, kind: str, case: int, names: Names) -> Names:
        names = {"torch": torch, "DataLoader": DataLoader, **names}
        exec(compile(self.text(kind, case), f"<{self.rule.id} {kind}>", "exec"), names)
        return names

    def text(self, kind: str, case: int = 0) -> str:
        self.ran.add((kind, case))
        return self.cases[kind][case]

    def left(self) -> set[tuple[str, int]]:
        """Return what has not run."""
        return {(kind, case) for kind, cases in self.cases.items() for case in range(len(cases))} - self.ran


Trial = Callable[[Texts, str, Path], None]
"""Runs the texts on a device, in a folder that it may use, and asserts what they give."""
TRIALS: dict[str, Trial] = {}
NEED_CUDA: set[str] = set()
IN_SHELL = {"PIN107", "PIN213"}
SLOW = {"PIN202", "PIN212", "PIN303", "PIN401", "PIN402", "PIN601", "PIN605", "PIN612"}
"""They start processes or compile."""


def trial(*rules: str, on_cpu: bool = True) -> Callable[[Trial], Trial]:
    def note(run: Trial) -> Trial:
        TRIALS.update(dict.fromkeys(rules, run))
        NEED_CUDA.update(() if on_cpu else rules)
        return run

    return note


def texts_of(number: str) -> Texts:
    return Texts(next(rule for rule in RULES if rule.id == number))


@contextlib.contextmanager
def without_waits(device: str) -> Iterator[None]:
    """Raise where the host waits for the GPU, as far as torch notices: .item(), nonzero, blocking copies."""
    if device == "cpu":
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def gives_the_same(texts: Texts, device: str, result: str, case: int = 0, /, **names: Any) -> None:
    """Assert that `code` gives what `before` gives, bit by bit, and makes the host wait for nothing."""
    expected = texts.before(case, **names)[result]
    with without_waits(device):
        got = texts.code(case, **names)[result]
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def late() -> None:
    """Keep the GPU busy for some milliseconds, so that what is queued next is done late."""
    torch.cuda._sleep(SLEEP_CYCLES)  # type: ignore[no-untyped-call]


class Seen(list[torch.Tensor]):
    """What a step was given, as the GPU had it then: it goes on being busy after each step."""

    def train(self, *batch: torch.Tensor) -> torch.Tensor:
        assert batch[0].is_cuda
        self.extend(part.clone() for part in batch)
        late()
        return batch[0].sum()


def same(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return len(some) == len(others) > 0 and all(
        torch.equal(one, other) for one, other in zip(some, others, strict=True)
    )


def samples() -> torch.Tensor:
    """Samples of five batches of one shape."""
    return torch.randn(5 * SHAPE[0], *SHAPE[1:], generator=torch.Generator().manual_seed(0))


def batches_of(data: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.split(data, SHAPE[0]))


def of_batches(**more: Any) -> tuple[Seen, Names]:
    seen, data = Seen(), samples()
    return seen, {
        "batches": batches_of(data), "data": data, "device": "cuda", "train": seen.train, "shape": SHAPE,
        "dtype": torch.float32, **more,
    }  # fmt: skip


@trial("PIN101", "PIN103", on_cpu=False)
def copies_of_batches(texts: Texts, _device: str, _folder: Path) -> None:
    expected, names = of_batches()
    texts.before(**names)
    assert same(expected, [batch.cuda() for batch in names["batches"]])
    for case in range(2):
        seen, names = of_batches()
        texts.code(case, **names)
        assert same(seen, expected)


@trial("PIN102")
def one_copy(texts: Texts, device: str, _folder: Path) -> None:
    x = torch.randn(SHAPE, pin_memory=device == "cuda")
    expected = texts.before(x=x, device=device)["x"]
    with without_waits(device):
        got = texts.code(x=x, device=device)["x"]
    assert got.device.type == device
    assert torch.equal(got, expected)
    pageable = torch.randn(SHAPE)
    assert torch.equal(texts.code(x=pageable, device=device)["x"].cpu(), pageable)


@trial("PIN104", on_cpu=False)
def batches_of_a_loader(texts: Texts, _device: str, _folder: Path) -> None:
    data = TensorDataset(samples(), torch.arange(5 * SHAPE[0]))
    expected, seen = Seen(), Seen()
    texts.before(data=data, device="cuda", train=expected.train)
    names = texts.code(data=data, device="cuda", train=seen.train)
    assert names["x"].is_pinned()
    assert same(seen, expected)


def collated(made: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """Return what makes batches of a class: of the first two samples."""
    return lambda samples: made(samples[0][0], samples[1][0])


@trial("PIN105", on_cpu=False)
def batches_of_a_class(texts: Texts, _device: str, _folder: Path) -> None:
    values = {}
    for kind in ("before", "code"):
        made = texts.run(kind, 0, {})["Batch"]
        loader: DataLoader[Any] = DataLoader(
            TensorDataset(samples()), batch_size=64, pin_memory=True, collate_fn=collated(made)
        )
        batches = list(loader)
        assert all(batch.x.is_pinned() == batch.y.is_pinned() == (kind == "code") for batch in batches)
        values[kind] = [part.to("cuda", non_blocking=True) for batch in batches for part in (batch.x, batch.y)]
    assert same(values["code"], values["before"])


@trial("PIN106")
def small_copies(texts: Texts, device: str, _folder: Path) -> None:
    small = [torch.randn(number, 3) for number in range(40)]
    expected, got = (texts.run(kind, 0, {"small": small, "device": device})["parts"] for kind in ("before", "code"))
    assert [part.shape for part in got] == [part.shape for part in expected]
    assert same(got, expected)


def in_shell(text: str, folder: Path, **variables: str) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **variables}
    ran = subprocess.run(
        ["bash", "-euc", text], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return ran.stdout


@trial("PIN107")
def on_a_node(texts: Texts, _device: str, folder: Path) -> None:
    (folder / "train.py").write_text("print(sum(range(10)))")
    before, code = texts.text("before"), texts.text("code")
    assert in_shell(before, folder).splitlines() == ["45"]
    if shutil.which("numactl") and shutil.which("nvidia-smi"):
        assert in_shell(code, folder).splitlines()[-1] == "45"
    else:  # neither comes with torch
        in_shell(f"set -n\n{code}", folder)


def read_later(texts: Texts, case: int, shape: tuple[int, ...], read: Callable[[Any], Any]) -> None:
    """Compare what is logged of each step with what the steps gave; the GPU is late each time."""
    weight = torch.ones((), device="cuda", requires_grad=True)
    steps = [torch.full(shape, float(number), device="cuda") for number in range(6)]

    def train(batch: torch.Tensor) -> torch.Tensor:
        late()
        return batch * weight

    expected: list[Any] = []
    host = torch.empty(shape)
    texts.before(batches=steps, train=lambda batch: train(batch).detach(), log=expected.append, host=host)
    got: list[Any] = []
    names = texts.code(case, batches=steps, train=train, log=got.append, shape=shape, dtype=torch.float32)
    assert got == expected == [read(step) for step in steps]
    assert not names["host"].requires_grad  # or it would hold the graphs of all steps


@trial("PIN108", "PIN203", on_cpu=False)
def read_backs(texts: Texts, _device: str, _folder: Path) -> None:
    read_later(texts, 0, (3,), torch.Tensor.tolist)


@trial("PIN110")
def host_mask(texts: Texts, device: str, _folder: Path) -> None:
    mask, values = torch.rand(8) < 0.5, [torch.rand(1, 4, device=device, requires_grad=True) for _ in range(3)]
    got: list[torch.Tensor] = []
    for kind in ("before", "code"):
        x = torch.zeros(8, 4, device=device)
        names = texts.run(kind, 0, {"mask": mask, "x": x, "values": values, "device": device})
        got += [names["x"].detach(), *torch.autograd.grad(names["x"].sum(), values)]
    assert same(got[:4], got[4:])


@trial("PIN201")
def values(texts: Texts, device: str, _folder: Path) -> None:
    steps = [torch.tensor(float(number), device=device, requires_grad=True) for number in range(200)]
    numbers: list[float] = []
    texts.before(batches=steps, train=torch.square, log=numbers.append)
    means: list[float] = []
    texts.code(0, batches=steps, train=torch.square, log=means.append, device=device)
    assert means == pytest.approx([sum(numbers[:100]) / 100, sum(numbers[100:]) / 100])
    if device == "cuda":
        read_later(texts, 1, (), torch.Tensor.item)


Loss = Callable[[torch.nn.Linear], torch.Tensor]
"""A batch that gives its loss."""


def loss_on(*row: float) -> Loss:
    def loss(model: torch.nn.Linear) -> torch.Tensor:
        device = next(model.parameters()).device
        return model(torch.stack([torch.full((), value, device=device) for value in row])[None]).square().mean()

    return loss


GOOD = (loss_on(1.0, 2.0), loss_on(-0.5, 0.1))
BAD: dict[str, Loss] = {
    "a nan in the input": loss_on(math.nan, 1.0),
    "an inf in the input": loss_on(math.inf, 1.0),
    "an overflow": loss_on(1e30, 1e30),
    "the logarithm of 0": lambda model: -(model.weight * 0).sum().log(),
    "0 by 0": lambda model: (model.weight * 0).sum() / (model.weight * 0).sum(),
    "an inf with finite gradients": lambda model: model.weight.sum() + math.inf,
    "a nan with finite gradients": lambda model: model.weight.sum() + math.nan,
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "Adam": torch.optim.Adam,
    "AdamW": torch.optim.AdamW,
    "SGD": torch.optim.SGD,
}


def trained(texts: Texts, kind: str, batches: tuple[Loss, ...], device: Any, optimizer: str) -> list[torch.Tensor]:
    """Return weights, moments and step counts after the batches."""
    torch.manual_seed(1)
    model = torch.nn.Linear(2, 3).to(device)
    made = OPTIMIZERS[optimizer](model.parameters(), lr=0.1, weight_decay=0.01, fused=True)
    names = {"batches": batches, "loss_of": lambda batch: batch(model), "optimizer": made, "device": device}
    is_quiet = kind == "code"
    with without_waits(torch.device(device).type) if is_quiet else contextlib.nullcontext():
        texts.run(kind, 0, names)
    state = [value for own in made.state.values() for value in own.values() if isinstance(value, torch.Tensor)]
    return [value.detach().clone() for value in (*model.parameters(), *state)]


@trial("PIN202")
def decisions(texts: Texts, device: str, _folder: Path) -> None:
    for optimizer in OPTIMIZERS:
        for bad in BAD.values():
            for batches in ((*GOOD, bad, *GOOD), (bad, *GOOD), (*GOOD, bad), (*GOOD, bad, bad)):
                before, after = (trained(texts, kind, batches, device, optimizer) for kind in ("before", "code"))
                assert all(value.isfinite().all() for value in after)
                torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert same(
        trained(texts, "code", GOOD, torch.device(device), "Adam"), trained(texts, "before", GOOD, device, "Adam")
    )
    only_gradients = (*GOOD, lambda model: (model.weight * 0).sum().sqrt(), *GOOD)
    assert all(value.isfinite().all() for value in trained(texts, "code", only_gradients, device, "Adam"))
    assert same(
        trained(texts, "code", only_gradients, device, "Adam"), trained(texts, "before", GOOD * 2, device, "Adam")
    )
    a, b = torch.randn(3, device=device), torch.randn(3, device=device)
    for score in (1.0, -1.0, math.nan):
        gives_the_same(texts, device, "y", 1, a=a, b=b, score=torch.tensor(score, device=device))
    loss = torch.tensor(1.0, device=device)
    texts.before(2, loss=loss)
    with without_waits(device):
        texts.code(2, loss=loss)
    if device == "cpu":  # on a GPU it ends the process's context
        for error, kind in ((AssertionError, "before"), (RuntimeError, "code")):
            with pytest.raises(error):
                texts.run(kind, 2, {"loss": torch.tensor(math.inf)})
    names = {"mean": torch.zeros(3, device=device), "std": torch.ones(3, device=device)}
    expected = texts.before(3, **names)["normal"].log_prob(a)
    with without_waits(device):
        got = texts.code(3, **names)["normal"].log_prob(a)
    assert torch.equal(got, expected)


@trial("PIN204")
def printing(texts: Texts, device: str, _folder: Path) -> None:
    x = torch.randn(4, 4, device=device, requires_grad=True) * 2
    printed = []
    for kind, step in (("before", 0), ("code", 0), ("code", 7)):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            texts.run(kind, 0, {"x": x, "step": step})
        printed.append(out.getvalue())
    numbers = [re.findall(r"-?\d+\.\d+(?:e[+-]\d+)?", text) for text in printed]
    assert len(numbers[0]) == 16
    assert numbers == [numbers[0], numbers[0], []]


@trial("PIN205")
def masks(texts: Texts, device: str, _folder: Path) -> None:
    mask = torch.tensor([True, False, True, False, False], device=device)
    hidden = (math.nan, math.inf, -math.inf, 5.0)
    for value in hidden:
        values, gradients = [], []
        for kind in ("before", "code"):
            losses = torch.tensor([1.0, value, 2.5, value, value], device=device, requires_grad=True)
            with without_waits(device) if kind == "code" else contextlib.nullcontext():
                loss = texts.run(kind, 0, {"losses": losses, "mask": mask})["loss"]
            loss.backward()
            values.append(loss.detach())
            gradients.append(losses.grad if losses.grad is not None else losses.new_full((), math.nan))
        assert values[0].isfinite()
        assert torch.equal(values[0], values[1])
        assert torch.equal(gradients[0], gradients[1])
    empty = {"losses": torch.ones(5, device=device), "mask": torch.zeros_like(mask)}
    assert texts.before(0, **empty)["loss"].isnan()
    assert texts.code(0, **empty)["loss"].isnan()
    y = torch.tensor([7.0, math.nan, 8.0, math.inf, 9.0], device=device)
    x = torch.arange(5.0, device=device)
    expected = texts.before(1, x=x.clone(), y=y, mask=mask)["x"]
    with without_waits(device):
        got = texts.code(1, x=x.clone(), y=y, mask=mask)["x"]
    assert torch.equal(got, expected)
    grid = torch.rand(3, 4, device=device) > 0.5
    expected = texts.before(2, mask=grid)["rows"]
    with without_waits(device):
        got = texts.code(2, mask=grid, limit=12)["rows"]
    assert torch.equal(got[: len(expected)], expected)
    assert got[len(expected) :].eq(-1).all()


@trial("PIN206")
def unique_values(texts: Texts, device: str, _folder: Path) -> None:
    for x in (torch.randint(5, (4, 6)), torch.tensor([math.inf, 1.0, -math.inf, 1.0]), torch.zeros(1), torch.zeros(0)):
        here = x.to(device)
        expected = texts.before(x=here)["values"]
        with without_waits(device):
            names = texts.code(x=here)
        assert torch.equal(names["ordered"][names["first"]], expected)
    for wanted in (torch.tensor([3, 1]), torch.tensor([], dtype=torch.int64)):
        x = torch.randint(5, (4, 6), device=device)
        gives_the_same(texts, device, "found", 1, x=x, wanted=wanted.to(device))


@trial("PIN207")
def repeats(texts: Texts, device: str, _folder: Path) -> None:
    for counts in ([1, 0, 3], [0, 0, 0]):
        names = {"x": torch.randn(3, 2, device=device), "repeats": torch.tensor(counts, device=device)}
        gives_the_same(texts, device, "y", **names, total=sum(counts))


@trial("PIN208")
def comparisons(texts: Texts, device: str, _folder: Path) -> None:
    a = torch.randn(3, 2, device=device)
    for case in range(2):
        for b in (a.clone(), a + 1, a + 1e-9, torch.full_like(a, math.nan)):
            expected = texts.before(case, a=a, b=b)["same"]
            with without_waits(device):
                got = texts.code(case, a=a, b=b)["same"]
            assert got.item() == expected


@trial("PIN209")
def python_values(texts: Texts, device: str, _folder: Path) -> None:
    values, batches = [1.0, -2.0, 0.25], [torch.randn(3, device=device) for _ in range(3)]
    expected: list[torch.Tensor] = []
    got: list[torch.Tensor] = []
    texts.before(values=values, batches=batches, device=device, train=expected.append)
    texts.code(values=values, batches=batches, device=device, train=got.append)
    assert same(got, expected)
    gives_the_same(texts, device, "half", 1, device=device)
    if device == "cuda":
        gives_the_same(texts, device, "weights", 2, values=values, device=device)


@trial("PIN210", on_cpu=False)
def synchronizes(texts: Texts, _device: str, _folder: Path) -> None:
    measured, results = {}, {}
    for kind in ("before", "code"):
        done: list[torch.Tensor] = []

        def step(done: list[torch.Tensor] = done) -> None:
            late()
            done.append(torch.ones(3, device="cuda") * len(done))

        times: list[float] = []
        texts.run(kind, 0, {"steps": 4, "step": step, "times": times, "time": time})
        measured[kind], results[kind] = times, done
        assert len(times) == 4
    assert same(results["code"], results["before"])
    ordinary = sorted(measured["before"])[1]
    assert all(ordinary / 3 < took < 3 * ordinary for took in measured["code"][1:])  # seconds both, each of its own
    for kind in ("before", "code"):
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        used: list[torch.Tensor] = []
        with torch.cuda.stream(side):
            result = torch.zeros(1000, device="cuda")
            late()
            result.fill_(3.0)
        with without_waits("cuda") if kind == "code" else contextlib.nullcontext():
            texts.run(kind, 1, {"side": side, "result": result, "use": lambda x, used=used: used.append(x + 1)})
        assert torch.equal(used[0].cpu(), torch.full((1000,), 4.0))


@trial("PIN211", on_cpu=False)
def staging_of_other_sizes(texts: Texts, _device: str, _folder: Path) -> None:
    batches = [batch[: SHAPE[0] - number] for number, batch in enumerate(batches_of(samples()))]
    expected, names = of_batches(batches=batches)
    texts.before(**names)
    seen, names = of_batches(batches=batches, largest_shape=SHAPE)
    texts.code(**names)
    assert same(seen, expected)


RANK = """
import sys, torch, torch.distributed as dist
from pinprof.rules.search import RULES
backend, device, store, rank, size = sys.argv[1:]
dist.init_process_group(backend, init_method=f"file://{store}", rank=int(rank), world_size=int(size))
rule = next(rule for rule in RULES if rule.id == "PIN212")
for text in (rule.before, rule.code):
    x = torch.arange(3.0, device=device) + int(rank)
    exec(text, {"dist": dist, "torch": torch, "x": x})
    print(x.tolist())
dist.destroy_process_group()
"""


@trial("PIN212")
def collectives(texts: Texts, device: str, folder: Path) -> None:
    """Two processes that reduce on the CPU; one on the only GPU."""
    texts.text("before"), texts.text("code")
    backend, size = ("gloo", 2) if device == "cpu" else ("nccl", 1)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, backend, device, str(folder / "store"), str(rank), str(size)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for rank in range(size)
    ]
    out = [process.communicate(timeout=100)[0].splitlines() for process in started]
    assert [process.returncode for process in started] == [0] * size
    total = [size * first + sum(range(size)) for first in (0.0, 1.0, 2.0)]
    assert out == [[str(total)] * 2] * size


@trial("PIN213")
def launches(texts: Texts, device: str, folder: Path) -> None:
    (folder / "train.py").write_text(
        "import os\nprint(os.environ.get('CUDA_LAUNCH_BLOCKING'))\n"
        + ("import torch\nprint(torch.arange(4.0, device='cuda').sum().item())" if device == "cuda" else "print(6.0)")
    )
    before, code = texts.text("before"), texts.text("code")
    assert in_shell(f"{before}\npython train.py", folder).split() == ["1", "6.0"]
    assert in_shell(f"{code}\npython train.py", folder, CUDA_LAUNCH_BLOCKING="1").split() == ["None", "6.0"]


@trial("PIN214")
def waits_within_ops(texts: Texts, device: str, _folder: Path) -> None:
    root = torch.tensor([[2.0, 0.0], [0.5, 1.5]], device=device)
    a = root @ root.T
    expected = texts.before(a=a)["factor"]
    texts.code(a=a)  # what is loaded once
    with without_waits(device):
        names = texts.code(a=a)
    torch.testing.assert_close(names["factor"], expected)
    assert names["info"].item() == 0
    with pytest.raises(torch.linalg.LinAlgError):  # type: ignore[attr-defined]
        texts.before(a=-a)
    assert texts.code(a=-a)["info"].item() != 0
    mask = torch.tensor([True, False, True], device=device)
    for value in (2.0, math.nan):
        names = {"x": torch.arange(3.0, device=device), "mask": mask, "value": torch.tensor(value, device=device)}
        gives_the_same(texts, device, "x", 1, **names)


@trial("PIN215")
def counts_of_steps(texts: Texts, device: str, _folder: Path) -> None:
    model = torch.nn.Linear(3, 2, device=device)
    start = [parameter.detach().clone() for parameter in model.parameters()]

    def stepped(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), start, strict=True):
                parameter.copy_(value)
        for number in range(3):
            for parameter in model.parameters():
                parameter.grad = torch.full_like(parameter, 0.1 + number)
            optimizer.step()
        optimizer.zero_grad()  # the text steps once itself: without gradients that does nothing
        return [parameter.detach().clone() for parameter in model.parameters()]

    names = {"model": model, "lr": 0.01}
    torch.testing.assert_close(stepped(texts.code(**names)["optimizer"]), stepped(texts.before(**names)["optimizer"]))
    if device == "cuda":  # elsewhere capturable is an error
        optimizer = texts.code(1, **names)["optimizer"]
        with without_waits(device):
            stepped(optimizer)


def perceptron() -> list[torch.nn.Module]:
    return [torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)]


def convolutions() -> list[torch.nn.Module]:
    return [torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3)]


MOMENTUM = partial(torch.optim.SGD, lr=0.1, momentum=0.9)


def weights_after(
    texts: Texts,
    kind: str,
    device: str,
    case: int = 0,
    *,
    layers: Callable[[], list[torch.nn.Module]] = perceptron,
    wrap: Callable[[torch.nn.Module], torch.nn.Module] = lambda model: model,
    optimizer: Callable[..., torch.optim.Optimizer] = MOMENTUM,
    count: int = 3,
) -> list[torch.Tensor]:
    """Return the weights of a small model after the text has trained it on some batches."""
    torch.manual_seed(3)
    model = wrap(torch.nn.Sequential(*layers()).to(device))
    shapes = ((4, 8), (4, 2)) if layers is not convolutions else ((4, 3, 8, 8), (4, 4, 4, 4))
    pairs = [tuple(torch.randn(shape, device=device) for shape in shapes) for _ in range(count)]
    names = {"model": model, "optimizer": optimizer(model.parameters()), "batches": pairs}
    texts.run(kind, case, {**names, "micro_batches": pairs, "loss_of": torch.nn.functional.mse_loss})
    return [parameter.detach().clone() for parameter in model.parameters()]


@trial("PIN217")
def without_anomaly_detection(texts: Texts, device: str, _folder: Path) -> None:
    expected = weights_after(texts, "before", device)
    assert torch.is_anomaly_enabled()
    assert same(weights_after(texts, "code", device), expected)
    assert not torch.is_anomaly_enabled()


@trial("PIN611", "PIN613", "PIN704")
def gradients_dropped_or_not_made(texts: Texts, device: str, _folder: Path) -> None:
    assert same(weights_after(texts, "code", device), weights_after(texts, "before", device))


@trial("PIN301", on_cpu=False)
def prefetching(texts: Texts, _device: str, _folder: Path) -> None:
    pinned = [batch.pin_memory() for batch in batches_of(samples())]
    expected, names = of_batches(batches=pinned)
    texts.before(**names)
    seen, names = of_batches(batches=pinned)
    texts.code(**names)
    assert same(seen, expected)
    seen, names = of_batches(batches=[])
    texts.code(**names)
    assert not seen


@trial("PIN302", on_cpu=False)
def launched_late(texts: Texts, _device: str, _folder: Path) -> None:
    logged: dict[str, list[float]] = {"before": [], "code": []}
    for kind, log in logged.items():
        pinned = [batch.pin_memory() for batch in batches_of(samples())]
        seen, names = of_batches(batches=pinned, log=log.append)
        names = texts_of("PIN301").code(**names)
        names["coming"] = iter(pinned)
        batch = names["fetch"]()
        for _ in pinned:
            torch.cuda.current_stream().wait_stream(names["side"])
            batch.record_stream(torch.cuda.current_stream())
            names["batch"] = batch
            exec(texts.text(kind), names)
            batch = names["following"]
        assert same(seen[len(pinned) :], [tensor.cuda() for tensor in pinned])
    assert logged["code"] == logged["before"]
    assert len(logged["code"]) == 5


@trial("PIN303")
def allocations(texts: Texts, device: str, folder: Path) -> None:
    values: dict[str, list[torch.Tensor]] = {"before": [], "code": []}
    for kind, seen in values.items():
        batches = [torch.full((number + 1,), float(number), device=device) for number in range(4)]
        texts.run(kind, 0, {"batches": batches, "train": lambda batch, seen=seen: seen.append(batch * 2)})
    assert same(values["code"], values["before"])
    script = f"import os\n{texts.text('code', 1)}\nimport torch\nprint(torch.ones(9, device={device!r}).sum().item())"
    (folder / "train.py").write_text(script)
    assert in_shell("python train.py", folder).split() == ["9.0"]


@trial("PIN304")
def recordings(texts: Texts, _device: str, _folder: Path) -> None:
    def recorded(kind: str) -> list[int]:
        when = texts.run(kind, 0, {"schedule": torch.profiler.schedule})["when"]
        return [step for step in range(20) if "RECORD" in when(step).name]

    assert recorded("before")[:5] == [0, 1, 2, 3, 4]
    assert recorded("code") == [15, 16, 17, 18, 19]


@trial("PIN403")
def weights_computed_once(texts: Texts, _device: str, _folder: Path) -> None:
    items = [texts.run(kind, 0, {"math": math, "data": list(range(20))})["item"] for kind in ("before", "code")]
    assert [items[0](index) for index in range(20)] == [items[1](index) for index in range(20)]


@trial("PIN401", "PIN402")
def workers(texts: Texts, _device: str, _folder: Path) -> None:
    data = torch.arange(20.0)
    gc.collect()  # a worker is a fork: CUDA tensors that it clears away there abort it
    values = [list(texts.run(kind, 0, {"data": data})["loader"]) for kind in ("before", "code")]
    assert same(values[1], values[0])


def result_of_late_work() -> torch.Tensor:
    x = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    late()
    return x + 7


def keep(kept: list[Any]) -> Callable[[Any], None]:
    """Return what keeps copies of what it is given, for host memory may change."""
    return lambda x: kept.append(x.copy() if hasattr(x, "copy") else x.clone())


@trial("PIN501", "PIN502", "PIN504", "PIN506", "PIN508", on_cpu=False)
def reads_of_results(texts: Texts, _device: str, _folder: Path) -> None:
    """What the code reads is there; what was read before was a matter of luck, so it only has to run."""
    for kind in ("before", "code"):
        kept: list[Any] = []
        note = keep(kept)
        buffer = torch.zeros(1 << 20, pin_memory=True)
        names = {"x": result_of_late_work(), "use": note, "log": note, "plot": note, "buffer": buffer}
        texts.run(kind, 0, names)
        if kind == "code":
            assert kept
            assert all((result == 7).all() for result in kept)
            assert not buffer.any()
        torch.cuda.synchronize()


@trial("PIN503", on_cpu=False)
def refills(texts: Texts, _device: str, _folder: Path) -> None:
    expected, names = of_batches()

    def train_and_wait(batch: torch.Tensor) -> None:
        expected.train(batch)
        torch.cuda.synchronize()

    texts.before(**{**names, "train": train_and_wait})
    assert same(expected, [batch.cuda() for batch in names["batches"]])
    seen, names = of_batches()
    texts.code(**names)
    assert same(seen, expected)


@trial("PIN509", on_cpu=False)
def write_to_a_source(texts: Texts, _device: str, _folder: Path) -> None:
    """The code sends what was there; what was sent before was a matter of luck, so it only has to run."""
    for kind in ("before", "code"):
        staging = torch.full((1 << 20,), 7.0, pin_memory=True)
        late()
        batch = texts.run(kind, 0, {"staging": staging, "device": "cuda"})["batch"]
        if kind == "code":
            assert (batch == 7).all()
        assert not staging.any()


@trial("PIN216", on_cpu=False)
def guards(texts: Texts, _device: str, _folder: Path) -> None:
    """Both log the same, the code a step late; and both send the batches that were staged."""
    logged: dict[str, list[Any]] = {}
    for kind in ("before", "code"):
        logged[kind] = []
        batches = [torch.full((3,), float(number), device="cuda") for number in range(4)]
        host = torch.zeros(3, pin_memory=True)
        names = {"batches": batches, "train": lambda x: x + 1, "log": logged[kind].append, "host": host}
        texts.run(kind, 0, {**names, "shape": (3,), "dtype": torch.float32})
    assert logged["code"] == logged["before"] == [[number + 1.0] * 3 for number in range(4)]
    expected, names = of_batches()
    texts.before(1, **names, staging=torch.empty(SHAPE, pin_memory=True))
    seen, names = of_batches()
    texts.code(1, **names)
    assert same(seen, expected)


@trial("PIN505", on_cpu=False)
def memory_given_up(texts: Texts, _device: str, _folder: Path) -> None:
    x = torch.randn(1 << 16)
    cudart = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    for kind in ("before", "code"):
        if kind == "code":
            late()
        y = texts.run(kind, 0, {"x": x, "device": "cuda", "cudart": cudart})["y"]
        other = torch.empty_like(x, pin_memory=True).fill_(-1)  # would take the memory if it were free
        assert torch.equal(y.cpu(), x)
        del other


def runs() -> list[Any]:
    cases = []
    for rule in RULES:
        if rule.id not in NEED_CUDA:
            marks = [pytest.mark.slow] if rule.id in SLOW else []
            cases.append(pytest.param(rule.id, "cpu", id=f"{rule.id}-cpu", marks=marks))
        cases.append(pytest.param(rule.id, "cuda", id=f"{rule.id}-cuda", marks=pytest.mark.gpu))
    return cases


def forget_what_was_compiled() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()  # other tests ask whether anything was compiled


@trial("PIN601")
def launched_at_once(texts: Texts, device: str, _folder: Path) -> None:
    adam = partial(torch.optim.Adam, lr=0.01)
    expected = weights_after(texts, "before", device, optimizer=adam, count=6)
    torch._dynamo.reset()
    capturable = partial(adam, fused=True, capturable=True)
    for case, made in enumerate((adam, capturable) if device == "cuda" else (adam,)):
        values = weights_after(texts, "code", device, case, optimizer=made, count=6)
        torch.testing.assert_close(values, expected, rtol=1e-4, atol=1e-5)
    forget_what_was_compiled()


@trial("PIN602")
def fused_optimizers(texts: Texts, device: str, _folder: Path) -> None:
    values = []
    for kind in ("before", "code"):
        torch.manual_seed(3)
        model = torch.nn.Linear(8, 2).to(device)
        optimizer = texts.run(kind, 0, {"model": model})["optimizer"]
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(4, 8, device=device)).square().mean().backward()
            optimizer.step()
        values.append([parameter.detach() for parameter in model.parameters()])
    torch.testing.assert_close(*values)


def handed_over(texts: Texts, kind: str, batches: Any, **names: Any) -> list[Any]:
    """Return what the loop of a text gives to `train`."""
    given: list[Any] = []
    texts.run(kind, 0, {**names, "batches": batches, "train": lambda *values: given.append(values)})
    return given


@trial("PIN603")
def python_once(texts: Texts, _device: str, _folder: Path) -> None:
    before, code = (handed_over(texts, kind, range(3), math=math) for kind in ("before", "code"))
    assert len(before) == 3
    assert before == code


@trial("PIN608")
def collecting_by_hand(texts: Texts, _device: str, _folder: Path) -> None:
    before, code = (handed_over(texts, kind, range(250)) for kind in ("before", "code"))
    assert gc.isenabled()
    assert before == code == [(number,) for number in range(250)]


@trial("PIN609")
def no_more_threads_than_cores(texts: Texts, _device: str, _folder: Path) -> None:
    threads = torch.get_num_threads()
    before = handed_over(texts, "before", range(3))
    torch.set_num_threads(64)
    assert handed_over(texts, "code", range(3)) == before
    assert torch.get_num_threads() <= (os.cpu_count() or 1)
    torch.set_num_threads(threads)


@trial("PIN604")
def ops_on_the_gpu(texts: Texts, device: str, _folder: Path) -> None:
    names = {"scores": torch.randn(100), "device": device}
    before, code = ([order for _, order in handed_over(texts, kind, range(3), **names)] for kind in ("before", "code"))
    assert {order.device.type for order in code} == {device}
    assert same([order.cpu() for order in code], before)


@trial("PIN605")
def one_code_for_all_lengths(texts: Texts, device: str, _folder: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh()).to(device)
    batches = [torch.randn(length, 8, device=device) for length in (5, 9, 6, 12)]
    seen: dict[str, list[torch.Tensor]] = {"before": [], "code": []}
    made = {}
    for kind, values in seen.items():
        forget_what_was_compiled()
        texts.run(kind, 0, {"model": model, "batches": batches, "train": values.append})
        made[kind] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    forget_what_was_compiled()
    assert made == {"before": len(batches), "code": 1}
    torch.testing.assert_close(seen["code"], seen["before"])


@trial("PIN612")
def one_piece_without_the_branch(texts: Texts, device: str, _folder: Path) -> None:
    batches = [torch.full((4,), value, device=device) for value in (1.0, -1.0)]
    results: dict[str, list[torch.Tensor]] = {"before": [], "code": []}
    pieces = {}
    for kind, values in results.items():
        forget_what_was_compiled()
        names = texts.run(kind, 0, {})
        values += [names["forward"](x) for x in batches]
        pieces[kind] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    forget_what_was_compiled()
    assert pieces["before"] > pieces["code"] == 1
    assert same(*results.values())


@trial("PIN607")
def all_at_once(texts: Texts, device: str, _folder: Path) -> None:
    def trained() -> torch.nn.Module:
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 2)).to(device)
        model(torch.ones(4, 8, device=device)).square().sum().backward()
        return model

    gradients, norms, averages = [], [], []
    outputs: list[torch.Tensor] = []
    chosen: list[torch.Tensor] = []
    for kind in ("before", "code"):
        model = trained()
        texts.run(kind, 0, {"model": model})
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]))
        norms.append(torch.stack(list(texts.run(kind, 1, {"model": trained()})["norms"])))
        means = [torch.ones_like(parameter) for parameter in model.parameters()]
        texts.run(kind, 2, {"model": model, "means": means})
        averages.append(torch.cat([mean.flatten() for mean in means]))
        torch.manual_seed(3)
        batch, index = torch.randn(6, 5, 8, device=device), torch.randint(0, 5, (6,), device=device)
        outputs.append(texts.run(kind, 3, {"head": model, "x": batch[:, 0]})["y"])
        chosen.append(texts.run(kind, 4, {"x": batch, "index": index})["chosen"])
    for values in (gradients, norms, averages, outputs, chosen):
        torch.testing.assert_close(*values)
    assert float(gradients[0].norm()) == pytest.approx(1.0, rel=1e-3)


@contextlib.contextmanager
def job_of_one(device: str) -> Iterator[Any]:
    """Run a job of one process, and give torch.distributed."""
    distributed = import_module("torch.distributed")
    backend = "gloo" if device == "cpu" else "nccl"
    distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield distributed
    finally:
        distributed.destroy_process_group()


def unchanged(bucket: Any, count: list[int]) -> torch.futures.Future[torch.Tensor]:
    """Note a bucket, and give back what it holds, as a job of one process adds it up."""
    count.append(bucket.index())
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


@trial("PIN707")
def reduced_once(texts: Texts, device: str, _folder: Path) -> None:
    """The hook of a job of one process counts what is reduced."""
    weights, reduced = [], []
    with job_of_one(device):
        for kind in ("before", "code"):
            count: list[int] = []

            def hooked(model: torch.nn.Module, count: list[int] = count) -> torch.nn.Module:
                parallel = torch.nn.parallel.DistributedDataParallel(model)
                parallel.register_comm_hook(count, lambda count, bucket: unchanged(bucket, count))
                return parallel

            weights.append(weights_after(texts, kind, device, wrap=hooked))
            reduced.append(len(count))
    assert reduced == [3, 1]
    torch.testing.assert_close(*weights)


@trial("PIN708")
def reduced_together(texts: Texts, device: str, _folder: Path) -> None:
    """In a job of one process, what is reduced stays as it is."""
    results: list[list[torch.Tensor]] = []
    with job_of_one(device) as distributed:
        for kind in ("before", "code"):
            torch.manual_seed(3)
            model, x = torch.nn.Sequential(*perceptron()).to(device), torch.ones(4, 8, device=device)
            model(x).square().sum().backward()
            texts.run(kind, 0, {"model": model, "dist": distributed})
            gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
            results.append([*gradients, texts.run(kind, 1, {"model": model})["model"](x).detach()])
    assert same(*results)


@trial("PIN709")
def with_other_settings(texts: Texts, device: str, _folder: Path) -> None:
    weights, (x, y) = [], (torch.ones(4, 8, device=device), torch.ones(4, 4, device=device))
    for kind in ("before", "code"):
        torch.manual_seed(3)
        layers = torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4)
        with job_of_one(device), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # newer torch has another name for an argument
            model = texts.run(kind, 0, {"model": torch.nn.Sequential(*layers).to(device)})["model"]
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(3):
                optimizer.zero_grad()
                (model(x) - y).square().mean().backward()
                optimizer.step()
            weights.append([weight.detach().clone() for weight in (*model.parameters(), *model.buffers())])
    assert same(*weights)


@trial("PIN710")
def kept_weights(texts: Texts, device: str, _folder: Path) -> None:
    fully_shard = import_module("torch.distributed.fsdp").fully_shard
    weights, x = [], torch.ones(4, 8, device=device)
    for kind in ("before", "code"):
        torch.manual_seed(3)
        with job_of_one(device):
            model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)).to(device)
            model = texts.run(kind, 0, {"model": model, "fully_shard": fully_shard})["model"]
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(3):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
            weights.append([weight.full_tensor().detach().clone() for weight in model.parameters()])
    assert same(*weights)


@trial("PIN701")
def with_tf32(texts: Texts, device: str, _folder: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4)).to(device)
    x, values = torch.randn(4, 3, 8, 8, device=device), []
    try:
        for kind in ("before", "code"):
            values.append(texts.run(kind, 0, {"model": model, "x": x})["y"])
            assert torch.backends.cudnn.allow_tf32 == (kind == "code")
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    torch.testing.assert_close(*values, rtol=1e-2, atol=1e-2)


@trial("PIN702")
def channels_last(texts: Texts, device: str, _folder: Path) -> None:
    values = []
    for kind in ("before", "code"):
        outputs: list[torch.Tensor] = []

        def watched(model: Any, outputs: list[torch.Tensor] = outputs) -> torch.nn.Module:
            model[3].register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
            return model

        values.append(weights_after(texts, kind, device, layers=convolutions, wrap=watched))
        assert all(one.is_contiguous(memory_format=torch.channels_last) == (kind == "code") for one in outputs)
    for one, other in zip(*values, strict=True):
        torch.testing.assert_close(one.contiguous(), other.contiguous(), rtol=1e-3, atol=1e-4)


@trial("PIN703")
def fused_attention(texts: Texts, device: str, _folder: Path) -> None:
    q, k, v = (torch.randn(2, 4, 16, 8, device=device) for _ in range(3))
    for mask in (torch.ones(16, 16, dtype=torch.bool).tril(), torch.rand(2, 1, 16, 16).round().bool()):
        names = {"q": q, "k": k, "v": v, "mask": (mask | torch.eye(16, dtype=torch.bool)).to(device), "math": math}
        torch.testing.assert_close(texts.code(**names)["y"], texts.before(**names)["y"], rtol=1e-3, atol=1e-4)


@trial("PIN705")
def distances(texts: Texts, device: str, _folder: Path) -> None:
    x, y = (torch.randn(3, size, 8, device=device) for size in (5, 30))
    torch.testing.assert_close(texts.code(x=x, y=y)["d"], texts.before(x=x, y=y)["d"], rtol=1e-3, atol=1e-3)


@trial("PIN706")
def tried_convolutions(texts: Texts, device: str, _folder: Path) -> None:
    values = []
    for kind in ("before", "code"):
        try:
            values.append(weights_after(texts, kind, device, layers=convolutions))
            assert torch.backends.cudnn.benchmark is (kind == "code")
        finally:
            torch.backends.cudnn.benchmark = False
    torch.testing.assert_close(*values, rtol=1e-3, atol=1e-4)


def test_the_texts_of_every_rule_are_run() -> None:
    assert set(TRIALS) == {rule.id for rule in RULES}


@pytest.mark.parametrize(("number", "device"), runs())
def test_what_to_write_does_what_was_written_before(number: str, device: str, tmp_path: Path) -> None:
    texts = texts_of(number)
    TRIALS[number](texts, device, tmp_path)
    if device == "cuda":
        assert not texts.left()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_what_to_write_can_be_compiled(rule: Rule) -> None:
    """Also where there is no GPU to run it."""
    for text in (rule.before, rule.code, rule.near_miss):
        if rule.id not in IN_SHELL:
            compile(text, rule.id, "exec")


def surroundings(device: str) -> Names:
    """Return what the near misses name."""
    x, host = (torch.rand(8, 4, device=where) for where in (device, "cpu"))
    host = host.pin_memory() if device == "cuda" else host
    model = torch.nn.Linear(4, 2, device=device)
    model(x).sum().backward()
    return {
        "torch": torch,
        "math": math,
        "NamedTuple": NamedTuple,
        "DataLoader": DataLoader,
        "device": device,
        "x": x,
        "a": x,
        "b": x + 1,
        "host": host,
        "buffer": torch.empty_like(host),
        "data": torch.rand(8, 4),
        "y": torch.rand(8, 2, device=device),
        "mask": x > 0.5,
        "rows": torch.tensor([0, 2], device=device),
        "values": [0.5, 1.0],
        "small": [torch.rand(2)] * 8,
        "batches": [x],
        "model": model,
        "loss_of": torch.nn.functional.mse_loss,
        "train": torch.sum,
        "use": id,
        "plot": id,
        "log": id,
        **({"side": torch.cuda.Stream()} if device == "cuda" else {}),  # type: ignore[no-untyped-call]
    }


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.id not in {*IN_SHELL, "PIN212"}], ids=lambda rule: rule.id
)
def test_a_near_miss_runs_and_does_not_wait(rule: Rule, device: str) -> None:
    """One of a rule for waits of the host makes it wait for nothing; a collective needs other processes."""
    names = surroundings(device)
    if "cuda" in rule.near_miss and device == "cpu" and "empty_cache" not in rule.near_miss:
        pytest.skip("it needs streams of a GPU")
    waits = rule.family == "waits" and not rule.guards
    with without_waits(device) if waits else contextlib.nullcontext():
        exec(compile(rule.near_miss, f"<{rule.id} near miss>", "exec"), names)


@pytest.mark.gpu
@pytest.mark.parametrize("number", ["PIN101", "PIN103", "PIN503", "PIN211"])
def test_a_refill_without_the_event_would_be_noticed(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the trials rest on: a GPU that is late enough for the mistake to show."""
    monkeypatch.setattr(torch.cuda.Event, "synchronize", lambda _: None)
    seen, names = of_batches(largest_shape=SHAPE)
    texts_of(number).code(**names)
    assert not same(seen, [batch.cuda() for batch in names["batches"]])


@pytest.mark.gpu
@pytest.mark.parametrize(("number", "case"), [("PIN108", 0), ("PIN201", 1), ("PIN203", 0)])
def test_a_read_without_the_event_would_be_noticed(number: str, case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.Event, "synchronize", lambda _: None)
    with pytest.raises(AssertionError):
        read_later(texts_of(number), case, () if case else (3,), torch.Tensor.item if case else torch.Tensor.tolist)


def test_a_loss_replaced_before_backward_would_be_noticed() -> None:
    """The advice of old: 0 times inf is nan, and the step destroys the weights."""
    texts = texts_of("PIN202")
    texts.cases["code"][0] = (
        "for batch in batches:\n"
        "    loss = loss_of(batch)\n"
        "    torch.where(torch.isfinite(loss), loss, torch.zeros_like(loss)).backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()"
    )
    after = trained(texts, "code", (*GOOD, BAD["the logarithm of 0"]), "cpu", "Adam")
    assert not all(value.isfinite().all() for value in after)
