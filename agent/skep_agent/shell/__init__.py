"""The agent's hands: carries out what the core wants, and tells it what happens."""
