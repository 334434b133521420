from pinprof.rules.rule import Change, Rule
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN208",
    title="`torch.equal()` waits for the GPU",
    short="no torch.equal()",
    numbers="equal",
    why="They return a Python bool: the host waits for all work queued before.",
    fix="Compare on the GPU and keep the result there; leave torch.equal and torch.allclose to tests.",
    before="same = torch.equal(a, b)  # a bool of Python\n\n# or nearly:\nsame = torch.allclose(a, b)",
    code="same = (a == b).all()  # a tensor on the GPU\n\n# or nearly:\nsame = torch.isclose(a, b).all()",
    safe_if="No decision in the step depends on the result. a and b have the same shape: other shapes are broadcast.",
    near_miss="same = torch.eq(a, b)  # of each element: stays on the GPU",
    change=Change(r"\b(?:equal|allclose)\(", "compare on the GPU, and keep the result there"),
    **waits_of("equal"),
)
