"""Sums that each step copies to the host stay on the GPU, and read as they did."""

from pathlib import Path

import pytest
import torch
from as_on_gpu import check_shows_the_same
from fixing import mended, plain


def program(line: str, after: str, seldom: str = "", start: str = "correct = 0") -> str:
    inner = "".join(f"        {each}\n" for each in ("x = x * 2", f"{line}  #? PIN203", *filter(None, [seldom])))
    behind = "".join(f"    {each}\n" for each in after.split("\n"))
    return f"""import torch
import torch.nn.functional as F


def train(w, data):
    {start}
    for step, (x, y) in enumerate(data):
        loss = F.mse_loss(w * x, y)
        loss.backward()
{inner}{behind}"""


COUNT = "correct += x.gt(y).sum().cpu()"
REAL = "total += loss.detach().cpu()"
SURE = "(correct.cpu() if torch.is_tensor(correct) else correct)"
HITS: dict[str, tuple[str, tuple[str, ...]]] = {
    "a count that is shown by its value": (
        program(COUNT, "print(f'{correct}/{len(data)}', '{:d} {}'.format(int(correct), correct))"),
        ("correct += x.gt(y).sum()\n", "f'{correct}/{len(data)}', '{:d} {}'.format(int(correct), correct)"),
    ),
    "a share": (
        program(COUNT, "print('{:.3f} ({})'.format(100. * correct / 40, correct), correct / 7)"),
        (f"100. * {SURE} / 40, correct)", f"{SURE} / 7)"),
    ),
    "a count that is returned and printed": (
        program("correct = correct + (x > y).sum().to('cpu')", "print(correct, '%s' % correct)\nreturn correct, 1"),
        ("correct = correct + (x > y).sum()\n", "print(correct.cpu() if torch.is_tensor(correct) else correct,"),
    ),
    "a count that must be a tensor": (
        program("correct += x.gt(y).cpu().sum()", "print(correct.item())\nreturn correct.float() / 3"),
        ("correct += x.gt(y).sum()\n", "print(correct.item())", "return correct.cpu().float() / 3"),
    ),
    "a count that is shown every two steps": (
        program(COUNT, "pass", "if step % 2 == 1: print(correct, correct / 3 > 1); correct = 0").replace(
            ": print(correct, correct / 3 > 1); correct = 0",
            ":\n            print(correct, correct / 3 > 1)\n            correct = 0",
        ),
        ("print(correct.cpu(), correct.cpu() / 3 > 1)",),
    ),
    "a loss": (
        program(REAL, "return total / len(data), f'{total:.9f}'", start="total = 0.0"),
        ("total += loss.detach()\n", "return (total.cpu() if torch.is_tensor(total) else total) / len(data), f'{(t"),
    ),
    "a loss times a size, of the data of a tensor": (
        program(
            "total += loss.data.to(torch.device('cpu')) * x.size(0)", "print(float(total), total)", start="total = 0"
        ),
        ("total += loss.data * x.size(0)\n", "print(float(total), total.cpu() if torch.is_tensor(total) else total)"),
    ),
    "a count that becomes a number of Python at once": (
        program("correct += x.gt(y).cpu().sum().item()", "return correct / 3"),
        ("correct += x.gt(y).sum()\n", "return int(correct) / 3"),
    ),
    "a number that is brought to the host before it is read": (
        program("total += loss.detach().to('cpu').item()", "return total", start="total = 0.0"),
        ("total += loss.detach().double()\n", "return float(total)"),
    ),
}
MISSES: dict[str, tuple[str, str]] = {
    "read in each step": (program(COUNT, "pass", "print(correct)"), "read in each step"),
    "kept by a list": (program(COUNT, "print([correct])"), "may keep the sum"),
    "another name": (program(COUNT, "other = correct\nprint(other)"), "may keep the sum"),
    "handed to a function": (program(COUNT, "log(correct)"), "may keep the sum"),
    "changed in place": (program(COUNT, "correct.zero_()"), "may change the sum itself"),
    "memory of the sum": (program(COUNT, "print(kept(correct.numpy()))"), "may keep the sum"),
    "divided in place": (program(REAL, "total /= 3\nreturn total", start="total = 0.0"), "may round otherwise"),
    "gradients": (program("total += loss.cpu()", "print(total)", start="total = 0.0"), "detach it"),
    "many numbers": (program("total += x.detach().cpu()", "print(total)", start="total = 0.0"), "not known to be"),
    "a count of numpy": (
        program("correct += x.gt(y).sum().cpu().numpy()", "print(correct)"),
        "no change is mechanical",
    ),
    "a sum of real numbers of numpy": (
        program("total += loss.detach().cpu().numpy()", "print(total)", start="total = 0.0"),
        "no change is mechanical",
    ),
    "no import of torch": (program(COUNT, "print(correct)").replace("import torch\n", ""), "does not import torch"),
    "two copies": (program("correct += (x.cpu() > y.cpu()).sum()", "print(correct)"), "no change is mechanical"),
    "globals": (program(COUNT, "print(correct, locals())"), "locals() may look at correct"),
    "its own code": (program(COUNT, "print(f'{correct=}')"), "shows its own code"),
    "a nested function": (program(COUNT, "return lambda: correct"), "nested function"),
    "a part of an object": (
        program("w.correct += x.gt(y).sum().cpu()", "pass"),
        "w.correct is not a variable of the function",
    ),
    "a clock": (
        program("t = time.time()\n        " + COUNT, "print(correct)"),
        "reads a clock",
    ),
    "a beginning elsewhere": (program(COUNT, "print(correct)", start="correct = begin()"), "is also set in line"),
    "what is not a sum": (program("kept.append(x.cpu())", "pass"), "no change is mechanical and certain"),
}


@pytest.mark.parametrize("name", HITS)
def test_a_sum_is_copied_where_it_is_used(name: str, tmp_path: Path) -> None:
    code, parts = HITS[name]
    outcome = mended(tmp_path, code)
    for part in parts:
        assert part in outcome.code, outcome.code + outcome.why
    check_shows_the_same(plain(code), outcome.code)


@pytest.mark.gpu
@pytest.mark.parametrize("name", HITS)
def test_on_a_gpu_a_changed_program_shows_the_same(name: str, tmp_path: Path) -> None:
    code, _ = HITS[name]
    outcome = mended(tmp_path, code)
    check_shows_the_same(plain(code), outcome.code, torch.Tensor.cuda)


@pytest.mark.parametrize("name", MISSES)
def test_what_may_not_be_the_same_is_copied_in_each_step(name: str, tmp_path: Path) -> None:
    code, why = MISSES[name]
    outcome = mended(tmp_path, code)
    assert outcome.is_unchanged, outcome.code
    assert why in outcome.why
