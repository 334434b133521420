"""The recorded program, run again: the step as it is without the profiler."""
