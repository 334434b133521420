"""Programs that nobody thought of: where a line is changed, the program shows what it showed before."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from fixing import mended, plain
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

EXAMPLES = int(os.environ.get("PINPROF_FIX_EXAMPLES", "60"))
READS = (
    "loss.item()",
    "float(loss)",
    "loss.detach().cpu().item()",
    "loss.data.item()",
    "loss.mean().item()",
    "criterion(w * x, y).item()",
    "F.mse_loss(w * x, y).item()",
    "value.item()",
    "x.float().item()",
    "(x > y).sum().item()",
    "x.gt(0).sum().item()",
    "torch.sum(x > 0).item()",
    "int((x > 0).sum())",
    "(x > 0).float().mean().item()",
    "(x > 0).type(torch.float).sum().item()",
    "x.abs().max().item()",
)
SHARES = ("{0}", "{0}", "{0}", "{0} * x.size(0)", "3 * {0}", "{0} / len(x)", "{0} * n", "{0} * step")
SUMS = {
    "grows": ("v += {0}", "v += {0}", "v = v + {0}"),
    "starts": ("v = 0", "v = 0", "v = 0.0", "v = 0.0", "v, n = 0, 0", "v = n = 0", "v = None", "pass"),
    "shows": (
        *("show(v)", "show(v / 3)", "show(f'{v:.3f}')", "show(f'{v}')", "show('{:.2f}'.format(v))", "show('%s' % v)"),
        *("show(max(v, 1))", "show(v == 0, type(v))", "show([v, v])", "u = v; show(u)", "show(round(v, 3))"),
    ),
    "changes": (
        "v /= 7",
        "v = v / 7",
        "v *= 2",
        "v /= len(data)",
        "v = 0",
        "v = 0.0",
        "v += 1",
        "v -= 1",
        "v /= 7\nv *= 100",
    ),
}
LISTS = {
    "grows": ("v.append({0})", "v.append({0})", "v += [{0}]"),
    "starts": ("v = []", "v = []", "v = []", "v = list()", "v = [1]", "v = u = []", "pass"),
    "shows": (
        "show(v)",
        "show(sum(v))",
        "show(len(v), v[-2:])",
        "show(*v)",
        "show(sum(v) / max(1, len(v)))",
        "show(u)",
        "u = v; show(u)",
    ),
    "changes": ("v = []", "v.append(1.5)", "v += [0]", "v.clear()", "v = v[-2:]", "show(v.pop() if v else 0)"),
}
NUMBERS = {
    "grows": ("v = {0}",),
    "starts": ("pass", "pass", "pass", "v = 0"),
    "shows": SUMS["shows"],
    "changes": ("v = 0", "v /= 2", "del v", "v += 1"),
}
WHOLE = (
    "show(d)",
    "show([*d.values()])",
    "show({k: e for k, e in d.items()})",
    "d = {'v': 0.0}",
    "d = {}",
    "show(d.get('v'))",
)
"""What programs do with a dictionary in which the variable is."""
STEPS = (
    "loss.data.zero_()",
    "loss.detach().mul_(2)",
    "loss = loss * 2",
    "value = loss",
    "n += len(x)",
    "n = x.size(0)",
    "show(step)",
    "x = x.float()",
    "if step == 3: break",
    "if step == 1: continue",
    "u = v",
    "loss = 0 if step == 2 else loss",
    "w.data.add_(0.1)",
    "del loss",
)
WHEN = (
    "if step % 3 == 2:",
    "if not step % 2:",
    "if step % 2 != 1:",
    "if step == 2:",
    "if epoch % 2 == 0:",
    "if v:",
    "if True:",
)
OUTER = ("for again in range(2):", "while n < 2:\n    n += 1", "if True:", "try:", "with torch.no_grad():")
HEAD = """import torch
import torch.nn.functional as F
from torch import nn
criterion = nn.L1Loss()


def train(data, show):
    n, step, epoch = 1, 0, 0
    w = torch.tensor(0.7, requires_grad=True)
"""


def block(lines: list[str], depth: int = 1) -> str:
    return "".join(f"{'    ' * depth}{line}\n" for text in lines for line in text.split("\n"))


def nested(head: str, lines: list[str]) -> str:
    inner = "\n".join(f"    {line}" for text in lines for line in text.split("\n"))
    tail = "\nexcept (RuntimeError, ValueError):\n    show(v)" if head == "try:" else ""
    return f"{head}\n{inner}{tail}"


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Draw a training function, whose marked line reads a number in each step."""
    form = draw(st.sampled_from((SUMS, SUMS, LISTS, NUMBERS)))
    reads, changes = st.sampled_from(form["shows"]), st.sampled_from(form["changes"])
    share = draw(st.sampled_from(SHARES)) if form is SUMS else "{0}"
    line = draw(st.sampled_from(form["grows"])).format(share.format(draw(st.sampled_from(READS)))) + "  #? PIN201"
    seldom = draw(
        st.lists(st.one_of(reads, reads, changes), max_size=0 if form is LISTS and draw(st.booleans()) else 3)
    )
    if form is LISTS and draw(st.booleans()):
        seldom += [draw(reads), draw(st.sampled_from(("v = []", "v.clear()", "v, n = [], 1")))]
    often = draw(st.lists(st.sampled_from(STEPS), max_size=2))
    if seldom:
        often.append(nested(draw(st.sampled_from(WHEN[:3] * 3 + WHEN)), seldom))
    line_is = draw(st.integers(0, 9))
    often.append(nested("try:", [line]) if line_is == 0 else nested("if step:", [line]) if line_is == 1 else line)
    if draw(st.integers(0, 9)) == 0:
        often.append(draw(st.one_of(reads, changes)))
    step = ["loss = F.mse_loss(w * x, y)", "value = loss * 1.5"]
    step += [*(["loss.backward()"] if draw(st.booleans()) else []), *draw(st.permutations(often))]
    loop = nested("for step, (x, y) in enumerate(data):", step)
    after = draw(st.lists(st.one_of(reads, reads, changes), max_size=4))
    if draw(st.integers(0, 5)) == 0:
        loop += "\n" + nested("else:", draw(st.lists(reads, min_size=1, max_size=1)))
    if draw(st.integers(0, 3)) == 0:
        loop = nested(draw(st.sampled_from(OUTER)), [loop])
    start = draw(st.sampled_from(form["starts"]))
    keyed = form is SUMS and draw(st.booleans())
    if keyed:
        start = draw(
            st.sampled_from(("d = {'v': 0.0}", "d = {'v': 0.0, 'u': 3}", "d = {'v': 0}", f"d = {{}}\n{start}"))
        )
        after += draw(st.lists(st.sampled_from(WHOLE), max_size=2))
    inner = [start, loop, *after]
    tail = draw(st.lists(reads, max_size=2))
    if draw(st.booleans()):
        inner = [loop, *after]
        return HEAD + _of_key(block([start, nested("for epoch in range(2):", inner), *tail]), keyed=keyed)
    whole = nested("for epoch in range(2):", inner) if draw(st.booleans()) else "\n".join(inner)
    return HEAD + _of_key(block([whole, *tail]), keyed=keyed)


def _of_key(code: str, *, keyed: bool) -> str:
    """Return code with the variable as an element of a dictionary."""
    return re.sub(r"(?<!')\bv\b(?!')", 'd["v"]', code) if keyed else code


def shown(code: str, steps: int) -> list[str]:
    """Return what a program shows, to the last digit; its last word is the error that ends it."""
    torch.manual_seed(3)
    data = [(torch.randn(4), torch.randn(4)) for _ in range(steps)]
    seen: list[str] = []
    space: dict[str, Any] = {"__name__": "program"}
    exec(compile(code, "train.py", "exec"), space)
    try:
        space["train"](data, lambda *values: seen.append(repr(values)))
    except Exception as error:  # noqa: BLE001  of any kind
        seen.append(type(error).__name__)
    return seen


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 60)
@given(programs(), st.sampled_from((5, 5, 1, 0)))
def test_a_changed_program_shows_the_same(tmp_path_factory: pytest.TempPathFactory, code: str, steps: int) -> None:
    try:
        compile(plain(code), "train.py", "exec")
    except SyntaxError:
        assume(condition=False)
    outcome = mended(_folder(tmp_path_factory), code)
    event("changed" if outcome.patches.patches else "refused")
    if not outcome.patches.patches:
        return
    before = shown(plain(code), steps)
    if before and before[-1].endswith("Error"):
        event("failed before")
        return
    assert shown(outcome.code, steps) == before, outcome.code


def _folder(factory: pytest.TempPathFactory) -> Path:
    folder = factory.getbasetemp() / "same"
    folder.mkdir(exist_ok=True)
    return folder
