"""What the tools take: fields in the words of the schemas, with bounds."""

from dataclasses import replace
from typing import Any

from pinprof.report.schema.field import Field, Record, flag, many, number, one_of, optional, text, whole

LONGEST_NAME, LONGEST_DIFF = 1000, 200_000
MOST_NAMES = 64
MOST_MINUTES = 30.0


def bounded(field: Field, **bounds: Any) -> Field:
    """Return the same field with further keywords of JSON Schema."""
    return replace(field, shape={**field.shape, **bounds})


def name(meaning: str) -> Field:
    """Return a field with a short text."""
    return bounded(text(meaning), minLength=1, maxLength=LONGEST_NAME)


def names(meaning: str, most: int = MOST_NAMES) -> Field:
    """Return a field with a list of short texts."""
    return bounded(many(meaning, name("")), maxItems=most)


def some(meaning: str, most: int = MOST_NAMES) -> Field:
    """Return the same, with at least one."""
    return bounded(names(meaning, most), minItems=1)


def positive(meaning: str, unit: str | None = None) -> Field:
    """Return a field with a number above 0 that need not be given."""
    return optional(bounded(number(meaning, unit), exclusiveMinimum=0, maximum=1e9))


def from_on(meaning: str) -> Field:
    """Return a field with the number of the first thing wanted, which need not be given."""
    return optional(bounded(whole(meaning), minimum=0, maximum=1_000_000))


def minutes(meaning: str) -> Field:
    """Return a field with a bound of time in minutes."""
    return bounded(number(meaning), exclusiveMinimum=0, maximum=MOST_MINUTES)


LIMIT_PERCENT = positive("the share of the step that matters; 2, if nothing is said", "%")
SECONDS = positive("time steps for so long in each process", "s")
TRACES = some("traces: files of the folder, or folders in it; several are the ranks of one job", 256)
REPORT = Record("report_input", "Traces", {"traces": TRACES})
EVIDENCE = Record(
    "evidence_input",
    "Ids, and what they are of",
    {
        "traces": replace(TRACES, meaning="the same as for report; for compare the trace before and the one after"),
        "ids": some("ids of an answer of report or compare, such as /traces/0/findings/0 or /traces/0/kernels", 8),
        "of": optional(one_of("the tool that gave the ids; report, if nothing is said", ("report", "compare"))),
        "skip": from_on("leave out so many items at the beginning of lists that ids name: to get the rest"),
    },
)
COMPARE = Record(
    "compare_input",
    "Two traces",
    {"before": name("the trace before the change"), "after": name("the trace after it")},
)
WHATIF = Record(
    "whatif_input",
    "Traces and changes; without a change the usual ones are compared",
    {
        "traces": TRACES,
        "drop_syncs": optional(names("the host no longer waits: all, FILE:LINE or FILE:FUNCTION")),
        "pin": optional(flag("copies use pinned host memory")),
        "non_blocking": optional(flag("copies no longer block the host")),
        "overlap_copies": optional(flag("copies to the GPU move one step ahead onto a stream of their own")),
        "drop_allocs": optional(flag("no device or pinned memory is allocated or freed")),
        "fused_optimizer": optional(flag("one launch does the step of each optimizer")),
        "cuda_graph": optional(one_of("CUDA graphs launch the step, or forward and backward", ("step", "model"))),
        "pinned_gbps": positive("rate of copies that become pinned, with pin", "GB/s"),
        "host_speed": positive("the host is so many times as fast"),
        "gpu_speed": positive("kernels are so many times as fast"),
        "step_ms": positive("the step without the profiler, if it was measured", "ms"),
    },
)
FIX = Record(
    "fix_input",
    "A trace, and which changes are wanted",
    {
        "trace": name("a recording of pinprof run"),
        "scripts": optional(names("sources that are not where the trace says")),
        "rules": optional(names("only changes for these rules, as PIN201")),
        "only": optional(names("only changes at these places: FILE:LINE")),
        "changes_numbers": optional(flag("also changes after which the program computes different numbers")),
    },
)
EXPLAIN = Record(
    "explain_input",
    "A topic",
    {
        "topic": optional(name("a rule (PIN201) or a guide (skill, what-if, ...); without one, all are listed")),
        "first_line": from_on("begin with this line, counted from 0: to get the rest"),
    },
)
AB = Record(
    "ab_input",
    "Two versions of a program: the working tree and `base`, `base` without and with `diff`, or two commands",
    {
        "command": some("the version after, as words: `python train.py ...`, `-m module ...`, `torchrun ... train.py`"),
        "minutes": minutes("measure for so long at most; it needs 9 pairs of processes"),
        "base": optional(name("the git revision to compare with; HEAD, if nothing is said")),
        "diff": optional(bounded(text("a unified diff, as fix returns it"), minLength=1, maxLength=LONGEST_DIFF)),
        "against": optional(some("the version before, as another command; needs no git")),
        "limit_percent": LIMIT_PERCENT,
        "seconds": SECONDS,
        "causes": optional(flag("record a run of each at the end, to say what changed; true, if nothing is said")),
    },
)
TRY = Record(
    "try_input",
    "A program, and which fixes to try",
    {
        "command": some("the program as words: `python train.py ...`, `train.py ...` or `-m module ...`"),
        "minutes": minutes(
            "measure for so long at most, and again if fixes are left out; it needs 7 pairs of processes"
        ),
        "trace": optional(name("a recording of this very program by pinprof run; made anew, if nothing is said")),
        "rules": optional(names("only fixes for these rules, as PIN201")),
        "only": optional(names("only fixes at these places: FILE:LINE")),
        "changes_numbers": optional(flag("also fixes after which the program computes different numbers")),
        "limit_percent": LIMIT_PERCENT,
        "seconds": SECONDS,
        "verify": optional(flag("record the changed program, to hold the prediction to it; true, if nothing is said")),
    },
)
