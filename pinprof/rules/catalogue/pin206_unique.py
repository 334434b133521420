from pinprof.rules.rule import Change, Rule
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN206",
    title="`unique()` waits for the GPU",
    short="no unique()",
    numbers="equal",
    why="The number of unique values is the size of the result: the host waits to learn it.",
    fix="Keep it out of the step, do it on the host in the DataLoader's workers, or mark first occurrences in a "
    "sorted tensor of fixed size. Instead of isin, compare with each of a few values.",
    before="values = torch.unique(x)\n\n# or membership:\nfound = torch.isin(x, wanted)",
    code="ordered = x.flatten().sort().values\n"
    "first = torch.ones_like(ordered, dtype=torch.bool)\n"
    "first[1:] = ordered[1:] != ordered[:-1]  # the values are where first is true\n\n"
    "# or membership:\n"
    "found = (x.unsqueeze(-1) == wanted).any(-1)",
    safe_if="The code that follows can work with the mask: ordered[first] would wait again. For membership: wanted "
    "has one dimension, and memory suffices for x.numel() * wanted.numel() bools.",
    near_miss="values = torch.unique(host)  # of a tensor of the CPU: nothing waits",
    change=Change(r"\b(?:unique|unique_consecutive|isin)\(", "keep it out of the step"),
    **waits_of("unique"),
)
