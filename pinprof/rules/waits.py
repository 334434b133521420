"""Rules 2xx: what makes the host wait for the GPU, by cause."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from pinprof.analyses.syncs import ALLOCATIONS, Site
from pinprof.measure import Profile
from pinprof.rules.rule import Evidence, Look, Rule
from pinprof.rules.sums import LONGEST_NAME, at, idle_gpu
from pinprof.trace.tables import NONE, Trace
from pinprof.units import duration, shortened
from pinprof.whatif.edits import Edits
from pinprof.whatif.scenarios import without_blocking, without_waits

MAX_NAMED = 4
"""Sites of one finding that are named."""


def waits_of(*causes: str, are_one: bool = False) -> tuple[Look, tuple[str, ...]]:
    """Return what looks for sites with one of the causes that are a problem, and the causes.

    Sites of which the same fix rids the program wherever they are, `are_one`: a finding for all of them.
    """

    def look(profile: Profile, trace: Trace) -> Iterator[Evidence]:
        found = [
            number
            for number, site in enumerate(profile.syncs.sites)
            if site.cause in causes and site.is_of_the_code and site.in_steps.count
        ]
        for numbers in [found] if are_one and found else [[number] for number in found]:
            edits = reduce(or_, (_fixed(profile, trace, number) for number in numbers))
            yield replace(_at_sites(profile, [profile.syncs.sites[number] for number in numbers]), edits=edits)

    return look, causes


def _fixed(profile: Profile, trace: Trace, site: int) -> Edits:
    """Return what the fix of a site changes: blocking copies stay, but nobody waits for them."""
    stalls = profile.syncs.stalls
    rows, cause = profile.syncs.rows[site], profile.syncs.sites[site].cause
    if cause in ALLOCATIONS:
        return Edits(unwaited=frozenset(rows.tolist()))
    if cause in ("blocking_copy_htod", "blocking_copy_dtoh"):
        copies = frozenset(stalls.copy[rows].tolist()) - {NONE}
        return without_blocking(trace, profile.syncs, copies) | Edits(pinned=copies)
    return without_waits(profile.syncs, [site])


def _at_sites(profile: Profile, sites: Sequence[Site]) -> Evidence:
    """Return what is seen of one site, or of several together, at the first place of which the line is known."""
    steps, costs = profile.steps.count, [site.in_steps for site in sites]
    at_line = next((site for site in sites if site.line is not None), sites[0])
    count, stall, idle = (
        sum(figure) / steps
        for figure in zip(*((cost.count, cost.stall_ns, cost.bubble_ns) for cost in costs), strict=True)
    )
    named = ", ".join(f"{shortened(site.op or site.call, LONGEST_NAME)}{at(site.place)}" for site in sites[:MAX_NAMED])
    named += f" and {len(sites) - MAX_NAMED} more" if len(sites) > MAX_NAMED else ""
    return Evidence(
        idle,
        f"{named}: {count:.3g} per step; as traced, the host waits {duration(stall)} and {idle_gpu(profile, sites)} "
        f"idle for {duration(idle)} after {'it' if len(sites) == 1 else 'them'}{_only_moves(profile, sites)}",
        *at_line.place,
    )


def _only_moves(profile: Profile, sites: Sequence[Site]) -> str:
    own = Counter(site.group for site in sites if site.group is not None)
    others = sum(profile.syncs.in_group[group] - count for group, count in own.items())
    if not others:
        return ""
    return f"; alone it only moves: {others} more {'site waits' if others == 1 else 'sites wait'} for the same work"


READ_LATER = (
    "host = torch.empty((), pin_memory=True)  # once\n"
    "host.copy_(value, non_blocking=True)\n"
    "copied.record()       # a torch.cuda.Event\n"
    "...                   # queue the next step\n"
    "copied.synchronize()  # then read it: the wait is over long before\n"
    "log(host.item())"
)

RULES = (
    Rule(
        "PIN201",
        "single values read on the host",
        "aten::item: x.item(), float(x), int(x), and what calls them: indexing by a tensor of one number, range(x), "
        "checks of linear algebra, GradScaler.step without a fused optimizer.",
        "The value does not exist before all work queued for it is done: the host waits for the whole stream, and has "
        "nothing queued when it goes on.",
        "Keep the value on the GPU: accumulate in a tensor and read it every N steps, or copy it to pinned memory with "
        "non_blocking=True and read it one step later, before that step's work is queued.",
        "total += loss.item()  # waits in each step",
        "total += loss.detach()          # a tensor on the GPU\n"
        "if step % 100 == 0:\n"
        "    log(total.item() / 100)     # one wait in 100 steps\n"
        "    total.zero_()\n\n"
        "# or one step late, without any wait:\n" + READ_LATER,
        "Nothing in the step decides by the value. Pinned memory is read only after the event.",
        *waits_of("item"),
    ),
    Rule(
        "PIN202",
        "decisions on values of the GPU",
        "aten::is_nonzero: if x, while x, assert x, x and y, not x, max(x, y) and in on CUDA tensors, validation of "
        "distributions, clip_grad_norm_(error_if_nonfinite=True).",
        "Python can only branch once it knows the value, and so waits for all work queued before.",
        "Compute both and choose on the GPU with torch.where; check with torch._assert_async; turn validation off "
        "where it is not needed (validate_args=False; logging_nan_inf_filter=False in transformers).",
        "if torch.isfinite(loss):  # waits to decide\n    loss.backward()",
        "loss = torch.where(torch.isfinite(loss), loss, torch.zeros_like(loss))\n"
        "torch._assert_async(torch.isfinite(loss).all())\n"
        "torch.distributions.Distribution.set_default_validate_args(False)",
        "Both branches may be computed: neither raises, and neither has effects. A failed _assert_async ends the "
        "process's CUDA context.",
        *waits_of("bool"),
    ),
    Rule(
        "PIN203",
        "tensors read on the host",
        "x.cpu(), x.to('cpu'), x.tolist() and x.numpy(force=True) of CUDA tensors.",
        "The copy waits for all work queued before, goes into fresh pageable memory, and the host waits for its end.",
        "Copy into pinned memory with non_blocking=True and read it one step later; gather what is read into one "
        "tensor and read it once.",
        "log(value.cpu())  # waits for all work queued before",
        READ_LATER,
        "Pinned memory is read only after the event: read earlier, it silently holds old values.",
        *waits_of("to_cpu", "tolist"),
    ),
    Rule(
        "PIN204",
        "printing of CUDA tensors",
        "print(x), f'{x}', repr(x) and loggers that are given tensors of the GPU.",
        "To format a tensor torch asks for its smallest and largest values, what is finite, and each element that is "
        "shown: dozens of waits for one line of text.",
        "Print a copy on the host, and not in each step.",
        "print(x)  # a tensor of the GPU, in each step",
        "if step % 100 == 0:\n    print(x.detach().cpu())  # one wait instead of many",
        "None: the text is the same.",
        *waits_of("print"),
    ),
    Rule(
        "PIN205",
        "masks and positions",
        "aten::nonzero and what needs it: x[mask], x[mask] = y, torch.masked_select, torch.where(mask) alone.",
        "The result's size depends on the values: the host must know it to allocate, and waits for the mask.",
        "Keep the shape: torch.where(mask, x, 0), masked_fill, or sums weighted by the mask.",
        "loss = losses[mask].mean()\nrows = torch.nonzero(mask)",
        "loss = (losses * mask).sum() / mask.sum()      # instead of losses[mask].mean()\n"
        "x = torch.where(mask, x, torch.zeros_like(x))  # instead of x[~mask] = tensor\n"
        "x.masked_fill_(mask, 0.0)\n"
        "rows = torch.nonzero_static(mask, size=limit)  # where an upper bound is known",
        "What the mask hides is finite: 0 * nan is nan, also in gradients; use where on the input then.",
        *waits_of("nonzero", "mask_index", "masked_select"),
    ),
    Rule(
        "PIN206",
        "unique values",
        "torch.unique, unique_consecutive and isin.",
        "The number of unique values is the size of the result: the host waits to learn it.",
        "Keep it out of the step, do it on the host in the DataLoader's workers, or mark first occurrences in a sorted "
        "tensor of fixed size.",
        "values = torch.unique(x)",
        "ordered, _ = x.sort()\n"
        "first = torch.ones_like(ordered, dtype=torch.bool)\n"
        "first[1:] = ordered[1:] != ordered[:-1]  # fixed shape: a mask instead of a shorter tensor",
        "What follows can work with the mask.",
        *waits_of("unique"),
    ),
    Rule(
        "PIN207",
        "repeats of unknown number",
        "torch.repeat_interleave with a tensor of repeats and no output_size.",
        "The sum of the repeats is the size of the result: the host waits for it, and once more to check their signs.",
        "Give output_size.",
        "torch.repeat_interleave(x, repeats, dim=0)",
        "torch.repeat_interleave(x, repeats, dim=0, output_size=total)",
        "total is exactly the sum of the repeats, known on the host.",
        *waits_of("repeat_interleave"),
    ),
    Rule(
        "PIN208",
        "comparisons for the host",
        "torch.equal on CUDA tensors.",
        "It returns a Python bool: the host waits for all work queued before.",
        "Compare on the GPU and keep the result there; leave torch.equal to tests.",
        "same = torch.equal(a, b)  # a bool of Python",
        "same = (a == b).all()  # a tensor on the GPU",
        "Nothing in the step decides by the result.",
        *waits_of("equal"),
    ),
    Rule(
        "PIN209",
        "tensors made of Python values",
        "torch.tensor(values, device='cuda'), torch.as_tensor, x.new_tensor, and indexing of a CUDA tensor by a list.",
        "The values are put into a pageable tensor on the host and copied by a blocking copy, after all work queued "
        "before.",
        "Make constants once, before the loop; make what is regular on the GPU; copy the rest from pinned memory.",
        "weights = torch.tensor(values, device=device)  # in each step",
        "weights = torch.tensor(values, device=device)   # once, outside of the loop\n"
        "torch.full((), 0.5, device=device)              # no copy\n"
        "torch.tensor(values, pin_memory=True).to(device, non_blocking=True)",
        "A constant made once is not changed in place.",
        *waits_of("tensor_from_host"),
    ),
    Rule(
        "PIN210",
        "explicit synchronization",
        "torch.cuda.synchronize(), stream.synchronize() and event.synchronize(), of the user's own or of a library, "
        "that leave the GPU idle.",
        "They stop the host until the GPU has caught up; the next kernels are queued late.",
        "Remove it from the step; measure time with CUDA events; order streams with wait_stream or wait_event.",
        "start = time.perf_counter()\nstep()\ntorch.cuda.synchronize()\ntimes.append(time.perf_counter() - start)",
        "start.record()\nstep()\nend.record()                       # torch.cuda.Event(enable_timing=True)\n"
        "times.append((start, end))         # elapsed_time later, after the loop's end\n"
        "torch.cuda.current_stream().wait_stream(side)  # order on the GPU, not on the host",
        "The host reads nothing that the synchronization protected.",
        *waits_of("device_synchronize", "stream_synchronize", "event_synchronize"),
    ),
    Rule(
        "PIN211",
        "pinned memory allocated in the step",
        "cudaHostAlloc and cudaFreeHost within the step.",
        "Pinning pages takes milliseconds and a lock of the driver, which holds up other threads; freeing them waits "
        "for the device.",
        "Allocate pinned memory once, before the loop, and keep its sizes constant.",
        "staging = torch.empty(x.shape, pin_memory=True)  # in each step",
        "staging = torch.empty(largest_shape, pin_memory=True)  # once\nview = staging[: len(x)]",
        "A tensor that is reused is not written to before its last copy has ended.",
        *waits_of("host_alloc"),
    ),
    Rule(
        "PIN212",
        "collectives that stop the host",
        "Synchronization inside of collectives: dist.barrier(), TORCH_NCCL_BLOCKING_WAIT=1.",
        "NCCL's collectives are ordered on the GPU; a barrier also stops the host until all ranks have come.",
        "No barrier in the step; unset TORCH_NCCL_BLOCKING_WAIT.",
        "dist.barrier()  # in each step\ndist.all_reduce(x)",
        "work = dist.all_reduce(x, async_op=True)\n...  # other kernels\nwork.wait()  # orders streams, not the host",
        "No rank reads what another one writes outside of collectives, a file for instance.",
        *waits_of("collective"),
    ),
    Rule(
        "PIN213",
        "launches that wait for their kernels",
        "Launch calls that return only after their kernel has ended.",
        "CUDA_LAUNCH_BLOCKING=1 makes each launch wait: host and GPU work in turns. It is for finding errors.",
        "Unset it for training.",
        "export CUDA_LAUNCH_BLOCKING=1",
        "unset CUDA_LAUNCH_BLOCKING",
        "None: results are the same.",
        *waits_of("launch_blocking"),
    ),
    Rule(
        "PIN214",
        "waits of other kinds",
        "Calls that block, in an op that pinprof knows no cause for.",
        "The host waits for the GPU inside of an op; libraries and extensions do so with calls of their own.",
        "The op and the stack name the place: look there for a way without a wait.",
        "y = extension(x)  # waits somewhere inside",
        "pinprof run train.py  # records the line of each wait",
        "It depends on the op.",
        *waits_of("other"),
    ),
)
