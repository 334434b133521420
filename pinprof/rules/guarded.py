"""Rules 5xx that no trace can show: what `pinprof.guard()` finds while a program runs."""

from pinprof.rules.rule import Rule
from pinprof.rules.snippets import REFILL

RULES = (
    Rule(
        id="PIN502",
        title="a result read before its copy has ended",
        looks_at="Reads of host memory that a non-blocking DtoH copy writes: by the host, before it has waited for "
        "that copy, or by a copy on a stream that has not. Found by pinprof.guard() while the program runs; a trace "
        "does not show what the host reads.",
        why="x.to('cpu', non_blocking=True) returns before the copy has run. What reads the result without a wait gets "
        "what the memory held before, or a part of the result, without any error.",
        fix="Record an event behind the copy, on the stream of the copy, and wait for it before the first read.",
        before="host = x.to('cpu', non_blocking=True)\nlog(host.mean())  # of what the memory held before",
        code="host = x.to('cpu', non_blocking=True)\ncopied = torch.cuda.Event()\ncopied.record()\n"
        "...                   # queue other work\ncopied.synchronize()\nlog(host.mean())",
        safe_if="None: it only makes the program right. A copy that had ended when it was read was lucky: on another "
        "day, or behind more work, it is late.",
        look=None,
    ),
    Rule(
        id="PIN503",
        title="a pinned source written before its copy has ended",
        looks_at="Writes to pinned memory that a non-blocking HtoD copy reads: by the host, before it has waited for "
        "that copy, or by a copy on a stream that has not. Found by pinprof.guard() while the program runs.",
        why="The GPU reads pinned memory when the copy's turn comes, behind all that is queued before it. What the "
        "host writes until then is what arrives: the batch after, or zeros. torch keeps the memory from being given to "
        "others, not from being written to.",
        fix="Wait for an event behind the copy before the buffer is filled again, or use two buffers in turn, each "
        "with its event.",
        before="staging = torch.empty(shape, dtype=dtype, pin_memory=True)\n"
        "for x in batches:\n    staging.copy_(x)  # while the copy of the batch before may still read it\n"
        "    train(staging.to(device, non_blocking=True))",
        code=REFILL,
        safe_if="None: it only makes the program right. With two buffers the wait is for the copy of two steps ago, "
        "and seldom costs anything.",
        look=None,
    ),
    Rule(
        id="PIN504",
        title="a destination written before its copy has ended",
        looks_at="Writes to memory that a non-blocking DtoH copy writes, too: by the host, before it has waited for "
        "that copy, or by a copy on a stream that has not. Found by pinprof.guard() while the program runs.",
        why="Which of the two comes last is a matter of time: what the host has written may be gone, or stand in the "
        "middle of the result.",
        fix="Record an event behind the copy, and wait for it before the memory is written to; or give the copy memory "
        "of its own.",
        before="buffer.copy_(x, non_blocking=True)\nuse(buffer)\nbuffer.zero_()",
        code="buffer.copy_(x, non_blocking=True)\ncopied = torch.cuda.Event()\ncopied.record()\n"
        "...                   # queue other work\ncopied.synchronize()\nuse(buffer)\nbuffer.zero_()",
        safe_if="None: it only makes the program right.",
        look=None,
    ),
    Rule(
        id="PIN505",
        title="unprotected memory given up before its copy has ended",
        looks_at="Memory that the program registered itself (cudaHostRegister) and that is unregistered, or freed and "
        "used for another tensor, before the host has waited for its copy. Found by pinprof.guard() while the program "
        "runs.",
        why="torch keeps pinned memory that it has allocated until the copies that use it have ended. Of memory that "
        "was registered by hand it knows nothing: the copy goes on reading or writing what now belongs to another.",
        fix="Keep the tensor until the copy is known to have ended, or let torch allocate the memory: "
        "torch.empty(..., pin_memory=True).",
        before="cudart.cudaHostRegister(x.data_ptr(), x.nbytes, 0)\ny = x.to(device, non_blocking=True)\n"
        "cudart.cudaHostUnregister(x.data_ptr())",
        code="pinned = torch.empty_like(x, pin_memory=True).copy_(x)\ny = pinned.to(device, non_blocking=True)\n"
        "del pinned  # torch keeps the memory until the copy has ended",
        safe_if="The memory need not be the registered one: what another library holds is copied once.",
        look=None,
    ),
    Rule(
        id="PIN506",
        title="a view handed out during a copy",
        looks_at="x.numpy(), np.asarray(x) or DLPack of memory that a non-blocking copy still uses. Found by "
        "pinprof.guard() while the program runs.",
        why="What numpy reads and writes is not seen by torch, nor by pinprof. A view of a copy's destination will "
        "show numbers that are not there yet; a view of its source is safe only as long as nobody writes through it.",
        fix="Record an event behind the copy, and wait for it before the view is made.",
        before="host = x.to('cpu', non_blocking=True)\nplot(host.numpy())",
        code="host = x.to('cpu', non_blocking=True)\ncopied = torch.cuda.Event()\ncopied.record()\n"
        "...                   # queue other work\ncopied.synchronize()\nplot(host.numpy())",
        safe_if="None: it only makes the program right. A view of a source that is only read needs no wait: it is "
        "told, and does not count.",
        look=None,
    ),
    Rule(
        id="PIN507",
        title="a synchronize that no access of the host needed",
        looks_at="Calls of synchronize after which the host used no memory of a copy that they had waited for. Found "
        "by pinprof.guard(report_unneeded=True) while the program runs.",
        why="The host stands still, and cannot queue the work that would keep the GPU busy.",
        fix="Remove it, or wait for an event behind the copy that is needed.",
        before="x = staging.to(device, non_blocking=True)\ntorch.cuda.synchronize()\n"
        "loss = model(x)  # comes behind the copy on the GPU anyway",
        code="x = staging.to(device, non_blocking=True)\nloss = model(x)",
        safe_if="Nothing else relies on the wait: a measured time, memory that numpy or another library reads, work of "
        "a stream that torch does not know, an error that is to be raised here. One run shows one path of the program.",
        look=None,
    ),
)
