"""A whole run, not only the steps in the trace: its regular step, its irregular work, and its ledger."""
