"""Cells: every virtual cluster always gets what it owns, in count and topology.

The semantics are HiveD's (OSDI 2020): virtual cells per VC, mapped onto physical cells by buddy
allocation. Start at `state.State`, `place.place` and `groups`.
"""
