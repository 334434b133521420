"""Rules 5xx that no trace can show: what `pinprof.guard()` finds while a program runs."""

from pinprof.rules.rule import Rule
from pinprof.rules.snippets import REFILL

RULES = (
    Rule(
        id="PIN502",
        title="a result read before its copy has ended",
        rests_on=(),
        answers=(),
        what_if="",
        mended="hand",
        numbers=None,
        looks_at="Reads of host memory that a non-blocking DtoH copy writes: by the host, before it has waited for "
        "that copy, or by a copy on a stream that has not. Found by pinprof.guard() while the program runs; a trace "
        "does not show what the host reads.",
        why=(
            "x.to('cpu', non_blocking=True) returns before the copy has run. Code that reads the result without a "
            "wait gets what the memory held before, or a part of the result, without an error."
        ),
        fix="Record an event after the copy, on the stream of the copy, and wait for it before the first read.",
        before="host = x.to('cpu', non_blocking=True)\nlog(host.mean())  # of what the memory held before",
        code="host = x.to('cpu', non_blocking=True)\ncopied = torch.cuda.Event()\ncopied.record()\n"
        "...                   # queue other work\ncopied.synchronize()\nlog(host.mean())",
        safe_if=(
            "Always: it only makes the program correct. If the copy had ended before the read, that was luck: with "
            "more work queued before it, it ends later."
        ),
        near_miss="host = x.to('cpu')  # blocking: the numbers are there when it returns\nlog(host.mean())",
        look=None,
    ),
    Rule(
        id="PIN503",
        title="a pinned source written before its copy has ended",
        rests_on=(),
        answers=(),
        what_if="",
        mended="hand",
        numbers=None,
        looks_at="Writes to pinned memory that a non-blocking HtoD copy reads: by the host, before it has waited for "
        "that copy, or by a copy on a stream that has not. Found by pinprof.guard() while the program runs.",
        why=(
            "The GPU reads pinned memory when the copy's turn comes, after all work queued before it. Whatever the "
            "host writes until then arrives: the next batch, or zeros. torch does not give the memory to others, but "
            "it does not stop writes."
        ),
        fix=(
            "Wait for an event after the copy before the buffer is filled again, or use two buffers in turn, each "
            "with its event."
        ),
        before="staging = torch.empty(shape, dtype=dtype, pin_memory=True)\n"
        "for x in batches:\n    staging.copy_(x)  # while the copy of the batch before may still read it\n"
        "    train(staging.to(device, non_blocking=True))",
        code=REFILL,
        safe_if=(
            "Always: it only makes the program correct. With two buffers the wait is for the copy of two steps ago, "
            "and rarely costs anything."
        ),
        near_miss="batch = host.to(device)  # blocking: it has been read when it returns\nhost.zero_()",
        look=None,
    ),
    Rule(
        id="PIN504",
        title="a destination written before its copy has ended",
        rests_on=(),
        answers=(),
        what_if="",
        mended="hand",
        numbers=None,
        looks_at="Writes to memory that a non-blocking DtoH copy writes, too: by the host, before it has waited for "
        "that copy, or by a copy on a stream that has not. Found by pinprof.guard() while the program runs.",
        why="Either may come last: what the host wrote may be lost, or end up in the middle of the result.",
        fix=(
            "Record an event after the copy, and wait for it before the memory is written to; or give the copy "
            "memory of its own."
        ),
        before="buffer.copy_(x, non_blocking=True)\nuse(buffer)\nbuffer.zero_()",
        code="buffer.copy_(x, non_blocking=True)\ncopied = torch.cuda.Event()\ncopied.record()\n"
        "...                   # queue other work\ncopied.synchronize()\nuse(buffer)\nbuffer.zero_()",
        safe_if="Always: it only makes the program correct.",
        near_miss="buffer.copy_(x)  # blocking: it has ended when it returns\nbuffer.zero_()",
        look=None,
    ),
    Rule(
        id="PIN505",
        title="unprotected memory given up before its copy has ended",
        rests_on=(),
        answers=(),
        what_if="",
        mended="hand",
        numbers=None,
        looks_at="Memory that the program registered itself (cudaHostRegister) and that is unregistered, or freed and "
        "used for another tensor, before the host has waited for its copy. Found by pinprof.guard() while the program "
        "runs.",
        why=(
            "torch keeps pinned memory that it has allocated until the copies that use it have ended. It knows "
            "nothing of memory that you register by hand: the copy goes on to read or write memory that now belongs "
            "to another tensor."
        ),
        fix="Keep the tensor until the copy is known to have ended, or let torch allocate the memory: "
        "torch.empty(..., pin_memory=True).",
        before="cudart.cudaHostRegister(x.data_ptr(), x.nbytes, 0)\ny = x.to(device, non_blocking=True)\n"
        "cudart.cudaHostUnregister(x.data_ptr())",
        code="pinned = torch.empty_like(x, pin_memory=True).copy_(x)\ny = pinned.to(device, non_blocking=True)\n"
        "del pinned  # torch keeps the memory until the copy has ended",
        safe_if="The program does not need the registered memory itself: data of another library is copied once.",
        near_miss="y = host.to(device, non_blocking=True)  # torch pinned it, and keeps it until the copy has ended\n"
        "del host",
        look=None,
    ),
    Rule(
        id="PIN506",
        title="a view handed out during a copy",
        rests_on=(),
        answers=(),
        what_if="",
        mended="hand",
        numbers=None,
        looks_at="x.numpy(), np.asarray(x) or DLPack of memory that a non-blocking copy still uses. Found by "
        "pinprof.guard() while the program runs.",
        why=(
            "Neither torch nor pinprof sees what numpy reads and writes. A view of a copy's destination will show "
            "numbers that are not there yet; a view of its source is safe only as long as nobody writes through it."
        ),
        fix="Record an event after the copy, and wait for it before the view is made.",
        before="host = x.to('cpu', non_blocking=True)\nplot(host.numpy())",
        code="host = x.to('cpu', non_blocking=True)\ncopied = torch.cuda.Event()\ncopied.record()\n"
        "...                   # queue other work\ncopied.synchronize()\nplot(host.numpy())",
        safe_if=(
            "Always: it only makes the program correct. A view of a source that is only read needs no wait: the guard "
            "mentions it, and does not count it."
        ),
        near_miss="host = x.to('cpu')  # blocking: the numbers are there when it returns\nplot(host.numpy())",
        look=None,
    ),
    Rule(
        id="PIN507",
        title="a synchronize that the host did not need",
        rests_on=(),
        answers=(),
        what_if="",
        mended="hand",
        numbers="equal",
        looks_at=(
            "Calls of synchronize that waited for copies whose memory the host then did not use. Found by "
            "pinprof.guard(report_unneeded=True) while the program runs."
        ),
        why="The host waits, and cannot queue the work that would keep the GPU busy.",
        fix="Remove it, or wait for an event after the copy that is needed.",
        before="x = staging.to(device, non_blocking=True)\ntorch.cuda.synchronize()\n"
        "loss = model(x)  # comes behind the copy on the GPU anyway",
        code="x = staging.to(device, non_blocking=True)\nloss = model(x)",
        safe_if=(
            "Nothing else relies on the wait: a measured time, memory that numpy or another library reads, work of a "
            "stream that torch does not know, an error that should be raised here. One run shows one path of the "
            "program."
        ),
        near_miss="host = x.to('cpu', non_blocking=True)\ntorch.cuda.synchronize()\nlog(host.mean())  # needs the wait",
        look=None,
    ),
)
