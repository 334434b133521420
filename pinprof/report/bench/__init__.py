"""The bench as text, page and JSON."""
