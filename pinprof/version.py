"""The version of pinprof, for packages, reports and recordings."""

VERSION = "0.1.0"

REPORT_SCHEMA = "pinprof.report/1"
"""Of the report for programs, which a check reads again as its baseline."""

BRIEF_SCHEMA = "pinprof.report-brief/1"
"""Of the same in a few kB."""
