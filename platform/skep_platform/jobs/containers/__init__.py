"""What nodes are told to run: the complete container of each task of a gang."""
