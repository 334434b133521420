"""An optimizer that launches for each parameter."""

from collections.abc import Iterator

from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.rules.launches.late import late_ns
from pinprof.rules.rule import Evidence, Rule
from pinprof.units import duration, how_many
from pinprof.whatif.edits import Edits
from pinprof.whatif.regions import capture_of

MANY = 20
"""Launches of an optimizer that a fused one is far below: it makes a few for all parameters of a kind."""


def _optimizer(details: Details, profile: Profile) -> Iterator[Evidence]:
    """Look for optimizers that launch kernels for each parameter."""
    launches, late = profile.launches, late_ns(details, profile)
    phase = next((each for each in launches.phases if each.phase == "optimizer"), None) if launches else None
    if phase is None or phase.launches < MANY or not late:
        return
    calls = capture_of(details.trace, details.syncs, "optimizer").calls
    yield Evidence(
        min(phase.host_ns, late),
        f"the optimizer makes {how_many(phase.launches)} launches {profile.steps.per}, for which the host takes "
        f"{duration(phase.host_ns)} as traced; their kernels run for {duration(phase.kernel_ns)}, of which a fused "
        "optimizer saves a part that is not predicted",
        edits=Edits(fused=frozenset(calls.tolist())),
    )


RULES = (
    Rule(
        id="PIN602",
        title="an optimizer that launches for each parameter",
        looks_at="Launches between the marks of torch.optim's steps.",
        why=(
            "An optimizer without foreach or fused runs a dozen small ops for each parameter. With foreach it runs a "
            "dozen for all parameters, with fused one."
        ),
        fix="fused=True; where the optimizer has none, foreach=True.",
        before="optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)",
        code="optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)",
        safe_if="The parameters are floating-point numbers on one kind of device. Results differ by rounding.",
        look=_optimizer,
    ),
)
