"""The ranks of a job: which traces belong to one job, what is kept of each, and their comparison."""
