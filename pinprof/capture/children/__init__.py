"""The processes that a program starts: which are followed, how they are recorded, and what they leave."""
