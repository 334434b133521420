"""How figures judge what the PyTorch tutorial says (E1 to E7)."""

from pinprof.bench.experiment import Published
from pinprof.bench.judging import (
    FEW,
    MOSTLY,
    Judge,
    Judgement,
    Measured,
    MissingError,
    Outcome,
    against,
    decide,
    each_less,
    judged,
    ratios,
    reverse,
    right,
    wrong,
)
from pinprof.bench.order import SAME, order, shown, times
from pinprof.bench.results import Figure

STRATEGIES = tuple(
    f"{memory}, {how}" for memory in ("pageable", "pinned", "pin and copy") for how in ("blocking", "non_blocking")
)
PUBLISHED_STRATEGIES = tuple(
    Published(name, value) for name, value in zip(STRATEGIES, (394.3, 316.2, 315.1, 300.0, 573.3, 324.2), strict=True)
)
CASES = tuple(
    f"{stream}, {memory}" for stream in ("default stream", "side stream") for memory in ("pageable", "pinned")
)
TEXTS_KERNELS = ", text's kernels"
KERNELS_FIRST = "side stream, pageable, kernels first"
"""The case in which the kernels are launched before the copy, which holds the host."""
TWO_COPIES = ("copy alone", "two copies, the same way", "two copies, both ways")
TENSORDICT = "TensorDict, "
FRESH = ", fresh memory"
"""What ends the name of a figure of pinned memory that torch did not have before."""
CALL = "call of "
"""What begins the name of the time that a call holds the host."""
KEPT_BUFFER = "kept buffer, refilled and sent"
PORTED = "transfers of one kernel"
"""The share of the time that the copies to and from the GPU take if one kernel runs between them."""
SENT = ("pageable, sent and read on the GPU", "pinned, sent and read on the GPU")
ENDED, THREADS = "ended when its call returned, ", "CPU time of other threads, "
"""What begins the names of two figures of a copy: whether it had ended, and how busy other threads were meanwhile."""
FEW_TENSORS, SMALL_FLOATS = 4, 1000
"""A few tensors, as many as threads pin them; and how many numbers a small one has, as in E2."""
TWICE = 2.0
COULD, COULD_NOT = 0.5, 0.1
"""Of the copy time that the kernels are long enough to hide: from the first on it is hidden, up to the second not."""


def _pinned_on_the_way(of: Measured) -> list[tuple[Figure, Figure]]:
    """Return what it takes to pin and copy without waiting, beside a plain copy: of one tensor and of many.

    Of one tensor both with pinned memory that torch has kept and, where that was measured, with fresh memory.
    """
    plain, pinning = of("pageable.to"), "pageable.pin_memory().to, non_blocking"
    fresh, many = of.maybe(f"{pinning}{FRESH}"), of.of("E3")
    pairs = [(of(pinning), plain)] + ([(fresh, plain)] if fresh else [])
    both = many.maybe("pin and copy, non_blocking"), many.maybe("pageable, blocking")
    return [*pairs, (both[0], both[1])] if both[0] and both[1] else pairs


def usually_slower(of: Measured) -> Judgement:
    """Judge whether to pin and copy takes longer, with pinned memory that torch has kept and with fresh memory."""
    plain, pinning = of("pageable.to"), "pageable.pin_memory().to"
    return each_less([(plain, of(pinning)), (plain, of(f"{pinning}{FRESH}"))])


def can_be_slower(of: Measured) -> Judgement:
    """Judge what "can be up to twice as slow": it is seen to be slower somewhere, or nowhere.

    Nowhere is said only if the case was measured in which it costs most: with fresh memory.
    """
    pairs = _pinned_on_the_way(of)
    slower = [pair for pair in pairs if order(*pair) == "more"]
    said = "; ".join(against(*pair) for pair in pairs)
    if slower:
        worst = max(slower, key=lambda pair: _times(*pair))
        bound = "more than the text's twice" if ratios(*worst)[0] > TWICE else "the text says up to twice"
        return Judgement("confirmed", f"{said}; at worst {times(worst[0].median, worst[1].median)} the time: {bound}")
    of(f"pageable.pin_memory().to, non_blocking{FRESH}")
    return Judgement("depends" if any(order(*pair) == "unsure" for pair in pairs) else "refuted", said)


def _times(more: Figure, few: Figure) -> float:
    return more.median / few.median if few.median > 0 else float("inf")


def can_be_faster(of: Measured) -> Judgement:
    """Judge what is faster "in rare cases": where none is seen, there may still be one."""
    pairs = [(of("pageable.pin_memory().to"), of("pageable.to")), *_pinned_on_the_way(of)]
    outcome: Outcome = "confirmed" if "less" in {order(*pair) for pair in pairs} else "depends"
    return Judgement(outcome, "; ".join(against(*pair) for pair in pairs))


def holds_the_host(of: Measured) -> Judgement:
    """Judge whether the call of pin_memory() holds the host longer than one that only queues a copy."""
    queues, pins = of(f"{CALL}pinned.to, non_blocking"), of(f"{CALL}pageable.pin_memory()")
    fresh = of.maybe(f"{CALL}pageable.pin_memory(){FRESH}")
    return each_less([(queues, pins)] + ([(queues, fresh)] if fresh else []))


def one_wait(of: Measured) -> Judgement:
    """Judge whether non_blocking copies are waited for at most a tenth as often."""
    blocking, asynchronous = of("waits, blocking"), of("waits, non_blocking")
    said = f"{asynchronous.median:g} instead of {blocking.median:g}"
    return decide(
        said,
        confirmed=asynchronous.median <= FEW * blocking.median and blocking.median > 0,
        refuted=asynchronous.median >= blocking.median,
    )


def same_call(of: Measured) -> Judgement:
    """Judge whether blocking and non_blocking copies make the same calls, the blocking ones with waits after them."""
    blocking, asynchronous, waits = of.all(
        "asynchronous copies, blocking", "asynchronous copies, non_blocking", "waits, blocking"
    )
    said = f"{blocking.median:g} calls of cudaMemcpyAsync, {asynchronous.median:g} with non_blocking"
    if not asynchronous.median:
        return Judgement("unknown", f"{said}; none was recorded")
    same = blocking.median == asynchronous.median <= waits.median
    none = not blocking.median or not waits.median
    said = f"{said}; {waits.median:g} waits behind the blocking ones"
    return decide(said, confirmed=same, refuted=none)


def _asynchronous_and_blocking(of: Measured) -> list[tuple[Figure, Figure]]:
    """Return non_blocking copies beside blocking ones: of large tensors, and of small ones where they were measured."""
    small = of.of("E2")
    quick, slow = small.maybe("non_blocking, one synchronize"), small.maybe("blocking")
    pairs = [(of(f"{memory}, non_blocking"), of(f"{memory}, blocking")) for memory in ("pageable", "pinned")]
    return [*pairs, (quick, slow)] if quick and slow else pairs


def generally_faster(of: Measured) -> Judgement:
    """Judge whether non_blocking copies are faster: of pageable, of pinned, of large and of small tensors."""
    return each_less(_asynchronous_and_blocking(of))


def gain_varies(of: Measured) -> Judgement:
    """Judge whether non_blocking gains more here than there: small or large tensors, pageable or pinned."""
    pairs = [(blocking, quick) for quick, blocking in _asynchronous_and_blocking(of)]
    gains = [ratios(*pair) for pair in pairs]
    middles = [blocking.median / quick.median for blocking, quick in pairs if quick.median > 0]
    said = "; ".join(f"{times(blocking.median, quick.median)} as fast ({quick.name})" for blocking, quick in pairs)
    if max(least for least, _ in gains) > min(most for _, most in gains):
        return Judgement("confirmed", said)
    same = len(middles) == len(pairs) and max(middles) <= (1 + SAME) * min(middles)
    return Judgement("refuted" if same else "depends", f"{said}; the spreads overlap")


def _could(of: Measured, case: str) -> tuple[float, float]:
    """Return which share of the copy time that the kernels could hide they do hide, at least and at most."""
    overlapped, possible = of(f"overlapped, {case}"), of(f"possible, {case}")
    if possible.low <= 0:
        raise MissingError(f"possible, {case}")
    return overlapped.low / possible.high, overlapped.high / possible.low


def only_pinned_and_streamed(*others: str, kernels: str = "") -> Judge:
    """Return what judges whether only the pinned copy on a side stream runs beside such kernels.

    `others` are cases beside the text's four. In those the copy is queued first: the call of a pageable copy holds the
    host, so that kernels launched after it cannot hide it, whatever the GPU can do.
    """
    cases = tuple(f"{case}{kernels}" for case in CASES)

    def judge(of: Measured) -> Judgement:
        *without, best = (_could(of, case) for case in cases)
        without += [_could(of, case) for case in others]
        said = "under kernels are " + "; ".join(
            f"{shown(of(f'overlapped, {case}'))} of possible {shown(of(f'possible, {case}'))} "
            f"({case.removesuffix(kernels)})"
            for case in (*cases, *others)
        )
        confirmed = best[0] >= COULD and all(most <= COULD_NOT for _, most in without)
        refuted = best[1] <= COULD_NOT or any(least >= COULD for least, _ in without)
        return decide(said, confirmed=confirmed, refuted=refuted)

    return judge


def conclusions_hold(of: Measured) -> Judgement:
    """Judge on one machine whether conclusions apply across systems: it fails where one of them fails here.

    They are the three points with which the tutorial begins; the rank of its figures is an observation, no conclusion.
    """
    outcomes = {point: judged(of.of(number), judge) for point, (number, judge) in CONCLUSIONS.items()}
    by_outcome = {
        outcome: [point for point, found in outcomes.items() if found.outcome == outcome] for outcome in HOLDS
    }
    if by_outcome["unknown"] and not by_outcome["refuted"]:
        raise MissingError("; ".join(by_outcome["unknown"]))
    parts = (f"{HOLDS[outcome]}: {' and '.join(points)}" for outcome, points in by_outcome.items() if points)
    return decide(
        f"on this machine, and for it alone, {'; '.join(parts)}",
        confirmed=len(by_outcome["confirmed"]) == len(outcomes),
        refuted=bool(by_outcome["refuted"]),
    )


def takes_longer_than_a_kernel(of: Measured) -> Judgement:
    """Judge whether transfers take most of the time of the first kernel that is ported, the shortest there is."""
    share = of(PORTED)
    said = f"{shown(share)} of the time to copy a tensor there, to multiply it by itself once, and to copy it back"
    return decide(said, confirmed=share.low > 100 * MOSTLY, refuted=share.high < 100 * MOSTLY)


def in_turn(of: Measured) -> Judgement:
    """Judge whether on the default stream copies and kernels run one after the other."""
    least, most = zip(*(_could(of, case) for case in CASES[:2]), strict=True)
    said = "; ".join(f"{shown(of(f'overlapped, {case}'))} under kernels ({case})" for case in CASES[:2])
    return decide(said, confirmed=max(most) <= COULD_NOT, refuted=min(least) >= COULD)


def waits_for_an_engine(name: str, *, expected: bool) -> Judge:
    """Judge whether a second copy waits for the first: it adds most of a copy's time, or little of it."""

    def judge(of: Measured) -> Judgement:
        alone, two = of("copy alone"), of(name)
        said = against(two, alone)
        if alone.low <= 0:
            raise MissingError("copy alone")
        least, most = two.low / alone.high - 1, two.high / alone.low - 1
        waits = decide(said, confirmed=least > MOSTLY, refuted=most < MOSTLY)
        return waits if expected else reverse(waits)

    return judge


def gains_less(which: str) -> Judge:
    """Judge whether threads gain less by pinning such tensors than by pinning many large ones."""

    def judge(of: Measured) -> Judgement:
        some, many = (
            (of(f"{kind}pin then copy"), of(f"{kind}pin in threads then copy")) for kind in (f"{which}, ", "")
        )
        few_gain, many_gain = ratios(*some), ratios(*many)
        said = "; ".join(against(in_threads, alone) for alone, in_threads in (some, many))
        return decide(said, confirmed=few_gain[1] < many_gain[0], refuted=few_gain[0] >= many_gain[1])

    return judge


def still_on_the_host(of: Measured) -> Judgement:
    """Judge whether data "may" be on the host still when the call returns: by the copy, and by writes right after it.

    Where neither shows it, it may still happen.
    """
    ended, written = of.maybe(f"{ENDED}pinned"), of.of("E6").maybe("pinned source")
    if ended is None and written is None:
        raise MissingError(f"{ENDED}pinned")
    said = []
    if ended is not None:
        how_often = "all" if ended.low else "some" if ended.high else "none"
        said.append(f"in {how_often} of {ended.runs} tries the copy of pinned memory had ended")
    if written is not None:
        said.append(f"what is written to a pinned source right after the call: {shown(written)} on the GPU (E6)")
    seen = (ended is not None and ended.low == 0) or (written is not None and written.median > 0)
    return Judgement("confirmed" if seen else "depends", "; ".join(said))


def read_too_early(of: Measured) -> Judgement:
    """Judge whether values read on the GPU right after the copy are wrong."""
    return reverse(right(*SENT)(of))


def moved_by_a_thread(of: Measured) -> Judgement:
    """Judge whether another thread copies: by the CPU time of all others, in percent of the time of the copy."""
    shares = of.all(f"{THREADS}pageable", f"{THREADS}pinned")
    said = "; ".join(
        f"other threads are busy for {shown(share)} of the copy ({share.name.removeprefix(THREADS)})"
        for share in shares
    )
    return decide(
        said,
        confirmed=all(share.low > 100 * MOSTLY for share in shares),
        refuted=all(share.high <= 100 * COULD_NOT for share in shares),
    )


CONCLUSIONS: dict[str, tuple[str, Judge]] = {
    "to pin first can be slower (E1)": ("E1", can_be_slower),
    "non_blocking is generally faster (E3)": ("E3", generally_faster),
    "sent with non_blocking, values are right (E5)": ("E5", right(*SENT)),
    "read back with non_blocking, they are wrong (E5)": ("E5", wrong("read at once")),
}
"""What the tutorial's opening says one will learn: in which experiment it is measured, and how it is judged."""
HOLDS: dict[Outcome, str] = {
    "confirmed": "hold",
    "refuted": "fail",
    "depends": "hold in some cases or cannot be told",
    "unknown": "were not measured",
}
