from pinprof.rules.rule import Rule
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN214",
    title="an op waits for the GPU",
    short="avoid the op",
    numbers=None,
    why="The host waits for the GPU inside of an op, whatever the program does with the result.",
    fix="The op and the stack show where: look there for a way without a wait. torch.linalg has cholesky_ex, inv_ex "
    "and solve_ex, which leave the check to you; torch.where takes a number on the GPU; one_hot takes num_classes. If "
    "an op has to wait, call it rarely, or where the host waits anyway.",
    before="factor = torch.linalg.cholesky(a)  # the host reads whether it exists\n\n"
    "# or a value on the GPU:\n"
    "x = x.masked_fill(mask, value)  # the host reads value",
    code="factor, info = torch.linalg.cholesky_ex(a)  # info stays on the GPU; it is not 0 on failure\n\n"
    "# or a value on the GPU:\n"
    "x = torch.where(mask, value, x)",
    safe_if="Your code checks info, on the GPU or later: otherwise a failure goes unnoticed, and factor is invalid. "
    "For other ops, what is safe depends on the op.",
    near_miss="x = x.masked_fill(mask, 0.5)  # a number of Python",
    **waits_of("other", fixable=False),
)
