"""What is wrong and what to do about it: rules in plain sight, and what they find in a profile."""
