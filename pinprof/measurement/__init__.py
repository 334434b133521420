"""What was measured of a trace, and what of that its recording can be trusted with."""
