"""Reads a trace file: bytes are unpacked, cut into blocks of events, decoded, and taken apart into columns."""
