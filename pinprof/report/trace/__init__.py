"""The report on one trace, as text, page and JSON."""
