"""Changes that are made, and those that are not: each hit has near misses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixing import LOADER, OPTIMIZER, mended, plain
from quick import slow_but

from pinprof.fix import Chosen

ANY = Chosen(changes_numbers=True)


def loop(body: str, head: str = "for i, (x, y) in enumerate(loader):  #! loop") -> str:
    inner = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return f"""from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=4, num_workers=2)  #! loader
{head}
{inner}
"""


def pinning(code: str) -> str:
    return code.replace("workers=2", "workers=2, pin_memory=True")


def summing(body: str, after: str = "return total", start: str = "total = 0.0") -> str:
    inner = "\n".join(f"        {line}" for line in body.strip("\n").splitlines())
    return f"""import torch
import torch.nn.functional as F

def train(model, loader):
    {start}
    for step, (x, y) in enumerate(loader):
{inner}
    {after}
"""


LOSS = "loss = F.cross_entropy(model(x), y)\nloss.backward()\n"
PINNED = {"loader": replace(LOADER, pin_memory=True), "pinned": True}
HITS: dict[str, tuple[str, str, dict[str, Any]] | tuple[str, str]] = {
    "both parts on one line": (
        loop("x, y = x.to(device), y.cuda()  #? PIN102\nx.add_(1)"),
        pinning(loop("x, y = x.to(device, non_blocking=True), y.cuda(non_blocking=True)\nx.add_(1)")),
    ),
    "a batch taken apart": (
        loop("x, y = batch\nx = x.to(device)  #? PIN104\nmodel(x)", "for batch in loader:  #! loop"),
        pinning(loop("x, y = batch\nx = x.to(device, non_blocking=True)\nmodel(x)", "for batch in loader:")),
    ),
    "a part by its place": (
        loop("a = data[0].to(device)  #? PIN104\nmodel(a)", "for i, data in enumerate(loader, 0):  #! loop"),
        pinning(loop("a = data[0].to(device, non_blocking=True)\nmodel(a)", "for i, data in enumerate(loader, 0):")),
    ),
    "a part by its name": (
        loop('a = batch["x"].cuda()  #? PIN104\nmodel(a)', "for batch in tqdm(loader):  #! loop"),
        pinning(loop('a = batch["x"].cuda(non_blocking=True)\nmodel(a)', "for batch in tqdm(loader):")),
        {"loader": replace(LOADER, batch={"dict": {"x": "tensor"}})},
    ),
    "a batch in another shape": (
        loop("x = x.reshape(-1, x.size(1)).to(device)  #? PIN102\nmodel(x)"),
        loop("x = x.reshape(-1, x.size(1)).to(device, non_blocking=True)\nmodel(x)"),
        PINNED,
    ),
    "a batch of another type": (
        "import torch\n" + loop("x = x.to(device, torch.half)  #? PIN102\nreal = Variable(y.type(Tensor))  #? PIN102"),
        (
            "import torch\n"
            + loop(
                "x = x.to(device, torch.half, non_blocking=True)\nreal = Variable(y.type(Tensor, non_blocking=True))"
            )
        ),
        PINNED,
    ),
    "a batch that is copied on a condition": (
        loop("if args.gpu:\n    x, y = x.cuda(), y.cuda()  #? PIN102\nx.add_(1)"),
        loop("if args.gpu:\n    x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)\nx.add_(1)"),
        PINNED,
    ),
    "a batch that is pinned already": (
        pinning(loop("x = x.to(device)  #? PIN102")),
        pinning(loop("x = x.to(device, non_blocking=True)")),
        {"loader": replace(LOADER, pin_memory=True), "pinned": True},
    ),
    "pin_memory=False that is said": (
        loop("x = x.to(device, non_blocking=True)  #? PIN104").replace("num_work", "pin_memory=False, num_work"),
        loop("x = x.to(device, non_blocking=True)").replace("num_work", "pin_memory=True, num_work"),
    ),
    "only the DataLoader, where the copy is elsewhere": (
        loop("step(x)") + "\ndef step(x):\n    x = x.to(device)  #? PIN104\n",
        pinning(loop("step(x)")) + "\ndef step(x):\n    x = x.to(device)\n",
    ),
    "an alias of DataLoader, over several lines": (
        (
            "from torch.utils.data import DataLoader as DL\nloader = DL(  #! loader\n    data,  # all\n    num_workers=2,\n)\n"
            "for x, y in loader:  #! loop\n    x = x.to(device)  #? PIN104\n"
        ),
        (
            "from torch.utils.data import DataLoader as DL\nloader = DL(\n    data,  # all\n    num_workers=2,\n"
            "    pin_memory=True,\n)\nfor x, y in loader:\n    x = x.to(device, non_blocking=True)\n"
        ),
    ),
    "a sum in parentheses": (
        summing(LOSS + "total += loss.item()  #? PIN201", "return(total)"),
        summing(LOSS + "total += loss.detach().double()", "return(float(total))"),
    ),
    "a sum of means times sizes": (
        summing(LOSS + "total += loss.item() * x.size(0)  #? PIN201", "return total / n"),
        summing(LOSS + "total += loss.detach().double() * x.size(0)", "return float(total) / n"),
    ),
    "a sum under a scaler": (
        summing("scaler.scale(loss).backward()\ntotal = total + loss.item()  #? PIN201"),
        summing("scaler.scale(loss).backward()\ntotal = total + loss.detach().double()", "return float(total)"),
    ),
    "a count": (
        summing("total += (model(x).argmax(1) == y).sum().item()  #? PIN201", start="total, seen = 0, 0"),
        summing("total += (model(x).argmax(1) == y).sum()", "return int(total)", "total, seen = 0, 0"),
    ),
    "a count that begins at 0.0": (
        summing("total += torch.sum(x == y).item()  #? PIN201"),
        summing("total += torch.sum(x == y).detach().double()", "return float(total)"),
    ),
    "a sum of what a criterion returns": (
        (
            "from torch import nn\ncriterion = nn.CrossEntropyLoss().cuda()\n"
            + summing("out = criterion(model(x), y)\ntotal += out.detach().cpu().item()  #? PIN201")
        ),
        (
            "from torch import nn\ncriterion = nn.CrossEntropyLoss().cuda()\n"
            + summing("out = criterion(model(x), y)\ntotal += out.detach().double()", "return float(total)")
        ),
    ),
    "with a look at the options": (
        summing(LOSS + "total += loss.item()  #? PIN201", "print(vars(args))\n    return total"),
        summing(LOSS + "total += loss.detach().double()", "print(vars(args))\n    return float(total)"),
    ),
    "two lists of a loop": (
        summing(
            LOSS + "losses.append(loss.item())  #? PIN201\nright += [float(x.eq(y).float().mean())]  #? PIN201",
            "return losses, right",
            "losses, right = [], []",
        ),
        summing(
            LOSS + "losses.append(loss.detach().clone())\nright += [x.eq(y).float().mean().detach().clone()]",
            "right = [float(value) for value in right]\n    losses = [value.item() for value in losses]\n"
            "    return losses, right",
            "losses, right = [], []",
        ),
    ),
    "a list that begins anew": (
        (
            "import torch\nfor update in range(100):\n    clipped = []\n    for epoch in range(4):\n"
            "        for x in parts:\n            clipped += [(x > 1).float().mean().item()]  #? PIN201\n"
            "    print(len(clipped))\n"
        ),
        (
            "import torch\nfor update in range(100):\n    clipped = []\n    for epoch in range(4):\n"
            "        for x in parts:\n            clipped += [(x > 1).float().mean().detach().clone()]\n"
            "    clipped = [value.item() for value in clipped]\n    print(len(clipped))\n"
        ),
    ),
    "a number that is used every 10 steps": (
        summing(LOSS + "value = loss.item()  #? PIN201\nif step % 10 == 0:\n    log(value)", "return value"),
        summing(
            LOSS + "value = loss.detach().clone()\nif step % 10 == 0:\n    log(value.item())", "return value.item()"
        ),
    ),
    "an optimizer": (
        "from torch import optim\nopt = optim.AdamW(model.parameters(), lr=1e-3)  #! optimizer\nstep()  #? PIN602\n",
        "from torch import optim\nopt = optim.AdamW(model.parameters(), lr=1e-3, fused=True)\nstep()\n",
    ),
    "an optimizer without foreach": (
        (
            "import torch\nopt = torch.optim.SGD(  #! optimizer\n    params,  # all\n    lr=0.1,  # rate\n    foreach=False,\n)\n"
            "step()  #? PIN602\n"
        ),
        "import torch\nopt = torch.optim.SGD(\n    params,  # all\n    lr=0.1,  # rate\n    fused=True,\n)\nstep()\n",
        {"optimizer": replace(OPTIMIZER, kind="torch.optim.sgd.SGD", foreach=False)},
    ),
    "one that has no certain fused form": (
        "import torch\nopt = torch.optim.RMSprop(params, foreach=False, lr=1)  #! optimizer\nstep()  #? PIN602\n",
        "import torch\nopt = torch.optim.RMSprop(params, lr=1)\nstep()\n",
        {"optimizer": replace(OPTIMIZER, kind="torch.optim.rmsprop.RMSprop", foreach=False)},
    ),
    "an emptied cache alone in its block": (
        "import torch\nfor x in loader:\n    if train(x):\n        torch.cuda.empty_cache()  #? PIN303\n",
        "import torch\nfor x in loader:\n    if train(x):\n        pass\n",
    ),
    "workers": (
        loop("model(x)  #? PIN401"),
        loop("model(x)").replace("workers=2", "workers=4, persistent_workers=True").replace("  #! loop", ""),
    ),
    "TF32 that nobody set": (
        '"""Doc."""\nimport os\nimport torch\n\nopt = torch.optim.Adam(p)  #! optimizer\nf()  #? PIN701\n',
        (
            '"""Doc."""\nimport os\nimport torch\ntorch.set_float32_matmul_precision("high")  # TF32 for matrix products\n\n'
            "opt = torch.optim.Adam(p)\nf()\n"
        ),
    ),
}


@pytest.mark.parametrize("name", HITS)
def test_a_change_that_is_certain_is_made_once(name: str, tmp_path: Path) -> None:
    before, after, *rest = HITS[name]
    told: dict[str, Any] = rest[0] if rest else {}
    outcome = mended(tmp_path, before, chosen=ANY, **told)
    assert outcome.code == plain(after), outcome.why
    if name != "TF32 that nobody set":
        assert mended(tmp_path, outcome.after, chosen=ANY, **told).after == outcome.after


SUM = LOSS + "total += loss.item()  #? PIN201"
LIST = LOSS + "losses.append(loss.item())  #? PIN201"
OPTIMIZED = HITS["an optimizer"][0]
COPY = "x = x.to(device)  #? PIN104"
MISSES: dict[str, tuple[str, str, dict[str, Any]] | tuple[str, str]] = {
    # batches
    "pin_memory from the command line": (
        loop(COPY).replace("workers=2", "workers=2, pin_memory=args.pin"),
        "pin_memory=args.pin",
    ),
    "another class of DataLoader": (
        loop(COPY),
        "derived from DataLoader",
        {"loader": replace(LOADER, kind="geometric.DataLoader")},
    ),
    "a DataLoader of a library": (loop(COPY), "a library made", {"loader": replace(LOADER, direct=False)}),
    "batches of a class of their own": (loop(COPY), "Graph", {"loader": replace(LOADER, batch="Graph")}),
    "batches on the GPU": (
        loop(COPY),
        "cannot be pinned",
        {"loader": replace(LOADER, batch=["cuda Tensor", "tensor"])},
    ),
    "tuples": (loop(COPY), "tuples", {"loader": replace(LOADER, batch={"tuple": ["tensor", "tensor"]})}),
    "batches that nobody saw": (
        loop(COPY),
        "did not see what its batches are",
        {"loader": replace(LOADER, batch=None)},
    ),
    "no workers": (loop(COPY), "main thread would pin", {"loader": replace(LOADER, num_workers=0)}),
    "two DataLoaders on a line": (
        loop(COPY).replace("num_workers=2)", "num_workers=2), DataLoader(data)"),
        "2 calls of DataLoader",
    ),
    "DataLoader of a name that is also another's": (
        "if fast:\n    from mine import DataLoader\nelse:\n    from torch.utils.data import DataLoader\n"
        "loader = DataLoader(data)  #! loader\nfor x, y in loader:  #! loop\n    x = x.to(device)  #? PIN104\n",
        "no call of DataLoader",
    ),
    # non_blocking
    "a batch that is changed while it is copied": (
        pinning(loop("a = x.to(device)  #? PIN102\nx.add_(1)")),
        "used on the host in line 5",
        PINNED,
    ),
    "a batch that is used after its loop": (
        loop("a = x.to(device)  #? PIN102") + "x.zero_()\n",
        "used outside of its loop",
        PINNED,
    ),
    "a batch that is kept": (loop("a = x.to(device)  #? PIN102\nkept.append(x)"), "used on the host", PINNED),
    "a batch of a function's argument": (
        "def step(x):\n    for i in range(3):\n        y = x.to(device)  #? PIN102\n",
        "is not the batch of the loop",
        PINNED,
    ),
    "pinned memory that is refilled": (
        loop("staging.copy_(x)\na = staging.to(device)  #? PIN102"),
        "staging is not the batch",
        PINNED,
    ),
    "what the step makes of a batch": (
        loop("x = x.float()\nx = x.to(device)  #? PIN102"),
        "bound anew in line 4",
        PINNED,
    ),
    "a copy back": (loop("x = x.to('cpu')  #? PIN102"), "no copy to the GPU", {**PINNED, "ways": frozenset({"DtoH"})}),
    "copies both ways": (
        loop("x = x.to(device)  #? PIN102"),
        "no copy to the GPU",
        {**PINNED, "ways": frozenset({"DtoH", "HtoD"})},
    ),
    "one of two copies on a line": (
        loop("x, z = x.to(device), other.to(device)  #? PIN102"),
        "other is not the batch",
        PINNED,
    ),
    "a loop over other things": (loop(COPY, "for x, y in zip(loader, more):  #! loop"), "more than a DataLoader"),
    "a loop that was not recorded": (loop(COPY, "for x, y in loader:"), "does not show that the loop draws", PINNED),
    "a batch of texts": (loop(COPY), "not known", {"loader": replace(LOADER, pin_memory=True, batch=["str", "str"])}),
    "pageable in spite of pin_memory": (loop("x = x.to(device)  #? PIN102"), "PIN105", {**PINNED, "pinned": False}),
    "a condition in a loop": (
        loop("while a:\n    x = x.to(device)  #? PIN102\nx += 1"),
        "no loop around the line draws",
        PINNED,
    ),
    "a condition, and another copy": (
        loop("a = x.cuda()  #? PIN102\nif args.gpu:\n    x = x.cuda()  #! copy\nx.add_(1)"),
        "bound anew in line 6, on a condition",
        PINNED,
    ),
    "a copy for each of something": (
        loop("for z in (1, 2):\n    x = x.cuda()  #? PIN102\nx.add_(1)"),
        "x is not the batch of the loop",
        PINNED,
    ),
    "the same memory by another name": (
        loop("a = x.cuda()  #? PIN102\nb = x.type(FloatTensor)\nb.add_(1)"),
        "used on the host in line 5",
        PINNED,
    ),
    "another shape that is written to": (
        loop("a = x.cuda()  #? PIN102\nx.view(-1).add_(1)"),
        "used on the host in line 5",
        PINNED,
    ),
    "written to on the way": (loop("a = x.view(-1).add_(1).cuda()  #? PIN102"), "not the name of a batch", PINNED),
    "a type or not": (loop("x = x.to(device, True)  #? PIN102"), "positional arguments", PINNED),
    "already so": (loop("x = x.to(device, non_blocking=True)  #? PIN102"), "already", PINNED),
    "from a variable": (loop("x = x.to(device, non_blocking=nb)  #? PIN102"), "non_blocking=nb", PINNED),
    "a dtype by position": (loop("x = x.to(device, torch.half)  #? PIN102"), "positional arguments", PINNED),
    # sums
    "read nearly each step": (summing(SUM + "\nif step % 9 != 0:\n    log(total)"), "read in each step"),
    "starts again in each step": (summing(LOSS + "total = 0.0\ntotal += loss.item()  #? PIN201"), "starts again"),
    "begins elsewhere": (summing(SUM, start="total = before()"), "also set"),
    "of an argument": (
        summing(SUM, start="pass").replace("loader):\n    pass", "loader, total):\n    pass"),
        "is an argument",
    ),
    "global": (summing(SUM, start="global total\n    total = 0.0"), "global"),
    "in a closure": (summing(SUM, "return lambda: total"), "in a nested function"),
    "of a dict": (
        summing(LOSS + "sums['loss'] += loss.item()  #? PIN201"),
        "sums['loss'] is not a variable of the function",
    ),
    "whole or not": (summing("total += what(x).item()  #? PIN201"), "whole number"),
    "twice on a line": (summing(LOSS + "total += loss.item() + other.item()  #? PIN201"), "the line reads 2 numbers"),
    "times an unknown": (summing(LOSS + "total += loss.item() * weight  #? PIN201"), "weight may not be a number"),
    "of a number of numpy": (summing("total += loss.cpu().numpy().mean().item()  #? PIN201"), "on the host before"),
    "int() of a loss": (summing(LOSS + "total += int(loss)  #? PIN201"), "cuts the number off"),
    "0 that may be shown": (summing(SUM, start="total = 0"), "would show 0.0"),
    "a share to which more is added": (
        "import torch\ntotal = 0\nfor epoch in range(3):\n    for x, y in loader:\n"
        "        total += (x == y).sum().item()  #? PIN201\n    total /= len(loader)\n",
        "total is also changed in line 6",
    ),
    "0 and 0.0": (
        summing("total += (x == y).sum().item()  #? PIN201\nif step % 9 == 0:\n    total = 0.0", start="total = 0"),
        "begins at 0 and at 0.0",
    ),
    "a format that shows 0 and 0.0": (summing(SUM, "print(f'{total:8}')", "total = 0"), "would show 0.0"),
    "a float of the program's own": (
        "from mine import number as float\n" + summing(LOSS + "total += float(loss)  #? PIN201"),
        "has a float of its own",
    ),
    "len of the program's own": (
        "def len(x):\n    return x.y\n\n" + summing(LOSS + "total += loss.item() * len(x)  #? PIN201"),
        "len(x) may not be a number",
    ),
    "a criterion of the program's own": (
        "from torch import nn\ncriterion = nn.CrossEntropyLoss()\ncriterion = mine(criterion)\n"
        + summing("out = criterion(x, y)\ntotal += out.item()  #? PIN201"),
        "whole number",
    ),
    "a criterion that is an argument": (
        "from torch import nn\ncriterion = nn.CrossEntropyLoss()\n"
        + summing("out = criterion(x, y)\ntotal += out.item()  #? PIN201").replace("loader):", "loader, criterion):"),
        "whole number",
    ),
    "no tensor at first": (
        summing("v = float(found)  #? PIN201\nfound = x.sum()\nif step % 10 == 0:\n    log(v)", start="found = 0"),
        "found may not be a tensor",
    ),
    "several GPUs": (summing(SUM), "several GPUs", {"gpus": 2}),
    # lists
    "a list of all steps that is used every 9": (
        summing(LIST + "\nif step % 9 == 0:\n    show(losses[-9:])", "print(step)", "losses = []"),
        "losses is also used within its loop",
    ),
    "a list used in each step": (
        summing(LIST + "\nbar.set(losses[-1])", "return losses", "losses = []"),
        "used within its loop, in line 10",
    ),
    "a list of a loop that reads a clock": (
        summing(LIST + "\ntimes.append(time.time())", "return losses", "losses = []"),
        "reads a clock, which needs the wait",
    ),
    "a list with more in it": (
        summing(LIST + "\nlosses.append(1)", "return losses", "losses = []"),
        "used within its loop",
    ),
    "a list that an error leaves": (
        "import torch\nlosses = []\ntry:\n    for x in loader:\n        losses.append(x.item())  #? PIN201\n"
        "except KeyboardInterrupt:\n    print(losses)\n",
        "does not begin as [] before its loop",
    ),
    "a list in the else of its loop": (
        summing(LIST, "else:\n        print(losses)", "losses = []"),
        "used within its loop",
    ),
    "a list over all epochs": (
        "import torch\nlosses = []\nfor epoch in range(9):\n    for x in loader:\n"
        "        losses.append(x.item())  #? PIN201\nprint(losses)\n",
        "grows over several loops",
    ),
    "a list over any number of steps": (
        "import torch\nlosses = []\nfor step in range(9):\n    losses.append(x.item())  #? PIN201\nprint(losses)\n",
        "any number of steps",
    ),
    "a list of a while loop": (
        "import torch\nlosses = []\nwhile go():\n    losses.append(x.item())  #? PIN201\nprint(losses)\n",
        "it is unknown how much memory",
    ),
    "a list with another name": (summing(LIST, "return losses", "losses = kept"), "something else than an empty list"),
    "a list of two names": (summing(LIST, "return losses", "losses = kept = []"), "has another name"),
    "an error that is caught": (
        summing("try:\n    total += x.mean().item()  #? PIN201\nexcept RuntimeError:\n    continue"),
        "may catch an error of the read",
    ),
    "a list of changed numbers": (
        summing(LOSS + "losses.append(loss.item() / 3)  #? PIN201", "return losses", "losses = []"),
        "the number goes to losses.append()",
    ),
    "a list of an object": (
        summing(LOSS + "self.losses.append(loss.item())  #? PIN201"),
        "self.losses is not a variable of the function",
    ),
    "a list of what may not be a tensor": (
        summing("losses.append(float(what))  #? PIN201", "return losses", "losses = []"),
        "what may not be a tensor",
    ),
    "a clock in the loop": (summing(SUM + "\ntimes.append(time.time())"), "reads a clock"),
    "copies that nobody waits for": (
        summing(LOSS + "host.copy_(x, non_blocking=True)\ntotal += loss.item()  #? PIN201"),
        "may rely on this one",
    ),
    "Apple's GPUs": (summing(SUM + "\nd = 'mps'"), "float64"),
    "seldom already": (
        summing(LOSS + "if step % 10 == 0:\n    total += loss.item()  #? PIN201"),
        "only every few steps",
    ),
    "looked at by name": (summing(SUM, "return locals()"), "may look at"),
    "a text that shows its own code": (summing(SUM, "print(f'{total / 3=}')"), "shows its own code"),
    "a number set twice": (
        summing(LOSS + "v = loss.item()  #? PIN201\nif step % 10 == 0:\n    log(v)\nv = 1"),
        "set in several",
    ),
    "an argument of a call": (summing(LOSS + "meter.update(loss.item(), 3)  #? PIN201"), "update() in each step"),
    "a number that is returned": (summing(LOSS + "return loss.item()  #? PIN201"), "is returned"),
    "a number that is printed": (summing(LOSS + "print(f'{loss.item()}')  #? PIN201"), "print() in each step"),
    # decisions
    "or": (
        summing("if torch.isnan(loss) or step % 10 == 0:  #? PIN202\n    log()"),
        "decision in each step depends on the value",
    ),
    "a check": (summing("assert torch.isfinite(loss)  #? PIN202"), "decision in each step depends on the value"),
    "a remainder by a variable": (summing("if torch.isnan(loss) and step % n == 0:  #? PIN202\n    log()"), "decision"),
    # constants
    "too large for some": ("import torch\ny = torch.tensor(1e9, device=d)  #? PIN209\n", "not one number"),
    "a dtype that may not hold it": (
        "import torch\ny = torch.tensor(300, dtype=torch.uint8, device=d)  #? PIN209\n",
        "dtype",
    ),
    "parameters on the host": (OPTIMIZED, "not all", {"optimizer": replace(OPTIMIZER, plain_on_gpu=False)}),
    "a scaler": (OPTIMIZED, "GradScaler", {"has_scaler": True}),
    "fused in the source already": (OPTIMIZED.replace("lr=1e-3", "fused=True"), "says so already"),
    "an old torch": (OPTIMIZED, "version of torch", {"torch_version": (2, 1)}),
    "foreach from a variable": (OPTIMIZED.replace("lr=1e-3", "foreach=args.f"), "foreach=args.f"),
    "groups that differ": (OPTIMIZED, "groups", {"optimizer": replace(OPTIMIZER, fused=False)}),
    "differentiable": (OPTIMIZED, "differentiable", {"optimizer": replace(OPTIMIZER, differentiable=True)}),
    "an optimizer of the program's own": (OPTIMIZED, "Lion", {"optimizer": replace(OPTIMIZER, kind="my.Lion")}),
    "no certain fused form": (
        "import torch\nopt = torch.optim.RMSprop(params)  #! optimizer\nstep()  #? PIN602\n",
        "no certain fused form",
        {"optimizer": replace(OPTIMIZER, kind="torch.optim.rmsprop.RMSprop")},
    ),
    # the rest
    "a wait that guards a copy": (
        "import torch\ntorch.cuda.synchronize()  #? PIN216\ntorch.cuda.synchronize()\n",
        "a copy of pinned memory is in flight when this wait begins",
    ),
    "two waits, one before a copy ends": (
        "import torch\ntorch.cuda.synchronize()  #? PIN210\ntorch.cuda.synchronize()\n",
        "a copy of pinned memory is in flight when this wait begins",
        {"keep": "wait for the copy"},
    ),
    "a cache that a comment explains": (
        "import torch\nf()\n# needed by the other process\ntorch.cuda.empty_cache()  #? PIN303\n",
        "a comment stands above",
    ),
    "a cache by another name": ("torch = mine\ntorch.cuda.empty_cache()  #? PIN303\n", "no call of torch.cuda"),
    "several statements": ("import torch\nf(); torch.cuda.empty_cache()  #? PIN303\n", "several statements"),
    "an iterable data set": (loop("f(x)  #? PIN401"), "iterable", {"loader": replace(LOADER, iterable=True)}),
    "no core left": (loop("f(x)  #? PIN401"), "share 2 cores", {"cpus": 2}),
    "a data set of the program's own": (
        loop("f(x)  #? PIN402"),
        "several processes",
        {"loader": replace(LOADER, num_workers=0)},
    ),
    "a rule that is for people": ("import torch\nprint(x)  #? PIN204\n", "pinprof explain PIN204"),
}


@pytest.mark.parametrize("name", slow_but([*MISSES][::4], MISSES))
def test_what_is_not_certain_stays(name: str, tmp_path: Path) -> None:
    before, why, *told = MISSES[name]
    outcome = mended(tmp_path, before, chosen=ANY, **(told[0] if told else {}))
    assert why in outcome.why
    kept = "non_blocking" if "PIN102" in before or "PIN104" in before else None
    if kept and outcome.patches.patches:  # the DataLoader alone may be changed
        assert outcome.code.replace(", pin_memory=True", "") == plain(before).replace(", pin_memory=True", "")
    else:
        assert outcome.is_unchanged


def test_a_quotient_on_the_gpu_rounds_otherwise(tmp_path: Path) -> None:
    """With a divisor of the host, torch multiplies by its reciprocal there."""
    shares = [
        mended(tmp_path, summing(LOSS + f"total += loss.item() {each} len(x)  #? PIN201")).patches.patches[0].change
        for each in "*/"
    ]
    assert [share.numbers for share in shares] == ["equal", "rounding"]


NUMBERS = ("workers", "TF32 that nobody set")


@pytest.mark.parametrize("name", NUMBERS)
def test_what_changes_numbers_is_made_only_on_demand(name: str, tmp_path: Path) -> None:
    outcome = mended(tmp_path, HITS[name][0])
    assert outcome.is_unchanged
    assert "allow that with --changes-numbers" in outcome.why
