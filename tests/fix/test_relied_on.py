"""Waits that something else in the program relies on, and what a program may do with a number, a tensor or a batch."""

from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from fixing import LOADER, OPTIMIZER, mended
from quick import slow_but

from pinprof.fix import Chosen

ANY = Chosen(changes_numbers=True)
LOSS = "loss = F.mse_loss(model(x), y)\nloss.backward()\n"
SUM = LOSS + "total += loss.item()  #? PIN201\n"
COUNT = "total += (x == y).sum().item()  #? PIN201\n"
NUMBER = "v = loss.item()  #? PIN201\nif step % 9 == 0:\n    log(v)\n"
CONDITION = "if torch.isnan(loss).any() and {} % 50 == 0:  #? PIN202\n    print(x)\n"
CONSTANT = "w = torch.tensor([1, 2], device='cuda')  #? PIN209\nx = x * w\n"


def steps(body: str, after: str = "return total", start: str = "total = 0.0", before: str = "") -> str:
    return (
        f"import torch\nimport torch.nn.functional as F\n{before}\ndef train(model, loader):\n{indent(start, '    ')}\n"
        f"    for step, (x, y) in enumerate(loader):\n{indent(body, '        ')}\n{indent(after, '    ')}\n"
    )


def drawn(body: str, options: str = "num_workers=2, pin_memory=True", before: str = "") -> str:
    return (
        "import torch\nfrom torch.utils.data import DataLoader\n"
        f"loader = DataLoader(data, {options})  #! loader\n{before}"
        f"for i, (x, y) in enumerate(loader):  #! loop\n{indent(body, '    ')}\n"
    )


def emptied(body: str, before: str = "") -> str:
    return f"import torch\n{before}\nfor x in loader:\n{indent(body, '    ')}\n"


EMPTY = "torch.cuda.empty_cache()  #? PIN303\n"
OPTIMIZED = "import torch\n{}\nopt = torch.optim.AdamW(p)  #! optimizer\nstep()  #? PIN602\n"
COPIED = "a = x.to(device)  #? PIN102\nmodel(a)\n"
PINNED: dict[str, Any] = {"loader": replace(LOADER, pin_memory=True), "pinned": True}
IN_MEMORY = replace(LOADER, num_workers=0, dataset="torch.utils.data.dataset.TensorDataset")
WORKERS = "f(x)  #? PIN402\nif __name__ == '__main__': pass\n"
OTHER_STREAM = "changes the stream: work on another one may rely on the wait"
MISSES: dict[str, tuple[str, str, dict[str, Any]] | tuple[str, str]] = {
    # what relies on the wait
    "a sum on a stream": (steps("with torch.cuda.stream(s):\n" + indent(SUM, "    ")), f"line 7 {OTHER_STREAM}"),
    "a number on a stream": (steps("with torch.cuda.stream(s):\n" + indent(NUMBER, "    "), ""), OTHER_STREAM),
    "a function that runs on a stream": (
        steps(SUM) + "with torch.cuda.stream(s):\n    train(model, loader)\n",
        OTHER_STREAM,
    ),
    "a stream that is set": (steps("torch.cuda.set_stream(s)\n" + SUM), "sets the current stream"),
    "a batch that is copied on a stream": (
        drawn("with torch.cuda.stream(s):\n" + indent(COPIED, "    ")),
        OTHER_STREAM,
        PINNED,
    ),
    "a constant that is made on a stream": (
        drawn("with torch.cuda.stream(s):\n    y = x * torch.tensor(0.5, device='cuda')  #? PIN209\nf(y)"),
        OTHER_STREAM,
    ),
    "events that are asked for a time": (
        steps(SUM + "times.append(start.elapsed_time(end))"),
        "line 10 asks events for a time, which fails before the GPU is done",
    ),
    "an event that is asked whether it is done": (steps(SUM + "assert end.query()"), "asks whether the GPU is done"),
    "a clock by another name": (
        steps(SUM + "times.append(timer())", before="from timeit import default_timer as timer"),
        "reads a clock",
    ),
    "a date": (steps(SUM + "times.append(datetime.now())", before="from datetime import datetime"), "reads a clock"),
    "pinned memory that is filled anew": (
        steps(
            "buffer.copy_(x)\nx = buffer.cuda(non_blocking=True)\n" + SUM,
            start="total, buffer = 0.0, torch.empty(9, pin_memory=True)",
        ),
        "line 5 pins memory, which is copied without a wait of its own",
    ),
    "memory that is pinned and written to": (
        steps(
            "buffer[:] = x\nx = buffer.cuda(non_blocking=True)\n" + SUM,
            start="total = 0.0\nbuffer = first.pin_memory()",
        ),
        "pins memory, which is copied",
    ),
    "a copy to a device that is the host": (
        steps("h = x.to(torch.device('cpu'), non_blocking=True)\n" + SUM),
        "copies without its own wait",
    ),
    "a copy to the host by a name": (
        steps("h = x.to(host, non_blocking=True)\n" + SUM, before="host = torch.device('cpu')"),
        "copies without its own wait",
    ),
    "a copy to the host by a name that is another device elsewhere": (
        (
            "def other(x):\n    d = 'cuda'\n    return x.to(d)\n"
            + steps("h = x.to(d, non_blocking=True)\n" + SUM, start="d = 'cpu'\ntotal = 0.0")
        ),
        "copies without its own wait",
    ),
    "a copy that says so by position": (steps("h.copy_(x, True)\n" + SUM), "copies without its own wait"),
    "a copy back near a condition": (
        steps("h.copy_(x, non_blocking=True)\n" + CONDITION.format("step") + "show(h)"),
        "copies without its own wait",
    ),
    "a copy back near a batch": (
        drawn(COPIED + "show(h)\nh.copy_(model(a), non_blocking=True)"),
        "copies without its own wait",
        PINNED,
    ),
    "a copy back near a constant": (
        steps("h.copy_(x, non_blocking=True)\n" + CONSTANT + "show(h)"),
        "copies without its own wait",
    ),
    # numbers
    "0 times a number": (steps(SUM, "total *= 2\nreturn total", "total = 0"), "total is also changed"),
    "a float of the program's own": (steps(SUM, before="from mine import float"), "has a float of its own"),
    "an int of the program's own": (
        steps(COUNT, start="total = 0", before="def int(x):\n    return 3"),
        "has a int of its own",
    ),
    "a loss that is a number in some steps": (
        steps(
            "loss = F.mse_loss(x, y) if step else 0.0\nif step:\n    loss.backward()\ntotal += float(loss)  #? PIN201"
        ),
        "loss may not be a tensor",
    ),
    "a loss that has gradients in some steps": (
        steps("loss = lossy(x, y)\nif step:\n    loss.backward()\ntotal += float(loss)  #? PIN201"),
        "loss may not be a tensor",
    ),
    "what a function returns": (
        steps("loss, right = evaluate(x)\n" + NUMBER.replace("loss.item()", "float(right)"), ""),
        "right may not be a tensor",
    ),
    "a mean of complex numbers": (steps("z = torch.fft.fft(x)\ntotal += z.mean().item()  #? PIN201"), "whole number"),
    "a GPU without float64": (steps(SUM, before="import torch_directml"), "float64"),
    "inference mode now and then": (
        steps("for phase in phases:\n    with torch.inference_mode(phase == 'val'):\n" + indent(SUM, "        ")),
        "line 8 turns inference mode on and off",
    ),
    "a sum that the module may offer": (
        (
            "import torch\nfrom names import __all__\ntotal = 0.0\nfor x in loader:\n    "
            + SUM.replace("\n", "\n    ").rstrip(" ")
        ),
        "__all__ may name total: other code may read it",
    ),
    "a library that shows its code": (steps(SUM, "ic(total)"), "shows its own code"),
    "a class that looks it up before it binds it": (
        (
            "import torch\ntotal = 0.0\nfor x in loader:\n    total += x.mean().item()  #? PIN201\n"
            "class Best:\n    seen = total\n    total = 1\n"
        ),
        "total is used in a nested function",
    ),
    "a comprehension that binds it": (
        steps(SUM, "any(total := y for y in x)\nreturn total"),
        "total is used in a nested function or in a comprehension",
    ),
    "a name that a nested function hands to the outer one": (
        steps(SUM, "def more():\n    nonlocal total\n    total += 1\nmore()\nreturn total"),
        "total is global",
    ),
    "a text that names it": (steps(SUM, "return df.query('loss < @total')"), "names total"),
    "a frame's variables": (steps(SUM, "print(inspect.currentframe().f_locals)"), "f_locals may look at total"),
    "a process that cannot read the GPU": (
        steps(SUM, "if os.fork() == 0:\n    print(total)", before="import os"),
        "makes a process that cannot read the GPU",
    ),
    "a function that is compiled": (
        steps(SUM).replace("def train", "@torch.compile(mode='reduce-overhead')\ndef train"),
        "train is compiled",
    ),
    "a function that is compiled later": (steps(SUM) + "train = torch.compile(train)\n", "line 12 compiles it"),
    # conditions
    "no number at first": (
        steps(CONDITION.format("last"), start="total = last = None"),
        "last may not be a number each time: the first condition may guard it",
    ),
    "no number unless it is given": (
        "import torch\ndef f(loss, x, step=None):\n" + indent(CONDITION.format("step"), "    "),
        "step may not be a number",
    ),
    "no number, as its annotation says": (
        "import torch\ndef f(loss, x, step: int | None):\n" + indent(CONDITION.format("step"), "    "),
        "step may not be a number",
    ),
    "a number that is set later": (
        steps(CONDITION.format("last") + "if step > 5:\n    last = 4"),
        "last may not be a number",
    ),
    # constants
    "after an error": (emptied("try:\n    f(x)\nexcept RuntimeError:\n    " + EMPTY), "it follows an error"),
    "where memory may be short": (
        emptied("try:\n    f(x)\nexcept torch.cuda.OutOfMemoryError:\n    skip()\n" + EMPTY),
        "may need the memory that torch keeps (OutOfMemoryError)",
    ),
    "memory that another library takes": (emptied("f(x)\n" + EMPTY, "import cupy as cp"), "keeps (cupy)"),
    "memory that another library reports": (emptied("GPUtil.showUtilization()\n" + EMPTY), "looks at memory"),
    # optimizers
    "sparse gradients": (OPTIMIZED.format(""), "gradients are sparse", {"sparse": True}),
    "what an optimizer keeps": (
        OPTIMIZED.format("") + "opt.state[w]['step'] = torch.tensor(0.0)\n",
        "line 5 uses the optimizer's state",
    ),
    "a library that changes the optimizer": (OPTIMIZED.format("from apex import amp"), "apex changes"),
    "an optimizer of parameters on the host, of the same line": (
        OPTIMIZED.format(""),
        "the line also makes an optimizer",
        {"beside": replace(OPTIMIZER, plain_on_gpu=False)},
    ),
    # DataLoaders
    "batches of the same line that cannot be pinned": (
        drawn("x = x.to(device)  #? PIN104", "num_workers=2"),
        "cannot be pinned",
        {"beside": replace(LOADER, batch=["cuda Tensor"], drawn=0)},
    ),
    "an iterable data set of the same line": (
        drawn("f(x)  #? PIN401"),
        "iterable",
        {"beside": replace(LOADER, iterable=True, drawn=0)},
    ),
    "a first worker for batches on the GPU": (
        drawn(WORKERS, "shuffle=True"),
        "may be on the GPU",
        {"loader": replace(IN_MEMORY, batch=["cuda Tensor"])},
    ),
    "a first worker for a function of the program's own": (
        drawn(WORKERS, "collate_fn=f"),
        "a function of the program's own makes its batches",
        {"loader": replace(IN_MEMORY, own_collate=True)},
    ),
    "a first worker that does not fork": (
        drawn(WORKERS, "shuffle=True", "mp.set_start_method('spawn')\n"),
        "says how its processes start",
        {"loader": IN_MEMORY},
    ),
    "a first worker of a program that runs when it is imported": (
        drawn("f(x)  #? PIN402", "shuffle=True"),
        "runs the whole program",
        {"loader": IN_MEMORY},
    ),
    "a first worker that starts anew, of such a program": (
        drawn("f(x)  #? PIN402", "shuffle=True"),
        "runs the whole program",
        {"loader": replace(IN_MEMORY, foreign=()), "starts_by": "forkserver"},
    ),
    "a first worker for a transform of the program's own": (
        drawn(WORKERS, "shuffle=True"),
        "__main__.<lambda> makes its samples",
        {"loader": replace(IN_MEMORY, foreign=("__main__.<lambda>",)), "starts_by": "fork"},
    ),
    "batches whose parts may share memory": (
        drawn("x = x.to(device)  #? PIN104\ny[y == 0] = -100\nmodel(x)", "num_workers=2, collate_fn=f"),
        "parts may share memory",
        {"loader": replace(LOADER, own_collate=True)},
    ),
    "a generator of the program's own that draws": (
        drawn(COPIED)
        .replace("enumerate(loader)", "enumerate(track(loader))")
        .replace("import torch", "from mine import track\nimport torch", 1),
        "more than a DataLoader",
        PINNED,
    ),
    "an enumerate of the program's own": (
        "def enumerate(batches):\n    return augmented(batches)\n" + drawn(COPIED),
        "more than a DataLoader",
        PINNED,
    ),
    "a batch that may be looked at": (drawn(COPIED + "augment(**locals())"), "locals() may look at x", PINNED),
    # what a number is
    "a loss that means a count when it is read": (
        steps(LOSS + "loss = (x > y).sum()\ntotal += loss.item()  #? PIN201"),
        "not show whether loss is a whole number",
    ),
    "the mean of complex numbers": (steps("total += (x * 1j).mean().item()  #? PIN201"), "whole number"),
    "a loss of each sample": (steps("total += F.mse_loss(x, y, reduction='none').item()  #? PIN201"), "whole number"),
    "a criterion of each sample": (
        steps("total += c(x, y).item()  #? PIN201", before="c = torch.nn.MSELoss(reduction='none')"),
        "whole number",
    ),
    "an array of the program's own": (
        steps("total += host(x).mean().item()  #? PIN201", before="def host(x): return x.cpu().numpy()"),
        "may not be a tensor",
    ),
    "an array of another file": (
        steps("total += host(x).mean().item()  #? PIN201", before="from other import host"),
        "whole number",
    ),
    "an object of the program's own": (
        steps("m = Meter(x)\nv.append(m.item())  #? PIN201", "print(v)", "v = []", "class Meter: pass"),
        "may not be a tensor",
    ),
    "a size of an object of the program's own": (
        steps("total += F.mse_loss(x, y).item() * Batch(x).size(0)  #? PIN201", before="class Batch: pass"),
        "may not be a number on the host",
    ),
    "a property that computes": (
        steps("if self.loss.isnan() and step % 50 == 0:  #? PIN202\n    print(x)"),
        "may change something",
    ),
    "an object that compares": (
        steps("b = Best()\nif b > x.mean() and step % 50 == 0:  #? PIN202\n    print(x)", before="class Best: pass"),
        "may change something",
    ),
    # what else sees a variable, or what is in the place of torch
    "locals by another name": (
        steps(SUM, before="look = locals").replace("total = 0", "at = locals; total = 0"),
        "locals",
    ),
    "locals of builtins": (steps(SUM + "print(builtins.locals())", before="import builtins"), "locals() may look"),
    "a sum of a module that other code sees by its frame": (
        (
            "import torch.nn.functional as F\nfrom frames import f_globals\ntotal = 0.0\nfor x in loader:\n"
            "    total += F.mse_loss(x, x).item()  #? PIN201\nprint(total)\n"
        ),
        "f_globals may look at total",
    ),
    "a sum that is the same object": (steps(SUM, "last = total\nreturn last is total"), "is the same object"),
    "a number that is the same object": (
        steps(NUMBER.replace("log(v)", "u = v; print(u is v)"), ""),
        "is the same object",
    ),
    "an error that a manager of the program's own may catch": (
        steps("with quiet():\n" + indent(SUM, "    "), before="def quiet(): pass"),
        "may catch an error",
    ),
    "an error that is caught in the loop that fills a list": (
        (
            "import torch\nfor _ in epochs:\n    seen = []\n    for pair in loader:\n        try:\n"
            "            for x in pair:\n                seen.append(x.item())  #? PIN201\n"
            "        except RuntimeError:\n            print(1)\n    print(seen)\n"
        ),
        "may catch an error",
    ),
    "a function in the place of torch's": (emptied(EMPTY, "torch.cuda.empty_cache = count\n"), "by its imported name"),
    "a mock in the place of torch's": (
        emptied(EMPTY, "setattr(torch.cuda, 'empty_cache', count)\n"),
        "by its imported name",
    ),
    "a batch that is asked whether it is pinned": (
        drawn("print(x.is_pinned())\na = x.to(device)  #? PIN104\nmodel(a)", "num_workers=2"),
        "or asks for them",
    ),
    "gradients that the program makes sparse": (
        OPTIMIZED.format("p[0].grad = p[0].grad.to_sparse()"),
        "gradients are sparse",
    ),
    "an optimizer that updates one parameter after the other": (
        "import torch\nopt = torch.optim.Adafactor(p, foreach=False)  #! optimizer\nf()  #? PIN602\n",
        "no certain fused form",
        {"optimizer": replace(OPTIMIZER, kind="torch.optim._adafactor.Adafactor", foreach=False)},
    ),
}
"""What is left, and why."""
HITS: dict[str, tuple[str, str, dict[str, Any]] | tuple[str, str]] = {
    "a variable of the same name in a function within, and in a list": (
        steps(SUM, "def more(n):\n    total = n\n    return total\nprint([more(y) for y in x])\nreturn total"),
        "    return float(total)\n",
    ),
    "a variable of the same name in another function": (
        steps(SUM) + "\ndef test(total):\n    return [total for total in total]\n",
        "    return float(total)\n",
    ),
    "a device that may be the host": (
        steps("x = x.to(d, non_blocking=True)\n" + SUM, before="if gpu:\n    d = 'cuda'\nelse:\n    d = 'cpu'"),
        "return float(total)",
    ),
    "a stream near it": (
        steps("with torch.cuda.stream(s):\n    z = f(y)\n" + SUM) + "with open(stream):\n    print(1)\n",
        "return float(total)",
    ),
    "a loss that has gradients in each step": (
        steps("loss = lossy(x, y)\ntotal += float(loss)  #? PIN201\nloss.backward()"),
        "return float(total)",
    ),
    "a loss that stays real when it is set anew": (
        steps(LOSS + "loss = loss.float()\ntotal += loss.item()  #? PIN201"),
        "return float(total)",
    ),
    "matrices of the program that are sparse": (OPTIMIZED.format("edges = adjacency.to_sparse()"), "fused=True"),
    "a data set that may change between epochs": (
        drawn("f(x)  #? PIN401", "num_workers=2", "data.set_epoch(3)\n"),
        "DataLoader(data, num_workers=4)",
    ),
    "a sampler that changes between epochs": (
        drawn("f(x)  #? PIN401", "num_workers=2", "sampler.set_epoch(3)\n"),
        "DataLoader(data, num_workers=4, persistent_workers=True)",
    ),
    "a bar of one of two libraries": (
        (
            "try:\n    from tqdm.notebook import tqdm\nexcept ImportError:\n    from tqdm import tqdm\n"
            + drawn(COPIED).replace("enumerate(loader)", "enumerate(tqdm(loader))")
        ),
        "x.to(device, non_blocking=True)",
        PINNED,
    ),
    "a first worker for pictures of torchvision, where processes fork": (
        drawn("f(x)  #? PIN402", "shuffle=True"),
        "DataLoader(data, shuffle=True, num_workers=4, persistent_workers=True)",
        {"loader": replace(LOADER, num_workers=0, foreign=()), "starts_by": "fork"},
    ),
    "a first worker": (
        drawn(WORKERS, "shuffle=True"),
        "DataLoader(data, shuffle=True, num_workers=4, persistent_workers=True)",
        {"loader": IN_MEMORY},
    ),
}
"""What is changed for all that, and a part of the new program."""


@pytest.mark.parametrize("name", slow_but([*MISSES][::4], MISSES))
def test_what_something_may_rely_on_stays(name: str, tmp_path: Path) -> None:
    code, why, *told = MISSES[name]
    compile(code, name, "exec")
    outcome = mended(tmp_path, code, chosen=ANY, **(told[0] if told else {}))
    assert outcome.is_unchanged, outcome.code
    assert why in outcome.why


@pytest.mark.parametrize("name", HITS)
def test_what_nothing_relies_on_is_changed(name: str, tmp_path: Path) -> None:
    code, part, *told = HITS[name]
    compile(code, name, "exec")
    outcome = mended(tmp_path, code, chosen=ANY, **(told[0] if told else {}))
    assert part in outcome.code, outcome.why
