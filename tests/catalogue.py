"""Expressions that make the host wait for the GPU, one function each, with what pinprof is to call the wait.

The numbers are rows of a catalogue of what makes PyTorch wait; comments name the op that tells. What an op waits for by
its own doing is `other`: the code cannot keep that on the GPU.
"""

import io
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  as everybody writes it

Expression = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """An expression and the causes of its waits; no cause: it does not wait."""

    name: str
    causes: frozenset[str]
    maybe: frozenset[str]
    """Causes that some versions of torch and states of its allocator have."""
    run: Expression


def cases() -> list[Case]:
    """Return all cases, their operands on the present CUDA device."""
    device = torch.device("cuda")
    all_cases: list[Case] = []

    def case(name: str, *causes: str, maybe: str = "") -> Callable[[Expression], Expression]:
        def add(run: Expression) -> Expression:
            all_cases.append(Case(name, frozenset(causes), frozenset(maybe.split()), run))
            return run

        return add

    x = torch.rand(512, 512, device=device)
    y = torch.rand(512, 512, device=device)
    mask = x > 0.5
    value = torch.tensor(3.0, device=device)
    number = torch.tensor(3, device=device)
    flags = torch.ones(4, dtype=torch.bool, device=device)
    index = torch.arange(64, device=device)
    repeats = torch.full((512,), 2, device=device)
    host = torch.rand(1024, 1024)
    pinned = torch.rand(1024, 1024, pin_memory=True)
    strided = torch.rand(2048, 2048, pin_memory=True)[::2, ::2]
    target = torch.empty(1024, 1024, pin_memory=True)
    big = torch.rand(1024, 1024, device=device)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    weight = torch.nn.Parameter(torch.rand(512, 512, device=device))

    _values(case, x, y, value, number, flags)
    _shapes(case, x, y, mask, index, repeats)
    _checks(case, x, value)
    _copies(case, x, host, pinned, strided, target, big)
    _optimizers(case, weight)
    _streams(case, big, event, side)
    _memory(case)
    _lookalikes(case, x, mask, pinned, big, event, side)
    return all_cases


def _values(case: Any, x: Any, y: Any, value: Any, number: Any, flags: Any) -> None:
    case("1 item", "item")(value.item)
    case("1 float", "item")(lambda: float(value))
    case("1 int", "item")(lambda: int(number))
    case("2 if", "bool")(lambda: 1 if value > 2 else 0)
    case("2 assert all", "bool")(lambda: not (x >= 0).all())
    case("3 max of two", "bool")(lambda: max(value, number))
    case("3 in", "bool")(lambda: value in [value + 1, value])
    case("4 nan filter", "bool")(lambda: bool(torch.isnan(value)) or bool(torch.isinf(value)))
    case("5 tolist", "tolist")(x.tolist)
    case("6 cpu", "to_cpu")(x.cpu)
    case("6 to cpu", "to_cpu")(lambda: x.to("cpu"))
    case("7 numpy force", "to_cpu")(lambda: x.numpy(force=True))
    case("8 print", "print")(lambda: print(value, x, file=io.StringIO()))
    case("8 format", "print")(lambda: f"{x}")
    case("8 format of a scalar", "item")(lambda: f"{value:.3f}")
    case("8 repr", "print")(lambda: repr(x))
    case("9 equal", "equal")(lambda: torch.equal(x, y))
    case("9 equal itself", "equal")(lambda: torch.equal(x, x.clone()))
    case("10 allclose", "equal")(lambda: torch.allclose(x, y))
    case("11 arange of a tensor", "item")(lambda: torch.arange(number, device="cuda"))
    case("11 range", "item")(lambda: list(range(number)))
    case("11 slice", "item")(lambda: x[:number])
    case("12 index by a scalar", "item")(lambda: x[number])
    case("13 narrow", "other")(lambda: torch.narrow(x, 0, number, 2))


def _shapes(case: Any, x: Any, y: Any, mask: Any, index: Any, repeats: Any) -> None:
    case("14 nonzero", "nonzero")(x.nonzero)
    case("14 where", "nonzero")(lambda: torch.where(mask))
    case("14 argwhere", "nonzero")(lambda: torch.argwhere(mask))
    case("15 mask", "mask_index")(lambda: x[mask])
    case("16 mask set to tensor", "mask_index")(lambda: x.clone().__setitem__(mask, y[mask]))
    case("17 masked_select", "masked_select")(lambda: torch.masked_select(x, mask))
    case("18 unique", "unique")(lambda: torch.unique(index))
    case("18 unique with counts", "unique")(lambda: index.unique(return_counts=True))
    case("18 unique_consecutive", "unique")(lambda: torch.unique_consecutive(index))
    case("18 unique of bool", "unique")(lambda: torch.unique(mask))
    case("19 unique by dim", "unique")(lambda: torch.unique(x[:8, :8], dim=0))
    case("20 repeat_interleave", "repeat_interleave")(lambda: torch.repeat_interleave(x, repeats, dim=0))
    case("21 bincount", "other")(lambda: torch.bincount(index))
    case("22 histc", "other")(lambda: torch.histc(x))
    case("23 one_hot", "other")(lambda: F.one_hot(index))
    case("24 isin", "unique", "blocking_copy_htod")(lambda: torch.isin(x.view(-1), torch.arange(3000, device="cuda")))
    case("25 mode", "blocking_copy_dtoh", "blocking_copy_htod", "other")(lambda: torch.mode(x.view(-1)))
    case("25 nanmedian", maybe="item")(lambda: torch.nanmedian(x))
    case("26 searchsorted with a sorter", "other")(lambda: torch.searchsorted(x[0], x[1], sorter=torch.argsort(x[0])))
    case("27 coalesce", "blocking_copy_dtoh", "other")(
        lambda: torch.sparse_coo_tensor(torch.stack((index, index)), index.float()).coalesce()
    )
    case("28 nested", "tensor_from_host")(lambda: torch.nested.nested_tensor([x[0], x[1]], layout=torch.jagged))
    case("30 splits", "tolist")(index.tolist)


def _checks(case: Any, x: Any, value: Any) -> None:
    positive = x + torch.eye(512, device=x.device) * 512
    normal: Any = torch.distributions.Normal
    case("31 distribution", "bool")(
        lambda: normal(value, value, validate_args=True).log_prob(value)
    )  # compiling ends it
    case("32 normal", "other")(lambda: torch.normal(x, x))
    case("33 multinomial", maybe="item")(lambda: torch.multinomial(x[0], 1))
    case("34 inv", "other")(lambda: torch.linalg.inv(positive))
    case("34 cholesky", "other")(lambda: torch.linalg.cholesky(positive @ positive.T))
    case("35 eig", "blocking_copy_dtoh", "blocking_copy_htod", "other")(lambda: torch.linalg.eig(x[:8, :8]))
    case("36 ctc_loss", "blocking_copy_htod", "other")(
        lambda: F.ctc_loss(
            x.view(64, 16, 256).log_softmax(2),
            torch.ones(16, 8, dtype=torch.long, device=x.device),
            torch.full((16,), 64, device=x.device),
            torch.full((16,), 8, device=x.device),
        )
    )
    lengths = torch.arange(1, 9, device=x.device)
    case("37 pack_padded_sequence", "to_cpu", "blocking_copy_htod")(
        lambda: torch.nn.utils.rnn.pack_padded_sequence(x.view(8, 64, 512), lengths.cpu(), enforce_sorted=False)
    )
    case("38 detect_anomaly", "nan_check")(lambda: _anomaly(x))
    case("39 prod backward", "nonzero")(lambda: x[0].clone().requires_grad_().prod().backward())


def _anomaly(x: Any) -> None:
    with torch.autograd.detect_anomaly(check_nan=True):
        x.clone().requires_grad_().square().sum().backward()


def _copies(case: Any, x: Any, host: Any, pinned: Any, strided: Any, target: Any, big: Any) -> None:
    case("40 tensor of a list", "tensor_from_host")(lambda: torch.tensor([1.0, 2.0], device="cuda"))
    case("40 as_tensor", "tensor_from_host")(lambda: torch.as_tensor([1.0, 2.0], device="cuda"))
    case("40 new_tensor", "tensor_from_host")(lambda: x.new_tensor([1.0, 2.0]))
    case("41 pageable to cuda", "blocking_copy_htod")(lambda: host.to("cuda"))
    case("41 pageable cuda", "blocking_copy_htod")(host.cuda)
    case("42 pinned to cuda", "blocking_copy_htod")(lambda: pinned.to("cuda"))
    case("43 pageable non_blocking", "pageable_copy")(lambda: host.to("cuda", non_blocking=True))
    case("44 pinned non_blocking")(lambda: pinned.to("cuda", non_blocking=True))
    case("45 strided pinned non_blocking", "pageable_copy")(lambda: strided.to("cuda", non_blocking=True))
    case("46 other dtype", "blocking_copy_htod")(lambda: host.to("cuda", torch.float16))
    case("47 index on the host", "blocking_copy_htod")(lambda: x[torch.tensor([1, 2])])
    case("47 index by a list", "tensor_from_host")(lambda: x[[1, 2, 3]])
    case("48 set by an index", "blocking_copy_htod", "tensor_from_host")(
        lambda: x.clone().__setitem__(torch.tensor([1], device="cuda"), 3.0)
    )
    case("49 set one", "blocking_copy_htod")(lambda: x[0].clone().__setitem__(0, 3.0))
    case("50 module to cuda", "blocking_copy_htod")(lambda: torch.nn.Linear(512, 512).to("cuda"))
    case("51 non_blocking to cpu")(lambda: big.to("cpu", non_blocking=True))
    case("52 into pageable", "pageable_copy")(lambda: host.copy_(big, non_blocking=True))
    case("52 blocking into pageable", "blocking_copy_dtoh")(lambda: host.copy_(big))
    case("52 blocking into pinned", "blocking_copy_dtoh")(lambda: target.copy_(big))
    case("53 save", "blocking_copy_dtoh")(lambda: torch.save(x, io.BytesIO()))
    case("54 pin_memory")(host.pin_memory)


def _optimizers(case: Any, weight: Any) -> None:
    def step_of(optimizer: Any, **scaler: Any) -> Expression:
        scaling = torch.amp.GradScaler("cuda", **scaler) if scaler else None

        def step() -> None:
            weight.grad = torch.full_like(weight, 1e-3)
            if scaling is None:
                optimizer.step()
            else:
                scaling.scale(torch.zeros((), device="cuda"))
                scaling.step(optimizer)
                scaling.update()

        return step

    optim = torch.optim
    case("55 GradScaler.step", "item")(step_of(optim.Adam([weight]), enabled=True))
    case("55 GradScaler.step, fused")(step_of(optim.Adam([weight], fused=True), enabled=True))

    def backward() -> None:
        with torch.autograd.detect_anomaly():
            (weight @ weight).sum().backward()

    case("57 detect_anomaly", "nan_check")(backward)
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(torch.zeros((), device="cuda"))
    case("56 get_scale", "item")(scaler.get_scale)
    case("58 clip, checked", "bool")(lambda: torch.nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True))
    case("58 clip")(lambda: torch.nn.utils.clip_grad_norm_([weight], 1.0))
    case("59 log the norm", "item")(lambda: torch.nn.utils.clip_grad_norm_([weight], 1.0).item())
    adam = optim.Adam([weight], foreach=False)
    weight.grad = torch.full_like(weight, 1e-3)
    adam.step()
    adam.state[weight]["step"] = adam.state[weight]["step"].cuda()
    case("60 step count on the GPU", "optimizer_state")(step_of(adam))
    case("62 Adafactor", "item")(step_of(optim.Adafactor([weight])))
    lbfgs: Any = optim.LBFGS([weight], max_iter=2)

    def closure() -> Any:
        lbfgs.zero_grad()
        loss: Any = weight.square().sum()
        loss.backward()
        return loss

    case("63 LBFGS", "item", "bool", maybe="device_malloc")(lambda: lbfgs.step(closure))


def _streams(case: Any, big: Any, event: Any, side: Any) -> None:
    def record_and_synchronize() -> None:
        event.record()
        event.synchronize()

    case("65 device synchronize", "device_synchronize")(torch.cuda.synchronize)
    case("66 stream synchronize", "stream_synchronize")(lambda: torch.cuda.current_stream().synchronize())
    case("66 side stream synchronize", "stream_synchronize")(side.synchronize)
    case("67 event synchronize", "event_synchronize")(record_and_synchronize)


def _memory(case: Any) -> None:
    def grow() -> None:
        torch.cuda.empty_cache()
        torch.empty(1 << 28, device="cuda")

    case("72 growth and 73 empty_cache", "device_malloc", "device_free")(grow)
    sizes = itertools.count(3 << 26, 1 << 26)
    kept: list[torch.Tensor] = []
    case("75 new pinned block", "host_alloc")(lambda: kept.append(torch.empty(next(sizes), pin_memory=True)))


def _lookalikes(case: Any, x: Any, mask: Any, pinned: Any, big: Any, event: Any, side: Any) -> None:
    def copy_on_side() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            copied = pinned.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        copied.record_stream(torch.cuda.current_stream())

    case("1J mask set to a number")(lambda: x.clone().__setitem__(mask, 0.0))
    case("1J where with three")(lambda: torch.where(mask, x, 0.0))
    case("1J one_hot with num_classes")(lambda: F.one_hot(mask[0].long(), num_classes=2))
    case("1J quantile")(lambda: torch.quantile(x[0], 0.5))
    case("1J query")(lambda: (event.query(), side.query()))
    case("1J wait_event")(lambda: side.wait_event(event))
    case("1J copy on a side stream", maybe="device_malloc")(copy_on_side)
    case("1J copy within the device")(big.clone)
    case("1J repeat_interleave with output_size")(
        lambda: torch.repeat_interleave(x, torch.full((512,), 2, device="cuda"), dim=0, output_size=1024)
    )
