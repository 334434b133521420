"""Rules 2xx: what makes the host wait for the GPU, by cause."""

from collections.abc import Iterator

from pinprof.analyses.syncs import SYNCHRONIZES
from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.rules.rule import Change, Evidence, Rule
from pinprof.rules.snippets import COST_OF_LATER, READ_LATER, REFILL, read_later
from pinprof.rules.sums import ops_of
from pinprof.rules.wait_sites import GUARDING, waits_of
from pinprof.units import duration, how_many


def _allocated(details: Details, profile: Profile) -> Iterator[Evidence]:
    """Look for pinned memory that is allocated or freed; without work of a GPU, for how long that takes the host."""
    if profile.withheld.drain is None:
        yield from waits_of("host_alloc")["look"](details, profile)
        return
    found = [site for site in details.syncs.sites if site.cause == "host_alloc" and site.is_of_the_code]
    found = [site for site in found if site.in_steps.count]
    if not found:
        return
    steps = profile.steps.count
    longest = max(found, key=lambda site: site.in_steps.stall_ns)
    time = sum(site.in_steps.stall_ns for site in found) / steps
    yield Evidence(
        0.0,
        f"{how_many(sum(site.in_steps.count for site in found) / steps)} {profile.steps.per} in {ops_of(found)}: as "
        f"traced, the host waits {duration(time)}",
        *longest.place,
        at_any_cost=True,
    )


RULES = (
    Rule(
        id="PIN201",
        title="`.item()` waits for the GPU",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="line",
        numbers="equal",
        looks_at="aten::item: x.item(), float(x), int(x), and what calls them: indexing by a tensor of one number, "
        "range(x), 1.0 in x, GradScaler.step without a fused optimizer.",
        why="The value does not exist before all work queued for it is done: the host waits for the whole stream, and "
        "has nothing queued when it goes on.",
        fix="Keep the value on the GPU: accumulate in a tensor and read it every N steps. Or "
        f"{READ_LATER}. GradScaler.step reads no value with an optimizer that has fused=True.",
        before="for batch in batches:\n    log(train(batch).item())  # waits in each step",
        code="total = torch.zeros((), device=device)\n"
        "for step, batch in enumerate(batches, start=1):\n"
        "    total += train(batch).detach()  # a tensor on the GPU\n"
        "    if step % 100 == 0:\n"
        "        log(total.item() / 100)     # the mean: one wait in 100 steps\n"
        "        total.zero_()\n\n"
        "# or each value, one step late:\n" + read_later("()", "host.item()"),
        safe_if=(
            "No decision in the step depends on the value. Pinned memory is read only after the event: read "
            f"earlier, it silently holds old values. {COST_OF_LATER}"
        ),
        near_miss="value = host.sum().item()  # of a tensor of the CPU: nothing waits",
        change=Change(r"\.item\(|\b(?:float|int)\(", "keep it on the GPU; read it every N steps, or a step late"),
        **waits_of("item"),
    ),
    Rule(
        id="PIN202",
        title="`if tensor:` waits for the GPU",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="line",
        numbers="equal",
        looks_at="aten::is_nonzero: if x, while x, assert x, x and y, not x, max(x, y) on CUDA tensors, validation of "
        "distributions, clip_grad_norm_(error_if_nonfinite=True).",
        why="Python can only branch once it knows the value, and so waits for all work queued before.",
        fix=(
            "Leave the decision to the GPU. To skip a step: a GradScaler with a fused optimizer, which skips where a "
            "gradient is not finite. Replacing the loss before backward() is not enough: 0 times inf is nan in the "
            "gradients. To choose: torch.where; where gradients are needed, choose between the inputs. To check: "
            "torch._assert_async. Validation: turn it off where the arguments are known to be right "
            "(validate_args=False; logging_nan_inf_filter=False in transformers)."
        ),
        before="for batch in batches:\n"
        "    loss = loss_of(batch)\n"
        "    if torch.isfinite(loss):  # waits to decide\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
        "    optimizer.zero_grad()\n\n"
        "# or a choice:\n"
        "y = a if score > 0 else b\n\n"
        "# or a check:\n"
        "assert torch.isfinite(loss)\n\n"
        "# or arguments that are validated:\n"
        "normal = torch.distributions.Normal(mean, std)",
        code="scaler = torch.amp.GradScaler(device, init_scale=1.0)  # once; the optimizer has fused=True\n"
        "for batch in batches:\n"
        "    loss = loss_of(batch)\n"
        "    loss = loss * torch.where(torch.isfinite(loss), 1.0, torch.nan)  # bad: nan in all gradients\n"
        "    scaler.scale(loss).backward()\n"
        "    scaler.step(optimizer)  # changes nothing where a gradient is not finite\n"
        "    scaler.update(1.0)\n"
        "    optimizer.zero_grad()\n\n"
        "# or a choice:\n"
        "y = torch.where(score > 0, a, b)\n\n"
        "# or a check:\n"
        "torch._assert_async(torch.isfinite(loss))\n\n"
        "# or arguments that are right:\n"
        "normal = torch.distributions.Normal(mean, std, validate_args=False)",
        safe_if=(
            "For the step: the optimizer is Adam or AdamW with fused=True, or SGD without momentum. SGD with "
            "momentum starts from unset memory if the very first loss is bad. Weights, moments and step count are "
            "then as with the if. A step is also skipped if only its gradients are not finite. For a choice: both "
            "sides may be computed, and have finite gradients. A failed _assert_async ends the process's CUDA "
            "context: you cannot handle it as an exception."
        ),
        near_miss="if x.shape[0] > 1:  # the host knows shapes\n    y = x.mean(0)",
        change=Change(r"\b(?:if|while|assert)\b[^:#]*", "leave the decision to the GPU"),
        **waits_of("bool"),
    ),
    Rule(
        id="PIN203",
        title="`.cpu()` or `.tolist()` waits for the GPU",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="line",
        numbers="equal",
        looks_at="x.cpu(), x.to('cpu'), x.tolist() and x.numpy(force=True) of CUDA tensors, and copies to the host "
        "after which the host waits for the stream (host.copy_(x)).",
        why=(
            "The copy waits for all work queued before it, and the host waits for the copy. It mostly goes into fresh "
            "pageable memory."
        ),
        fix=f"Gather what is read into one tensor, and read it rarely. Or {READ_LATER}.",
        before="for batch in batches:\n    log(train(batch).tolist())  # waits for all work queued before",
        code=read_later("shape, dtype=dtype", "host.tolist()"),
        safe_if=(
            "Pinned memory is read only after the event: read earlier, it silently holds old values. "
            f"{COST_OF_LATER} Copy what you keep of host, as tolist() does: the next value overwrites it."
        ),
        near_miss="numbers = host.tolist()  # of a tensor of the CPU: nothing is copied",
        change=Change(r"\.(?:cpu|tolist|numpy|to|copy_)\(", "read it rarely, or a step late"),
        **waits_of("to_cpu", "tolist", "blocking_copy_dtoh"),
    ),
    Rule(
        id="PIN204",
        title="`print(tensor)` waits for the GPU",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="hand",
        numbers="equal",
        looks_at="print(x), f'{x}', repr(x) and loggers that get GPU tensors.",
        why=(
            "To format a tensor, torch reads its smallest and largest values, which values are finite, and each "
            "element that it shows: dozens of waits for one line of text."
        ),
        fix="Print a copy on the host, and not in each step.",
        before="print(x)  # a tensor of the GPU, in each step",
        code="if step % 100 == 0:\n    print(x.detach().cpu())  # one wait instead of many",
        safe_if=(
            "No program reads the text: it has the same numbers, but neither device nor grad_fn, and only every "
            "100th step prints it."
        ),
        near_miss="print(x.shape, x.dtype, x.device)  # reads no value",
        change=Change(r"\b(?:print|repr|str|format)\(", "print a copy on the host, and not in each step"),
        **waits_of("print"),
    ),
    Rule(
        id="PIN205",
        title="`x[mask]` or `nonzero()` waits for the GPU",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="hand",
        numbers="rounding",
        looks_at="aten::nonzero and what needs it: x[mask], x[mask] = y, torch.masked_select, torch.where(mask) alone.",
        why="The result's size depends on the values: the host must know it to allocate, and waits for the mask.",
        fix=(
            "Keep the shape: choose by the mask with torch.where, and sum the result. Do not multiply by the mask: a "
            "nan would stay nan."
        ),
        before="loss = losses[mask].mean()\n\n"
        "# or an assignment:\n"
        "x[mask] = y[mask]\n\n"
        "# or positions:\n"
        "rows = torch.nonzero(mask)",
        code="loss = torch.where(mask, losses, 0.0).sum() / mask.sum()\n\n"
        "# or an assignment:\n"
        "x = torch.where(mask, y, x)\n\n"
        "# or positions, where it is known how many there are at most:\n"
        "rows = torch.nonzero_static(mask, size=limit)  # filled up with -1, which must index nothing",
        safe_if=(
            "The mask is of bools. Hidden elements get the gradient 0, as with the index. An earlier op that is not "
            "finite there turns this 0 into nan: apply torch.where to the inputs of that op. Nothing else uses the x "
            "that was changed in place. limit is large enough: positions beyond it are lost without an error."
        ),
        near_miss="picked = x[rows]  # by positions: as many as there are rows",
        change=Change(r"\b(?:nonzero|masked_select|where)\(|\[[^\]]*\]", "keep the shape: torch.where"),
        **waits_of("nonzero", "mask_index", "masked_select"),
    ),
    Rule(
        id="PIN206",
        title="`unique()` waits for the GPU",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="hand",
        numbers="equal",
        looks_at="torch.unique, unique_consecutive and isin.",
        why="The number of unique values is the size of the result: the host waits to learn it.",
        fix=(
            "Keep it out of the step, do it on the host in the DataLoader's workers, or mark first occurrences in a "
            "sorted tensor of fixed size. Instead of isin, compare with each of a few values."
        ),
        before="values = torch.unique(x)\n\n# or membership:\nfound = torch.isin(x, wanted)",
        code="ordered = x.flatten().sort().values\n"
        "first = torch.ones_like(ordered, dtype=torch.bool)\n"
        "first[1:] = ordered[1:] != ordered[:-1]  # the values are where first is true\n\n"
        "# or membership:\n"
        "found = (x.unsqueeze(-1) == wanted).any(-1)",
        safe_if=(
            "The code that follows can work with the mask: ordered[first] would wait again. For membership: wanted "
            "has one dimension, and memory suffices for x.numel() * wanted.numel() bools."
        ),
        near_miss="values = torch.unique(host)  # of a tensor of the CPU: nothing waits",
        change=Change(r"\b(?:unique|unique_consecutive|isin)\(", "keep it out of the step"),
        **waits_of("unique"),
    ),
    Rule(
        id="PIN207",
        title="`repeat_interleave()` waits for the GPU",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="hand",
        numbers="equal",
        looks_at="torch.repeat_interleave with a tensor of repeats and no output_size.",
        why="The sum of the repeats is the size of the result: the host waits for it, and once more to check their "
        "signs.",
        fix="Give output_size.",
        before="y = torch.repeat_interleave(x, repeats, dim=0)",
        code="y = torch.repeat_interleave(x, repeats, dim=0, output_size=total)",
        safe_if=(
            "total is exactly the sum of the repeats, known on the host, and no repeat is negative: with any other "
            "total the result is wrong, or memory is overwritten."
        ),
        near_miss="y = torch.repeat_interleave(x, 3, dim=0)  # one number of Python: the size is known",
        change=Change(r"\brepeat_interleave\(", "give output_size"),
        **waits_of("repeat_interleave"),
    ),
    Rule(
        id="PIN208",
        title="`torch.equal()` waits for the GPU",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="hand",
        numbers="equal",
        looks_at="torch.equal and torch.allclose on CUDA tensors.",
        why="They return a Python bool: the host waits for all work queued before.",
        fix="Compare on the GPU and keep the result there; leave torch.equal and torch.allclose to tests.",
        before="same = torch.equal(a, b)  # a bool of Python\n\n# or nearly:\nsame = torch.allclose(a, b)",
        code="same = (a == b).all()  # a tensor on the GPU\n\n# or nearly:\nsame = torch.isclose(a, b).all()",
        safe_if=(
            "No decision in the step depends on the result. a and b have the same shape: other shapes are broadcast."
        ),
        near_miss="same = torch.eq(a, b)  # of each element: stays on the GPU",
        change=Change(r"\b(?:equal|allclose)\(", "compare on the GPU, and keep the result there"),
        **waits_of("equal"),
    ),
    Rule(
        id="PIN209",
        title="`torch.tensor()` copies Python values to the GPU",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="line",
        numbers="equal",
        looks_at="torch.tensor(values, device='cuda'), torch.as_tensor, x.new_tensor, and indexing of a CUDA tensor by "
        "a list.",
        why=(
            "torch puts the values into a pageable tensor on the host. A blocking copy then waits for all work "
            "queued before it."
        ),
        fix=(
            "Make constants once, before the loop; make regular values, such as zeros or ranges, on the GPU; copy "
            "the rest from pinned memory."
        ),
        before="for batch in batches:\n    weights = torch.tensor(values, device=device)  # in each step\n"
        "    train(batch * weights)\n\n"
        "# or one number:\n"
        "half = torch.tensor(0.5, device=device)\n\n"
        "# or values that change:\n"
        "weights = torch.tensor(values, device=device)",
        code="weights = torch.tensor(values, device=device)  # once\n"
        "for batch in batches:\n    train(batch * weights)\n\n"
        "# or one number, made on the GPU:\n"
        "half = torch.full((), 0.5, device=device)\n\n"
        "# or values that change, if they are few:\n"
        "weights = torch.tensor(values, pin_memory=True).to(device, non_blocking=True)",
        safe_if="No code changes the constant in place.",
        near_miss="weights = torch.tensor(values)  # in host memory: nothing is copied",
        change=Change(r"\b(?:tensor|as_tensor|new_tensor)\(", "make it once, before the loop"),
        **waits_of("tensor_from_host"),
    ),
    Rule(
        id="PIN210",
        title="`synchronize()` waits for the GPU",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="line",
        numbers="equal",
        looks_at=(
            "torch.cuda.synchronize(), stream.synchronize() and event.synchronize(), called by the user's code or by a "
            f"library, that leave the GPU idle, and await no copy of pinned memory in flight: those are {GUARDING}."
        ),
        why="They stop the host until the GPU has caught up; the next kernels are queued late.",
        fix="Remove it from the step; measure time with CUDA events; order streams with wait_stream or wait_event.",
        before="for _ in range(steps):\n"
        "    start = time.perf_counter()\n"
        "    step()\n"
        "    torch.cuda.synchronize()\n"
        "    times.append(time.perf_counter() - start)\n\n"
        "# or an order of streams:\n"
        "side.synchronize()\n"
        "use(result)",
        code="marks = []\n"
        "for _ in range(steps):\n"
        "    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # new ones each time\n"
        "    start.record()\n"
        "    step()\n"
        "    end.record()\n"
        "    marks.append((start, end))\n"
        "torch.cuda.synchronize()  # once, after the loop\n"
        "times += [start.elapsed_time(end) / 1e3 for start, end in marks]  # it tells milliseconds\n\n"
        "# or an order of streams, on the GPU:\n"
        "torch.cuda.current_stream().wait_stream(side)\n"
        "use(result)",
        safe_if=(
            "The host reads nothing that the synchronization protected, and writes to no memory that a copy still "
            "reads: a trace shows which copies are in flight when the wait begins, not what the host reads. Events "
            "measure the GPU's time, including gaps in which the host launches too slowly. Tensors made on a side "
            "stream are kept, or passed to record_stream, until their use has ended."
        ),
        near_miss="torch.cuda.current_stream().wait_stream(side)  # the GPU waits, the host goes on",
        change=Change(r"\bsynchronize\(", "remove it from the step"),
        **waits_of(*SYNCHRONIZES, guarding=False),
    ),
    Rule(
        id="PIN212",
        title="a collective makes the host wait",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="hand",
        numbers="equal",
        looks_at="Synchronization inside of collectives: dist.barrier(), TORCH_NCCL_BLOCKING_WAIT=1.",
        why="NCCL's collectives are ordered on the GPU; a barrier also stops the host until all ranks have arrived.",
        fix="Remove the barrier from the step; unset TORCH_NCCL_BLOCKING_WAIT.",
        before="dist.barrier()  # in each step\ndist.all_reduce(x)",
        code="work = dist.all_reduce(x, async_op=True)\n...  # other kernels, without x\n"
        "work.wait()  # orders streams, not the host",
        safe_if=(
            "No rank reads what another rank writes outside of collectives, to a file for instance. Nothing uses x "
            "before work.wait()."
        ),
        near_miss="dist.all_reduce(x)  # NCCL orders it on the GPU: the host goes on",
        change=Change(r"\bbarrier\(", "remove the barrier from the step"),
        **waits_of("collective"),
    ),
    Rule(
        id="PIN213",
        title="`CUDA_LAUNCH_BLOCKING=1` waits for every kernel",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="hand",
        numbers="equal",
        looks_at="Launch calls that return only after their kernel has ended.",
        why=(
            "CUDA_LAUNCH_BLOCKING=1 makes each launch wait, so host and GPU take turns. It is meant for finding errors."
        ),
        fix="Unset it for training.",
        before="export CUDA_LAUNCH_BLOCKING=1",
        code="unset CUDA_LAUNCH_BLOCKING",
        safe_if=(
            "Events order the streams, and the host waits for what it reads: blocking launches hide places where "
            "that is missing."
        ),
        near_miss="export CUDA_LAUNCH_BLOCKING=0",
        **waits_of("launch_blocking"),
    ),
    Rule(
        id="PIN214",
        title="an op waits for the GPU",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="hand",
        numbers=None,
        looks_at=(
            "Calls that block because of the op itself: ops of libraries and extensions, synchronizes in code from "
            "torch.compile, and ops of torch that read a number on the host (torch.linalg.inv and cholesky, "
            "masked_fill and index_fill with a value on the GPU, one_hot without num_classes, quantile)."
        ),
        why="The host waits for the GPU inside of an op, whatever the program does with the result.",
        fix=(
            "The op and the stack show where: look there for a way without a wait. torch.linalg has cholesky_ex, "
            "inv_ex and solve_ex, which leave the check to you; torch.where takes a number on the GPU; one_hot takes "
            "num_classes. If an op has to wait, call it rarely, or where the host waits anyway."
        ),
        before="factor = torch.linalg.cholesky(a)  # reads on the host whether there is one\n\n"
        "# or a value on the GPU:\n"
        "x = x.masked_fill(mask, value)  # reads it",
        code="factor, info = torch.linalg.cholesky_ex(a)  # info stays on the GPU: not 0 where there is none\n\n"
        "# or a value on the GPU:\n"
        "x = torch.where(mask, value, x)",
        safe_if=(
            "Your code checks info, on the GPU or later: otherwise a failure goes unnoticed, and factor is invalid. "
            "For other ops, what is safe depends on the op."
        ),
        near_miss="x = x.masked_fill(mask, 0.5)  # a number of Python",
        **waits_of("other", fixable=False),
    ),
    Rule(
        id="PIN215",
        title="the optimizer reads its step count from the GPU",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="hand",
        numbers="rounding",
        looks_at="aten::item within torch.optim: Adam, AdamW and others read the number of steps of each parameter.",
        why=(
            "torch.set_default_device('cuda'), torch.set_default_tensor_type with a type of the GPU, or a checkpoint "
            "that was loaded onto the GPU put the step counts there. Without fused or capturable the optimizer "
            "computes with them on the host, and waits for each parameter."
        ),
        fix=(
            "Make the optimizer with fused=True, or with capturable=True where it has no fused form: it then computes "
            "with the counts on the GPU. Or keep the default device on the host, and move the model to the GPU."
        ),
        before="optimizer = torch.optim.Adam(model.parameters(), lr=lr)  # the default device is the GPU\n"
        "optimizer.step()  # waits for each parameter",
        code="optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)\n"
        "optimizer.step()\n\n"
        "# or in an optimizer that has no fused form:\n"
        "optimizer = torch.optim.NAdam(model.parameters(), lr=lr, capturable=True)",
        safe_if=(
            "All parameters are on the GPU, and no gradient is sparse. load_state_dict takes fused and capturable from "
            "the checkpoint: set them in optimizer.param_groups after it. The numbers round otherwise."
        ),
        near_miss="optimizer = torch.optim.Adam(model.parameters())  # the default device is the host\n"
        "optimizer.step()",
        change=Change(r"\.step\(", "make the optimizer with fused=True, or capturable=True"),
        **waits_of("optimizer_state"),
    ),
    Rule(
        id=GUARDING,
        title="`synchronize()` guards a copy in flight",
        rests_on=("per_step", "stalls", "drain"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="kept",
        numbers="equal",
        looks_at=(
            "torch.cuda.synchronize(), stream.synchronize() and event.synchronize() that leave the GPU idle, and await "
            "a copy with non_blocking=True between the GPU and pinned memory: it was launched before, and is still in "
            "flight when the wait begins."
        ),
        why=(
            "Without the wait the host may read the result of the copy before it is there, or write to its source "
            "while the copy still reads it: wrong numbers without an error. But a synchronize of the device or the "
            "stream also waits for all other work, and one right behind the copy leaves the GPU without work."
        ),
        fix=(
            "Do not remove it: record an event after the copy, and wait for that event where its result is read or its "
            "source is written. That saves what lies between, if the host queues other work there. With two buffers in "
            "turn the wait comes a step later, when the copy has ended."
        ),
        before="for batch in batches:\n"
        "    host.copy_(train(batch).detach(), non_blocking=True)\n"
        "    torch.cuda.synchronize()  # guards host\n"
        "    log(host.tolist())\n\n"
        "# or a source that is written:\n"
        "for x in batches:\n"
        "    staging.copy_(x)\n"
        "    batch = staging.to(device, non_blocking=True)\n"
        "    torch.cuda.synchronize()  # guards staging\n"
        "    train(batch)",
        code=read_later("shape, dtype=dtype", "host.tolist()") + "\n\n# or a source that is written:\n" + REFILL,
        safe_if=(
            "The memory of the copy is read, and written, only after its event. The trace does not show what the host "
            "reads: pinprof run --guard runs the program and says whether anything is used too early. "
            f"{COST_OF_LATER}"
        ),
        near_miss="host.copy_(x)  # has ended when the call returns\n"
        "torch.cuda.synchronize()  # guards nothing (PIN210)",
        change=Change(r"\bsynchronize\(", "do not remove it: wait for the copy where its memory is used"),
        look=waits_of(*SYNCHRONIZES, guarding=True)["look"],
    ),
)

OF_THE_HOST = (
    Rule(
        id="PIN211",
        title="pinned memory is allocated in the training loop",
        rests_on=("per_step", "stalls"),
        answers=("sync",),
        what_if="--drop-syncs",
        mended="hand",
        numbers="equal",
        looks_at="cudaHostAlloc and cudaFreeHost in the complete steps, or in the whole trace if no step was found.",
        why=(
            "Pinning pages takes milliseconds and a lock of the driver, which holds up other threads. Freeing them "
            "waits for the device."
        ),
        fix=(
            "Allocate pinned memory once, before the loop, for the largest shape; refill it, each time after an "
            "event that shows that its last copy has ended."
        ),
        before="for x in batches:\n"
        "    staging = torch.empty(x.shape, dtype=dtype, pin_memory=True)  # in each step\n"
        "    staging.copy_(x)\n"
        "    train(staging.to(device, non_blocking=True))",
        code="staging = torch.empty(largest_shape, dtype=dtype, pin_memory=True)  # once\n"
        "copied = torch.cuda.Event()\n"
        "for x in batches:\n"
        "    copied.synchronize()  # staging may be written to: its last copy has ended\n"
        "    part = staging[: len(x)]\n"
        "    part.copy_(x)\n"
        "    batch = part.to(device, non_blocking=True)\n"
        "    copied.record()       # right behind the copy, before other work is queued\n"
        "    train(batch)",
        safe_if=(
            "staging is not written to before its last copy has ended, which the event shows; batches differ in "
            "their first dimension only. The wait keeps the host one step ahead at most."
        ),
        near_miss="staging = torch.empty(x.shape)  # not pinned: no lock of the driver",
        change=Change(r"\b(?:empty|zeros|pin_memory)\(", "allocate it once, before the loop"),
        look=_allocated,
        causes=("host_alloc",),
    ),
)
"""What allocating takes shows without any work of a GPU."""
