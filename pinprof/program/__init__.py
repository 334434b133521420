"""The program of the user in this process: how it runs and how its functions are changed; its frames and waits."""
