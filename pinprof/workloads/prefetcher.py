"""A prefetcher to copy and use as it is: it copies the next batch to the GPU while this one is trained on."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar, cast, final

import torch
from torch import Tensor

Batch = TypeVar("Batch")


@final
class Prefetcher(Generic[Batch]):
    """The batches of a loader, on the device: each is copied on a stream of its own while the one before is used.

        for images, labels in Prefetcher(DataLoader(..., pin_memory=True), device):
            train(images, labels)

    A batch is a tensor, anything with `to(device, non_blocking=True)`, or a dict, list or tuple of these; other objects
    stay as they are. Without a GPU the copies are plain ones. Comments mark the rules of a correct prefetcher; two are
    for the caller: batches must be pinned and dense (otherwise the copy blocks the host and hides nothing), and a
    pinned batch must not be written again before its copy has ended (a DataLoader makes new ones).
    """

    def __init__(self, batches: Iterable[Batch], device: torch.device | str) -> None:
        self._batches = batches
        self._device = torch.device(device)
        on_gpu = self._device.type == "cuda"
        # One stream, made once: memory that was used on one stream is not given to another.
        self._side = torch.cuda.Stream(self._device) if on_gpu else None  # type: ignore[no-untyped-call]

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches, each safe to use on the stream that is current when it is drawn."""
        batches = iter(self._batches)
        ahead = [self._copied(batch) for batch in islice(batches, 1)]
        while ahead:
            if self._side is not None:  # no kernel reads the batch before its copy is complete
                torch.cuda.current_stream(self._device).wait_stream(self._side)
            batch = ahead.pop()
            ahead = [self._copied(later) for later in islice(batches, 1)]
            yield batch

    def _copied(self, batch: Batch) -> Batch:
        if self._side is None:
            return moved(batch, self._device)
        # The kernels queued so far come first: they may still read the memory that this copy is given, if it was that
        # of an earlier batch. It also keeps the copy one step ahead, not many, when the host runs ahead of the GPU.
        self._side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._side):
            return moved(batch, self._device)


def moved(batch: Batch, device: torch.device) -> Batch:
    """Return the batch with all its tensors on the device, without waiting for copies of pinned memory."""
    made: Any = batch
    if isinstance(made, Tensor) or hasattr(made, "to"):
        made = made.to(device, non_blocking=True)
    elif isinstance(made, Mapping):
        made = {key: moved(item, device) for key, item in made.items()}
    elif isinstance(made, tuple) and hasattr(made, "_fields"):
        made = type(made)(*(moved(item, device) for item in made))
    elif isinstance(made, list | tuple):
        made = type(made)(moved(item, device) for item in made)
    return cast("Batch", made)
