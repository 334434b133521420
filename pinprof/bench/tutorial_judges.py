"""How figures judge what the PyTorch tutorial says (E1 to E7)."""

from itertools import combinations

from pinprof.bench.experiment import Published
from pinprof.bench.judging import (
    FEW,
    Judge,
    Judgement,
    Measured,
    MissingError,
    Outcome,
    against,
    decide,
    each_less,
    ratios,
    reverse,
    right,
)
from pinprof.bench.order import SAME, Order, order, shown, times
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
TWO_COPIES = ("copy alone", "two copies, the same way", "two copies, both ways")
TENSORDICT = "TensorDict, "
FEW_TENSORS, SMALL_FLOATS = 4, 1000
"""A few tensors, as many as threads pin them; and how many numbers a small one has, as in E2."""
MOSTLY = 0.5
"""A share that is more than this is most of it."""
ALL = 100.0
OPPOSITE: dict[Order, Order] = {"less": "more", "more": "less"}
COULD, COULD_NOT = 0.5, 0.1
"""Of the copy time that the kernels are long enough to hide: from the first on it is hidden, up to the second not."""


def _pinned_on_the_way(of: Measured) -> list[tuple[Figure, Figure]]:
    """Return what it takes to pin and copy without waiting, beside a plain copy: of one tensor and of many."""
    pairs = [(of("pageable.pin_memory().to, non_blocking"), of("pageable.to"))]
    many = of.of("E3")
    pinning, plain = many.maybe("pin and copy, non_blocking"), many.maybe("pageable, blocking")
    return [*pairs, (pinning, plain)] if pinning and plain else pairs


def can_be_slower(of: Measured) -> Judgement:
    """Judge what "can be up to twice as slow": it is seen to be slower somewhere, or nowhere."""
    pairs = _pinned_on_the_way(of)
    relations = {order(*pair) for pair in pairs}
    outcome: Outcome = "confirmed" if "more" in relations else "depends" if "unsure" in relations else "refuted"
    return Judgement(outcome, "; ".join(against(*pair) for pair in pairs))


def can_be_faster(of: Measured) -> Judgement:
    """Judge what is faster "in rare cases": where none is seen, there may still be one."""
    pairs = [(of("pageable.pin_memory().to"), of("pageable.to")), *_pinned_on_the_way(of)]
    outcome: Outcome = "confirmed" if "less" in {order(*pair) for pair in pairs} else "depends"
    return Judgement(outcome, "; ".join(against(*pair) for pair in pairs))


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


def only_pinned_and_streamed(kernels: str) -> Judge:
    """Return what judges whether only the pinned copy on a side stream runs beside such kernels."""

    def judge(of: Measured) -> Judgement:
        shares = [_could(of, f"{case}{kernels}") for case in CASES]
        pairs = [(of(f"overlapped, {case}{kernels}"), of(f"possible, {case}{kernels}")) for case in CASES]
        said = "under kernels are " + "; ".join(
            f"{shown(overlapped)} of possible {shown(possible)} ({case})"
            for case, (overlapped, possible) in zip(CASES, pairs, strict=True)
        )
        *others, best = shares
        confirmed = best[0] >= COULD and all(most <= COULD_NOT for _, most in others)
        refuted = best[1] <= COULD_NOT or any(least >= COULD for least, _ in others)
        return decide(said, confirmed=confirmed, refuted=refuted)

    return judge


def ranks_alike(of: Measured) -> Judgement:
    """Judge whether of two strategies the one that is faster in the text is faster here."""
    there = [Figure(each.figure, "ms", each.value, each.value, each.value, 1) for each in PUBLISHED_STRATEGIES]
    pairs = [pair for pair in combinations(there, 2) if order(*pair) in OPPOSITE]
    here = [(order(*pair), order(of(pair[0].name), of(pair[1].name))) for pair in pairs]
    alike = sum(first == second for first, second in here)
    other = [pair for pair, (first, second) in zip(pairs, here, strict=True) if second == OPPOSITE[first]]
    said = f"of {len(pairs)} pairs of strategies that differ there {alike} differ so here, {len(other)} the other way"
    if other:
        first = max(other, key=lambda pair: abs(pair[0].median - pair[1].median))
        return Judgement("refuted", f"{said}; {against(of(first[0].name), of(first[1].name))}")
    return Judgement("confirmed" if alike == len(pairs) else "depends", said)


def takes_longer_than_kernels(of: Measured) -> Judgement:
    """Judge whether a copy "may" dominate: where it does not, it may still with other kernels."""
    kernels = of(f"possible, {CASES[1]}{TEXTS_KERNELS}")
    said = f"two kernels on the tensor take {shown(kernels)} of the time of its copy"
    return Judgement("confirmed" if kernels.high < ALL else "depends", said)


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
    """Judge whether values read on the GPU right after the copy are wrong."""
    return reverse(right("pageable, sent and read on the GPU", "pinned, sent and read on the GPU")(of))
