"""While a profiler records, a call of a language model gets a mark that says how many requests and tokens it has."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from pinprof.capture.steps.sources import Observer, StepEvent, reporting_modules
from pinprof.trace.spans.model_calls import BATCH_IN_MARK


class Silent(Observer):
    def saw(self, event: StepEvent, subject: object = None) -> None:
        pass


class Model(nn.Module):
    """Takes what models of transformers take, and a cache before the tokens, as gpt-fast's."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, *args: object, **options: object) -> int:
        return len(args) + len(options)


def tokens(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.long)


def marks_of(call: Callable[[Model], object]) -> list[str]:
    with reporting_modules(Silent()), profile(activities=[ProfilerActivity.CPU]) as recorded:
        call(Model())
    return [event.name for event in recorded.events() if BATCH_IN_MARK.fullmatch(event.name)]


@pytest.mark.parametrize(
    ("call", "marks"),
    [
        (lambda model: model(tokens(8, 1)), ["pinprof batch 8x1"]),
        (lambda model: model(tokens(5), None, tokens(2, 30).int()), ["pinprof batch 2x30"]),
        (lambda model: model(attention_mask=tokens(4, 99), input_ids=tokens(4, 1)), ["pinprof batch 4x1"]),
        (lambda model: model(attention_mask=tokens(4, 99), inputs_embeds=torch.ones(4, 7, 16)), ["pinprof batch 4x7"]),
        (lambda model: model(idx=tokens(3, 5)), ["pinprof batch 3x5"]),
        (lambda model: [model(tokens(1, 9)), model(tokens(1, 1))], ["pinprof batch 1x9", "pinprof batch 1x1"]),
        (lambda model: model(torch.ones(4, 7)), []),
        (lambda model: model(torch.ones(8, 3, 4, 4), tokens(8, 1)), []),  # images and their labels
        (lambda model: model(torch.ones(4, 7).bool()), []),
        (lambda model: model(tokens(7)), []),
        (lambda model: model(input_ids=tokens(7), attention_mask=tokens(1, 7)), []),
        (lambda model: model("text"), []),
    ],
)
def test_a_call_with_tokens_gets_a_mark(call: Callable[[Model], object], marks: list[str]) -> None:
    assert marks_of(call) == marks


def test_no_mark_is_made_while_nothing_records(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(torch.profiler, "record_function", made.append)
    with reporting_modules(Silent()):
        assert Model()(tokens(8, 1)) == 1
    assert made == []
