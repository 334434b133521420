"""The lines of waits in a trace without stacks: the guide `hidden-synchronizations.md` explains the method."""
