"""What nodes shall run: the complete container of each task of a gang."""
