"""The tables of what was recorded: ops, kernels, copies, waits and collectives, to be sorted, searched and saved."""

from pinprof.report.tables.fragment import grids_of, tables

__all__ = ["grids_of", "tables"]
