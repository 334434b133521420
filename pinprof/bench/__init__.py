"""The seed experiments as data: what each claims, what was measured of it on a machine, and what that says."""

from pinprof.bench.results import recorded

__all__ = ["recorded"]
