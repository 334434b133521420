"""Fixes a program in a copy, compares the copy with the original, and says whether the fix is proven."""
