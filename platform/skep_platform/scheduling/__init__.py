"""Drives the pure scheduler core: snapshot, plan, commit under the lease constraint."""
