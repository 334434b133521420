"""The interactive tables of a page: ops, kernels, copies, waits and collectives, to sort, search and save."""
