"""A discrete-event simulator that runs the same engine as the live scheduler.

The live scheduler and the simulator differ in who carries a plan out (`commit` here, database rows
there) and in who moves the clock; in nothing else.
"""
