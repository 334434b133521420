"""Recordings that frameworks drive by their callbacks."""
