"""The causes of the host's waits: one row for each, with its words, its colour, and the ops and calls that show it."""

from dataclasses import KW_ONLY, dataclass
from typing import Final

from pinprof.ground.hues import COPY_WAIT, MEMORY_WAIT, OTHER_WAIT, SYNC_WAIT, WAIT
from pinprof.ground.units import uncoded
from pinprof.trace import calls
from pinprof.trace.tables import DIRECTIONS, DTOH, HTOD


@dataclass(frozen=True)
class Cause:
    """A cause of waits."""

    label: str
    """What the host calls, or what happens in the call; text in backticks is code."""
    colour: str
    """The colour of its kind of remedy, see `pinprof.ground.hues`: read later, copy otherwise, remove, keep memory."""
    _: KW_ONLY
    ops: tuple[str, ...] = ()
    """Ops whose calls have this cause; of several around a call the outermost decides."""
    methods: tuple[str, ...] = ()
    """Methods of tensors that have this cause; methods and functions count before the ops inside."""
    functions: tuple[str, ...] = ()
    """Parts of the names of Python functions that have this cause."""
    call: int | None = None
    """The kind of call of `trace.calls` that has this cause if nothing else names one."""
    copy: str = ""
    """The direction of the copy, if the call that makes it also waits for it."""
    is_called: bool = False
    """Whether the label is something that code calls, so that a title can name it."""
    gives_size: bool = False
    """Whether values on the GPU decide how large its result is."""
    goes_with_op: bool = False
    """Whether the fix removes the whole op: its kernels, its copy, and the host's time in it."""
    is_blocking_copy: bool = False
    """Whether `non_blocking=True` removes it."""
    goes_with_copies: bool = False
    """Whether it is a wait for copies to the GPU, and disappears with them."""
    held_up: str = ""
    """The host's time in it, in words; only of causes for which a launch takes long without a wait for the GPU."""

    @property
    def plain(self) -> str:
        """The label without backticks, for legends."""
        return uncoded(self.label)


def _read(
    label: str, *, ops: tuple[str, ...] = (), methods: tuple[str, ...] = (), functions: tuple[str, ...] = ()
) -> Cause:
    """Return a cause of waits in which the host reads a value of the GPU."""
    return Cause(
        label,
        WAIT,
        ops=ops,
        methods=methods,
        functions=functions,
        is_called=True,
        goes_with_op=True,
    )


def _sized(label: str, ops: tuple[str, ...] = ()) -> Cause:
    """Return a cause of waits in which the host needs the size of a result."""
    return Cause(label, WAIT, ops=ops, is_called=True, gives_size=True)


WAITS: Final = {
    "item": _read("`.item()`", ops=("aten::item", "aten::_local_scalar_dense")),
    "optimizer_state": Cause("the optimizer's step count", WAIT),
    "nan_check": Cause("anomaly detection's check for NaN", WAIT, goes_with_op=True),
    "bool": _read("`if tensor:`", ops=("aten::is_nonzero",)),
    "tolist": _read("`.tolist()`", methods=("tolist",)),
    "to_cpu": Cause(
        "`.cpu()`",
        COPY_WAIT,
        ops=("aten::_to_copy",),
        methods=("cpu",),
        is_called=True,
        goes_with_op=True,
        is_blocking_copy=True,
    ),
    "print": _read("`print(tensor)`", functions=("torch/_tensor_str.py(",)),
    "nonzero": _sized("`nonzero()`", ("aten::nonzero",)),
    "mask_index": _sized("`x[mask]`"),
    "masked_select": _sized("`masked_select()`", ("aten::masked_select",)),
    "unique": _sized("`unique()`", ("aten::unique_dim", "aten::_unique", "aten::_unique2", "aten::unique_consecutive")),
    "repeat_interleave": Cause(
        "`repeat_interleave()`", WAIT, ops=("aten::repeat_interleave",), is_called=True, gives_size=True
    ),
    "equal": _read("`torch.equal()`", ops=("aten::equal", "aten::allclose")),
    "blocking_copy_htod": Cause(
        "blocking copy to the GPU",
        COPY_WAIT,
        copy=DIRECTIONS[HTOD],
        is_blocking_copy=True,
        goes_with_copies=True,
    ),
    "blocking_copy_dtoh": Cause("blocking copy to the host", COPY_WAIT, copy=DIRECTIONS[DTOH], is_blocking_copy=True),
    "pageable_copy": Cause("pageable copy", COPY_WAIT, goes_with_copies=True),
    "tensor_from_host": Cause(
        "`torch.tensor()` on the GPU",
        COPY_WAIT,
        methods=("new_tensor",),
        functions=(
            "<built-in method tensor of type",
            "<built-in method as_tensor of type",
            "<built-in method asarray of type",
        ),
        goes_with_op=True,
    ),
    "device_synchronize": Cause("`torch.cuda.synchronize()`", SYNC_WAIT, call=calls.DEVICE, is_called=True),
    "stream_synchronize": Cause("`stream.synchronize()`", SYNC_WAIT, call=calls.STREAM, is_called=True),
    "event_synchronize": Cause("`event.synchronize()`", SYNC_WAIT, call=calls.EVENT, is_called=True),
    "device_malloc": Cause("GPU memory is allocated", MEMORY_WAIT, call=calls.MALLOC),
    "device_free": Cause("GPU memory is freed", MEMORY_WAIT, call=calls.FREE),
    "host_alloc": Cause("pinned memory is allocated", MEMORY_WAIT, call=calls.HOST_MEMORY),
    "module_load": Cause(
        "kernels are loaded",
        OTHER_WAIT,
        call=calls.MODULE_LOAD,
        held_up="of host time in launches that wait until their code is loaded",
    ),
    "queue_full": Cause(
        "the launch queue is full",
        OTHER_WAIT,
        call=calls.QUEUE_FULL,
        held_up="of host time in launches that wait because the launch queue is full",
    ),
    "launch_blocking": Cause("`CUDA_LAUNCH_BLOCKING=1`", OTHER_WAIT, call=calls.LAUNCH),
    "collective": Cause("collective", OTHER_WAIT),
    "profiler": Cause("profiler", OTHER_WAIT, call=calls.PROFILER),
    "other": Cause("wait within an op", OTHER_WAIT),
}
"""The causes by name, as in JSON; their order gives their codes in columns."""

WAIT_CAUSES: Final = tuple(WAITS)
CAUSE_CODE: Final = {cause: code for code, cause in enumerate(WAIT_CAUSES)}

SYNCHRONIZES: Final = tuple(
    name for name, cause in WAITS.items() if cause.call in (calls.STREAM, calls.DEVICE, calls.EVENT)
)
"""Causes that the program asked for by name, if no op is around the call."""
ALLOCATIONS: Final = frozenset(name for name, cause in WAITS.items() if cause.call in calls.ALLOCATING)
"""Causes that take the host's time whether or not it waits for the GPU."""
BLOCKING_COPIES: Final = frozenset(name for name, cause in WAITS.items() if cause.is_blocking_copy)
OF_COPIES_TO_GPU: Final = frozenset(name for name, cause in WAITS.items() if cause.goes_with_copies)
HELD_UP: Final = frozenset(name for name, cause in WAITS.items() if cause.held_up)
"""Causes for which a launch takes long, while the host waits for no work of the GPU."""


def label_of(name: str) -> str:
    """Return the label of a cause; any other name is returned as it is."""
    return WAITS[name].label if name in WAITS else name
