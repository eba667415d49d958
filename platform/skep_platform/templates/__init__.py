"""Templates of jobs: job files that users publish, find, star and use."""
