"""Rules 5xx that no trace can show: what `pinprof.guard()` finds while a program runs."""

from pinprof.rules.rule import Rule
from pinprof.rules.snippets import REFILL

RULES = (
    Rule(
        "PIN502",
        "a result read before its copy has ended",
        "Reads of host memory that a non-blocking DtoH copy writes: by the host, before it has waited for that copy, "
        "or by a copy on a stream that has not. Found by pinprof.guard() while the program runs; a trace does not show "
        "what the host reads.",
        "x.to('cpu', non_blocking=True) returns before the copy has run. What reads the result without a wait gets "
        "what the memory held before, or a part of the result, without any error.",
        "Record an event behind the copy, on the stream of the copy, and wait for it before the first read.",
        "host = x.to('cpu', non_blocking=True)\nlog(host.mean())  # of what the memory held before",
        "host = x.to('cpu', non_blocking=True)\ncopied = torch.cuda.Event()\ncopied.record()\n"
        "...                   # queue other work\ncopied.synchronize()\nlog(host.mean())",
        "None: it only makes the program right. A copy that had ended when it was read was lucky: on another day, or "
        "behind more work, it is late.",
        look=None,
    ),
    Rule(
        "PIN503",
        "a pinned source written before its copy has ended",
        "Writes to pinned memory that a non-blocking HtoD copy reads: by the host, before it has waited for that copy, "
        "or by a copy on a stream that has not. Found by pinprof.guard() while the program runs.",
        "The GPU reads pinned memory when the copy's turn comes, behind all that is queued before it. What the host "
        "writes until then is what arrives: the batch after, or zeros. torch keeps the memory from being given to "
        "others, not from being written to.",
        "Wait for an event behind the copy before the buffer is filled again, or use two buffers in turn, each with "
        "its event.",
        "staging = torch.empty(shape, dtype=dtype, pin_memory=True)\n"
        "for x in batches:\n    staging.copy_(x)  # while the copy of the batch before may still read it\n"
        "    train(staging.to(device, non_blocking=True))",
        REFILL,
        "None: it only makes the program right. With two buffers the wait is for the copy of two steps ago, and seldom "
        "costs anything.",
        look=None,
    ),
    Rule(
        "PIN504",
        "a destination written before its copy has ended",
        "Writes to memory that a non-blocking DtoH copy writes, too: by the host, before it has waited for that copy, "
        "or by a copy on a stream that has not. Found by pinprof.guard() while the program runs.",
        "Which of the two comes last is a matter of time: what the host has written may be gone, or stand in the "
        "middle of the result.",
        "Record an event behind the copy, and wait for it before the memory is written to; or give the copy memory of "
        "its own.",
        "buffer.copy_(x, non_blocking=True)\nuse(buffer)\nbuffer.zero_()",
        "buffer.copy_(x, non_blocking=True)\ncopied = torch.cuda.Event()\ncopied.record()\n"
        "...                   # queue other work\ncopied.synchronize()\nuse(buffer)\nbuffer.zero_()",
        "None: it only makes the program right.",
        look=None,
    ),
    Rule(
        "PIN505",
        "unprotected memory given up before its copy has ended",
        "Memory that the program registered itself (cudaHostRegister) and that is unregistered, or freed and used for "
        "another tensor, before the host has waited for its copy. Found by pinprof.guard() while the program runs.",
        "torch keeps pinned memory that it has allocated until the copies that use it have ended. Of memory that was "
        "registered by hand it knows nothing: the copy goes on reading or writing what now belongs to another.",
        "Keep the tensor until the copy is known to have ended, or let torch allocate the memory: "
        "torch.empty(..., pin_memory=True).",
        "cudart.cudaHostRegister(x.data_ptr(), x.nbytes, 0)\ny = x.to(device, non_blocking=True)\n"
        "cudart.cudaHostUnregister(x.data_ptr())",
        "pinned = torch.empty_like(x, pin_memory=True).copy_(x)\ny = pinned.to(device, non_blocking=True)\n"
        "del pinned  # torch keeps the memory until the copy has ended",
        "The memory need not be the registered one: what another library holds is copied once.",
        look=None,
    ),
    Rule(
        "PIN506",
        "a view handed out during a copy",
        "x.numpy(), np.asarray(x) or DLPack of memory that a non-blocking copy still uses. Found by pinprof.guard() "
        "while the program runs.",
        "What numpy reads and writes is not seen by torch, nor by pinprof. A view of a copy's destination will show "
        "numbers that are not there yet; a view of its source is safe only as long as nobody writes through it.",
        "Record an event behind the copy, and wait for it before the view is made.",
        "host = x.to('cpu', non_blocking=True)\nplot(host.numpy())",
        "host = x.to('cpu', non_blocking=True)\ncopied = torch.cuda.Event()\ncopied.record()\n"
        "...                   # queue other work\ncopied.synchronize()\nplot(host.numpy())",
        "None: it only makes the program right. A view of a source that is only read needs no wait: it is told, and "
        "does not count.",
        look=None,
    ),
    Rule(
        "PIN507",
        "a synchronize that no access of the host needed",
        "Calls of synchronize after which the host used no memory of a copy that they had waited for. Found by "
        "pinprof.guard(report_unneeded=True) while the program runs.",
        "The host stands still, and cannot queue the work that would keep the GPU busy.",
        "Remove it, or wait for an event behind the copy that is needed.",
        "x = staging.to(device, non_blocking=True)\ntorch.cuda.synchronize()\n"
        "loss = model(x)  # comes behind the copy on the GPU anyway",
        "x = staging.to(device, non_blocking=True)\nloss = model(x)",
        "Nothing else relies on the wait: a measured time, memory that numpy or another library reads, work of a "
        "stream that torch does not know, an error that is to be raised here. One run shows one path of the program.",
        look=None,
    ),
)
