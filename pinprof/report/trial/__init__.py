"""The trial of a patch as text and JSON."""
