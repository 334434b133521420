"""The user's program in this process: running it, changing its functions, and watching its frames and waits."""
