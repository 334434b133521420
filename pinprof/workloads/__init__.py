"""Training steps with a known answer, each small enough to copy."""
