"""The figures of a trace, each known or withheld because of its recording."""
