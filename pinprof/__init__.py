"""pinprof: why host-GPU copies do not hide behind kernels, and which line makes the host wait."""
