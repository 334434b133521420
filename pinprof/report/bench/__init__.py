"""What the experiments measured, as text, page and JSON."""
