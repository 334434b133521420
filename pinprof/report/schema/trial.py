"""`pinprof try --json`: fields."""

from typing import get_args

from pinprof.report.schema.ab import JUDGEMENT, PAIR
from pinprof.report.schema.field import (
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
from pinprof.report.schema.fix import PATCH, REFUSED
from pinprof.report.schema.whatif import VERIFY
from pinprof.report.trial.json import SCHEMA
from pinprof.trial.certificate import Verdict
from pinprof.trial.elimination import Fate
from pinprof.trial.numbers import Verdict as NumbersVerdict

MEASURED = Record("ab_judgement", "A verdict", JUDGEMENT)
FIX = Record(
    "try_fix",
    "A fix that was tried",
    {
        **PATCH.fields,
        "fate": one_of("what became of it", get_args(Fate)),
        "fate_reason": maybe(words("why it was not measured by itself")),
        "measured": maybe(one("the step with it against the step without; null if not measured by itself", MEASURED)),
        "diff": maybe(text("the change as a unified diff, which applies after those before it; null if left out")),
    },
)
NUMBERS = Record(
    "try_numbers",
    "What both versions compute in their first steps",
    {
        "verdict": one_of("whether it is the same", get_args(NumbersVerdict)),
        "steps": count("steps that were compared"),
        "kinds": many("what was compared", one_of("", ("loss", "parameters", "output"))),
        "reason": maybe(words("what differs, or why nobody can tell")),
        "distance": maybe(share("the largest difference; null where one of the values is no number")),
        "rounding": maybe(share("that of the original after a change of the last bits; null where not needed")),
        "repeated": maybe(share("that of two runs of the original; null where not needed")),
    },
)
RACE = Record(
    "try_race",
    "Host memory used before its copy has ended",
    {
        "rule": text("the rule that it breaks"),
        "headline": words("what, and both places"),
        "certain": flag("whether something is wrong for certain"),
        "new": flag("whether the original does not have it"),
    },
)
ORIGINAL = Record(
    "try_guard_original",
    "The guard over the original",
    {"ran": flag("whether it ran"), "reason": maybe(words("why not")), "races": count("races that it found")},
)
GUARD = Record(
    "try_guard",
    "The guard over the changed program",
    {
        "ran": flag("whether it ran"),
        "reason": maybe(words("why not")),
        "copies": count("asynchronous copies that it followed"),
        "notes": many("what it could not see", words("")),
        "races": many("what it found", RACE),
        "original": maybe(one("the same of the original; null where nothing was found", ORIGINAL)),
    },
)
TRY = Record(
    "pinprof.try",
    "What `pinprof try --json` writes",
    {
        "schema": always("name and number of this schema", SCHEMA),
        "pinprof_version": text("the pinprof that wrote this"),
        "verdict": one_of("whether to take the patch: exit codes 0, 1, 2 and 0", get_args(Verdict)),
        "sentence": words("the verdict in one line"),
        "gpu": maybe(text("the GPU that it was measured on")),
        "recorded_step_ms": maybe(ms("the step of the recording, without the profiler")),
        "root": text("the folder to which the paths in the diffs are relative"),
        "fixes": many("all fixes that were tried, in the order in which they apply", FIX),
        "refused": many("what is not changed", REFUSED),
        "before_ms": maybe(ms("the usual step before; null where nothing was measured")),
        "after_ms": maybe(ms("the usual step after")),
        "measured": maybe(one("the step after against the step before", MEASURED)),
        "pairs": many("what each pair of processes has measured", PAIR),
        "predicted_saving_fraction": maybe(share("what the patch was predicted to save; null where no replay tells")),
        "predicted_range": maybe(span("where that lies", "share")),
        "as_predicted": maybe(
            flag(
                "whether the measured saving may lie in that range: false where all of its interval is outside, true "
                "where it is not and the verdict on the speed is certain; else null"
            )
        ),
        "verification": maybe(one("prediction and measurement, by a recording of the changed program", VERIFY)),
        "verification_reason": maybe(words("why there is none")),
        "numbers": maybe(one("what both compute; null where it is not faster", NUMBERS)),
        "guard": maybe(one("races of the changed program; null where it is not faster", GUARD)),
        "changes_numbers": flag("whether other numbers were allowed"),
        "seconds": number("how long all of it took", "s"),
        "written": many("the files that --write wrote", text("")),
        "backups": many("the copies of them that --backup made", text("")),
    },
)
