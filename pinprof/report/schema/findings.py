"""What the rules found: fields of findings and their sites."""

from pinprof.report.schema.field import Fields, Record, many, maybe, ms, one, one_of, share, span, text, words
from pinprof.report.schema.places import FAMILIES, PLACE, SEVERITIES

COST = ms("GPU idle time or exposed copy time per step that goes with it, as traced; not what a fix saves")
SAVED: Fields = {
    "saving_ms": maybe(ms("what the fix saves per step, by replay; null where no replay tells")),
    "saving_fraction": maybe(share("the same of the step")),
    "range_ms": maybe(span("where the saving lies")),
}
SITE_FIELDS: Fields = {
    **PLACE,
    "evidence": words("what was seen there"),
    "cost_ms": COST,
    "saving_ms": maybe(ms("what fixing this site alone saves per step; null where no replay was made of it")),
}
FINDING_SITE = Record("finding_site", "A place where a rule holds", SITE_FIELDS)
THEN = Record(
    "then",
    "A change that helps once the finding is fixed, and what both together bring",
    {"rule": text("the rule that explains it"), "what": words("the change"), **SAVED},
)
FIX_CODE = Record(
    "fix_code",
    "The fix as code",
    {"before": text("code like that which was found"), "after": text("what to write instead; tests run it")},
)
FINDING = Record(
    "finding",
    "A rule that holds, with all sites that one fix is for",
    {
        "rule": text("the rule, for `pinprof explain`"),
        "family": one_of("what the rule is about", FAMILIES),
        "title": words("the rule in a few words"),
        "severity": one_of("by the share of the step that the fix saves; `suspect` for hazards", SEVERITIES),
        **PLACE,
        "evidence": words("what was seen, with figures"),
        "cost_ms": COST,
        **SAVED,
        "at_most_ms": maybe(ms("what the fix saves at most, where no replay tells what it saves")),
        "then": maybe(one("what the fix makes possible", THEN)),
        "fix": words("what to do"),
        "fix_code": one("the fix as code", FIX_CODE),
        "sites": many(
            "where it holds, the costliest first; file, line and function above are one of these", FINDING_SITE
        ),
    },
)
JOINT = Record(
    "joint",
    "All fixes together, which save less than the sum of them, and never less than one of them",
    {
        **SAVED,
        "predicted_step_ms": ms("the step with all of them"),
        "without": many("rules whose fixes are left out, because the step would be longer with them", text("the rule")),
    },
)
