"""`pinprof ab --json` and `pinprof bisect --json`: fields."""

from typing import get_args

from pinprof.ab.causes import Kind
from pinprof.ab.verdict import Verdict
from pinprof.report.ab.json import BISECT_SCHEMA, SCHEMA
from pinprof.report.schema.field import (
    Field,
    Fields,
    Record,
    always,
    count,
    flag,
    many,
    maybe,
    ms,
    number,
    one,
    one_of,
    share,
    span,
    text,
    words,
)

SIDES = "before", "after"
RATIO_RANGE = maybe(span("where the ratio lies, at all looks together; null after too few pairs", ""))
JUDGEMENT: Fields = {
    "verdict": one_of("what the pairs say", get_args(Verdict)),
    "sentence": words("the verdict"),
    "ratio": number("the step after, divided by the step before"),
    "range": RATIO_RANGE,
    "limit": share("the share of the step that matters"),
    "too_slow": flag("whether it is certainly slower, and by more than the limit: exit code 1"),
    "pair_count": count("pairs of processes at the last look"),
}
VERSION_FIELD: Field = text("the pinprof that wrote this")
SIDE = Record(
    "ab_side",
    "A version",
    {
        "name": text("what it is called"),
        "command": text("the command that runs it"),
        "first_step_ms": ms("the usual step of its first run, which is not counted"),
        "step_marker": text("what marks its steps"),
        "gpu": maybe(text("the GPU")),
        "ranks": count("processes that make steps"),
    },
)
PAIR = Record(
    "ab_pair",
    "A fresh process of each version",
    {
        "first": one_of("which ran first, by lot", SIDES),
        "before_ms": ms("the usual step before"),
        "after_ms": ms("the usual step after"),
        "ratio_log": number("logarithm of the ratio of the steps that are compared"),
        "mean_ratio_log": number("the same of the means"),
    },
)
CAUSE = Record(
    "ab_cause",
    "Something that differs between a recorded run of each",
    {
        "kind": one_of("what it is", get_args(Kind)),
        "what": text("its name"),
        "where": maybe(text("its place in the program")),
        "certain": flag("whether its number differs, which no noise does"),
        "count": maybe(span("how often per step, before and after", "")),
        "time_ms": maybe(span("how long per step, before and after")),
    },
)
MEAN = Record(
    "ab_mean",
    "The same of the means of all steps, with work that comes only in some",
    {"ratio": number("the step after, divided by the step before"), "range": RATIO_RANGE},
)
AB = Record(
    "pinprof.ab",
    "What `pinprof ab --json` writes",
    {
        "schema": always("name and number of this schema", SCHEMA),
        "pinprof_version": VERSION_FIELD,
        "before": one("the version compared with", SIDE),
        "after": one("the version that is judged", SIDE),
        **JUDGEMENT,
        "mean": one("the means of all steps", MEAN),
        "turns": one_of("whether the versions took turns of some steps, or ran after each other", ("steps", "runs")),
        "turns_reason": maybe(words("why they ran after each other, where nobody asked for that")),
        "turn_count": count("turns of each process; 1 where they ran after each other"),
        "turn_steps": count("steps of each turn that count"),
        "compared_by": one_of(
            "whether usual steps are compared, the quickest of each turn, or the mean, where workers set the pace",
            ("usual", "quickest", "mean"),
        ),
        "seconds": number("how long the pairs took", "s"),
        "interrupted": flag("whether Ctrl-C ended it"),
        "pairs": many("all pairs, in order", PAIR),
        "remarks": many("what to know of the versions", words("")),
        "causes": maybe(many("what changed, the likely cause first; null where nothing was recorded", CAUSE)),
        "causes_reason": maybe(words("why nothing was recorded")),
        "clocks": many("clocks that differ, and a machine that is busy", words("")),
    },
)
TRIED = Record(
    "bisect_tried",
    "A revision that was compared with the good one",
    {
        "commit": text("its commit"),
        "reason": maybe(words("why it was left out")),
        "judgement": maybe(
            one("the comparison; null if it was left out", Record("ab_judgement", "A verdict", JUDGEMENT))
        ),
    },
)
SUSPECT = Record("bisect_suspect", "A revision", {"commit": text("its commit"), "subject": text("its first line")})
BISECT = Record(
    "pinprof.bisect",
    "What `pinprof bisect --json` writes",
    {
        "schema": always("name and number of this schema", BISECT_SCHEMA),
        "pinprof_version": VERSION_FIELD,
        "found": maybe(text("the revision that made it slower")),
        "subject": maybe(text("the first line of its message")),
        "ratio": maybe(number("its step, divided by that of the good revision")),
        "range": RATIO_RANGE,
        "reason": maybe(words("why no single revision was found")),
        "suspects": many("the revisions among which it is, the oldest first", SUSPECT),
        "tried": many("all comparisons, in order", TRIED),
    },
)
