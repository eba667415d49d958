"""What containers are made of, from checked values alone: the create call, environment, files."""
