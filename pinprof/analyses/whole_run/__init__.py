"""A whole run, of which the trace shows a few steps: its regular step, its irregular work, and its ledger."""
