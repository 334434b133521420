from pinprof.rules.rule import Change, Rule
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN209",
    title="`torch.tensor()` copies Python values to the GPU",
    short="make it on the GPU",
    numbers="equal",
    why="torch puts the values into a pageable tensor on the host. A blocking copy then waits for all work queued "
    "before it.",
    fix="Make constants once, before the loop; make regular values, such as zeros or ranges, on the GPU; copy the "
    "rest from pinned memory.",
    before="for batch in batches:\n    weights = torch.tensor(values, device=device)  # in each step\n"
    "    train(batch * weights)\n\n"
    "# or one number:\n"
    "half = torch.tensor(0.5, device=device)\n\n"
    "# or values that change:\n"
    "weights = torch.tensor(values, device=device)",
    code="weights = torch.tensor(values, device=device)  # once\n"
    "for batch in batches:\n    train(batch * weights)\n\n"
    "# or one number, made on the GPU:\n"
    "half = torch.full((), 0.5, device=device)\n\n"
    "# or values that change, if they are few:\n"
    "weights = torch.tensor(values, pin_memory=True).to(device, non_blocking=True)",
    safe_if="No code changes the constant in place.",
    near_miss="weights = torch.tensor(values)  # in host memory: nothing is copied",
    change=Change(r"\b(?:tensor|as_tensor|new_tensor)\(", "make it once, before the loop"),
    **waits_of("tensor_from_host"),
)
