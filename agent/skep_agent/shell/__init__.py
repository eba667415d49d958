"""The agent's hands: carries out the core's instructions, and sends it events."""
