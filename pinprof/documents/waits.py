"""What holds the step up: waits of the host, batches, exposed copies, and idle time of the GPU."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, UnsetType

from pinprof.analyses.copies import REASONS
from pinprof.analyses.idle import IDLE_CAUSES
from pinprof.document import NOT_IN_OLDER, ByteSize, Count, Document, Gbps, Ms, Share, doc, one_of
from pinprof.documents.fields import Direction, Guards, Library, Memory, PlacedJson, ThreadRole, WaitCause, WaitVerdict


class SiteJson(PlacedJson, kw_only=True):
    """The waits of one cause at one place, in the whole recording, as traced."""

    cause: WaitCause
    op: Annotated[str | None, doc("the op of torch around the call")]
    call: Annotated[str, doc("the CUDA call that blocked")]
    library: Annotated[
        Library | UnsetType | None, NOT_IN_OLDER, doc("where it waits in a library that your line calls")
    ] = UNSET
    path: Annotated[Sequence[str], doc("the frames from your line to the library's function")]
    stack: Annotated[Sequence[str], doc("all frames as FILE:LINE:FUNCTION, the innermost first")]
    thread: Annotated[ThreadRole, doc("the host thread that waits")]
    count: Annotated[Count | None, doc("how many waits")]
    per_step: Annotated[float | None, doc("waits per complete step")]
    stall_ms: Annotated[Ms | None, doc("time in the calls")]
    drain_ms: Annotated[Ms | None, doc("the part in which earlier GPU work still ran")]
    own_ms: Annotated[Ms | None, doc("the part in which the call's own copy ran")]
    bubble_ms: Annotated[Ms | None, doc("GPU idle time after the waits")]
    verdict: Annotated[WaitVerdict, doc("whether the code asked for it, and whether it costs anything")]
    group: Annotated[Count | None, doc("its group: if one wait of a group is removed, the next one waits instead")]
    guards: Guards


class Group(Document):
    """Sites whose waits move to the next one if one is removed."""

    group: Annotated[Count, doc("its number")]
    sites: Annotated[Sequence[Count], doc("indices into `sites`")]
    stall_ms: Annotated[Ms | None, doc("time in the calls")]
    bubble_ms: Annotated[Ms | None, doc("GPU idle time after them")]


class Seen(PlacedJson):
    """Waits at a line without a recorded wait, seen while `pinprof run` watched steps without a profiler."""

    stack: Annotated[Sequence[str], doc("all frames, the innermost first")]
    called: Annotated[str | None, doc("what the line called")]
    thread: Annotated[ThreadRole, doc("the host thread that waits")]
    count: Annotated[Count, doc("how many waits")]
    steps: Annotated[Count, doc("watched steps with such waits")]
    every: Annotated[Count | None, doc("their period in steps; null without one")]
    per_step: Annotated[float | None, doc("waits per watched step")]


class SyncsJson(Document):
    """Where the host waits for the GPU."""

    count: Annotated[
        Count | None,
        doc(
            "waits in the recording, without the profiler's, and without launches that are held up (the launch queue "
            "is full, or code is loaded): `sites` has both"
        ),
    ]
    per_step: Annotated[float | None, doc("waits per complete step")]
    stall_ms: Annotated[Ms | None, doc("time in them")]
    sites: Annotated[Sequence[SiteJson], doc("by cause and place, the longest idle time of the GPU first")]
    groups: Annotated[Sequence[Group], doc("groups of sites whose waits move to the next one if one is removed")]
    watched_steps: Annotated[Count | None, doc("steps that were watched without a profiler")]
    seen_elsewhere: Annotated[Sequence[Seen], doc("waits that only the watched steps show")]


class Loader(Document):
    """The DataLoader."""

    waits: Annotated[Count, doc("batches that the main thread asked for")]
    wait_ms: Annotated[Ms | None, doc("time until they arrived")]
    per_step_ms: Annotated[Ms | None, doc("the same per complete step")]
    pinned: Annotated[bool | None, doc("whether large copies to the GPU were of pinned memory; null if mixed or none")]
    pin_thread: Annotated[bool, doc("whether a pin-memory thread is at work")]
    pins: Annotated[bool | None, doc("whether the DataLoader has `pin_memory=True`; null where that is unknown")]


class CopiesJson(Document):
    """The copies of one direction and host memory in the whole recording."""

    direction: Annotated[Direction, doc("from where to where")]
    host_memory: Annotated[Memory | None, doc("kind of the host's memory; null without a host side")]
    count: Annotated[Count | None, doc("how many")]
    bytes: Annotated[ByteSize | None, doc("how much")]
    unsized: Annotated[Count, doc("copies whose size is not recorded")]
    time_ms: Annotated[Ms | None, doc("how long they run")]
    overlapped_ms: Annotated[Ms | None, doc("the part while kernels of the same GPU run")]
    exposed_ms: Annotated[Ms | None, doc("the rest")]
    bandwidth_gbps: Annotated[Gbps | None, doc("bytes divided by time")]
    host_blocked_ms: Annotated[Ms | None, doc("how long the host was in calls that made or awaited them")]


class Exposed(Document):
    """The exposed copies of one reason."""

    reason: Annotated[str | None, one_of(REASONS), doc("why no kernel runs meanwhile")]
    count: Annotated[Count | None, doc("how many")]
    exposed_ms: Annotated[Ms | None, doc("how long")]


class OverlapJson(Document):
    """How much of the copy time kernels overlap, in the whole recording."""

    copy_ms: Annotated[Ms | None, doc("time with copies")]
    overlapped_ms: Annotated[Ms | None, doc("the part while kernels run")]
    exposed_ms: Annotated[Ms | None, doc("the rest")]
    fraction: Annotated[Share | None, doc("overlapped; null without copies")]
    reasons: Annotated[Sequence[Exposed], doc("why copies are exposed")]


class IdleJson(Document):
    """Idle time of a GPU by cause, as traced."""

    device: Annotated[Count, doc("the GPU")]
    cause: Annotated[str | None, one_of(IDLE_CAUSES), doc("why it idles; null where causes are withheld")]
    time_ms: Annotated[Ms | None, doc("how long")]
