"""Spans of time in a trace: steps, calls of a model, phases of a step, one-time work, and times without work."""
