from pinprof.rules.rule import Change, Rule
from pinprof.rules.snippets import COST_OF_LATER, READ_LATER, read_later
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN201",
    title="`.item()` waits for the GPU",
    short="read .item() later",
    numbers="equal",
    why="The value does not exist before all work queued for it is done: the host waits for the whole stream, and has "
    "nothing queued when it goes on.",
    fix="Keep the value on the GPU: accumulate in a tensor and read it every N steps. Or "
    f"{READ_LATER}. GradScaler.step reads no value with an optimizer that has fused=True.",
    before="for batch in batches:\n    log(train(batch).item())  # waits in each step",
    code="total = torch.zeros((), device=device)\n"
    "for step, batch in enumerate(batches, start=1):\n"
    "    total += train(batch).detach()  # a tensor on the GPU\n"
    "    if step % 100 == 0:\n"
    "        log(total.item() / 100)     # the mean: one wait in 100 steps\n"
    "        total.zero_()\n\n"
    "# or each value, one step late:\n" + read_later("()", "host.item()"),
    safe_if="No decision in the step depends on the value. Pinned memory is read only after the event: read "
    f"earlier, it silently holds old values. {COST_OF_LATER}",
    near_miss="value = host.sum().item()  # of a tensor of the CPU: nothing waits",
    change=Change(r"\.item\(|\b(?:float|int)\(", "keep it on the GPU; read it every N steps, or a step late"),
    **waits_of("item"),
)
