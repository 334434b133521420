"""What is in the JSON documents: one description, of which schemas and the tables of the guides are made."""

from pinprof.report.schema.ab import AB, BISECT
from pinprof.report.schema.bench import BENCH
from pinprof.report.schema.brief import COMPARE_BRIEF, REPORT_BRIEF
from pinprof.report.schema.comparison import COMPARE
from pinprof.report.schema.draft import to_markdown, to_schema
from pinprof.report.schema.field import Record
from pinprof.report.schema.fix import FIX
from pinprof.report.schema.report import REPORT
from pinprof.report.schema.trial import TRY
from pinprof.report.schema.whatif import VERIFY, WHATIF

DOCUMENTS: dict[str, Record] = {
    "report": REPORT,
    "report-brief": REPORT_BRIEF,
    "compare": COMPARE,
    "compare-brief": COMPARE_BRIEF,
    "whatif": WHATIF,
    "verify": VERIFY,
    "fix": FIX,
    "try": TRY,
    "ab": AB,
    "bisect": BISECT,
    "bench": BENCH,
}
"""The documents, by the command whose `--json` writes them; those of `--json --brief` end so."""

__all__ = ["DOCUMENTS", "Record", "to_markdown", "to_schema"]
