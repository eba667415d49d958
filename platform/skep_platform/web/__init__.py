"""Serves the built web UI."""
