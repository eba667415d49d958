"""The scheduler core: pure decisions on snapshots, the same code live and simulated."""
