"""Container images that an admin offers by name."""
