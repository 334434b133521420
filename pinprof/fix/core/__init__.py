"""What all fixes share: syntax trees, uses of names, waits, clocks, the facts of a trace, and patches."""
