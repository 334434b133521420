"""The version of pinprof, for packages, reports and recordings."""

VERSION = "0.1.0"
