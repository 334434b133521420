from pinprof.rules.rule import Change, Rule
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN207",
    title="`repeat_interleave()` waits for the GPU",
    short="give output_size",
    numbers="equal",
    why="The sum of the repeats is the size of the result: the host waits for it, and once more to check their signs.",
    fix="Give output_size.",
    before="y = torch.repeat_interleave(x, repeats, dim=0)",
    code="y = torch.repeat_interleave(x, repeats, dim=0, output_size=total)",
    safe_if="total is exactly the sum of the repeats, known on the host, and no repeat is negative: with any other "
    "total the result is wrong, or memory is overwritten.",
    near_miss="y = torch.repeat_interleave(x, 3, dim=0)  # one number of Python: the size is known",
    change=Change(r"\brepeat_interleave\(", "give output_size"),
    **waits_of("repeat_interleave"),
)
