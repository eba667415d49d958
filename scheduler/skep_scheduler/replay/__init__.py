"""Replays recorded HiveD cases on the cells: `python -m skep_scheduler.replay FILE…`."""
