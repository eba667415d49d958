"""From the text of a job file to a waiting job: what is read, checked, sealed and stored."""
