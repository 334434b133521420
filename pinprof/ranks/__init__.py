"""The ranks of a job: which traces belong to one job, what pinprof keeps of each, and their comparison."""
