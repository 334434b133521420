"""Reads the events of a trace file as columns, a block of bytes at a time."""
