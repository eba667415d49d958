"""Working files that people upload for their jobs."""
