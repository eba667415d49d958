"""Presets: how an artifact simulated what its paper printed, by name.

A preset names its policies, its cluster and its habits: the clock, which events are merged, what
a restart costs, how jobs are placed. `native` is ours, without any.
"""
