"""Shows a profile: each module is a pure function from profiles to a text."""
