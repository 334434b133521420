"""The windows of a recording: what is done with the steps of a program, one after the other."""
