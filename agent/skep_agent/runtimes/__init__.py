"""What runs an attempt on this node: the Docker engine, or a mock for load tests."""
