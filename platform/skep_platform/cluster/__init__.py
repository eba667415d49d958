"""Nodes and their GPUs: identity, health, and who may join."""
