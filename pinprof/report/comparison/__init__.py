"""What changed between two traces, as text, page and JSON."""
