"""The seed experiments as data: what each claims, what was measured of it on a machine, and what that says."""
