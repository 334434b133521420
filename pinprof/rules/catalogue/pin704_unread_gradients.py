from pinprof.ground.units import counted, listed
from pinprof.rules.rule import AllEvidence, Details, Evidence, Profile, Rule
from pinprof.rules.snippets import PLAIN_TRAINING

MIN_UNREAD_ELEMENTS = 100_000  # numbers of gradients: fewer cost a step nothing that can be told


def _unread(details: Details, profile: Profile) -> AllEvidence:  # noqa: ARG001  every rule is asked the same way
    unread = profile.info.unread
    if unread is None or unread.elements < MIN_UNREAD_ELEMENTS:
        return
    parts = []
    if unread.inputs:
        shapes = [" x ".join(map(str, shape)) for shape in unread.inputs]
        parts.append(f"of a tensor that is not a parameter ({listed(shapes, len(shapes))})")
    if unread.parameters:
        modules = f" of {listed(list(unread.modules), len(unread.modules))}" if unread.modules else ""
        parts.append(f"of {counted(unread.parameters, 'parameter')}{modules}")
    yield Evidence(
        0.0,
        f"backward computes {unread.elements:,} gradient elements {' and '.join(parts)}; nothing had read them when "
        "the last recorded step ended",
        at_any_cost=True,
    )


RULE = Rule(
    id="PIN704",
    title="gradients that nobody reads",
    short="no unread gradients",
    figures=(),
    answers=("gpu", "launch"),
    numbers="equal",
    why="For each tensor that requires a gradient, backward runs one more product or convolution, and writes a tensor "
    "as large as it: for inputs with requires_grad=True, and for parameters that were given to no optimizer.",
    fix="Give inputs no requires_grad. Call requires_grad_(False) on the modules that no optimizer trains, and run "
    "them under torch.no_grad() if nothing before them is trained.",
    before="for x, y in batches:\n"
    "    x.requires_grad_(True)  # and x.grad is never read\n"
    "    optimizer.zero_grad()\n"
    "    loss_of(model(x), y).backward()\n"
    "    optimizer.step()",
    code=PLAIN_TRAINING,
    safe_if="Nothing reads the gradient later than at the end of the step, and none is meant to be added up for later.",
    near_miss="x = torch.randn(4, 8, device=device, requires_grad=True)\n"
    "(x * x).sum().backward()\n"
    "attacked = x + 0.1 * x.grad.sign()  # it is read",
    search=_unread,
)
