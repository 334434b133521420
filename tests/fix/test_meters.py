"""Meters of a function that only it updates and shows get tensors; all others keep numbers."""

import re
from pathlib import Path

import pytest
import torch
from as_on_gpu import STEPS, shown
from fixing import mended, plain

CLASS = '''class AverageMeter(object):
    """Computes and stores the average and current value"""
    def __init__(self, name="", fmt=":f"):
        self.name = name
        self.fmt = fmt
        self.reset()

    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        fmtstr = '{name} {val' + self.fmt + '} ({avg' + self.fmt + '})'
        return fmtstr.format(**self.__dict__)
'''
UPDATE = "losses.update(loss.item(), x.size(0))"
KEPT = "losses.update(loss.detach().clone().double().reshape(()), x.size(0))"
SHOW = "print('{:d} {loss.val:.4f} ({loss.avg:.5f}) {loss.count}'.format(step, loss=losses))"


def program(
    after: str,
    *lines: str,
    seldom: str = SHOW,
    begins: str = "losses = AverageMeter('Loss', ':.4e')",
    meter: str = CLASS,
    update: str = UPDATE,
) -> str:
    step = ["loss = F.mse_loss(w * x, y)", "loss.backward()", f"{update}  #? PIN201", *lines]
    step += ["if step % 2 == 1:", *(f"    {each}" for each in seldom.split("\n"))]
    body = [begins, "for step, (x, y) in enumerate(data):", *(f"    {each}" for each in step), *after.split("\n")]
    text = "".join(f"    {each}\n" for each in body)
    return f"import torch\nimport torch.nn.functional as F\n\n{meter}\n\ndef train(w, data):\n{text}"


ASKED = "losses.{0}.item() if torch.is_tensor(losses.{0}) else losses.{0}"
SUMMING = CLASS.replace("self.avg = self.sum / self.count", "self.avg = 0.9 * self.avg + 0.1 * val")
HITS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "a meter that is shown every two steps and returned": (
        program("return losses.avg"),
        (KEPT, f"    {SHOW}\n", f"return {ASKED.format('avg')}\n"),
        "rounding",
    ),
    "a meter that is reset where it is shown": (
        program("print(losses.sum, losses.sum / 3, losses.count)", seldom=f"{SHOW}\nlosses.reset()"),
        (f"print({ASKED.format('sum')}, ({ASKED.format('sum')}) / 3, losses.count)",),
        "rounding",
    ),
    "a meter that is made anew": (
        program("print(f'{losses.avg:.3f} {losses.val}')", seldom=f"{SHOW}\nlosses = AverageMeter()"),
        ("print(f'{losses.avg:.3f} {(losses.val.item() if", "losses = AverageMeter()"),
        "rounding",
    ),
    "a meter that divides nothing": (
        program(
            "best = losses.avg\nreturn best", meter=SUMMING, update="losses.update(float(loss.detach()))", seldom="pass"
        ),
        ("losses.update(loss.detach().clone().double().reshape(()))", f"best = {ASKED.format('avg')}\n"),
        "equal",
    ),
    "a meter that begins on one line": (
        program(
            "print(losses.avg)",
            meter=CLASS.replace(
                "        self.val = 0\n        self.avg = 0\n        self.sum = 0\n        self.count = 0\n",
                "        self.val, self.avg, self.sum, self.count = 0, 0, 0, 0\n",
            ),
        ),
        (f"print({ASKED.format('avg')})",),
        "rounding",
    ),
    "a meter that guards its division by its count": (
        program(
            "return losses.avg",
            meter=CLASS.replace("self.sum / self.count", "self.sum / self.count if self.count else 0"),
            update="losses.update(val=loss.item() * 2, n=len(x))",
        ),
        ("losses.update(val=loss.detach().clone().double().reshape(()) * 2, n=len(x))",),
        "rounding",
    ),
}
RETURNED = "return losses.avg"
MISSES: dict[str, tuple[str, str]] = {
    "shown in each step": (program(RETURNED, "print(losses.avg)"), "read in each step"),
    "formatted in each step": (program(RETURNED, SHOW), "read in each step"),
    "handed to a progress meter": (
        program(RETURNED, begins="losses = AverageMeter()\n    show = [losses]"),
        "hands losses on",
    ),
    "shown as a whole": (program("print(losses)"), "hands losses on"),
    "formatted as a whole": (program("print('{0}'.format(losses))"), "hands losses on"),
    "formatted without a format": (program("print('{a.avg}'.format(a=losses))"), "more than a real number"),
    "formatted by a conversion": (program("print('{a.avg!s:f}'.format(a=losses))"), "more than a real number"),
    "returned": (program("return losses"), "hands losses on"),
    "looked into": (program("return vars(losses)"), "hands losses on"),
    "its dictionary": (program("return losses.__dict__"), "in another way"),
    "set from outside": (program(RETURNED, "losses.sum = 0"), "in another way"),
    "another method": (program("return losses.value()"), "calls losses.value()"),
    "another name": (program(RETURNED, "other = losses"), "hands losses on"),
    "updated twice": (program(RETURNED, "losses.update(0.5)"), "also updated in another line"),
    "a clock": (program(RETURNED, "t = time.time()"), "reads a clock"),
    "whole numbers": (program(RETURNED, update="losses.update((x > y).sum().item())"), "of whole numbers"),
    "a kind that is unknown": (program(RETURNED, update="losses.update(f(x).item())"), "of whole numbers"),
    "a weight that is unknown": (
        program(RETURNED, update="losses.update(loss.item(), f(x))"),
        "not be a number on the host",
    ),
    "a class of another file": (
        program(RETURNED, meter="from meters import AverageMeter\n"),
        "update() may need the number",
    ),
    "a class that branches on its value": (
        program(
            RETURNED,
            meter=CLASS.replace("        self.val = val\n", "        if val > 3: return\n        self.val = val\n"),
        ),
        "of the meter decides",
    ),
    "a class that chooses by its value": (
        program(RETURNED, meter=CLASS.replace("self.avg = self.sum / self.count", "self.avg = 1 if val else 2")),
        "decides by its value",
    ),
    "a class that logs its value": (
        program(RETURNED, meter=CLASS.replace("self.val = val\n", "self.val = val\n        print(val)\n")),
        "more than arithmetic",
    ),
    "a class that keeps its values": (
        program(RETURNED, meter=CLASS.replace("self.val = val\n", "self.val = val\n        self.all.append(val)\n")),
        "more than arithmetic",
    ),
    "a class that rounds its value": (
        program(RETURNED, meter=CLASS.replace("self.val = val\n", "self.val = round(val, 3)\n")),
        "more than arithmetic",
    ),
    "a class that gives its sum two names": (
        program(RETURNED, meter=CLASS.replace("self.avg = self.sum / self.count", "self.avg = self.sum")),
        "two names",
    ),
    "a class that adds to its first value": (
        program(RETURNED, meter=CLASS.replace("self.val = val\n", "self.val = val\n        self.val += 1\n")),
        "sets val twice",
    ),
    "a class that divides by its value": (
        program(RETURNED, meter=CLASS.replace("self.sum / self.count", "self.count / self.sum")),
        "divides by its value",
    ),
    "a class with a property": (
        program(RETURNED, meter=CLASS + "\n    @property\n    def mean(self):\n        return self.avg\n"),
        "may look at what is set",
    ),
    "a class that sees what is set": (
        program(RETURNED, meter=CLASS + "\n    def __setattr__(self, name, value):\n        print(value)\n"),
        "may look at what is set",
    ),
    "a class that is made of another": (
        program(RETURNED, meter=CLASS.replace("(object)", "(Base)")),
        "is made of another class",
    ),
    "a class of which another one is made": (
        program(RETURNED, meter=CLASS + "\n\nclass Other(AverageMeter):\n    pass\n"),
        "otherwise than to make a meter",
    ),
    "a class that is changed": (
        program(RETURNED, meter=CLASS + "\n\nAverageMeter.update = print\n"),
        "otherwise than to make a meter",
    ),
    "a class that keeps its meters": (
        program(
            RETURNED,
            meter=CLASS.replace("        self.reset()\n", "        self.reset()\n        ALL.append(self)\n", 1),
        ),
        "more than to set numbers",
    ),
    "a meter that is reduced over processes": (
        program(RETURNED, seldom="losses.all_reduce()"),
        "calls losses.all_reduce()",
    ),
    "a nested function": (program(RETURNED, "show = lambda: losses.avg"), "nested function"),
    "an argument": (program(RETURNED, begins="pass").replace("(w, data)", "(w, data, losses)"), "is an argument"),
    "locals()": (program("print(locals())"), "locals() may look at losses"),
}


@pytest.mark.parametrize("name", HITS)
def test_a_meter_that_is_seldom_shown_gets_tensors(name: str, tmp_path: Path) -> None:
    code, parts, numbers = HITS[name]
    outcome = mended(tmp_path, code)
    for part in parts:
        assert part in outcome.code, outcome.code + outcome.why
    assert [patch.mend.numbers for patch in outcome.patches.patches] == [numbers]
    for steps in STEPS:
        assert shown(outcome.code, steps) == shown(plain(code), steps), (steps, outcome.code)


@pytest.mark.gpu
@pytest.mark.parametrize("name", HITS)
def test_on_a_gpu_a_meter_shows_the_same_within_rounding(name: str, tmp_path: Path) -> None:
    code, _, _ = HITS[name]
    outcome = mended(tmp_path, code)
    for steps in STEPS:
        before, after = (_numbers(shown(each, steps, torch.Tensor.cuda)) for each in (plain(code), outcome.code))
        assert after == pytest.approx(before, rel=1e-14), outcome.code


def _numbers(texts: list[str]) -> list[float]:
    return [float(number) for text in texts for number in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text)]


@pytest.mark.parametrize("name", MISSES)
def test_a_meter_that_something_else_may_see_gets_numbers(name: str, tmp_path: Path) -> None:
    code, why = MISSES[name]
    compile(code, name, "exec")
    outcome = mended(tmp_path, code)
    assert outcome.is_unchanged, outcome.code
    assert why in outcome.why
