"""Logs and metrics of attempts and GPUs: stored, rolled up, read back."""
