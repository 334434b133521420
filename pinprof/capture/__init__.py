"""Records a training program: its step without a profiler, then a trace of a few steps."""
