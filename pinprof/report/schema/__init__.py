"""What is in the JSON documents: one description, of which schemas and the tables of the guides are made."""

from pinprof.documents.fields import Document
from pinprof.report.ab.json import Ab, Bisect
from pinprof.report.fix.json import Fix
from pinprof.report.schema.bench import BENCH
from pinprof.report.schema.brief import COMPARE_BRIEF, REPORT_BRIEF
from pinprof.report.schema.comparison import COMPARE
from pinprof.report.schema.draft import to_markdown, to_schema
from pinprof.report.schema.field import Record
from pinprof.report.schema.report import REPORT
from pinprof.report.trial.json import Try
from pinprof.report.whatif.json import Verify, Whatif

DOCUMENTS: dict[str, Record | type[Document]] = {
    "report": REPORT,
    "report-brief": REPORT_BRIEF,
    "compare": COMPARE,
    "compare-brief": COMPARE_BRIEF,
    "whatif": Whatif,
    "verify": Verify,
    "fix": Fix,
    "try": Try,
    "ab": Ab,
    "bisect": Bisect,
    "bench": BENCH,
}
"""The documents, by the command whose `--json` writes them; those of `--json --brief` end so."""

__all__ = ["DOCUMENTS", "Record", "to_markdown", "to_schema"]
