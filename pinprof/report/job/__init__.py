"""The ranks of a job side by side, as text and page."""
