"""Findings in words, as cards of a page, and as JSON."""
