"""What is seen of a running program: its waits, stacks, irregular work, and the machine."""
