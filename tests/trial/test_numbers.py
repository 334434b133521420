"""Whether two programs compute the same: the comparison itself, and programs that really run on the CPU."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

from pinprof.ab import ProgramVersion
from pinprof.ab.worker import Nudged
from pinprof.errors import MeasureError
from pinprof.trial.first_numbers import Nudge, updates_nudged
from pinprof.trial.numbers import ComputedSums, Numbers, NumbersComparison, compare_numbers
from pinprof.trial.versions import for_numbers, run_all

TRAINING = """
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    data = TensorDataset(torch.randn(400, 8), torch.randn(400, 1))
    one, other = (torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)) for _ in "ab")
    optimizers = [torch.optim.Adam(net.parameters(), lr=LR, foreach=FOREACH, fused=FUSED) for net in (one, other)]
    for x, y in DataLoader(data, batch_size=8, shuffle=True, num_workers=WORKERS):
        for net, optimizer in zip((one, other), optimizers):
            loss = ((net(x) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total = TOTAL
"""
AS_IT_IS = {"LR": "0.01", "FOREACH": "True", "FUSED": "None", "WORKERS": "1", "TOTAL": "loss.item()"}
INFERENCE = """
import torch
net = torch.nn.Linear(4, 4)
with torch.no_grad():
    for step in range(500):
        out = {"logits": net(torch.randn(2, 4) * SCALE)}
"""
Run = Callable[..., Numbers]


@pytest.fixture
def run(warm: None, known: Run) -> Run:
    return known


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the numbers of a program, each run once."""
    folder = tmp_path_factory.mktemp("programs")
    seen_of: dict[tuple[str, str | None, int], Numbers] = {}

    def numbers(text: str, *, nudged: Nudged | None = None, again: int = 0, **words: str) -> Numbers:
        for name, value in words.items():
            text = text.replace(name, value)
        key = text, nudged, again
        if key not in seen_of:
            (folder / f"train{len(seen_of)}.py").write_text(text)
            program = ProgramVersion("it", (f"train{len(seen_of)}.py",), folder)
            (seen,) = run_all([for_numbers(program, 4, nudged)], together=False)
            assert not isinstance(seen, MeasureError), seen
            seen_of[key] = Numbers.of(seen)
        return seen_of[key]

    return numbers


def training(run: Run, nudged: Nudged = "bits", rate: str = AS_IT_IS["LR"], **changed: str) -> NumbersComparison:
    """Return how a changed program compares with the one before, whose learning rate is given."""
    words = {**AS_IT_IS, "LR": rate}

    def others() -> tuple[Numbers, Numbers]:
        return run(TRAINING, again=1, **words), run(TRAINING, nudged=nudged, **words)

    return compare_numbers(run(TRAINING, **words), run(TRAINING, **{**words, **changed}), others)


def test_a_sum_that_is_kept_computes_the_same_bit_for_bit(run: Run) -> None:
    comparison = training(run, TOTAL="loss.detach().double()")
    assert (comparison.verdict, comparison.steps, comparison.kinds) == ("equal", 4, ("loss", "parameters"))
    assert comparison.repeated is None, "the original need not run again"


@pytest.mark.slow
def test_a_fused_optimizer_differs_by_rounding(run: Run) -> None:
    comparison = training(run, FOREACH="None", FUSED="True")
    assert comparison.verdict == "rounding"
    assert comparison.repeated == 0
    assert 0 < (comparison.distance or 0) < 1e-6


@pytest.mark.slow
def test_updates_that_round_otherwise_are_rounding_where_the_change_is_known_to_do_so(run: Run) -> None:
    """Fused kernels on a GPU correct the means in float32, which is more than a last bit of an update.

    The bound is 8 times 1.5e-5 of an update: three times the first change, and an eighth of the last. At a large
    learning rate the first is 18 times what last bits of parameters allow, so that no processor's rounding comes near.
    """

    def changed(nudged: Nudged, factor: str) -> str:
        return training(run, nudged, "0.1", LR=f"0.1 * {factor}").verdict

    assert changed("bits", "1.00004") == "different"
    assert changed("updates", "1.00004") == "rounding"
    assert changed("updates", "1.001") == "different", "a thousandth is more than rounding"


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"LR": "0.01001"}, {"TOTAL": "[p.data.mul_(1.00001) for p in one.parameters()]"}])
def test_a_small_change_of_the_numbers_is_not_taken_for_rounding(run: Run, change: dict[str, str]) -> None:
    comparison = training(run, "bits", **change)
    assert comparison.verdict == "different"
    assert comparison.why.startswith(("parameters after step", "loss "))


@pytest.mark.slow
def test_other_random_numbers_are_different(run: Run) -> None:
    assert training(run, TOTAL="torch.rand(1)").verdict == "equal", "nothing depends on them"
    assert training(run, shuffle="drop_last").verdict == "different"


@pytest.mark.slow
def test_a_program_that_only_computes_is_compared_by_its_outputs(run: Run) -> None:
    one, same, other = (run(INFERENCE, again=again, SCALE=scale) for again, scale in ((0, "1"), (1, "1"), (0, "1.001")))
    assert one.kinds == ("output",)
    assert compare_numbers(one, same, lambda: (same, same)).verdict == "equal"
    assert compare_numbers(one, other, lambda: (same, run(INFERENCE, nudged="bits", SCALE="1"))).verdict == "different"


@pytest.mark.slow
def test_a_program_without_torch_or_one_that_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("print('nothing')")
    (tmp_path / "fails.py").write_text("import torch\nraise ValueError('no data')")
    seen = run_all(
        [for_numbers(ProgramVersion(name, (name,), tmp_path), 4) for name in ("none.py", "fails.py")], together=True
    )
    assert isinstance(seen[1], MeasureError)
    assert "no data" in str(seen[1])
    assert not isinstance(seen[0], MeasureError)
    nothing = Numbers.of(seen[0])
    comparison = compare_numbers(nothing, nothing, lambda: (nothing, nothing))
    assert comparison.verdict == "cannot_tell"
    assert "neither calls backward" in comparison.why


def test_a_nudge_changes_last_bits_and_leaves_what_has_no_values() -> None:
    known, lazy = torch.nn.Linear(8, 8), torch.nn.LazyLinear(3)
    before = known.weight.detach().clone()
    Nudge()(torch.nn.Sequential(known, lazy, torch.nn.Linear(2, 2, device="meta")))
    assert 0 < (known.weight - before).abs().max() < 1e-6
    assert torch.nn.parameter.is_lazy(lazy.weight)


def test_longer_updates_leave_learning_rates_as_they_were() -> None:
    one, other = (torch.nn.Parameter(torch.ones(1)) for _ in "ab")
    groups: list[dict[str, object]] = [{"params": [one]}, {"params": [other], "lr": torch.tensor(0.5)}]
    optimizer = torch.optim.Adam(groups, lr=0.1)
    rates = [group["lr"] for group in optimizer.param_groups]
    one.grad, other.grad = torch.ones(1), torch.ones(1)
    with updates_nudged():
        optimizer.step()
    assert all(now["lr"] is before for now, before in zip(optimizer.param_groups, rates, strict=True))
    assert float(1 - one.detach()) == pytest.approx(0.1 * (1 + 2**-26 / 0.001), rel=2e-6)
    moved = one.detach().clone()
    optimizer.step()
    assert float(moved - one.detach()) == pytest.approx(0.1, rel=2e-6), "no longer"


# ---------------------------------------------------------------- the comparison itself

ONE = ComputedSums("loss", "float32", 7, (1.0, 1.0, 1.0))
EPSILON = sys.float_info.epsilon * 2.0**29


def off(by: float, *, bits: int = 8) -> Numbers:
    """Return numbers whose loss is off by so much."""
    return Numbers(1, (replace(ONE, bits=bits, sums=(1.0 + by, 1.0, 1.0)),))


@pytest.mark.parametrize(
    ("by", "again", "nudged", "verdict"),
    [
        (0.0, 0.0, 0.0, "rounding"),  # the bits are others, the sums the same
        (4 * EPSILON, 0.0, 0.0, "rounding"),
        (5 * EPSILON, 0.0, 0.0, "different"),
        (7e-3, 0.0, 1e-3, "rounding"),
        (9e-3, 0.0, 1e-3, "different"),
        (9e-3, 2e-3, 1e-3, "rounding"),
        (1e-9, 9e-3, 1e-3, "cannot_tell"),
        (float("nan"), 0.0, 1e-3, "different"),
    ],
)
def test_what_rounding_makes_of_the_program_is_the_measure(
    by: float, again: float, nudged: float, verdict: str
) -> None:
    comparison = compare_numbers(Numbers(1, (ONE,)), off(by), lambda: (off(again), off(nudged)))
    assert comparison.verdict == verdict
    assert bool(comparison.why) == (verdict in {"different", "cannot_tell"})


def test_what_makes_other_calls_is_different() -> None:
    comparison = compare_numbers(Numbers(1, (ONE,)), Numbers(1, (ONE, ONE)), lambda: (off(0), off(0)))
    assert comparison.verdict == "different"


def scaled(skipped: int, *, loss: float = 1.0, fused: bool = False) -> Numbers:
    """Return the numbers of six steps by a GradScaler that skips some: a fused optimizer is called all the same."""
    step = ComputedSums("parameters", "float32", 9, (3.0, 3.0, 3.0))
    last = replace(ONE, sums=(loss, 1.0, 1.0), bits=int(7 * loss))
    steps = [(loss, step) if fused or number >= skipped else (loss,) for number, loss in enumerate([ONE] * 5 + [last])]
    return Numbers(6, tuple(figure for both in steps for figure in both))


def test_steps_that_a_scaler_skips_are_compared_by_their_losses() -> None:
    before = scaled(2)
    comparison = compare_numbers(before, scaled(2, fused=True), lambda: (before, before))
    assert (comparison.verdict, comparison.kinds) == ("equal", ("loss",))
    comparison = compare_numbers(before, scaled(2, loss=2.0, fused=True), lambda: (before, before))
    assert (comparison.verdict, comparison.repeated) == ("different", 0)
    assert compare_numbers(scaled(4), scaled(2), lambda: (before, before)).kinds == ("loss",)


def test_where_the_original_does_not_run_again_nobody_can_tell() -> None:
    def fails() -> tuple[Numbers, Numbers]:
        raise MeasureError("no memory")

    assert compare_numbers(Numbers(1, (ONE,)), off(1), fails).why == "no memory"
