"""What the agent decides: events in, instructions out, no input or output of its own."""
