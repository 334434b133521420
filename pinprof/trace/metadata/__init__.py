"""What a trace file holds besides its events: what torch and pinprof stored of the program and the whole run."""
