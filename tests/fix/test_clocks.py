"""Clocks of a program never lose the wait on which they rely: programs run on a made-up GPU, before and after."""

import builtins
import os
import re
import types
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from fixing import mended

LOSS = "loss = F.mse_loss(model(x), y)\nloss.backward()\n"
FIXES = {
    "a sum": ("total = 0.0", "total += loss.item()  #? PIN201", "{total / 20}", "total = 0.0"),
    "a count": ("total = 0", "total += (x == y).sum().item()  #? PIN201", "{total}", "total = 0"),
    "a number": ("", "v = loss.item()  #? PIN201", "{v}", "pass"),
    "a decision": ("", "if loss.isnan().any() and step % 30 == 0:  #? PIN202\n    raise ValueError", "", "pass"),
    "a constant": ("", "w = torch.tensor(0.5, device='cuda')  #? PIN209\nx = x * w", "", "pass"),
    "a cache": ("", "torch.cuda.empty_cache()  #? PIN303", "", "pass"),
}
"""How each begins, what each step does with a wait, what is shown of it, and how it begins anew."""
TIMER = "class Timer:\n    def lap(self):\n        return now()\n    {}\n"
CLOCKS = {
    "first": ("", "dt = time.time() - t0"),
    "by another name": ("from time import perf_counter as tick\n", "dt = tick()"),
    "in a variable": ("tick = time.monotonic_ns\n", "dt = tick()"),
    "in a lambda": ("tick = lambda: time.process_time()\n", "dt = tick()"),
    "in a method": (TIMER.format("") + "timer = Timer()\n", "dt = timer.lap()"),
    "in a property": (
        TIMER.format("@property\n    def s(self):\n        return now()") + "timer = Timer()\n",
        "dt = timer.s",
    ),
    "in a text": (
        TIMER.format("def __str__(self):\n        return str(now())") + "timer = Timer()\n",
        "print(f'{timer}')",
    ),
    "of a date": ("from datetime import datetime\n", "dt = datetime.now()"),
    "of timeit": ("from timeit import default_timer\n", "dt = default_timer()"),
    "in a table": ("clocks = {'wall': time.time}\n", "dt = clocks['wall']()"),
    "by its text": ("", "dt = getattr(time, 'time')()"),
    "in a callback": ("def hook():\n    print(now())\nhooks = [hook]\n", "for each in hooks:\n    each()"),
    "on a condition": ("", "if time.time() - t0 > 0:\n    dt = 1"),
    "in a text before": ("", "print(f'{time.time()}')"),
}
"""What stands before the function, and what reads the clock every 20 steps, before what is shown."""
AROUND = {
    "a call": ("", "t0 = time.time()\ntrain(model, loader)\nprint(time.time() - t0)"),
    "a call in another function": (
        "",
        "def main():\n    for _ in range(2):\n        now()\n        train(model, loader)\n        now()\nmain()",
    ),
    "with": (
        TIMER.format("def __enter__(self):\n        now()\n    def __exit__(self, *a):\n        now()"),
        "with Timer():\n    train(model, loader)",
    ),
    "finally": ("", "try:\n    train(model, loader)\nfinally:\n    now()"),
    "a context": (
        "from contextlib import contextmanager\n@contextmanager\ndef timed():\n    now()\n    yield\n    now()\n",
        "with timed():\n    train(model, loader)",
    ),
    "a partial function": ("from functools import partial\n", "run = partial(train, model)\nnow()\nrun(loader)\nnow()"),
    "a loader": (
        "def timed(batches):\n    for each in batches:\n        now()\n        yield each\n",
        "train(model, timed(loader))",
    ),
    "a decorator": (
        "def timed(f):\n    def inner(*a):\n        now()\n        f(*a)\n        now()\n    return inner\n",
        "timed(train)(model, loader)",
    ),
}


FAST = 5
"""Each so manyth form is tried in each run: with 22 forms of each fix, others of each."""


class Gpu:
    """Counts the work that the host gives to a GPU, and up to which of it a wait has waited."""

    def __init__(self) -> None:
        self.given = self.done = 0
        self.clocks: list[int] = []
        """The work that was done for certain when a clock was read, each time."""

    def launch(self, *_: Any, **__: Any) -> "Tensor":
        self.given += 1
        return Tensor(self)

    def wait(self, *_: Any, **__: Any) -> "Tensor":
        self.done = self.given
        return Tensor(self)

    def clock(self, *_: Any) -> int:
        self.clocks.append(self.done)
        return len(self.clocks)


class Tensor:
    """A number on that GPU: it is 1, whatever is done to it."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def _launch(self, *_: Any, **__: Any) -> "Tensor":
        return self._gpu.launch()

    def _read(self, *_: Any) -> float:
        self._gpu.wait()
        return 1.0

    def __getattr__(self, name: str) -> Any:
        return self._launch

    def __int__(self) -> int:
        return int(self._read())

    def __bool__(self) -> bool:
        return not self._read()

    def __format__(self, spec: str) -> str:
        return format(self._read(), spec)

    def cpu(self) -> float:
        return self._read()

    item = __float__ = _read
    __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __eq__ = _launch  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


def run(code: str) -> list[int]:
    """Run a program on a made-up GPU; return how much of its work was done at each of its clocks."""
    gpu = Gpu()

    def module(name: str, **parts: Any) -> types.ModuleType:
        made = types.ModuleType(name)
        made.__dict__.update(parts)
        return made

    names = ("time", "perf_counter", "monotonic_ns", "process_time")
    functional = module("functional", mse_loss=gpu.launch)
    cuda = module("cuda", empty_cache=gpu.wait, synchronize=gpu.wait)
    is_tensor = lambda each: isinstance(each, Tensor)  # noqa: E731
    torch = module("torch", cuda=cuda, tensor=gpu.wait, full=gpu.launch, is_tensor=is_tensor)
    torch.nn = module("nn", functional=functional)  # type: ignore[attr-defined]
    date = types.SimpleNamespace(now=gpu.clock)
    modules = {
        "torch": torch,
        "time": module("time", **dict.fromkeys(names, gpu.clock)),
        "timeit": module("timeit", default_timer=gpu.clock),
        "datetime": module("datetime", datetime=date),
    }
    original = builtins.__import__

    def imported(name: str, *words: Any) -> Any:
        top = name.partition(".")[0]
        return modules[top] if top in modules else original(name, *words)

    batches = [(Tensor(gpu), Tensor(gpu)) for _ in range(50)]
    space = {"model": gpu.launch, "loader": batches, "print": lambda *_: None}
    exec(code, {"__builtins__": {**vars(builtins), "__import__": imported}, **space})
    return gpu.clocks


def program(fix: str, clock: str = "", before: str = "", after: str = "train(model, loader)") -> str:
    start, step, shown, anew = FIXES[fix]
    logged = f"{clock}\nprint(f'{shown}')\n{anew}\nt0 = time.time()"
    body = f"{LOSS}{step}\nif step % 20 == 19:\n{indent(logged, '    ')}"
    return (
        "import time\nimport torch\nimport torch.nn.functional as F\nfrom time import perf_counter as now\n"
        f"{before}\ndef train(model, loader):\n    t0 = time.time()\n{indent(start, '    ')}\n"
        f"    for step, (x, y) in enumerate(loader):\n{indent(body, '        ')}\n{after}\n"
    )


def without_t0(code: str) -> str:
    """Return a program without the clock behind what it shows, and that at the beginning."""
    return re.sub(r"\n +t0 = time\.time\(\)", "", code)


def forms() -> Iterator[tuple[str, str]]:
    for fix in FIXES:
        for name, (before, clock) in CLOCKS.items():
            yield f"{fix}, a clock {name}", program(fix, clock, before)
        for name, (before, after) in AROUND.items():
            yield f"{fix}, clocks around it: {name}", without_t0(program(fix, "", before, after))


FORMS = [
    pytest.param(name, code, id=name, marks=[] if number % FAST == 0 else [pytest.mark.slow])
    for number, (name, code) in enumerate(forms())
]


@pytest.mark.parametrize(("name", "code"), FORMS)
def test_no_clock_is_read_before_the_work_that_it_measures_is_done(name: str, code: str, tmp_path: Path) -> None:
    before = run(code)
    assert before, name
    after = run(mended(tmp_path, code).code)
    assert len(after) == len(before)
    assert all(new >= old for old, new in zip(before, after, strict=True)), mended(tmp_path, code).code


@pytest.mark.parametrize("fix", FIXES)
def test_without_a_clock_each_is_changed(fix: str, tmp_path: Path) -> None:
    code = program(fix).replace("time.time()", "3").replace("from time import perf_counter as now\n", "")
    assert not mended(tmp_path, code).is_unchanged


HIDDEN = {
    "a name of a name": ("first = time.time\ntick = first\n", "tick()"),
    "of two imports": (
        "try:\n    from time import time_ns as c\nexcept OSError:\n    from time import time as c\n",
        "c()",
    ),
    "of two names": ("tick = time.time if x else time.monotonic\n", "tick()"),
    "of its parts": ("", "time.mktime(time.localtime())"),
    "that a function returns": ("def make():\n    return time.time\ntick = make()\n", "tick()"),
    "in a lambda that is returned": ("def make():\n    return lambda: time.time()\ntick = make()\n", "tick()"),
    "in a lambda for a library": ("model.register_forward_hook(lambda *a: print(time.time()))\n", ""),
    "in a lambda by default": ("def show(log=lambda: time.time()):\n    log()\n", "show()"),
    "at the end": ("import atexit\n@atexit.register\ndef end():\n    print(time.time())\n", ""),
    "behind an operator": ("class T:\n    def __neg__(self):\n        return time.time()\n", "-T()"),
    "behind a setter": (
        "class T:\n    @property\n    def s(self): pass\n    @s.setter\n    def s(self, v): time.time()\nt = T()\n",
        "t.s = 1",
    ),
    "by a name that is made": (
        "class T:\n    def go(self):\n        time.time()\ndef fire(name):\n    getattr(T(), name)()\n",
        "fire('g' + 'o')",
    ),
    "of a library": ("from codetiming import Timer\nlap = Timer()\n", "lap.stop()"),
    "of a library, by another name": ("from codetiming import Timer as T\nt = T()\n", "t.stop()"),
    "of what yields the batches": (
        "def timed(batches):\n    for each in batches:\n        print(time.time())\n        yield each\nx = timed(x)\n",
        "",
    ),
    "of a bar": ("from tqdm import tqdm\nbar = tqdm()\n", "bar.format_dict['rate']"),
    "in a guard": ("", "match step:\n            case 1 if time.time() > 9: pass"),
    "of a text": ("import timeit\n", "", "timeit.repeat('train(1, [])', globals=globals())"),
}
"""Clocks behind what hides them: what stands before the function, what each step does, and what runs it."""


@pytest.mark.parametrize("name", HIDDEN)
def test_a_clock_keeps_the_wait_however_it_is_read(name: str, tmp_path: Path) -> None:
    before, clock, *around = HIDDEN[name]
    assert mended(tmp_path, _constant(clock, before, *around)).why.endswith("reads a clock, which needs the wait")


def _constant(clock: str = "", before: str = "", after: str = "train(model, loader)") -> str:
    return (
        f"import time\nimport torch\n{before}def train(model, loader):\n    for step, x in enumerate(loader):\n"
        f"        w = torch.tensor(0.5, device='cuda')  #? PIN209\n        x = x * w\n        {clock}\n{after}\n"
    )


HARMLESS = {
    "no step reads": "def unused():\n    return time.time()\n",
    "torch decorates": "@torch.no_grad()\ndef evaluate():\n    return time.time()\n",
    "nobody calls": "class Watch:\n    def __init__(self):\n        self.t = time.time()\n",
}


def test_clocks_that_see_no_step_do_not_keep_waits(tmp_path: Path) -> None:
    assert not mended(tmp_path, _constant(before="".join(HARMLESS.values()))).is_unchanged


CLOCK = "import time\ndef check():\n    return time.time()\n"
FILES = {
    "by another name": ({"u.py": CLOCK}, "from u import check as c\n", "c()", ""),
    "by a package": ({"p/__init__.py": "from .u import check as c", "p/u.py": CLOCK}, "from p import c\n", "c()", ""),
    "over several lines": ({"p/u.py": CLOCK}, "from p import (\n    u,  # a, b\n)\n", "u.check()", ""),
    "behind a semicolon": ({"u.py": CLOCK}, "import os; import u\n", "u.check()", ""),
    "by its text": ({"u.py": CLOCK}, "import importlib\nu = importlib.import_module('u')\n", "u.check()", ""),
    "from beside": ({"u.py": CLOCK}, "from . import u\n", "u.check()", ""),
    "in another folder": (
        {"bin/main.py": f"{CLOCK}import train\ncheck()\ntrain.train(1, [])\ncheck()\n"}, "", "", ""
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_clock_of_another_file_keeps_the_wait(name: str, tmp_path: Path) -> None:
    files, before, clock, after = FILES[name]
    for file, code in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(code)
    assert "reads a clock" in mended(tmp_path, _constant(clock, before, after)).why


def test_files_of_another_folder_that_import_another_file_of_this_name_are_not_asked(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.py").write_text("def train(*_): ...\n")
    (other / "main.py").write_text(f"{CLOCK}import train\ncheck()\ntrain.train(1, [])\ncheck()\n")
    assert not mended(tmp_path, _constant()).is_unchanged


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "loop.py").symlink_to("loop.py")
    assert not mended(tmp_path, _constant("time.sleep(0)")).is_unchanged


SURE = {
    "the sum is read before the clock": program("a sum", "mean = total / 20\ndt = time.time() - t0"),
    "a number is read before the clock": program("a number", "w = v\ndt = time.time() - t0"),
    "another wait that stays": program("a cache", "print(loss.item())\ndt = time.time()"),
    "a way out of the loop, behind which the sum is read": (
        "import time\nimport torch\ndef train(model, loader):\n    total = 0.0\n    for x in loader:\n"
        "        total += x.mean().item()  #? PIN201\n        if model.dry_run:\n            break\n"
        "    return total\nt0 = time.time()\nshow(train(model, batches))\nprint(time.time() - t0)\n"
    ),
    "only the name of a log": program("a sum", "", "import datetime\n").replace(
        "t0 = time.time()", "print(datetime.datetime.now().strftime('%H'))"
    ),
}


@pytest.mark.parametrize("name", SURE)
def test_a_clock_that_does_not_need_the_wait_changes_nothing(name: str, tmp_path: Path) -> None:
    code = SURE[name].replace("\ntrain(model, loader)", "\n    torch.cuda.synchronize()\ntrain(model, loader)")
    outcome = mended(tmp_path, code)
    assert not outcome.is_unchanged, outcome.why


def test_a_clock_of_a_file_that_is_imported_is_named(tmp_path: Path) -> None:
    (tmp_path / "timers.py").write_text("import time\n\ndef lap():\n    return time.time()\n")
    code = without_t0(program("a constant", "dt = lap()", "from timers import lap\n"))
    outcome = mended(tmp_path, code)
    assert outcome.is_unchanged
    assert "reads a clock, which needs the wait" in outcome.why


def test_a_clock_of_the_file_that_imports_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        "import time\nimport train\nt0 = time.time()\ntrain.train(0, [])\nprint(time.time() - t0)\n"
    )
    code = program("a constant", "", after="").replace("t0 = time.time()", "pass")
    outcome = mended(tmp_path, code)
    assert outcome.is_unchanged
    assert "main.py:3 reads a clock, which needs the wait" in outcome.why


def test_two_changes_do_not_rely_on_the_wait_of_each_other(tmp_path: Path) -> None:
    code = program("a number", "dt = 1").replace(
        "v = loss.item()", "torch.cuda.empty_cache()  #? PIN303\n        v = loss.item()"
    )
    code = code.replace("print(f'{v}')", "dt = time.time()\n            print(f'{v}')")
    before, after = run(code), run(mended(tmp_path, code, waiting={("train.py", line) for line in range(90)}).code)
    assert all(new >= old for old, new in zip(before, after, strict=True))
