from pinprof.rules.rule import Change, Rule
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN204",
    title="`print(tensor)` waits for the GPU",
    short="print less often",
    numbers="equal",
    why="To format a tensor, torch reads its smallest and largest values, which values are finite, and each element "
    "that it shows: dozens of waits for one line of text.",
    fix="Print a copy on the host, and not in each step.",
    before="print(x)  # a tensor of the GPU, in each step",
    code="if step % 100 == 0:\n    print(x.detach().cpu())  # one wait instead of many",
    safe_if="No program reads the text: it has the same numbers, but neither device nor grad_fn, and only every 100th "
    "step prints it.",
    near_miss="print(x.shape, x.dtype, x.device)  # reads no value",
    change=Change(r"\b(?:print|repr|str|format)\(", "print a copy on the host, and not in each step"),
    **waits_of("print"),
)
