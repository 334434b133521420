"""What a change of the code would bring, and what it did bring, as text and JSON."""
