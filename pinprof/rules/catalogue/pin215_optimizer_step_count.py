from pinprof.rules.rule import Change, Rule
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN215",
    title="the optimizer reads its step count from the GPU",
    short="capturable=True",
    numbers="rounding",
    why="torch.set_default_device('cuda'), torch.set_default_tensor_type with a type of the GPU, or a checkpoint that "
    "was loaded onto the GPU put the step counts there. Without fused or capturable the optimizer computes with them "
    "on the host, and waits for each parameter.",
    fix="Make the optimizer with fused=True, or with capturable=True where it has no fused form: it then computes "
    "with the counts on the GPU. Or keep the default device on the host, and move the model to the GPU.",
    before="optimizer = torch.optim.Adam(model.parameters(), lr=lr)  # the default device is the GPU\n"
    "optimizer.step()  # waits for each parameter",
    code="optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)\n"
    "optimizer.step()\n\n"
    "# or in an optimizer that has no fused form:\n"
    "optimizer = torch.optim.NAdam(model.parameters(), lr=lr, capturable=True)",
    safe_if="All parameters are on the GPU, and no gradient is sparse. load_state_dict takes fused and capturable "
    "from the checkpoint: set them in optimizer.param_groups after it. The numbers round otherwise.",
    near_miss="optimizer = torch.optim.Adam(model.parameters())  # the default device is the host\noptimizer.step()",
    change=Change(r"\.step\(", "make the optimizer with fused=True, or capturable=True"),
    **waits_of("optimizer_state"),
)
