"""Judges of the claims of the PyTorch tutorial (E1 to E7)."""

from math import inf
from typing import Literal

from pinprof.bench.experiment import Published
from pinprof.bench.figures import SAME, order, ratios, ratios_of_ratios, shown, times
from pinprof.bench.judging import (
    BARELY,
    FEW,
    HIDDEN,
    MOSTLY,
    TWICE,
    ClaimJudgement,
    ClaimOutcome,
    Judge,
    Measured,
    MissingError,
    against,
    decide,
    each_less,
    faster,
    judged,
    ordered,
    reverse,
    right,
    wrong,
)
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
AT_ONCE, EARLY = "copies at once, ", "copies asked for early, "
"""The beginnings of two figures' names: the share of the copy time in which several copies run; and the share of the
copies that the host asks for before the previous one has ended."""
AS_MANY = "pinned, non_blocking"
"""The case of E3 whose trace shows how many tensors are being copied."""
TWO_COPIES = ("copy alone", "two copies, the same way", "two copies, both ways")
TENSORDICT = "TensorDict, "
FRESH = ", fresh memory"
"""The end of a figure's name, for pinned memory that torch did not have before."""
PINNED_AND_SENT = "pageable.pin_memory().to, non_blocking"
"""The case that the text warns of: a tensor is pinned, and the host does not wait for its copy."""
LARGER_TIMES = 4
LARGER = f", {LARGER_TIMES} times as large"
"""The end of a figure's name, for a tensor larger than that of the experiment."""
CALL = "call of "
"""The beginning of a figure's name: the time for which a call holds the host."""
IN_TURN = "pin and copy in turn"
"""The case of E7 in which the main thread copies each tensor as soon as it has pinned it."""
OF_FEW = "few, "
"""The beginning of the names of figures of few tensors."""
KEPT_BUFFER = "kept buffer, refilled and sent"
MADE = ("made in pageable memory, pinned and sent", "made in pinned memory and sent")
"""Two ways to write numbers and send them: into a pageable tensor, which is then pinned, or into a pinned one."""
PORTED = "transfers of one kernel"
"""The share of the time that the copies to and from the GPU take if one kernel runs between them."""
SENT = ("pageable, sent and read on the GPU", "pinned, sent and read on the GPU")
ENDED, THREADS = "ended when its call returned, ", "CPU time of other threads, "
"""The beginnings of two figures' names: whether a copy had ended, and how busy other threads were meanwhile."""
FEW_TENSORS, SMALL_FLOATS = 4, 1000
"""The number of few tensors, one for each thread that pins; and the number of floats in a small tensor, as in E2."""
COULD, COULD_NOT = 0.5, 0.1
"""Shares of the copy time that kernels could hide: from the first value on the copy is hidden, up to the second not."""


def _pinned_just_before(measured: Measured) -> list[tuple[Figure, Figure]]:
    """Return the times to pin a tensor and copy it without a wait, each with the time of a plain copy.

    They are of one tensor, in memory that torch has kept and in fresh memory, and of many, as far as measured.
    """
    plain = measured("pageable.to")
    fresh, many = measured.maybe(f"{PINNED_AND_SENT}{FRESH}"), measured.of("E3")
    pairs = [(measured(PINNED_AND_SENT), plain)] + ([(fresh, plain)] if fresh else [])
    both = many.maybe("pin and copy, non_blocking"), many.maybe("pageable, blocking")
    return [*pairs, (both[0], both[1])] if both[0] and both[1] else pairs


def usually_slower(measured: Measured) -> ClaimJudgement:
    """Judge whether to pin and copy takes longer, with pinned memory that torch has kept and with fresh memory."""
    plain, pinning = measured("pageable.to"), "pageable.pin_memory().to"
    return each_less([(plain, measured(pinning)), (plain, measured(f"{pinning}{FRESH}"))])


def can_be_slower(measured: Measured) -> ClaimJudgement:
    """Judge whether it "can be slower": whether it is slower in any case.

    The claim is refuted only if the most expensive case was measured: fresh memory.
    """
    pairs = _pinned_just_before(measured)
    orders = {order(*pair) for pair in pairs}
    if "more" not in orders:
        measured(f"{PINNED_AND_SENT}{FRESH}")
    why = "; ".join(against(*pair) for pair in pairs)
    return decide(why, confirmed="more" in orders, refuted=orders <= {"less", "same"})


def at_most_twice(measured: Measured) -> ClaimJudgement:
    """Judge whether it takes at most twice the time in all cases, also in fresh memory."""
    pairs = _pinned_just_before(measured)
    bounds = [ratios(*pair) for pair in pairs]
    refuted = any(least > TWICE for least, _ in bounds)
    if not refuted:
        measured(f"{PINNED_AND_SENT}{FRESH}")
    why = "; ".join(f"{times(pinned.median, plain.median)} the time ({pinned.name})" for pinned, plain in pairs)
    return decide(why, confirmed=all(most <= TWICE for _, most in bounds), refuted=refuted)


def can_be_faster(measured: Measured) -> ClaimJudgement:
    """Judge whether it is faster "in rare cases", by blocking copies; if it is in no case here, it depends."""
    pinning, many = "pageable.pin_memory().to", measured.of("E3")
    pairs = [(measured(pinning), measured("pageable.to"))]
    fresh, pinning_each, plain = (
        measured.maybe(f"{pinning}{FRESH}"),
        *map(many.maybe, ("pin and copy, blocking", "pageable, blocking")),
    )
    pairs += [(fresh, pairs[0][1])] if fresh else []
    pairs += [(pinning_each, plain)] if pinning_each and plain else []
    outcome: ClaimOutcome = "confirmed" if "less" in {order(*pair) for pair in pairs} else "depends"
    return ClaimJudgement(outcome, "; ".join(against(*pair) for pair in pairs))


def holds_the_host(measured: Measured) -> ClaimJudgement:
    """Judge whether the call of pin_memory() holds the host until the tensor is pinned.

    It does if it takes longer than a call that only queues a copy, and longer for a larger tensor: in memory that torch
    has kept and, if that was measured, in fresh memory.
    """
    queues, pins = measured(f"{CALL}pinned.to, non_blocking"), f"{CALL}pageable.pin_memory()"
    kept, fresh = (
        (measured(pins), measured(f"{pins}{LARGER}")),
        (measured.maybe(f"{pins}{FRESH}"), measured.maybe(f"{pins}{LARGER}{FRESH}")),
    )
    pairs = [(queues, kept[0]), kept]
    if fresh[0] and fresh[1]:
        pairs += [(queues, fresh[0]), (fresh[0], fresh[1])]
    return each_less(pairs)


def one_wait(measured: Measured) -> ClaimJudgement:
    """Judge whether non_blocking copies are waited for at most a tenth as often."""
    blocking, asynchronous = measured("waits, blocking"), measured("waits, non_blocking")
    why = f"{asynchronous.median:g} instead of {blocking.median:g}"
    return decide(
        why,
        confirmed=asynchronous.median <= FEW * blocking.median and blocking.median > 0,
        refuted=asynchronous.median >= blocking.median,
    )


def same_call(measured: Measured) -> ClaimJudgement:
    """Judge whether blocking and non_blocking copies make the same calls, the blocking ones with waits after them."""
    blocking, asynchronous, waits = measured.all(
        "asynchronous copies, blocking", "asynchronous copies, non_blocking", "waits, blocking"
    )
    why = f"{blocking.median:g} calls of cudaMemcpyAsync, {asynchronous.median:g} with non_blocking"
    if not asynchronous.median:
        return ClaimJudgement("unknown", f"{why}; none was recorded")
    same = blocking.median == asynchronous.median <= waits.median
    none = not blocking.median or not waits.median
    why = f"{why}; {waits.median:g} waits behind the blocking ones"
    return decide(why, confirmed=same, refuted=none)


def generally_faster(measured: Measured) -> ClaimJudgement:
    """Judge whether non_blocking copies are faster: pageable, pinned, large and, if measured, small ones."""
    judgements = [
        faster(f"{memory}, non_blocking", f"{memory}, blocking")(measured) for memory in ("pageable", "pinned")
    ]
    small = measured.of("E2")
    if small.maybe("blocking") and small.maybe("non_blocking, one synchronize"):
        judgements.append(faster("non_blocking, one synchronize", "blocking")(small))
    outcomes = {judgement.outcome for judgement in judgements}
    why = "; ".join(judgement.text for judgement in judgements)
    if "unknown" in outcomes and not {"confirmed", "refuted"} <= outcomes:
        return ClaimJudgement("unknown", why)
    return decide(why, confirmed=outcomes == {"confirmed"}, refuted=outcomes == {"refuted"})


def gain_varies(measured: Measured) -> ClaimJudgement:
    """Judge whether the gain of non_blocking differs between many tensors and few, and between large and small ones.

    Many and few are compared for pageable and for pinned tensors; the small tensors are the pageable ones of E2.
    """
    small = measured.of("E2")
    gains = {
        f"{number} {memory}": (measured(f"{prefix}{memory}, blocking"), measured(f"{prefix}{memory}, non_blocking"))
        for memory in ("pageable", "pinned")
        for number, prefix in (("many", ""), ("few", OF_FEW))
    }
    gains["many small pageable"] = (small("blocking"), small("non_blocking, one synchronize"))
    by_number = [_differ(gains[f"many {memory}"], gains[f"few {memory}"]) for memory in ("pageable", "pinned")]
    by_size = _differ(gains["many pageable"], gains["many small pageable"])
    why = "; ".join(
        f"{times(blocking.median, quick.median)} as fast ({name})" for name, (blocking, quick) in gains.items()
    )
    why += "; some spreads overlap" if "unsure" in (*by_number, by_size) else ""
    varies = "differ" in by_number and by_size == "differ"
    if not varies and "unsure" in (*by_number, by_size):
        return ClaimJudgement("unknown", why)
    return decide(why, confirmed=varies, refuted=set(by_number) == {"same"} and by_size == "same")


def _differ(first: tuple[Figure, Figure], second: tuple[Figure, Figure]) -> Literal["differ", "same", "unsure"]:
    """Return whether two factors, each of two figures, differ by more than their spreads."""
    least, most = ratios_of_ratios(first, second)
    if most < 1 or least > 1:
        return "differ"
    middles = [more.median / few.median if few.median > 0 else inf for more, few in (first, second)]
    return "same" if max(middles) <= (1 + SAME) * min(middles) else "unsure"


def _hidden_of_possible(measured: Measured, case: str) -> tuple[float, float]:
    """Return the share of the possible overlap that kernels reach, at least and at most."""
    overlapped, possible = measured(f"overlapped, {case}"), measured(f"possible, {case}")
    if possible.low <= 0:
        raise MissingError(f"possible, {case}")
    return overlapped.low / possible.high, overlapped.high / possible.low


def only_pinned_and_streamed(*others: str, kernels: str = "") -> Judge:
    """Judge the claim that only the pinned copy on a side stream overlaps such kernels; `others` are further cases.

    In the text's four cases the copy is queued first. The call of a pageable copy holds the host, so that kernels
    launched after it cannot hide it on any GPU.
    """
    cases = tuple(f"{case}{kernels}" for case in CASES)

    def judge(measured: Measured) -> ClaimJudgement:
        *without, best = (_hidden_of_possible(measured, case) for case in cases)
        without += [_hidden_of_possible(measured, case) for case in others]
        why = "under kernels are " + "; ".join(
            f"{shown(measured(f'overlapped, {case}'))} of possible {shown(measured(f'possible, {case}'))} "
            f"({case.removesuffix(kernels)})"
            for case in (*cases, *others)
        )
        confirmed = best[0] >= COULD and all(most <= COULD_NOT for _, most in without)
        refuted = best[1] <= COULD_NOT or any(least > COULD_NOT for least, _ in without)
        return decide(why, confirmed=confirmed, refuted=refuted)

    return judge


def conclusions_hold(measured: Measured) -> ClaimJudgement:
    """Judge whether the conclusions that the tutorial draws for all systems hold here: refuted if one of them fails.

    They are the points with which it begins; the ranking of its figures is an observation and does not count.
    """
    outcomes = {point: judged(measured.of(number), judge) for point, (number, judge) in CONCLUSIONS.items()}
    by_outcome = {
        outcome: [point for point, judgement in outcomes.items() if judgement.outcome == outcome] for outcome in HOLDS
    }
    if len(by_outcome["unknown"]) == len(outcomes):
        raise MissingError("; ".join(outcomes))
    parts = (f"{HOLDS[outcome]}: {' and '.join(points)}" for outcome, points in by_outcome.items() if points)
    why = f"on this machine, and for it alone, {'; '.join(parts)}"
    if by_outcome["unknown"] and not by_outcome["refuted"]:
        return ClaimJudgement("unknown", why)
    return decide(why, confirmed=len(by_outcome["confirmed"]) == len(outcomes), refuted=bool(by_outcome["refuted"]))


def takes_longer_than_a_kernel(measured: Measured) -> ClaimJudgement:
    """Judge whether transfers take most of the time if only one kernel is ported to the GPU, the shortest possible."""
    share = measured(PORTED)
    why = f"{shown(share)} of the time to copy a tensor there, to multiply it by itself once, and to copy it back"
    return decide(why, confirmed=share.low > 100 * MOSTLY, refuted=share.high < 100 * MOSTLY)


def in_turn(measured: Measured) -> ClaimJudgement:
    """Judge whether on the default stream copies and kernels run one after the other."""
    least, most = zip(*(_hidden_of_possible(measured, case) for case in CASES[:2]), strict=True)
    why = "; ".join(f"{shown(measured(f'overlapped, {case}'))} under kernels ({case})" for case in CASES[:2])
    return decide(why, confirmed=max(most) <= COULD_NOT, refuted=min(least) >= COULD)


def run_at_once(name: str, *, expected: bool) -> Judge:
    """Judge the claim that two copies run at once, or do not where not `expected`, by the time in which both run.

    Their duration does not show it: two copies that share a link take twice as long with any number of copy engines.
    """

    def judge(measured: Measured) -> ClaimJudgement:
        both = measured(f"{AT_ONCE}{name}")
        why = f"in {shown(both)} of the time in which copies run, both do ({name})"
        at_once = decide(why, confirmed=both.low >= HIDDEN, refuted=both.high <= BARELY)
        return at_once if expected else reverse(at_once)

    return judge


def sent_at_once(measured: Measured) -> ClaimJudgement:
    """Judge "can be" by the share of copies that the host asks for before the previous one has ended.

    The share of time in which the GPU copies two at once is shown, too: the text says that one of them waits there.
    """
    large, both = measured.all(f"{EARLY}{AS_MANY}", f"{AT_ONCE}{AS_MANY}")
    small = measured.of("E2")(f"{EARLY}non_blocking")
    why = (
        f"while the copy before still runs, the host asks for {shown(large)} of large pinned tensors and "
        f"{shown(small)} of small pageable ones (E2); on the GPU two copies run at once in {shown(both)} of the time"
    )
    return decide(why, confirmed=max(large.low, small.low) >= HIDDEN, refuted=max(large.high, small.high) <= BARELY)


def faster_in_threads(measured: Measured) -> ClaimJudgement:
    """Judge by the faster way of the main thread: to pin all tensors first, as in the text, or each before its copy."""
    threads, *main = measured.all("pin in threads then copy", "pin then copy", IN_TURN)
    outcome, _ = ordered(threads, min(main, key=lambda figure: figure.median), "less")
    return ClaimJudgement(outcome, "; ".join(against(threads, way) for way in main))


def gains_less(which: str) -> Judge:
    """Judge the claim that threads gain less by pinning such tensors than by pinning many large ones."""

    def judge(measured: Measured) -> ClaimJudgement:
        some, many = (
            (measured(f"{kind}pin then copy"), measured(f"{kind}pin in threads then copy"))
            for kind in (f"{which}, ", "")
        )
        least, most = ratios_of_ratios(some, many)
        why = "; ".join(against(in_threads, alone) for alone, in_threads in (some, many))
        return decide(why, confirmed=most < 1, refuted=least >= 1)

    return judge


def still_on_the_host(measured: Measured) -> ClaimJudgement:
    """Judge whether data "may" still be on the host when the call returns: by the copy, and by writes right after it.

    If neither shows it, it depends, as it may still happen.
    """
    pinned, pageable = measured.maybe(f"{ENDED}pinned"), measured.maybe(f"{ENDED}pageable")
    written = measured.of("E6").maybe("pinned source")
    if pinned is None and written is None:
        raise MissingError(f"{ENDED}pinned")
    why = []
    if pinned is not None:
        running = "all" if not pinned.high else "some" if not pinned.low else "none"
        why.append(f"when the call returned, the pinned copy was still running in {running} of {pinned.runs} tries")
    if pageable is not None:
        ended = "all" if pageable.low else "some" if pageable.high else "none"
        why.append(f"the pageable copy had ended in {ended} of {pageable.runs}")
    if written is not None:
        why.append(f"what is written to a pinned source right after the call: {shown(written)} on the GPU (E6)")
    is_shown = any(copy is not None and not copy.low for copy in (pinned, pageable))
    is_shown = is_shown or (written is not None and written.median > 0)
    return ClaimJudgement("confirmed" if is_shown else "depends", "; ".join(why))


def read_too_early(measured: Measured) -> ClaimJudgement:
    """Judge whether values read on the GPU right after the copy are wrong."""
    return reverse(right(*SENT)(measured))


def moved_by_a_thread(measured: Measured) -> ClaimJudgement:
    """Judge whether another thread moves the data, by the CPU time of all others in percent of the copy's time."""
    shares = measured.all(f"{THREADS}pageable", f"{THREADS}pinned")
    why = "; ".join(
        f"other threads are busy for {shown(share)} of the copy ({share.name.removeprefix(THREADS)})"
        for share in shares
    )
    return decide(
        why,
        confirmed=all(share.low > 100 * MOSTLY for share in shares),
        refuted=all(share.high <= 100 * COULD_NOT for share in shares),
    )


CONCLUSIONS: dict[str, tuple[str, Judge]] = {
    "to pin first can be slower (E1)": ("E1", can_be_slower),
    "it takes at most twice as long (E1)": ("E1", at_most_twice),
    "non_blocking is generally faster (E3)": ("E3", generally_faster),
    "sent with non_blocking, values are right (E5)": ("E5", right(*SENT)),
    "read back with non_blocking, they are wrong (E5)": ("E5", wrong("read at once")),
}
"""The conclusions of the tutorial's opening, each with its experiment and its judge."""
HOLDS: dict[ClaimOutcome, str] = {
    "confirmed": "hold",
    "refuted": "fail",
    "depends": "hold in some cases",
    "unknown": "cannot be told",
}
