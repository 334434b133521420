"""Fixes a program in a copy, measures the copy against the original, and says whether the fix is proven."""
