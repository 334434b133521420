"""The time of the steps by name: of ops on the host, of kernels on the GPU."""
