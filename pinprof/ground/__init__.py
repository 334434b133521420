"""What all rooms stand on: times, units, words, errors, outputs, processes."""
