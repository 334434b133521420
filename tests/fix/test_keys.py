"""Sums in a dictionary of a function, whose keys are constant, are variables as all others."""

from pathlib import Path

import pytest
import torch
from as_on_gpu import check_shows_the_same
from fixing import mended, plain

LOSS = "running['loss'] += loss.item()"
COUNT = "running['right'] += x.gt(y).sum().item()"
BEGINS = "running = {'loss': 0.0, 'right': 0, 'name': 'a'}"


def program(after: str, *lines: str, start: str = BEGINS, seldom: str = "", epoch: str = "") -> str:
    """Return a program of two epochs, or of one loop where the text of an epoch is empty."""
    deep = "    " if epoch else ""
    step = ["loss = F.mse_loss(w * x, y)", "loss.backward()", *(f"{each}  #? PIN201" for each in lines or (LOSS,))]
    step += ["if step % 2 == 1:", *(f"    {each}" for each in seldom.split("\n"))] if seldom else []
    body = [start, "for step, (x, y) in enumerate(data):", *(f"    {each}" for each in step), *after.split("\n")]
    text = "".join(f"    {deep}{each}\n" for each in body)
    outer = f"    {epoch}\n    for epoch in range(2):\n" if epoch else ""
    end = "    return kept\n" if epoch else ""
    return f"import torch\nimport torch.nn.functional as F\n\n\ndef train(w, data):\n{outer}{text}{end}"


OF_FILE = """running = {'n': 0}
for x in data:
    running['n'] += (x > 1).sum().item()  #? PIN201
print(running['n'])"""
TRAINS_NOT = "\ndef train(w, data):\n    pass\n"
HITS: dict[str, tuple[str, tuple[str, ...]]] = {
    "a dictionary of two sums": (
        program("print(f\"{running['loss'] / 3:.9f}\", running['right'])\nreturn running['loss']", LOSS, COUNT),
        (
            "running['loss'] += loss.detach().double()\n        running['right'] += x.gt(y).sum()\n",
            "{float(running['loss']) / 3:.9f}\", int(running['right']))",
            "return float(running['loss'])",
        ),
    ),
    "a key in other quotes, and a sum that is written in full": (
        program('return running["loss"]', "running['loss'] = running['loss'] + loss.item() * x.size(0)"),
        ("running['loss'] = running['loss'] + loss.detach().double() * x.size(0)", 'float(running["loss"])'),
    ),
    "a sum that is set to 0 every two steps": (
        program("return running['loss']", seldom="print(running['loss'] / 2)\nrunning['loss'] = 0.0"),
        ("print(float(running['loss']) / 2)", "return float(running['loss'])"),
    ),
    "a dictionary that begins anew every two steps": (
        program("return running['loss']", LOSS, seldom=f"print(running['loss'] / 2)\n{BEGINS}"),
        ("print(float(running['loss']) / 2)",),
    ),
    "a dictionary of keywords": (
        program("running['loss'] /= len(data)\nreturn running['loss']", start="running = dict(loss=0.0)"),
        ("running['loss'] = float(running['loss']) / len(data)\n    return running['loss']",),
    ),
    "a key that is set later": (
        program("print(running['loss'])\nreturn 1", start="running = {}\n    running['loss'] = 0.0"),
        ("print(float(running['loss']))",),
    ),
    "a whole dictionary that is returned behind its loop": (
        program("running['loss'] = running['loss'] / 3\nreturn running", LOSS, COUNT),
        (
            "    running['right'] = int(running['right'])\n    running['loss'] = float(running['loss'])\n",
            "    running['loss'] = running['loss'] / 3\n    return running\n",
        ),
    ),
    "a dictionary that is gone through behind its loop, in each epoch": (
        program(
            "for key in ('loss', 'right'):\n    print(key, running[key], sum(v == 0 for v in running.values()))\n"
            "kept.append({k: running[k] for k, v in running.items()})\nkept.append(running)\nprint(running['loss'])",
            *(LOSS, COUNT),
            epoch="kept = []",
        ),
        ("        running['loss'] = float(running['loss'])\n        for key in", "        print(running['loss'])\n"),
    ),
    "a dictionary that goes over all epochs": (
        program("print(running['loss'])", start="pass", epoch=f"kept = 1\n    {BEGINS}"),
        ("        print(float(running['loss']))",),
    ),
    "a dictionary of a file that trains when it runs": (
        f"import torch\ndata = [torch.arange(4.0)] * 2\n{OF_FILE}{TRAINS_NOT}",
        ("print(int(running['n']))",),
    ),
    "a dictionary of a program": (
        "import torch\nif __name__ == '__main__':\n    " + OF_FILE.replace("\n", "\n    ") + TRAINS_NOT,
        ("print(int(running['n']))",),
    ),
}
END = "return running['loss']"
MISSES: dict[str, tuple[str, str]] = {
    "read in each step": (
        program(END, LOSS).replace("    return", "        print(running['loss'])\n    return"),
        "in each s",
    ),
    "handed on in each step": (
        program(END, LOSS, "log(running)").replace("(running)  #? PIN201", "(running)"),
        "may see",
    ),
    "asked for in another way": (
        program(END, seldom="log(running.get('loss'))"),
        "may see",
    ),
    "a key that may change": (
        program(END, "running[key] += loss.item()"),
        "not an element of a dictionary by a constant key",
    ),
    "another key in the loop": (program(END, seldom="print(running[str(step)])"), "may see the tensor"),
    "handed on every two steps": (program(END, seldom="log(**running)"), "may see the tensor"),
    "returned from the loop": (program("pass", seldom="return running"), "may see the tensor"),
    "its keys in a condition": (program(END, seldom="if 'loss' in running: pass"), "may see the tensor"),
    "handed on before the loop": (program(END, start=f"{BEGINS}\n    log(running)"), "may see the tensor"),
    "another name": (program(END, start=f"other = {BEGINS}"), "has another name"),
    "another name in a line of its own": (program(END, start=f"{BEGINS}\n    other = running"), "may see the tensor"),
    "begun by a function": (program(END, start="running = begin()"), "not begin as a dictionary of constant keys"),
    "a class of dictionaries": (program(END, start="running = Meters({'loss': 0.0})"), "not begin as a dictionary"),
    "another dictionary within": (program(END, start="running = {'loss': 0.0, **more}"), "not begin as a dictionary"),
    "a key twice": (program(END, start="running = {'loss': 0.0, 'loss': 0.0}"), "not begin as a dictionary"),
    "a dict of its own": (
        "from mine import dict\n" + program(END, start="running = dict(loss=0.0)"),
        "the program has a dict of its own",
    ),
    "a beginning that is no number": (program(END, start="running = {'loss': first}"), "is also set in line"),
    "no beginning": (program(END, start="running = {}"), "does not begin at 0"),
    "a beginning in each step": (
        program(END, "running = {'loss': 0.0}", LOSS).replace("}  #? PIN201", "}"),
        "starts again in each step",
    ),
    "0 that is handed on": (program("return running", start="running = {'loss': 0}"), "begins at the whole number 0"),
    "handed on, with a key that may be missing": (
        program("return running", start="running = {}\n    running['loss'] = 0.0"),
        "does not begin with running['loss'] everywhere",
    ),
    "handed on over all epochs": (
        program("kept.append(running)", start="pass", epoch=f"kept = []\n    {BEGINS}"),
        "may see the tensor",
    ),
    "another number that is set behind the loop": (
        program(
            "running['right'] /= 3\nkept.append(running)\nrunning['right'] += 0.5",
            COUNT,
            epoch="kept = []",
        ).replace("    return kept", "    return kept, running['right']"),
        "may see another number, which is set behind the loop",
    ),
    "a generator that is used later": (
        program("return (v for v in running.values())"),
        "a generator may use running later",
    ),
    "a nested function": (program("return lambda: running['loss']"), "nested function"),
    "a function that looks at it": (
        program("show()\n" + END)
        .replace("def train", "running = {}\n\n\ndef show():\n    print(running)\n\n\ndef train")
        .replace("    running = {'l", "    global running\n    running = {'l"),
        "running is global",
    ),
    "an argument": (program(END, start="pass").replace("(w, data)", "(w, data, running)"), "is an argument"),
    "a part of an object": (program(END, "self.running['loss'] += loss.item()"), "not a variable of the function"),
    "locals()": (program("print(locals())"), "locals() may look at running"),
    "exec": (program("exec('print(running)')"), "exec() may look at running"),
    "taken out": (program("del running['loss']"), "bound in another way"),
    "a copied sum that is handed on": (
        program("return running", "running['right'] += x.gt(y).sum().cpu()").replace("PIN201", "PIN203"),
        "is handed on behind its loop",
    ),
}


@pytest.mark.parametrize("name", HITS)
def test_a_sum_in_a_dictionary_stays_on_the_gpu(name: str, tmp_path: Path) -> None:
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
def test_a_dictionary_that_something_else_may_see_keeps_numbers(name: str, tmp_path: Path) -> None:
    code, why = MISSES[name]
    compile(code, name, "exec")
    outcome = mended(tmp_path, code)
    assert outcome.is_unchanged, outcome.code
    assert why in outcome.why
