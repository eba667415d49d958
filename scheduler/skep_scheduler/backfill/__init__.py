"""Nomination starts, and what may start before them without delaying anyone."""
