"""The guard: finds, while a program runs, the host memory that is used before its asynchronous copy has ended."""
