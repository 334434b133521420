from typing import Any

import pytest
import torch

from pinprof.capture.waits import copies_pageable_memory


@pytest.mark.parametrize(
    ("args", "more"), [((), {}), (("cpu",), {"non_blocking": True}), ((torch.float64,), {"non_blocking": True})]
)
def test_copies_that_stay_on_the_host_or_are_warned_of_are_not_marked(
    args: tuple[Any, ...], more: dict[str, Any]
) -> None:
    source = torch.zeros(3)
    assert not copies_pageable_memory(source.to(*args, **more), source, *args, **more)


def test_a_copy_from_a_tensor_of_many_values_is_looked_at_without_asking_for_its_truth() -> None:
    target, source = torch.zeros(3), torch.ones(3)
    assert not copies_pageable_memory(target.copy_(source), target, source)
    assert not copies_pageable_memory(target.copy_(source, True), target, source, True)
