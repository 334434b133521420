"""Why the step is as long as it is: what each limit costs it, and the one that costs most."""
