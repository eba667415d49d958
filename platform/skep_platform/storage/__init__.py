"""Storages: shared folders that jobs mount by name, and the virtual clusters that may use them."""
