"""Finds where the steps of a running program end."""
