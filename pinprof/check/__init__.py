"""The gate for CI: compares figures of a trace with limits, or with an earlier report."""
