"""Tensors of one number are made on the GPU, in whatever function they stand; other ones are copied as before."""

import contextlib
import io
from pathlib import Path

import pytest
from fixing import mended, plain

HITS = {
    "one number, which then moves": (
        "y = x * torch.tensor(0.5).cuda()  #? PIN104",
        'y = x * torch.full((), 0.5, device="cuda")',
    ),
    "one in the middle of an expression, to a device of the object": (
        "zero = (torch.tensor(0.).to(self.device)).view(1)  #? PIN104",
        "zero = (torch.full((), 0., device=self.device)).view(1)",
    ),
    "a list of one, in a function without a loop": (
        "share = torch.tensor([0.07], device=DEVICE)  #? PIN209",
        "share = torch.full((1,), 0.07, device=DEVICE)",
    ),
    "a list of the same, with its type": (
        "w = torch.tensor([[1, 1], [1, 1]], dtype=torch.long).to(device=DEVICE)  #? PIN104",
        "w = torch.full((2, 2), 1, dtype=torch.long, device=DEVICE)",
    ),
    "one that is written to later": (
        "w = torch.tensor([-1.5]).to(DEVICE)  #? PIN104\nw.mul_(2)",
        "w = torch.full((1,), -1.5, device=DEVICE)\nw.mul_(2)",
    ),
    "ones of another type": (
        "mask = torch.ones((n, 1)).long().to(DEVICE)  #? PIN104",
        "mask = torch.ones((n, 1), device=DEVICE).long()",
    ),
    "zeros in a shape": (
        "h = torch.zeros(2, *x.shape, dtype=torch.half).view(2, -1).cuda().float()  #? PIN101",
        'h = torch.zeros(2, *x.shape, dtype=torch.half, device="cuda").view(2, -1).float()',
    ),
    "two on a line": (
        "h, c = torch.zeros(n).to(my_device), torch.eye(n).unsqueeze(0).to(my_device)  #? PIN104",
        "h, c = torch.zeros(n, device=my_device), torch.eye(n, device=my_device).unsqueeze(0)",
    ),
}
MISSES = {
    "several numbers": ("w = torch.tensor([1., 2.]).cuda()  #? PIN209", "is not one number"),
    "one zero of each sign": ("w = torch.tensor([0., -0.]).cuda()  #? PIN209", "is not one number"),
    "a whole number and a real one": ("w = torch.tensor([1, 1.]).cuda()  #? PIN209", "is not one number"),
    "nothing": ("w = torch.tensor([]).cuda()  #? PIN209", "is not one number"),
    "a type that may not hold it": (
        "w = torch.tensor([300], dtype=torch.uint8, device=DEVICE)  #? PIN209",
        "its dtype may not hold the number",
    ),
    "a GPU that may be none": ("w = f(torch.tensor(1.).cuda(gpu))  #? PIN209", "not show that it goes to"),
    "what may be a tensor or a type": ("w = f(torch.tensor(1.).to(other))  #? PIN209", "not show that it goes to"),
    "a copy with a word more": (
        "w = f(torch.tensor(1.).to(DEVICE, torch.half))  #? PIN209",
        "not show that it goes to",
    ),
    "a number with gradients": (
        "w = torch.tensor(1., requires_grad=True).cuda()  #? PIN209",
        "not a constant and a device",
    ),
    "a comment in the call": (
        "w = f(torch.tensor(1.).to(  #? PIN209\n    DEVICE  # the GPU\n))",
        "comments stand in the call",
    ),
    "a comment in the list": (
        "w = torch.tensor([  #? PIN209\n    1.,  # the first\n], device=DEVICE)",
        "comments stand in the call",
    ),
    "numbers of another list": ("w = torch.tensor([*(1., 1.)], device=DEVICE)  #? PIN209", "is not one number"),
    "random numbers": ("x = torch.rand(3).to(DEVICE)  #? PIN104", "not the name of a batch"),
    "a batch and ones": ("x = y.to(DEVICE) * torch.ones(3).to(DEVICE)  #? PIN104", ""),
    "pinned ones": ("x = torch.ones(3).pin_memory().to(DEVICE)  #? PIN104", ""),
    "ones to which something is added on the host": ("x = torch.ones(3).add(y).to(DEVICE)  #? PIN104", ""),
    "ones whose arguments nobody knows": ("x = torch.ones(3, **how).to(DEVICE)  #? PIN104", ""),
    "ones on the host": ('x = torch.ones(3, device="cpu").to(DEVICE)  #? PIN104', ""),
    "ones on a stream": ("with torch.cuda.stream(s):\n    x = torch.ones(3).to(DEVICE)  #? PIN104", ""),
}


def within(lines: str) -> str:
    return "import torch\n\ndef step(self, x):\n" + "".join(f"    {line}\n" for line in lines.splitlines())


@pytest.mark.parametrize("name", HITS)
def test_a_tensor_of_one_number_is_made_on_the_gpu(name: str, tmp_path: Path) -> None:
    before, after = HITS[name]
    outcome = mended(tmp_path, within(before))
    assert outcome.code == within(after), outcome.why


@pytest.mark.parametrize("name", MISSES)
def test_what_is_not_one_number_or_not_for_a_device_stays(name: str, tmp_path: Path) -> None:
    before, why = MISSES[name]
    outcome = mended(tmp_path, within(before))
    assert outcome.is_unchanged
    assert outcome.patches.refused
    assert why in outcome.why


def test_what_is_made_there_is_the_same(tmp_path: Path) -> None:
    parts = [before for before, _ in HITS.values() if "self" not in before]
    shown = "\n".join(f"print({name})" for name in ("y", "share", "w", "mask", "h", "c"))
    code = within("\n".join([*parts[:3], "print(w, w.dtype)", *parts[3:], shown, "print(w.dtype, h.dtype)"]))
    code = code.replace(".cuda()", '.to("cpu")').replace(
        "import torch", "import torch\nDEVICE = my_device = 'cpu'; n = 2"
    )
    outcome = mended(tmp_path, code + "\nstep(None, torch.arange(4.).view(2, 2))\n")
    assert outcome.code.count("device=") >= len(parts), outcome.why
    assert printed(outcome.code) == printed(plain(outcome.before.decode()))


def printed(code: str) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        exec(compile(code, "train.py", "exec"), {})
    return text.getvalue()
