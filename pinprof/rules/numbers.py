"""Whether a program computes the same numbers once it is changed, and once the fix of a rule is made."""

from typing import Literal

Numbers = Literal["equal", "rounding", "different"]
"""What a change does to the numbers of a program: nothing, they round otherwise, or they are others."""

OTHERS: dict[str, Numbers | None] = {
    "PIN205": "rounding",  # a sum of more elements, the hidden ones as 0
    "PIN215": "rounding",  # the GPU computes with the step count
    "PIN401": "different",  # each worker draws random numbers of its own
    "PIN402": "different",
    "PIN601": "rounding",  # what torch.compile fuses
    "PIN602": "rounding",
    "PIN604": "rounding",  # the GPU computes what the host did
    "PIN605": "rounding",  # other code of torch.compile
    "PIN607": "rounding",
    "PIN701": "different",
    "PIN702": "rounding",
    "PIN703": "rounding",
    **dict.fromkeys((f"PIN50{number}" for number in (1, 2, 3, 4, 5, 6, 8)), None),  # they may be wrong until then
    "PIN214": None,  # which op it is tells
}
"""The rules whose fix is not sure to keep the numbers; the code of all others is tested to give what it replaces."""


def numbers_after(rule: str) -> Numbers | None:
    """Return whether the numbers stay where the fix of a rule is made as its `safe_if` says; None if that is open."""
    return OTHERS.get(rule, "equal")
