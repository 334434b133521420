"""Small trainings, each with one slow line that a GPU would wait for: `python slow_code.py FOLDER` records all of them.

The line is marked `# slow`. Each recording has the stacks of Python, as torch.profiler(with_stack=True) writes them.
"""

import runpy
import sys
from pathlib import Path
from textwrap import dedent, indent
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile, schedule

WAIT, ACTIVE = 2, 4
STEPS = WAIT + ACTIVE + 3

MODEL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(32, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        return x + torch.relu(self.fc(self.norm(x)))


model = nn.Sequential(*[Block() for _ in range(6)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
STEP = """
optimizer.zero_grad()
model(x).square().mean().backward()
optimizer.step()
"""
INDENTED = indent(STEP.strip(), " " * 8)
LOOP = f"""
def train(steps):
    for step in range(steps):
        x = torch.randn(8, 32)
{INDENTED}
EACH        next_step()
"""


class Program(NamedTuple):
    """A training and its truth."""

    function: str
    """In which the slow line stands."""
    each: str = ""
    """What stands at the end of each step."""
    before: str = ""
    """What stands above the loop."""
    library: str = ""
    """Whose function takes the time."""
    loop: str = LOOP
    helper: str = ""
    """The text of `helper.py`, in the same folder."""

    @property
    def text(self) -> str:
        """The whole program."""
        imports = "import contextlib, copy, functools, math, time"
        head = f"{imports}\nimport numpy as np\nimport torch\nfrom torch import nn\n{MODEL}\n{dedent(self.before)}\n"
        return (
            head + self.loop.replace("EACH", indent(dedent(self.each).strip("\n") + "\n", " " * 8)) + "\ntrain(STEPS)\n"
        )


COUNT = "sum(k for k in range({}))  # slow"
PROGRAMS = {
    "sleep": Program("train", "time.sleep(0.003)  # slow"),
    "a helper of a helper": Program(
        "inner",
        "outer(step)",
        "from helper import outer",
        helper=f"def outer(step):\n    return inner(step + 1)\n\ndef inner(n):\n    return {COUNT.format(60000)}\n",
    ),
    "numpy": Program("train", "np.sort(data)  # slow", "data = np.random.rand(400000)", "numpy"),
    "deepcopy": Program(
        "keep",
        "keep()",
        "CONFIG = {str(k): {'a': [1, 2], 'b': k} for k in range(500)}\ndef keep():\n    copy.deepcopy(CONFIG)  # slow",
        "copy",
    ),
    "a forward hook": Program(
        "watch",
        "",
        f"""
        def watch(module, args, output):
            {COUNT.format(20000)}
        for block in model: block.register_forward_hook(watch)
        """,
    ),
    "in forward": Program(
        "positions",
        "",
        """
        class Head(nn.Module):
            def forward(self, x):
                self.positions()
                return x * 2

            def positions(self):
                return [math.sin(k / 100) for k in range(20000)]  # slow
        model.append(Head())
        """,
    ),
    "a hook of a gradient": Program(
        "clip",
        "",
        f"""
        def clip(grad):
            {COUNT.format(20000)}
        for block in model: block.fc.weight.register_hook(clip)
        """,
    ),
    "a backward of its own": Program(
        "backward",
        "",
        f"""
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2.0

            @staticmethod
            def backward(ctx, grad):
                {COUNT.format(60000)}
                return grad * 2.0

        class Scaled(nn.Module):
            def forward(self, x):
                return Scale.apply(x)
        model.append(Scaled())
        """,
    ),
    "a hook of the optimizer": Program(
        "after_step",
        "",
        """
        def after_step(optimizer, args, kwargs):
            sorted(range(40000), key=lambda k: -k)  # slow
        optimizer.register_step_post_hook(after_step)
        """,
    ),
    "a callback": Program(
        "on_step_end",
        "run([Progress()])",
        f"""
        from helper import run
        class Progress:
            def on_step_end(self):
                {COUNT.format(60000)}
        """,
        helper="def run(callbacks):\n    for callback in callbacks:\n        callback.on_step_end()\n",
    ),
    "a generator": Program(
        "batches",
        before=f"""
        def batches(steps):
            for step in range(steps):
                {COUNT.format(60000)}
                yield torch.randn(8, 32)
        """,
        loop=f"\ndef train(steps):\n    for x in batches(steps):\n{INDENTED}\n        next_step()\n",
    ),
    "a context": Program(
        "timed",
        "with timed():\n    x.add_(1)",
        f"""
        @contextlib.contextmanager
        def timed():
            yield
            {COUNT.format(60000)}
        """,
    ),
    "a decorated function": Program(
        "metric",
        "metric()",
        """
        def logged(function):
            @functools.wraps(function)
            def wrapper(*args):
                return function(*args)
            return wrapper

        @logged
        def metric():
            return max(math.cos(k) for k in range(20000))  # slow
        """,
    ),
}


def record_all(folder: Path) -> None:
    """Record each program into `NAME/trace.json`, in the folder of its files."""
    torch.set_num_threads(1)
    for name, program in PROGRAMS.items():
        at = folder / name
        at.mkdir()
        (at / "train.py").write_text(program.text)
        (at / "helper.py").write_text(program.helper)
        sys.path.insert(0, str(at))
        plan = schedule(wait=WAIT, warmup=1, active=ACTIVE, repeat=1)
        with profile(activities=[ProfilerActivity.CPU], with_stack=True, schedule=plan) as recording:
            runpy.run_path(str(at / "train.py"), {"next_step": recording.step, "STEPS": STEPS - 1})
            recording.export_chrome_trace(str(at / "trace.json"))
        sys.path.remove(str(at))
        sys.modules.pop("helper", None)


if __name__ == "__main__":
    record_all(Path(sys.argv[1]))
