"""Loops of the host: the same few ops again and again, with no wait in between, which one call could do."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from pinprof.analyses.syncs.stalls import Stalls
from pinprof.ground.intervals import contains
from pinprof.prediction.edits import Edits
from pinprof.prediction.graphs import fusible
from pinprof.rules.sums import aten
from pinprof.trace.callers import module_around, outermost_op, usual_place
from pinprof.trace.calls import MODULE_LOAD, PROFILER, QUEUE_FULL
from pinprof.trace.collectives import is_collective
from pinprof.trace.lines import OpPlace, Place
from pinprof.trace.links import follow, step_at
from pinprof.trace.sources import Sources
from pinprof.trace.spans.phases import BACKWARD, FORWARD, NODE_PREFIX, OPTIMIZER, TO_WEIGHT, phase_of_calls
from pinprof.trace.tables import DTOH, HTOD, NONE, Bools, Int32s, Int64s, Trace
from pinprof.trace.threads import optimizer_marks

MAX_OPS_OF_REPETITION = 40
"""A repetition of more ops that launch work is a model or a step, not the body of a small loop."""
MAX_OPS_OF_REPETITION_IN_BACKWARD = 120  # each op of a forward pass has up to three
MIN_REPEATS_IN_PASS: Final = {FORWARD: 8, BACKWARD: 5}
"""The least repetitions of a loop within a pass."""
MIN_SHARE_IN_BACKWARD, REPEATS_WITHOUT_ADD = 0.9, 2
"""The backward pass of a loop repeats at least this share of its repetitions, but for the first: these add to no
gradient."""
MIN_REPEATS_OUTSIDE = 3
"""The least repetitions of a loop over tensors: other ops interrupt it at a tensor of another kind."""
MIN_LAUNCHES_OF_LOOP = 20
"""A loop makes at least this many launches per step; one call for all repetitions makes a few."""
MAX_RUNS_LOOKED_AT = 20_000
"""Only this many runs are examined, the longest first."""

WORKING_MULTIPLE = 4
"""A kernel that takes this many times as long as a short one is at work for nearly all of its time."""

LoopKind: TypeAlias = Literal["tensors", "gather", "module", "cell", "ops"]
"""In place or norms on many tensors; indexing into one tensor; a module on parts of a batch; a recurrent cell of torch,
or one that people write; other ops."""
PREFIXES_OF_FOREACH: Final = ("aten::_foreach", "aten::_fused", "aten::_amp_foreach")
"""Begin the names of ops for many tensors at once."""
CELL_OPS: Final = aten("lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell")
_OUT_OF_PLACE: Final = aten(
    "add sub rsub mul div neg abs sign sgn pow sqrt rsqrt exp log log1p reciprocal square clamp clamp_min "
    "clamp_max lerp addcmul addcdiv maximum minimum where masked_fill relu gelu silu sigmoid softplus tanh "
    "leaky_relu sum mean std var max min amax amin norm linalg_vector_norm argmax argmin softmax log_softmax "
    "cross_entropy_loss nll_loss mse_loss l1_loss smooth_l1_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits kl_div cumsum eq ne lt le gt ge logical_and logical_or logical_not "
    "bitwise_and bitwise_or copy fill zero clone contiguous to zeros ones full zeros_like ones_like arange "
    "index gather index_select take take_along_dim scatter scatter_add index_add index_put stack cat pad roll "
    "flip repeat one_hot topk sort dropout sin cos floor round logsumexp logaddexp prod cumprod median any all "
    "erf expm1 log2 log10 tan atan2 fmod remainder hypot nan_to_num isnan isinf isfinite logit selu elu "
    "mish hardtanh hardswish hardsigmoid log_sigmoid huber_loss cosine_similarity pairwise_distance cdist std_mean "
    "var_mean tril triu diff unfold"
)
OPS_WITHOUT_WEIGHTS: Final = _OUT_OF_PLACE | {f"{name}_" for name in _OUT_OF_PLACE}
"""Ops that read no weights of a layer. Others may: layers of a model are the same ops, but not one call."""
ZERO_OP, COPY_INTO = "aten::zero_", "aten::copy_"
NORM_OPS: Final = aten("norm linalg_vector_norm")
GATHER_OPS: Final = aten("index gather index_select take take_along_dim")
OPS_TAKING_PARTS: Final = aten("select slice narrow index index_select unsqueeze")
"""Ops that take a part of a batch."""
JOINING_OPS: Final = aten("stack cat")
"""Ops that put what a loop has made together."""
OPS_AROUND_PARTS: Final = aten("stack cat unbind split split_with_sizes chunk") | {
    f"{NODE_PREFIX}{name}Backward0" for name in ("Stack", "Cat", "Unbind", "Split", "SplitWithSizes", "Select")
}
"""Ops that take a batch apart before a loop or join what it has made, and their nodes of autograd."""
MAX_OPS_BEFORE_JOIN = 3
"""A join comes at most this many ops after its loop."""
OPS_OF_CHAINS: Final = aten("scaled_dot_product_attention bmm tanh")
"""Ops of blocks and cells that need the result of the one before."""
ADD_OP: Final = "aten::add"
START_OF_CELL: Final = "aten::linear aten::linear aten::add"
"""A recurrent cell that people write applies a layer to its input and one to its state, unless it joins them first."""
OPS_OF_WRITTEN_CELLS: Final = aten("linear add sub rsub mul cat tanh sigmoid relu")
NONLINEAR_OPS_OF_CELLS: Final = aten("tanh sigmoid")
NODE_OF_LINEAR_WEIGHT: Final = f"{NODE_PREFIX}TBackward0"
"""The node of autograd for the weight of each call of a linear layer that is trained."""


@dataclass(frozen=True, eq=False)
class Run:
    """Repetitions that follow each other, in one step: rows of `Trace.calls` that launch work."""

    repetitions: tuple[Int64s, ...]
    thread: int
    starts_ns: Int64s
    """When each repetition begins."""
    end_ns: int
    around: tuple[tuple[int, int], ...] = ()
    """Times of the ops that take a batch apart before the first repetition, or join what all have made."""

    @property
    def calls(self) -> Int64s:
        """Those of all repetitions."""
        return np.concatenate(self.repetitions)

    @property
    def host_ns(self) -> int:
        """How long the host takes for it."""
        return self.end_ns - int(self.starts_ns[0])


def in_one_call(trace: Trace, runs: Iterable[tuple[Run, float]], longest_ns: float) -> Edits:
    """Return what changes if the first repetition of each run does the work of all.

    A kernel of up to `longest_ns` lasts as long as any: its work adds nothing to another. What longer ones take beyond
    that is added, and all of those that are much longer. A run comes with the time that the host keeps per repetition.
    """
    times: set[tuple[int, int, int]] = set()
    prolonged: set[tuple[int, float]] = set()
    order = np.argsort(trace.links.launch, kind="stable")
    launched = trace.links.launch[order]
    for run, kept_ns in runs:
        first, last = np.searchsorted(launched, (run.repetitions[0][0], run.repetitions[-1][-1] + 1))
        rows, calls = order[first:last], launched[first:last]
        is_first = np.isin(calls, run.repetitions[0])
        duration = trace.gpu.duration_ns[rows[~is_first & np.isin(calls, run.calls)]]
        is_work = duration > WORKING_MULTIPLE * longest_ns
        more = float(np.maximum(duration - np.where(is_work, 0.0, longest_ns), 0.0).sum())
        begins, ends = run.starts_ns[1:], np.append(run.starts_ns[2:], run.end_ns)
        launches = trace.calls.start_ns[[int(of_one[-1]) for of_one in run.repetitions[1:]]]
        ends = np.maximum(ends - int(kept_ns), launches + 1)
        spared = (*zip(begins.tolist(), ends.tolist(), strict=True), *run.around)
        times.update((run.thread, *each) for each in spared)
        if more:
            prolonged.update((int(row), more / int(is_first.sum())) for row in rows[is_first].tolist())
    return Edits(removed_times=frozenset(times), prolonged=frozenset(prolonged))


@dataclass(frozen=True, eq=False)
class Loop:
    """Runs of the same ops in the complete steps."""

    kind: LoopKind
    ops: tuple[str, ...]
    """The names of the ops of a repetition that launch work."""
    runs: tuple[Run, ...]
    of_backward: tuple[Run, ...]
    """What autograd runs for them."""

    @property
    def repeats(self) -> int:
        """How many repetitions there are in all steps."""
        return sum(len(run.repetitions) for run in self.runs)

    @property
    def key(self) -> str:
        """Names its ops, whichever of them a run begins with."""
        return f"loop of {' '.join(_rotated(self.ops))}"

    @property
    def calls(self) -> Int64s:
        """The calls of the loop itself, without those of backward passes: rows of `Trace.calls`."""
        return np.concatenate([run.calls for run in self.runs])


def find_loops(trace: Trace, stalls: Stalls) -> list[Loop]:
    """Return the loops in the complete steps, those with most launches first."""
    if not trace.steps.on_host or not len(trace.calls):
        return []
    sequence = _Sequence(trace, stalls)
    gathered: defaultdict[tuple[LoopKind, tuple[str, ...]], list[_Span]] = defaultdict(list)
    for span, kind in sequence.loops():
        gathered[kind, _rotated(sequence.names(span.start, span.start + span.ops))].append(span)
    backward: defaultdict[int, list[_Span]] = defaultdict(list)
    for span in sequence.runs(of_backward=True) if gathered else ():
        backward[int(sequence.step[span.start])].append(span)
    steps = max(int(trace.steps.complete.sum()), 1)
    loops = []
    for (kind, _), spans in gathered.items():
        if sum(span.ops * span.repeats for span in spans) < MIN_LAUNCHES_OF_LOOP * steps:
            continue
        spans.sort(key=lambda span: span.start)
        names = tuple(sequence.names(spans[0].start, spans[0].start + spans[0].ops))
        gradients = [found for span in spans if (found := sequence.backward_of(span, backward))]
        runs = (tuple(sequence.run(span, kind) for span in some) for some in (spans, gradients))
        loops.append(Loop(kind, names, *runs))
    return sorted(loops, key=lambda loop: -len(loop.calls))


def place_of_loop(trace: Trace, loop: Loop, sources: Sources) -> Place:
    """Return the place from which a loop calls its ops; without functions, as steps with functions showed it."""
    learned = () if len(trace.functions) else trace.info.op_places
    place = next((place.place for place in learned if place.op == loop.key), None)
    return place or usual_place(trace, loop.calls, sources, in_loop=True)


def places_of_loops(trace: Trace, stalls: Stalls, sources: Sources) -> list[OpPlace]:
    """Return the loops of a trace with functions, and from where each calls its ops."""
    loops = {loop.key: usual_place(trace, loop.calls, sources, in_loop=True) for loop in find_loops(trace, stalls)}
    return [
        OpPlace(key, place.file, place.line, place.function)
        for key, place in loops.items()
        if place.file is not None and place.function is not None
    ]


class _Span(NamedTuple):
    """Places in a sequence of ops."""

    start: int
    ops: int
    """In each repetition."""
    repeats: int

    @property
    def end(self) -> int:
        return self.start + self.ops * self.repeats


class _Sequence:
    """The ops that launch work in the complete steps, in order; what ends a loop stands for itself."""

    def __init__(self, trace: Trace, stalls: Stalls) -> None:
        self.trace, calls = trace, trace.calls
        waits = stalls.call[~np.isin(stalls.kind, (QUEUE_FULL, MODULE_LOAD, PROFILER))]
        copies = trace.links.launch[np.isin(trace.gpu.direction, (HTOD, DTOH))]
        breaks = np.zeros(len(calls), bool)
        breaks[waits] = True
        breaks[copies[copies != NONE]] = True
        phase = phase_of_calls(trace)
        threads = trace.has_role("main")[calls.thread] | (phase == BACKWARD)
        rows = np.flatnonzero((trace.launches_work | breaks) & threads & trace.steps.holds(trace.links.call_step))
        op = outermost_op(trace, rows)
        kernel = np.full(len(calls), NONE, np.int64)
        launched = np.flatnonzero(trace.links.launch != NONE)
        kernel[trace.links.launch[launched]] = trace.gpu.name[launched]
        token = np.where(op != NONE, follow(trace.ops.name, op), kernel[rows] + len(trace.ops.names)).astype(np.int64)
        ends = breaks[rows] | np.isin(rows, self._left_to_others(rows, phase))
        token[ends] = NONE - 1 - np.arange(int(ends.sum()))
        backward = phase[rows] == BACKWARD
        passes = np.cumsum(np.diff(backward, prepend=False))
        order = np.lexsort((rows, backward))
        rows, op, token, passes = rows[order], op[order], token[order], passes[order]
        again = (op[1:] == op[:-1]) & (op[1:] != NONE) & (token[1:] == token[:-1])
        self.first = np.flatnonzero(np.append(True, ~again)) if len(rows) else np.zeros(0, np.int64)
        self.rows, self.bounds = rows, np.append(self.first, len(rows))
        self.op, self.token = op[self.first], token[self.first]
        call = rows[self.first]
        self.step, self.phase, self.thread = trace.links.call_step[call], phase[call], calls.thread[call]
        bounds = [np.diff(column, prepend=NONE) != 0 for column in (self.step, self.phase, passes[self.first])]
        self.part = np.cumsum(np.any(bounds, axis=0))
        """Numbers parts of a step that no loop goes beyond: a micro-batch ends with its backward pass."""
        has_op = self.op != NONE
        self.start_ns, self.end_ns = (
            np.where(has_op, _times_of_rows(of_ops, self.op), of_calls[call])
            for of_ops, of_calls in ((trace.ops.start_ns, calls.start_ns), (trace.ops.end_ns, calls.end_ns))
        )

    def _left_to_others(self, rows: Int64s, phase: Int64s) -> Int64s:
        """Return the calls for which other rules have a word: of torch's own optimizers, and of zero_grad()."""
        of_optimizers = rows[phase[rows] == OPTIMIZER]
        marks = self.trace.annotations
        zeroing = marks.times(optimizer_marks(marks, "zero_grad"))
        inside = contains(zeroing, self.trace.calls.start_ns[of_optimizers])
        return np.concatenate((of_optimizers[inside], np.array(sorted(fusible(self.trace, of_optimizers)), np.int64)))

    def names(self, start: int, end: int) -> list[str]:
        """Return the names of the ops at these places, of kernels where no op launched them; else empty ones."""
        known = len(self.trace.ops.names)
        return [
            "" if token < 0 else self.trace.ops.names[token] if token < known else self.trace.gpu.names[token - known]
            for token in self.token[start:end].tolist()
        ]

    def runs(self, *, of_backward: bool) -> Iterator[_Span]:
        """Yield what repeats, longest first; what is in several is yielded several times."""
        found, shorter = list[_Span](), dict[int, Int64s]()
        inside = (self.phase == BACKWARD) == of_backward
        most = MAX_OPS_OF_REPETITION_IN_BACKWARD if of_backward else MAX_OPS_OF_REPETITION
        for ops in range(1, min(most, len(self.token) // 2) + 1):
            same = (self.token[ops:] == self.token[:-ops]) & (self.part[ops:] == self.part[:-ops]) & inside[ops:]
            edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False]))))
            start, end = edges[::2], edges[1::2] + ops
            repeats = (end - start) // ops
            least = np.full(len(start), MIN_REPEATS_OUTSIDE)
            for phase, count in MIN_REPEATS_IN_PASS.items():
                least[self.phase[start] == phase] = count
            kept = repeats >= least
            for divisor, before in shorter.items():
                if ops % divisor == 0:  # the same run
                    kept &= before[end] - before[start] < end - start
            if kept.any():
                change = np.zeros(len(self.token) + 1, np.int64)
                np.add.at(change, start[kept], 1)
                np.add.at(change, end[kept], -1)
                shorter[ops] = np.append(0, np.cumsum(np.cumsum(change)[:-1] > 0))
            found += map(_Span, start[kept].tolist(), [ops] * int(kept.sum()), repeats[kept].tolist())
        yield from sorted(found, key=lambda span: (-span.ops * span.repeats, span.ops))[:MAX_RUNS_LOOKED_AT]

    def loops(self) -> Iterator[tuple[_Span, LoopKind]]:
        """Yield loops and their kinds; none is within another."""
        taken = np.zeros(len(self.token), bool)
        for span in self.runs(of_backward=False):
            if taken[span.start : span.end].any():
                continue
            kind = self._kind(span)
            if kind:
                taken[span.start : span.end] = True
                yield span, kind

    def _kind(self, span: _Span) -> LoopKind | None:
        """Return what a run is; None if it may be layers of a model, or a chain in which each needs the last."""
        names = set(self.names(span.start, span.start + span.ops))
        before = self.names(max(span.start - 1, 0), span.start)
        # ops for many tensors already; PIN611's gradients; buffers that DDP has broadcast
        if (
            any(name.startswith(PREFIXES_OF_FOREACH) for name in names)
            or names == {ZERO_OP}
            or any(map(is_collective, before))
        ):
            return None
        if names & CELL_OPS:
            return "cell"
        has_weights = not names <= OPS_WITHOUT_WEIGHTS
        in_place = sum(name.endswith("_") or name in NORM_OPS for name in names)
        updates = self._is_update(span) and (2 * in_place >= len(names) or COPY_INTO in names)
        if not has_weights and (in_place == len(names) or updates):
            return "tensors"
        if not has_weights and names & GATHER_OPS:
            return "gather"
        return self._kind_of_chain(span, names, has_weights=has_weights)

    def _is_update(self, span: _Span) -> bool:
        """Return whether a run is outside of a forward pass, or the first that follows a backward pass."""
        start = span.start
        is_first = start == 0 or self.part[start] != self.part[start - 1]
        return bool(self.phase[start] != FORWARD or (is_first and (self.phase == BACKWARD).any()))

    def _kind_of_chain(self, span: _Span, names: set[str], *, has_weights: bool) -> LoopKind | None:
        """Return what a run is whose repetitions may need each other."""
        in_order = " ".join(self.names(span.start, span.start + 2 * span.ops))
        joins_state = START_OF_CELL in in_order or {"aten::linear", "aten::cat"} <= names
        if joins_state and names & NONLINEAR_OPS_OF_CELLS and names <= OPS_OF_WRITTEN_CELLS:
            return "cell" if self._has_same_weights(span) else None
        if names & OPS_OF_CHAINS or START_OF_CELL in in_order or not self._is_of_parts(span):
            return None
        return "ops" if not has_weights else "module" if self._has_same_weights(span) else None

    def _is_of_parts(self, span: _Span) -> bool:
        """Return whether each repetition works on a part of a batch, or what they make is joined."""
        following = self.names(span.end, min(span.end + MAX_OPS_BEFORE_JOIN, len(self.token)))
        adds = ADD_OP in self.names(span.start, span.start + span.ops)  # perhaps to the result of the one before
        if JOINING_OPS.intersection(following) and not adds:
            return True
        ops, second = self.trace.ops, span.start + span.ops
        since, until = self.end_ns[second - 1], self.start_ns[second + span.ops - 1]
        first, last = np.searchsorted(ops.start_ns, (since, until))
        return bool(OPS_TAKING_PARTS.intersection(map(ops.name_of, range(first, last))))

    def _has_same_weights(self, span: _Span) -> bool:
        """Return whether the repetitions call the same modules; as far as no modules are recorded, by the gradients.

        Autograd hands on one gradient per weight, however many calls of linear layers read the weight.
        """
        module = self._modules[span.start : span.end]
        if (module != NONE).all():
            names = self.trace.functions.name[module].reshape(span.repeats, span.ops)
            return bool((names == names[0]).all())
        linear = sum(name == "aten::linear" for name in self.names(span.start, span.start + span.ops))
        return 0 < linear * span.repeats // 2 <= self._read_again[self.step[span.start]]

    @cached_property
    def _modules(self) -> Int32s:
        return module_around(self.trace, self.trace.links.function[self.rows[self.first]])

    @cached_property
    def _read_again(self) -> Int64s:
        """Per step how many more calls of linear layers read a weight than weights get a gradient; -1 without any."""
        ops, steps = self.trace.ops, self.trace.steps
        step = step_at(steps, ops.start_ns)
        read, weights = (
            np.bincount(step[ops.named(node.__eq__) & (step != NONE)], minlength=len(steps))
            for node in (NODE_OF_LINEAR_WEIGHT, TO_WEIGHT)
        )
        return np.where(weights > 0, read - weights, NONE)

    def backward_of(self, span: _Span, runs: Mapping[int, Sequence[_Span]]) -> _Span | None:
        """Return the longest run of a backward pass that repeats as often in the same step."""
        if self.phase[span.start] != FORWARD:
            return None
        least = MIN_SHARE_IN_BACKWARD * span.repeats - REPEATS_WITHOUT_ADD
        of_step = runs.get(int(self.step[span.start]), ())
        return next((run for run in of_step if least <= run.repeats <= span.repeats), None)

    def run(self, span: _Span, kind: LoopKind) -> Run:
        """Return a run as calls."""
        edges = self.bounds[np.arange(span.start, span.end + 1, span.ops)].tolist()
        repetitions = tuple(self.rows[first:last] for first, last in pairwise(edges))
        starts = self.start_ns[span.start : span.end : span.ops]
        end_ns = int(self.end_ns[span.end - 1])
        around = () if kind == "tensors" else tuple(self._around(span))  # one call for all takes a list, and makes one
        return Run(repetitions, int(self.thread[span.start]), starts, end_ns, around)

    def _around(self, span: _Span) -> Iterator[tuple[int, int]]:
        """Yield the times of ops that take apart what a run works on, and join what it makes."""
        ops, before = self.trace.ops, span.start - 1
        in_step = before >= 0 and self.step[before] == self.step[span.start]
        begin = self.end_ns[before] if in_step else self.trace.steps.start_ns[self.step[span.start]]
        following = self.part[span.end : span.end + MAX_OPS_BEFORE_JOIN] == self.part[span.start]
        after = span.end - 1 + int(following.sum())
        for since, until in (
            (begin, self.start_ns[span.start]),
            (self.end_ns[span.end - 1], self.end_ns[after]),
        ):
            first, last = np.searchsorted(ops.start_ns, (since, until))
            chosen = self._around_parts[first:last] & (ops.thread[first:last] == self.thread[span.start])
            rows = first + np.flatnonzero(chosen)
            yield from zip(ops.start_ns[rows].tolist(), ops.end_ns[rows].tolist(), strict=True)

    @cached_property
    def _around_parts(self) -> Bools:
        return self.trace.ops.named(OPS_AROUND_PARTS.__contains__)


def _times_of_rows(times: Int64s, rows: Int32s) -> Int64s:
    """Return the times of rows, and anything for -1."""
    return times[rows] if len(times) else np.zeros(len(rows), np.int64)


def _rotated(cycle: Sequence[str]) -> tuple[str, ...]:
    """Return the same cycle from a place that does not depend on where it began."""
    names = tuple(cycle)
    return min(names[place:] + names[:place] for place in range(len(names)))
