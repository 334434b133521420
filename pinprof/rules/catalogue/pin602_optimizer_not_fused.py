from pinprof.ground.units import duration, how_many
from pinprof.prediction.graphs import capture_of, fused_ns, fusible
from pinprof.rules.launching import late_ns
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule

MIN_OPTIMIZER_LAUNCHES = 20
"""Launches of an optimizer that a fused one is far below: it makes a few for all parameters of a kind."""
MIN_FUSED_SHARE_OF_STEP = 0.01
"""If no launch comes late, a fused optimizer has to spare at least this share of the step on the GPU."""


def _optimizer(details: Details, profile: Profile) -> AllEvidence:
    late = late_ns(profile)
    phases = profile.launches.phases if profile.launches else ()
    phase = next((part for part in phases if part.name == "optimizer"), None)
    if phase is None or phase.launches < MIN_OPTIMIZER_LAUNCHES:
        return
    of_optimizers = capture_of(details.trace, details.syncs, "optimizer").calls
    calls = fusible(details.trace, of_optimizers)
    share = len(calls) / max(len(of_optimizers), 1)
    launches, host_ns = phase.launches * share, phase.host_ns * share
    fused = fused_ns(details.trace, calls)
    as_recorded = float(details.trace.gpu.duration_ns[list(fused)].sum())
    spared = (as_recorded - sum(fused.values())) / profile.steps.divisor
    if launches < MIN_OPTIMIZER_LAUNCHES or (not late and spared < MIN_FUSED_SHARE_OF_STEP * (profile.step_ns or 0.0)):
        return
    less = f", and {duration(spared)} less in a fused optimizer" if spared else ""
    yield Evidence(
        max(min(host_ns, late), spared),
        f"the optimizer makes {how_many(launches)} launches {profile.steps.per}, for which the host takes "
        f"{duration(host_ns)} as traced; their kernels run for {duration(phase.kernel_ns * share)}{less}",
        edits=Edits(fused=calls),
    )


RULE = Rule(
    id="PIN602",
    title="an optimizer that is not fused",
    short="fused=True",
    answers=("launch", "host"),
    what_if="--fused-optimizer",
    numbers="rounding",
    why="An optimizer without foreach or fused runs a dozen small ops for each parameter. With foreach it runs a "
    "dozen for all parameters, with fused one, which also reads and writes the GPU's memory only once.",
    fix="fused=True; where the optimizer has none, foreach=True.",
    before="optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)",
    code="optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)",
    safe_if="The parameters are floating-point numbers on one kind of device. Results differ by rounding.",
    near_miss="optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)  # a few launches",
    search=_optimizer,
)
