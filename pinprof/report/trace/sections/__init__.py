"""The sections of a report on a trace, a module for each subject."""
