from dataclasses import replace

from pinprof.rules.rule import AllEvidence, Change, Details, Profile, Rule
from pinprof.rules.wait_sites import search_waits, waits_of

PATH_OF_DISTRIBUTIONS = "torch/distributions/"  # in the files whose code validates the arguments of a distribution
TITLE_OF_VALIDATION = "a distribution that validates its arguments waits for the GPU"
FIX_OF_VALIDATION = (
    "Turn the validation off where the arguments are known to be right: validate_args=False, or for all distributions "
    "torch.distributions.Distribution.set_default_validate_args(False)."
)


def _branches(details: Details, profile: Profile) -> AllEvidence:
    """Look for branches on values; what torch.distributions asks by itself has a fix of its own."""
    for evidence in search_waits("bool")(details, profile):
        places = {evidence.place, *(site.place for site in evidence.sites)}
        stacks = [site.stack for site in details.syncs.sites if site.cause == "bool" and site.place in places]
        validate = all(any(PATH_OF_DISTRIBUTIONS in entry for entry in stack) for stack in stacks)
        yield replace(evidence, title=TITLE_OF_VALIDATION, fix=FIX_OF_VALIDATION) if stacks and validate else evidence


FACTS_OF_BRANCHES = waits_of("bool")
FACTS_OF_BRANCHES["search"] = _branches

RULE = Rule(
    id="PIN202",
    title="`if tensor:` waits for the GPU",
    short="no `if tensor:`",
    numbers="equal",
    why="Python can only branch once it knows the value, and so waits for all work queued before.",
    fix="Leave the decision to the GPU. To skip a step: a GradScaler with a fused optimizer, which skips where a "
    "gradient is not finite. Replacing the loss before backward() is not enough: 0 times inf is nan in the gradients. "
    "To choose: torch.where; where gradients are needed, choose between the inputs. To check: torch._assert_async. "
    "Validation: turn it off where the arguments are known to be right (validate_args=False; "
    "logging_nan_inf_filter=False in transformers).",
    before="for batch in batches:\n"
    "    loss = loss_of(batch)\n"
    "    if torch.isfinite(loss):  # waits to decide\n"
    "        loss.backward()\n"
    "        optimizer.step()\n"
    "    optimizer.zero_grad()\n\n"
    "# or a choice:\n"
    "y = a if score > 0 else b\n\n"
    "# or a check:\n"
    "assert torch.isfinite(loss)\n\n"
    "# or arguments that are validated:\n"
    "normal = torch.distributions.Normal(mean, std)",
    code="scaler = torch.amp.GradScaler(device, init_scale=1.0)  # once; the optimizer has fused=True\n"
    "for batch in batches:\n"
    "    loss = loss_of(batch)\n"
    "    loss = loss * torch.where(torch.isfinite(loss), 1.0, torch.nan)  # bad: nan in all gradients\n"
    "    scaler.scale(loss).backward()\n"
    "    scaler.step(optimizer)  # changes nothing where a gradient is not finite\n"
    "    scaler.update(1.0)\n"
    "    optimizer.zero_grad()\n\n"
    "# or a choice:\n"
    "y = torch.where(score > 0, a, b)\n\n"
    "# or a check:\n"
    "torch._assert_async(torch.isfinite(loss))\n\n"
    "# or arguments that are right:\n"
    "normal = torch.distributions.Normal(mean, std, validate_args=False)",
    safe_if="For the step: the optimizer is Adam or AdamW with fused=True, or SGD without momentum. SGD with momentum "
    "starts from unset memory if the very first loss is bad. Weights, moments and step count are then as with the if. "
    "A step is also skipped if only its gradients are not finite. For a choice: both sides may be computed, and have "
    "finite gradients. A failed _assert_async ends the process's CUDA context: you cannot handle it as an exception.",
    near_miss="if x.shape[0] > 1:  # the host knows shapes\n    y = x.mean(0)",
    change=Change(r"\b(?:if|while|assert)\b[^:#]*", "leave the decision to the GPU"),
    **FACTS_OF_BRANCHES,
)
