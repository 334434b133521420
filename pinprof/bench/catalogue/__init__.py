"""The experiments of the bench, each a module with its cases, its figures and its claims as rows."""
