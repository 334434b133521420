from pinprof.rules.rule import Change, Rule
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN205",
    title="`x[mask]` or `nonzero()` waits for the GPU",
    short="torch.where, no mask",
    numbers="rounding",
    why="The result's size depends on the values: the host must know it to allocate, and waits for the mask.",
    fix="Keep the shape: choose by the mask with torch.where, and sum the result. Do not multiply by the mask: a nan "
    "would stay nan.",
    before="loss = losses[mask].mean()\n\n"
    "# or an assignment:\n"
    "x[mask] = y[mask]\n\n"
    "# or positions:\n"
    "rows = torch.nonzero(mask)",
    code="loss = torch.where(mask, losses, 0.0).sum() / mask.sum()\n\n"
    "# or an assignment:\n"
    "x = torch.where(mask, y, x)\n\n"
    "# or positions, where it is known how many there are at most:\n"
    "rows = torch.nonzero_static(mask, size=limit)  # filled up with -1, which must index nothing",
    safe_if="The mask is of bools. Hidden elements get the gradient 0, as with the index. An earlier op that is not "
    "finite there turns this 0 into nan: apply torch.where to the inputs of that op. Nothing else uses the x that was "
    "changed in place. limit is large enough: positions beyond it are lost without an error.",
    near_miss="picked = x[rows]  # by positions: as many as there are rows",
    change=Change(r"\b(?:nonzero|masked_select|where)\(|\[[^\]]*\]", "keep the shape: torch.where"),
    **waits_of("nonzero", "mask_index", "masked_select"),
)
