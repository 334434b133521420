"""Training programs, and slow-downs to put into them, with which `pinprof ab` is examined."""
