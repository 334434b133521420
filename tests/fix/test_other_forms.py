"""Forms that were missed in programs that fix was not made with, and what is near each."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fixing import OPTIMIZER, mended

from pinprof.fix.fixes.optimizers import MOST_OF_FUSED

LISTED = """import numpy as np
import torch.nn.functional as F

def train(model, loader):
    for epoch in range(3):
        losses = []
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            losses.append(KEPT)MARK
READ        losses = np.average(losses)
        print(losses)
"""
SUMMED = """import torch.nn.functional as F

def train(model, loader):
    total = 0
    for step, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        total += ADDEDMARK
        if step % 20 == 0:
            print('{:.3f}'.format(-SHOWN / (step + 1)), SHOWN)
            total = 0
"""
DECIDED = """import torch
for step, x in enumerate(loader):
    loss = model(x).mean()
    if DECIDED:MARK
        print("large")
"""
SCALED = """from torch import optim
opt = optim.Adam(model.parameters(), lr=1e-3OPTION)  #! optimizer
step()  #? PIN602
"""
BY_PLACE = """from torch import optim
opt = optim.SGD(params, 0.1, 0.9, 0, 5e-4, TrueOPTION)  #! optimizer
step()  #? PIN602
"""
MARK = "  #? PIN201"
READ = "        losses = [value.item() for value in losses]\n"
ADAM, SGD = replace(OPTIMIZER, kind="torch.optim.adam.Adam"), replace(OPTIMIZER, kind="torch.optim.sgd.SGD")


def filled(text: str, **parts: str) -> str:
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


HITS: dict[str, tuple[str, str, dict[str, Any]] | tuple[str, str]] = {
    "a list that becomes its mean": (
        filled(LISTED, KEPT="loss.item()", MARK=MARK, READ=""),
        filled(LISTED, KEPT="loss.detach().clone()", MARK="", READ=READ),
    ),
    "a sum from 0 that is shown behind the line that adds": (
        filled(SUMMED, ADDED="loss.item()", MARK=MARK, SHOWN="total"),
        filled(SUMMED, ADDED="loss.detach().double()", MARK="", SHOWN="float(total)"),
    ),
    "float() in a condition": (
        filled(DECIDED, DECIDED="float(loss) > 50 and step % 9 == 0", MARK=MARK),
        filled(DECIDED, DECIDED="step % 9 == 0 and float(loss) > 50", MARK=""),
    ),
    "foreach=False with a scaler": (
        filled(SCALED, OPTION=", foreach=False"),
        filled(SCALED, OPTION="").replace("  #! optimizer", "").replace("  #? PIN602", ""),
        {"has_scaler": True, "optimizer": replace(ADAM, foreach=False)},
    ),
    "all options of SGD by their places": (
        filled(BY_PLACE, OPTION=", foreach=False"),
        filled(BY_PLACE, OPTION=", fused=True").replace("  #! optimizer", "").replace("  #? PIN602", ""),
        {"optimizer": replace(SGD, foreach=False)},
    ),
}
STARTED = filled(SUMMED, ADDED="loss.item()", MARK=MARK, SHOWN="total")
BEHIND = STARTED.replace("            total = 0\n", "")
LIST = filled(LISTED, KEPT="loss.item()", MARK=MARK, READ="")
MISSES: dict[str, tuple[str, str, dict[str, Any]] | tuple[str, str]] = {
    "a list that becomes its mean within its loop": (
        LIST.replace("        losses = np", "            losses = np"),
        "something else than an empty list",
    ),
    "a list that becomes another one before its loop": (
        LIST.replace("        for x", "        if epoch:\n            losses = old\n        for x"),
        "something else than an empty list",
    ),
    "a list that is read before it begins anew": (
        LIST.replace("        losses = []\n", "        print(losses)\n        losses = []\n"),
        "may not follow its loop",
    ),
    "a sum that is shown before the line that adds": (
        STARTED.replace("        total += loss.item()  #? PIN201\n", "") + "        total += loss.item()  #? PIN201\n",
        "would show 0.0",
    ),
    "a sum that is added to on a condition": (
        STARTED.replace("        total +=", "        if x.any():\n            total +="),
        "would show 0.0",
    ),
    "a sum that begins anew before it is shown": (
        BEHIND.replace(
            "        if step % 20", "        if step % 50 == 0:\n            total = 0\n        if step % 20"
        ),
        "would show 0.0",
    ),
    "a sum that is shown behind its loop": (BEHIND + "    print(total)\n", "would show 0.0"),
    "int() in a condition, which fails for what is no number": (
        filled(DECIDED, DECIDED="int(loss) > 50 and step % 9 == 0", MARK=MARK),
        "may change something",
    ),
    "a float of the program's own": (
        "from mine import float\n" + filled(DECIDED, DECIDED="float(loss) > 50 and step % 9 == 0", MARK=MARK),
        "a float of its own",
    ),
    "a scaler with an optimizer that says nothing": (
        filled(SCALED, OPTION=""),
        "GradScaler",
        {"has_scaler": True, "optimizer": ADAM},
    ),
    "foreach by its place": (
        "import torch\nopt = torch.optim.Adadelta(params, 1, 0.9, 1e-6, 0, False)  #! optimizer\nf()  #? PIN602\n",
        "positional arguments",
        {"optimizer": replace(OPTIMIZER, kind="torch.optim.adadelta.Adadelta", foreach=False)},
    ),
}


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD"])
def test_what_decides_of_the_launches_has_no_place_among_the_arguments(kind: str) -> None:
    parameters = inspect.signature(getattr(torch.optim, kind)).parameters.values()
    assert sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters) == MOST_OF_FUSED


@pytest.mark.parametrize("name", HITS)
def test_a_form_that_is_certain_is_mended(name: str, tmp_path: Path) -> None:
    before, after, *rest = HITS[name]
    told: dict[str, Any] = rest[0] if rest else {}
    outcome = mended(tmp_path, before, **told)
    assert outcome.code == after, outcome.why


@pytest.mark.parametrize("name", MISSES)
def test_what_is_near_such_a_form_stays(name: str, tmp_path: Path) -> None:
    before, why, *told = MISSES[name]
    outcome = mended(tmp_path, before, **(told[0] if told else {}))
    assert outcome.is_unchanged
    assert why in outcome.why
