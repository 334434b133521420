"""Changes of a program: as diffs with what is to be known of each, and for programs."""
