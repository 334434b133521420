"""The tables of what was recorded: ops, kernels, copies, waits and collectives, to be sorted, searched and saved."""
