"""Where the host waited for the GPU, why, and at what cost."""
