"""`pinprof fix --json`: fields."""

from pinprof.report.schema.field import Record, always, flag, many, maybe, ms, one_of, share, span, text, words
from pinprof.report.schema.places import FILE, LINE, PLACE

NUMBERS = ("equal", "rounding", "different")
PATCH = Record(
    "fix_patch",
    "A change",
    {
        "rule": text("the rule whose finding it mends"),
        "title": words("the title of the rule"),
        "what": words("what it changes"),
        "numbers": one_of("whether the program computes the same numbers afterwards", NUMBERS),
        "safe_if": words("on what condition it is right"),
        "files": many("the files that it changes", text("")),
        "places": many(
            "where it changes them, the place of the finding first",
            Record("fix_place", "A changed line", {"file": maybe(FILE), "line": maybe(LINE)}),
        ),
        "saving_ms": maybe(ms("what it saves of a step; null where no replay tells")),
        "saving_fraction": maybe(share("the same as a share of the step")),
        "range_ms": maybe(span("where the saving lies")),
        "complete": flag("whether it mends all places of the finding"),
        "diff": text("the change as a unified diff, which applies after those before it"),
    },
)
REFUSED = Record(
    "fix_refused",
    "A place that stays as it is",
    {"rule": text("the rule of the finding"), **PLACE, "why": words("why it is not changed")},
)
FIX = Record(
    "pinprof.fix",
    "What `pinprof fix --json` writes",
    {
        "schema": always("name and number of this schema", "pinprof.fix/1"),
        "pinprof_version": text("the pinprof that wrote this"),
        "path": text("the trace"),
        "by_pinprof": flag("whether pinprof recorded it, and with it the lines of waits and copies"),
        "step_ms": maybe(ms("the step without the profiler; null where it is not known")),
        "root": text("the folder to which the paths in the diffs are relative"),
        "patches": many("the changes, in the order in which they apply", PATCH),
        "refused": many("what is not changed", REFUSED),
        "saving_ms": maybe(ms("what all changes together save of a step; null where no replay tells of one of them")),
        "saving_fraction": maybe(share("the same as a share of the step")),
        "range_ms": maybe(span("where the saving lies")),
        "written": many("the files that --write wrote", text("")),
        "backups": many("the copies of them that --backup made", text("")),
    },
)
